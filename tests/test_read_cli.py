"""`bentpipe read`, and `analyze` on what it wrote: from a log to a finding in two commands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from analysis_series import slotted
from reader_texts import ATLAS, MACOS, PING, RATES, START_S, STATUS, TEXTS
from typer.testing import CliRunner

from bentpipe.cli.main import app

run = CliRunner().invoke


def log_of(table):
    """Pings as `ping -D` prints them."""
    lines = ["PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."]
    for number, (unix_ns, rtt_ms) in enumerate(table.select("unix_ns", "rtt_ms").iter_rows(), 1):
        if rtt_ms is not None:
            came = unix_ns + round(rtt_ms * 1e6)
            stamp = f"[{came // 10**9}.{came % 10**9 // 1000:06d}]"
            lines.append(f"{stamp} 64 bytes from 192.0.2.1: icmp_seq={number % 65536} ttl=60 time={rtt_ms:.3f} ms")
    return "\n".join(lines) + "\n"


def test_from_a_log_to_slots_in_two_commands(tmp_path):
    log, out = tmp_path / "ping.log", tmp_path / "out"
    log.write_text(log_of(slotted()))
    result = run(app, ["read", str(log), "-o", str(out), "--site", "home"])
    assert result.exit_code == 0, result.output
    assert "192.0.2.1" in result.stdout
    assert f"next: bentpipe analyze handovers {out} --plot" in result.stderr
    result = run(app, ["analyze", "handovers", str(out), "--json", "--plot"])
    assert result.exit_code == 0, result.output
    output = json.loads(result.stdout)
    assert (output["found"], output["period_s"]) == (True, 15.0)
    assert (out / "handovers.png").read_bytes().startswith(b"\x89PNG")
    # The log as it is says the same.
    raw = run(app, ["analyze", "handovers", str(log), "--json"])
    assert json.loads(raw.stdout) == output


def test_a_figure_may_have_a_name_or_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ping.log").write_bytes(PING)
    for arguments, file in (
        (["ping.log", "--plot"], "ping.latency.png"),
        (["--plot", "ping.log"], "ping.latency.png"),
        (["ping.log", "--plot", "--json"], "ping.latency.png"),
        (["ping.log", "--plot", "mine.svg"], "mine.svg"),
        (["--plot=other.png", "ping.log"], "other.png"),
    ):
        result = run(app, ["analyze", "latency", *arguments])
        assert result.exit_code == 0, (arguments, result.output)
        assert f"wrote {file}" in result.stderr
        Path(file).unlink()


def test_existing_runs_are_not_overwritten(tmp_path):
    log = tmp_path / "ping.log"
    log.write_bytes(PING)
    arguments = ["read", str(log), "-o", str(tmp_path / "out")]
    assert run(app, arguments).exit_code == 0
    again = run(app, arguments)
    assert again.exit_code == 2
    assert "has the same measurement already" in again.stderr


def test_json_is_the_record(tmp_path):
    (tmp_path / "a.log").write_bytes(PING)
    result = run(app, ["read", str(tmp_path / "a.log"), "-o", str(tmp_path / "out"), "--json"])
    record = json.loads(result.stdout)
    assert record["world"] == "measured"
    assert record == {"path": record["path"], **json.loads((Path(record["path"]) / "run.json").read_text())}
    counts = {name: record["summary"][name] for name in ("probes", "lost", "duplicates", "out_of_order", "clock_jumps")}
    assert counts == {"probes": 8, "lost": 4, "duplicates": 1, "out_of_order": 1, "clock_jumps": 0}


@pytest.mark.parametrize("name", TEXTS)
def test_every_format_is_read_and_summarised(name, tmp_path):
    (tmp_path / "file").write_bytes(TEXTS[name][0])
    result = run(app, ["read", str(tmp_path / "file"), "-o", str(tmp_path / "out"), "--every", "1"])
    assert result.exit_code == 0, result.output
    assert TEXTS[name][1] in result.stdout
    assert "measured Run in" in result.stderr


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        (PING, ["latency", "handovers", "loss", "spikes"], "path"),
        (ATLAS, ["latency", "path"], "throughput"),
        (RATES, ["throughput"], "latency"),
        (STATUS, ["orientation"], "handovers"),
    ],
)
def test_analyses_of_absent_tables_list_the_possible_ones(text, good, bad, tmp_path):
    file, out = tmp_path / "file", tmp_path / "out"
    file.write_bytes(text)
    assert run(app, ["read", str(file), "-o", str(out)]).exit_code == 0
    for analysis in good:
        for place in (out, file):
            result = run(app, ["analyze", analysis, str(place), "--json"])
            assert result.exit_code == 0, (analysis, result.output)
            json.loads(result.stdout)
    result = run(app, ["analyze", bad, str(out)])
    assert result.exit_code == 2
    assert good[0] in result.stderr


def test_refusals_are_one_line(tmp_path):
    (tmp_path / "mac.log").write_bytes(MACOS)
    (tmp_path / "text").write_text("dear diary\n")
    (tmp_path / "empty").write_text("")
    for arguments, message in (
        ([str(tmp_path / "absent")], "no such file"),
        ([str(tmp_path / "mac.log")], "try --every with the probe interval"),
        ([str(tmp_path / "text")], "unknown format"),
        ([str(tmp_path / "empty")], "is empty"),
        ([str(tmp_path / "text"), "--format", "pong"], "unknown format 'pong'"),
        ([str(tmp_path / "mac.log"), "--every", "0"], "--every: 0 s"),
        (["/dev/null"], "is not an ordinary file"),
    ):
        result = run(app, ["read", *arguments, "-o", str(tmp_path / "out")])
        assert result.exit_code == 2, (arguments, result.output)
        assert message in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_missing_facts_of_a_log_can_be_given_as_options(tmp_path):
    (tmp_path / "mac.log").write_bytes(MACOS)
    arguments = ["--every", "1", "--start", "2026-11-20T18:39:23Z", "--site", "home", "--json"]
    result = run(app, ["read", str(tmp_path / "mac.log"), "-o", str(tmp_path / "out"), *arguments])
    record = json.loads(result.stdout)
    assert record["start_unix_ns"] == START_S * 10**9
    assert record["sources"][0]["clock"] == "utc"


def test_commands_do_not_import_unneeded_modules(tmp_path):
    """Imports are half of the time that reading a log of ten minutes takes."""
    (tmp_path / "ping.log").write_bytes(PING)
    out = str(tmp_path / "out")
    log = str(tmp_path / "ping.log")
    for arguments, needless in (
        (["read", log, "-o", out], ("readers.curl", "scenarios.sites", "scenarios.services", "analysis.period")),
        (["analyze", "latency", out], ("readers.ping", "dish.dumps.tables", "runs.measured.importing", "runs.record")),
    ):
        code = (
            "import sys\nfrom bentpipe.cli.main import app\n"
            f"try:\n    app({arguments!r})\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
            f"assert not {{f'bentpipe.{{name}}' for name in {needless!r}}} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
