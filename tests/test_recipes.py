"""The recipes, run as they are documented: every fenced command of docs/recipes, in order, in one folder."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import emulation
import internet
import polars as pl
import pytest
from emulation import PATHS_TO_SYSTEM_TOOLS, cannot, need, require_emulation

from bentpipe.measurements.tool_output.stored import program_output
from bentpipe.runs.store import find_runs

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "recipes"


def commands(page, *having):
    """The fenced commands of a page that contain all of `having`."""
    blocks = re.findall(r"^```\n(.*?)^```", (PAGES / page).read_text(encoding="utf-8"), re.S | re.M)
    return [line for line in "".join(blocks).splitlines() if all(part in line for part in having)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A folder as the recipes want it, with the two paths in it."""
    require_emulation()
    folder = tmp_path_factory.mktemp("clone")
    (folder / "examples").symlink_to(ROOT / "examples")
    made = commands("README.md")
    assert len(made) == 2
    for command in made:
        paste(command, folder)
    return folder


def paste(command, folder, *, before=()):
    """What a pasted command prints; it must succeed. An environment that is activated comes first on the PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:{PATHS_TO_SYSTEM_TOOLS}"
    # Chromium wants a home, podman a place for its records.
    env = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [*before, "env", "-C", str(folder), "bash", "-c", command],  # nsenter leaves the folder
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-500:]}\n{done.stderr[-2000:]}"
    return done.stdout


def need_package(page):
    """What the page tells to install from PyPI; the project installs it for its tests."""
    (command,) = commands(page, "pip install")
    name = command.split()[-1]
    if importlib.util.find_spec(name) is None:
        cannot(f"no Python package {name}: {command}")


def run_in(folder, out):
    (run,) = find_runs(folder / "out" / out)
    return run


def path_rtt_ms(run):
    """The RTT of a path with little traffic, as its elements saw it: mean up and mean down [ms]."""
    packets = run.links().filter((pl.col("flow") == -1) & (pl.col("delay_n") > 0))
    means = packets.group_by("direction").agg(
        (pl.col("delay_mean_ms") * pl.col("delay_n")).sum() / pl.col("delay_n").sum()
    )
    assert means.height == 2
    return means["delay_mean_ms"].sum()


def test_a_missing_program_fails_where_the_emulator_is_required(monkeypatch):
    monkeypatch.setenv("BENTPIPE_REQUIRE", "emu")
    with pytest.raises(pytest.fail.Exception, match="no `no-such-tool` on this machine"):
        need("no-such-tool")
    monkeypatch.setattr(emulation, "OPTIONAL", {"no-such-tool"})
    with pytest.raises(pytest.skip.Exception):
        need("no-such-tool")
    monkeypatch.setattr(emulation, "OPTIONAL", set())
    monkeypatch.delenv("BENTPIPE_REQUIRE")
    with pytest.raises(pytest.skip.Exception):
        need("no-such-tool")


def test_ci_installs_what_its_tests_need():
    """But for what any Debian machine has: util-linux, and libc's own. The containers' engines are parameters."""
    calls = re.findall(r"\bneed\(([^*)]+)\)", "".join(file.read_text() for file in (ROOT / "tests").glob("*.py")))
    needed = {tool for call in calls for tool in re.findall(r'"([\w-]+)"', call)} | {
        "bwrap"
    }  # `need(*…)` of the engines
    installed = set(re.findall(r"^without (\S+)", (ROOT / ".ci" / "run").read_text(), re.M))
    everywhere = {"unshare", "nsenter", "setpriv", "mount", "ldd"}
    assert needed - everywhere - emulation.OPTIONAL - {"no-such-tool"} <= installed


def test_every_page_is_tested_and_named():
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in PAGES.glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == {f"{name}.md" for name in TESTED}


def test_ping_is_kept_with_its_times(clone):
    need("ping")
    (command,) = commands("ping-irtt.md", "ping -D")
    paste(command, clone)
    run = run_in(clone, "ping")
    output = program_output(run)
    (flow,) = output.flows
    assert output.tool == "ping"
    assert flow.record["sent_packets"] == 25
    assert flow.record["lost_packets"] == 25 - flow.samples.filter(pl.col("kind") == "reply").height
    assert flow.samples["t_s"].is_between(0, run.duration_s).all()
    assert flow.samples["rtt_ms"].mean() >= path_rtt_ms(run) - 1.0  # ping prints three digits


def test_irtt_is_kept_with_its_one_way_delays(clone):
    need("irtt")
    (command,) = commands("ping-irtt.md", "irtt client")
    paste(command, clone)
    run = run_in(clone, "irtt")
    (flow,) = program_output(run).flows
    assert json.loads((clone / "irtt.json").read_bytes()) == json.loads((run.path / "program.out").read_bytes())
    answered = flow.samples.drop_nulls("rtt_ms")
    assert answered.height >= 100
    assert ((answered["owd_up_ms"] + answered["owd_down_ms"] - answered["rtt_ms"]).abs() < 1.0).mean() > 0.9
    assert flow.samples["t_s"].is_between(0, run.duration_s).all()
    shown = paste(*commands("ping-irtt.md", "output_of_a_program.py"), clone)
    assert re.search(r"irtt, handovers at \[.*\] s", shown)
    assert len(re.findall(r"probes  median +[\d.]+ ms", shown)) >= 5


def test_iperf3_and_the_run_agree_on_what_arrived(clone):
    need("iperf3")
    up, down = commands("iperf3.md", "--server")
    output = paste(up, clone)
    run = run_in(clone, "iperf3")
    data = max(run.flows, key=lambda flow: flow["goodput_bps"])
    assert (data["controller"], data["direction"]) == ("cubic", "up")
    (received,) = re.findall(r"([\d.]+) ([KMG]?)Bytes .* receiver$", output, re.M)
    received_bytes = float(received[0]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[received[1]]
    # iperf3 stops counting at its end; what its socket still holds then arrives all the same. Three digits are printed.
    samples = run.samples()
    assert 0.98 * received_bytes <= samples["goodput_bytes"].max() <= received_bytes + 8 * 2**20
    assert samples["cwnd_bytes"].max() > 10 * 1448
    paste(down, clone)
    run = run_in(clone, "iperf3-down")
    output = program_output(run)
    assert output.tool == "iperf3"
    (stream,) = output.flows
    assert stream.record["direction"] == "down"
    assert stream.intervals.height >= 8
    arrived = run.links().filter((pl.col("flow") == -1) & (pl.col("direction") == "down"))["delivered_bytes"].max()
    assert 0.85 * arrived <= stream.intervals["bytes"].sum() <= arrived
    (report,) = commands("iperf3.md", "report")
    paste(report, clone)


def test_another_queue_marks_instead_of_dropping_and_keeps_waits_short(clone):
    for command in commands("ecn.md", "race"):
        paste(command, clone)
    flows = {}
    for out in ("own", "fq_codel", "step"):
        flows |= {(out, run.scheme): run.flows[0] for run in find_runs(clone / "out" / out)}
    assert flows["fq_codel", "cubic:ecn=classic"]["marks"] > 0 < flows["step", "cubic:ecn=classic"]["marks"]
    assert flows["fq_codel", "cubic"]["marks"] == flows["own", "cubic"]["marks"] == 0
    bbr3 = next(flow for (_, scheme), flow in flows.items() if scheme.startswith("bbr3:"))
    assert bbr3["marks"] > 0
    assert flows["fq_codel", "cubic"]["rtt_p95_ms"] < flows["own", "cubic"]["rtt_p95_ms"]
    paste(*commands("ecn.md", "report"), clone)
    (curl,) = commands("ecn.md", "curl")
    need("curl")
    paste(curl, clone)
    assert "fq_codel" in run_in(clone, "curl").record.experiment.queues[0].to_dict()["discipline"]


def test_quic_downloads_and_the_run_has_the_paths_side(clone):
    need_package("quic.md")
    (command,) = commands("quic.md", "fetch.py")
    output = json.loads(paste(command, clone))
    assert output["received_bytes"] == 5_000_000
    run = run_in(clone, "quic")
    assert output["handshake_s"] * 1e3 >= path_rtt_ms(run) / 2  # one RTT, before there was a queue
    assert run.flows == []
    assert run.samples().height == 0
    assert json.loads((run.path / "program.out").read_bytes()) == output
    down = run.links().filter((pl.col("direction") == "down") & (pl.col("delay_n") > 0))
    whole, of_flows = down.filter(pl.col("flow") == -1), down.filter(pl.col("flow") >= 0)
    assert whole["delivered_bytes"].max() > 5_000_000
    assert of_flows["delay_n"].sum() > 5_000_000 / 1400


def test_a_browser_loads_a_page_over_both_paths(clone):
    need("chromium")
    *loads, grep = commands("browser.md")
    assert len(loads) == 2
    for command in loads:
        paste(command, clone)
    shown = [float(number) for number in re.findall(r">([\d.]+)</output> ms", paste(grep, clone))]
    assert len(shown) == 2
    for load_ms, out in zip(shown, ("page-leo", "page-fibre"), strict=True):
        run = run_in(clone, out)
        least_ms = run.samples()["rtt_min_ms"].min()
        assert load_ms >= 3 * least_ms  # connect, the page, its pictures
        assert len(run.flows) >= 1


def test_dns_of_ones_own(clone):
    need_package("dns.md")
    need("dig")
    (command,) = commands("dns.md", "dnslib.fixedresolver")
    shown = paste(command, clone)
    assert re.search(r"^www\.example\.\s+60\s+IN\s+A\s+192\.0\.2\.7$", shown, re.M)
    assert int(re.search(r"Query time: (\d+) msec", shown)[1]) + 1 >= path_rtt_ms(run_in(clone, "dns-own"))


def test_dns_through_the_gateway(clone):
    need("dig")
    command, _ = (line for line in commands("dns.md") if " dig " in line)
    with internet.machine_with_one() as before:
        shown = paste(command, clone, before=before)
    assert re.search(rf"^page\.example\.\s.*\sA\s+{re.escape(internet.V4)}$", shown, re.M)
    assert int(re.search(r"Query time: (\d+) msec", shown)[1]) + 1 >= path_rtt_ms(run_in(clone, "dns"))


@pytest.fixture(scope="module")
def rootfs(clone):
    need("busybox", "ldd")
    for command in commands("containers.md", "rootfs/bin"):
        paste(command, clone)
    return clone / "rootfs"


def failure_without_a_path(engine, clone):
    """The last line that an engine says where it cannot make any container; None: it can."""
    command = {
        "bwrap": "bwrap --bind rootfs / --unshare-pid wget --help",
        "podman": 'podman run --rm --network host --cgroups=disabled --rootfs "$PWD/rootfs" wget --help',
        "docker": "sh examples/recipes/docker.sh docker info",
    }[engine]
    done = subprocess.run(["sh", "-c", command], cwd=clone, capture_output=True, text=True, check=False, timeout=120)
    return None if done.returncode == 0 else (done.stderr.splitlines() or ["nothing"])[-1]


@pytest.mark.parametrize("engine", ["bwrap", "podman", "docker"])
def test_a_container_meets_the_path(engine, clone, rootfs):
    need(*{"docker": ("docker", "dockerd")}.get(engine, (engine,)))
    (command,) = commands("containers.md", f"-o out/{engine} ")
    try:
        shown = paste(command, clone)
    except AssertionError:
        if says := failure_without_a_path(engine, clone):
            reason = f"{engine} does not work on this machine, without a path either: {says}"
            if engine in emulation.OPTIONAL:
                pytest.skip(reason)
            cannot(reason)
        raise
    assert "Directory listing" in shown
    run = run_in(clone, engine)
    assert len(run.flows) == 1
    assert run.record.summary["emulator"]["relay"]["delivered"] >= 6  # a TCP connection, there and back


TESTED = ("ping-irtt", "iperf3", "quic", "browser", "dns", "ecn", "containers")
