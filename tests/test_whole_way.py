"""The whole way, as a user goes it: site to Profile to race to report; and the same Run however often."""

import json
import subprocess
import sys

import pytest


def bentpipe(*args):
    command = [sys.executable, "-m", "bentpipe", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("way")
    for to in ("sydney", "london"):
        made = bentpipe(
            *("profile", "make", "--site", "melbourne", "--to", to, "--start", "2026-05-10T09:00:00Z"),
            *("--duration", 25, "--seed", 1, "-o", folder / f"{to}.parquet"),
        )
        assert made.returncode == 0, made.stderr
    return folder


def race(folder, out, jobs):
    profiles = [folder / "sydney.parquet", folder / "london.parquet"]
    done = bentpipe(
        *("race", *profiles, "--cc", "reno,cubic,bbr,cubic+bbr", "--direction", "down", "--duration", 12),
        *("--seeds", 2, "--jobs", jobs, "-o", out, "--json"),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["runs"]


def test_one_run_per_profile_scheme_and_seed_whatever_the_workers(folder):
    alone = race(folder, folder / "alone", 1)
    together = race(folder, folder / "together", 2)
    assert len(alone) == 2 * 4 * 2
    assert {(r["profile"], r["scheme"], r["seed"]) for r in alone} == {
        (f"melbourne-{to}", cc, seed)
        for to in ("sydney", "london")
        for cc in ("reno", "cubic", "bbr", "cubic+bbr")
        for seed in (0, 1)
    }
    assert [r["content_hash"] for r in alone] == [r["content_hash"] for r in together]
    for run in alone:
        assert run["world"] == "simulated"
        assert len(run["flows"]) == len(run["scheme"].split("+"))
        for flow in run["flows"]:
            assert flow["goodput_bps"] > 0
            assert flow["rtt_p95_ms"] >= flow["rtt_median_ms"] > 20
    slow = [f["rtt_median_ms"] for r in alone if r["profile"] == "melbourne-london" for f in r["flows"]]
    assert min(slow) > 200  # London is far


def test_the_report_opens_from_disk_and_needs_nothing_else(folder):
    race(folder, folder / "reported", 2)
    done = bentpipe("report", folder / "reported")
    assert done.returncode == 0, done.stderr
    page = (folder / "reported" / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page.replace("https://github.com/leeoniya/uPlot (v1.6.32) */", "*/")  # its licence line
    assert "<script src" not in page
    assert list((folder / "reported" / "figures").glob("*.png"))


def test_a_race_longer_than_its_profile_is_the_users_mistake(folder):
    done = bentpipe("race", folder / "sydney.parquet", "--cc", "bbr", "--duration", 26, "-o", folder / "long")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "long").exists()
