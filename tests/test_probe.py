"""`bentpipe probe` from the command line: over known paths, on the loopback device, killed, and with errors."""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from emulation import bentpipe, cannot

from bentpipe.analysis.path import path_segments
from bentpipe.measurements.runs.store import read_measured
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.parquet import write_profile
from bentpipe.runs.store import find_runs

EVERY_S = 0.01
OURS = (sys.executable, "-m", "bentpipe", "probe")


def path_file(tmp_path, *, up_ms=10.0, down_ms=20.0, loss=0.0, duration_s=60.0):
    """A path that takes longer down than up."""

    def side(delay_ms):
        lost = Points.constant(loss) if loss else None
        return Side(Points.constant(delay_ms / 1e3), Points.constant(1e7), lost)

    profile = single_hop_profile(
        name="known", hop="link", start_unix_ns=0, duration_s=duration_s, basis="one_way",
        provenance=Provenance("preset", "for a test"), up=side(up_ms), down=side(down_ms),
    )  # fmt: skip
    file = tmp_path / "P.parquet"
    write_profile(profile, file)
    return file


def probed(tmp_path, profile, *args, server=None):
    """The measured Run of a prober behind a path, and the emulated Run around it."""
    command = [*OURS, *map(str, args), "-o", str(tmp_path / "measured")]
    other_end = () if server is None else ("--server", server)
    done = bentpipe("run", profile, *other_end, "--offset", 0, "-o", tmp_path / "emulated", "--", *command)
    assert done.returncode == 0, done.stderr
    (emulated,) = find_runs(tmp_path / "emulated")
    return read_measured(tmp_path / "measured"), emulated


def drops(run):
    """Packets that the path itself lost, of all and by direction."""
    last = run.links().filter(pl.col("flow") == -1).group_by("direction").agg(pl.col("drops_loss").max())
    return dict(last.iter_rows())


def path_ms(run, direction):
    """The usual one-way delay of packets in a direction, as the path's elements saw it: of a machine that stood still
    for a moment, packets and probes have different parts, so neither's mean is the path's.
    """
    rows = run.links().filter((pl.col("flow") == -1) & (pl.col("delay_n") > 0) & (pl.col("direction") == direction))
    return rows["delay_mean_ms"].median()


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("version", [4, 6])
def test_ping_agrees_with_the_path(tmp_path, version):
    run, emulated = probed(
        tmp_path, path_file(tmp_path), "ping", f"-{version}", "server", "--every", EVERY_S, "--for", 2
    )
    # A machine that stops the engine for a while can cost it the count of a probe.
    assert 195 <= run.probes.height + run.summary["skipped"] <= 200
    assert run.summary["lost"] == 0
    assert run.probes["rtt_ms"].min() >= 30.0  # never early, however busy the machine
    assert run.probes["rtt_ms"].median() == pytest.approx(path_ms(emulated, "up") + path_ms(emulated, "down"), abs=1.0)
    (target,) = run.summary["targets"]
    assert target["probes"] - 5 <= target["kernel_timed"] <= target["probes"]
    assert (":" in target["address"]) == (version == 6)


@pytest.mark.usefixtures("emulation")
def test_lost_probes_are_those_that_the_path_dropped(tmp_path):
    run, emulated = probed(tmp_path, path_file(tmp_path, loss=0.2), "ping", "server", "--every", EVERY_S, "--for", 3)
    lost = drops(emulated)
    assert lost["up"] > 20
    assert lost["down"] > 20
    assert run.summary["lost"] == sum(lost.values())
    assert run.summary["targets"][0]["lost_by_cause"] == {"no answer": sum(lost.values())}


@pytest.mark.usefixtures("emulation")
def test_one_way_delays_agree_with_the_path(tmp_path):
    reflector = f"exec {' '.join(OURS)} reflect --port 8712"
    profile = path_file(tmp_path, loss=0.1)
    run, emulated = probed(tmp_path, profile, "owd", "server", "--every", EVERY_S, "--for", 3, server=reflector)
    answered = run.probes.drop_nulls("rtt_ms")
    # On a host that took processors away one of 236 was 0.7 ms short: the cause is not known.
    assert answered["up_ms"].quantile(0.02) >= 10.0
    assert answered["down_ms"].quantile(0.02) >= 20.0
    assert answered["up_ms"].median() == pytest.approx(path_ms(emulated, "up"), abs=1.0)
    assert answered["down_ms"].median() == pytest.approx(path_ms(emulated, "down"), abs=1.0)
    assert (answered["up_ms"] + answered["down_ms"]).to_numpy() == pytest.approx(
        answered["rtt_ms"].to_numpy(), abs=1e-3
    )
    (target,) = run.summary["targets"]
    assert target["clocks"] == {"known": "same"}
    lost = drops(emulated)
    # Hellos and welcomes are packets too, and the last echo does not include later losses.
    assert target["lost"] == pytest.approx(sum(lost.values()), abs=3)
    assert target["lost_up"] == pytest.approx(lost["up"], abs=3)


LISTENER = (
    "import socket; s = socket.create_server(('::', 80), family=socket.AF_INET6, dualstack_ipv6=True)\\n"
    "while True: s.accept()[0].close()"
)


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize("port", [80, 81])
def test_tcp_times_open_and_closed_ports(tmp_path, port):
    server = f'''exec {sys.executable} -c "exec(\\"{LISTENER}\\")"'''
    options = ("--port", port, "--every", EVERY_S, "--for", 2)
    run, emulated = probed(tmp_path, path_file(tmp_path), "tcp", "server", *options, server=server)
    assert run.summary["lost"] == 0
    assert set(run.probes["kind"]) == {"tcp"}
    assert run.probes["rtt_ms"].min() >= 30.0
    assert run.probes["rtt_ms"].median() == pytest.approx(path_ms(emulated, "up") + path_ms(emulated, "down"), abs=1.5)
    kernel = run.summary["targets"][0]["kernel_timed"]
    assert kernel == (run.probes.height if port == 80 else 0)


@pytest.mark.usefixtures("emulation")
def test_a_lost_syn_is_a_lost_probe(tmp_path):
    profile = path_file(tmp_path, loss=0.2)
    run, _ = probed(tmp_path, profile, "tcp", "server", "--port", 9, "--every", EVERY_S, "--for", 2)
    assert 0.25 < run.summary["loss"] < 0.47  # 0.36, by chance
    assert run.probes["rtt_ms"].max() < 1000


@contextlib.contextmanager
def three_hops(allowed="0 0"):
    """Return the command prefix that runs a command on a host with two routers between it and 10.0.3.2.

    `allowed` is the range of groups that may have ping sockets; others need a raw one.
    """
    machines = [
        subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]

    def on(number, command):
        before = ["nsenter", "--target", str(machines[number].pid), "--net"]
        subprocess.run([*before, *shlex.split(command)], check=True, capture_output=True)

    try:
        if [machine.stdout.readline() for machine in machines] != ["ready\n"] * 4:
            cannot("no network namespaces on this machine")
        for number, machine in enumerate(machines):
            on(number, "ip link set lo up")
            on(number, "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.icmp_ratelimit=0")
            if number:
                on(number - 1, f"ip link add far type veth peer name near netns {machine.pid}")
                on(number - 1, f"ip addr add 10.0.{number}.1/24 dev far")
                on(number - 1, "ip link set far up")
                on(number, f"ip addr add 10.0.{number}.2/24 dev near")
                on(number, "ip link set near up")
                on(number, f"ip route add default via 10.0.{number}.1")
        on(0, "ip route add 10.0.0.0/16 via 10.0.1.2")
        on(0, f"sysctl -qw net.ipv4.ping_group_range='{allowed}'")
        on(1, "ip route add 10.0.3.0/24 via 10.0.2.2")
        yield ["nsenter", "--target", str(machines[0].pid), "--net"]
    finally:
        for machine in machines:
            machine.kill()
            machine.communicate()


def need_root():
    if os.geteuid() != 0:
        pytest.skip("makes routers of network namespaces, which needs root")


PING_SOCKET, RAW_SOCKET = "0 0", "1 0"


@pytest.mark.parametrize("allowed", [PING_SOCKET, RAW_SOCKET])
def test_trace_reports_the_hops_of_the_path(tmp_path, allowed):
    need_root()
    with three_hops(allowed) as before:
        options = ("--every", 0.5, "--for", 2, "-o", tmp_path)
        done = bentpipe("probe", "trace", "10.0.3.2", "10.0.3.77", *options, before=before)
        assert done.returncode == 0, done.stderr
    run = read_measured(tmp_path)
    hops = run.hops.filter(pl.col("target") == "10.0.3.2")
    for _, trace in hops.group_by("unix_ns"):
        assert trace.sort("ttl").select("ttl", "address").rows() == [(1, "10.0.1.2"), (2, "10.0.2.2"), (3, "10.0.3.2")]
    assert hops["rtt_ms"].min() > 0
    assert hops["unix_ns"].n_unique() == 4
    shares = path_segments(run.hops)
    assert shares.traces.filter(pl.col("target") == "10.0.3.2")["reached"].all()
    reached = {target["name"]: target["reached"] for target in run.summary["targets"]}
    assert reached == {"10.0.3.2": 4, "10.0.3.77": 0}
    # No host at that address: the last router sends an error with its own address.
    nobody = run.hops.filter(pl.col("target") == "10.0.3.77")
    assert nobody["address"].drop_nulls().unique(maintain_order=True).to_list()[:1] == ["10.0.1.2"]


@pytest.mark.parametrize("allowed", [PING_SOCKET, RAW_SOCKET])
def test_an_unreachable_error_ends_the_trace(tmp_path, allowed):
    need_root()
    with three_hops(allowed) as before:
        options = ("--every", 0.1, "--for", 2, "-o", tmp_path, "--json")
        done = bentpipe("probe", "ping", "10.0.3.2", "10.0.3.77", *options, before=before)
    assert done.returncode == 0, done.stderr
    there, nobody = json.loads(done.stdout)["targets"]
    assert there["lost"] == 0
    assert nobody["lost"] == nobody["probes"] >= 15
    assert nobody["lost_by_cause"].get("host unreachable", 0) > 0
    assert set(nobody["lost_by_cause"]) <= {"host unreachable", "no answer"}


def test_probes_to_an_unreachable_host_are_lost_with_the_cause(tmp_path):
    need_root()
    with three_hops() as before:
        command = [*before, *OURS, "ping", "10.0.3.2", "--every", "0.02", "--for", "4", "-o", tmp_path, "--json"]
        with begun(command) as process:
            has_stored(tmp_path)
            subprocess.run([*before, "ip", "route", "replace", "unreachable", "10.0.3.0/24"], check=True)
            out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    (target,) = json.loads(out)["targets"]
    assert target["probes"] > target["lost"] > 10
    assert set(target["lost_by_cause"]) <= {"not sent: no route to host", "no answer"}


@contextlib.contextmanager
def reflector():
    with subprocess.Popen(
        [*OURS, "reflect", "--port", "0", "--address", "127.0.0.1"], stdout=subprocess.PIPE, text=True
    ) as it:
        try:
            yield re.search(r"port (\d+)", it.stdout.readline())[1]
        finally:
            it.terminate()


@contextlib.contextmanager
def begun(command):
    """A process that is killed at the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def has_stored(folder):
    """Wait until a prober has stored probes, and one more flush."""
    deadline = time.monotonic() + 20
    while not list(folder.glob("*/*.recording/probes/*.parquet")):
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.02)
    time.sleep(1)


def finished(process):
    out, err = process.communicate(timeout=20)
    assert "Traceback" not in out + err
    return out, err


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def test_several_targets_take_turns(tmp_path):
    hosts = ("127.0.0.1", "::1", "127.0.0.2")
    options = ("--port", closed_port(), "--every", "30ms", "--for", 1, "-o", tmp_path, "--json")
    done = bentpipe("probe", "tcp", *hosts, *options)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    sent = [target["probes"] + target["skipped"] for target in summary["targets"]]
    assert [target["name"] for target in summary["targets"]] == ["127.0.0.1", "::1", "127.0.0.2"]
    assert sent == [34, 33, 33]
    run = read_measured(tmp_path)
    late_ms = summary["lateness_ms"]["max"]
    firsts = [run.probes.filter(pl.col("target") == t["name"])["unix_ns"][0] for t in summary["targets"]]
    assert (np.diff(firsts) / 1e6).tolist() == pytest.approx([10, 10], abs=late_ms + 1)
    assert run.site == "here"
    assert run.record.valid


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_probing_and_stores_everything(tmp_path, how):
    with reflector() as port:
        command = [
            *OURS,
            "owd",
            "127.0.0.1",
            "--port",
            port,
            "--every",
            "0.01",
            "-o",
            tmp_path,
            "--json",
            "--site",
            "home",
        ]
        with begun(command) as process:
            has_stored(tmp_path)
            process.send_signal(how)
            out, err = finished(process)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert summary["complete"]
    assert summary["probes"] > 20
    assert read_measured(tmp_path).path == tmp_path / "home" / read_measured(tmp_path).path.name
    assert not list(tmp_path.glob("*/*.recording"))


@pytest.mark.parametrize("round_", range(3))
def test_a_killed_prober_loses_at_most_a_second(tmp_path, round_):
    with reflector() as port:
        command = [*OURS, "owd", "127.0.0.1", "--port", port, "--every", "0.01", "-o", tmp_path]
        with begun(command) as process:
            has_stored(tmp_path)
            time.sleep(0.37 * round_)
            engine, killed_ns = engine_of(process), time.time_ns()
    assert ends(engine)  # its reader is gone
    (folder,) = tmp_path.glob("here/*.recording")
    done = bentpipe("probe", "finish", tmp_path)
    assert done.returncode == 0, done.stderr
    run = read_measured(tmp_path)
    assert killed_ns - run.probes["unix_ns"][-1] < 1e9
    assert run.probes.height > 20
    assert not folder.exists()


def engine_of(process):
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def ends(pid, within_s=10):
    """Whether a process ends by itself."""
    deadline = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists()


def test_a_killed_engine_is_reported_and_earlier_probes_are_stored(tmp_path):
    command = [*OURS, "tcp", "127.0.0.1", "--port", str(closed_port()), "--every", "0.01", "-o", tmp_path]
    with begun(command) as process:
        has_stored(tmp_path)
        os.kill(engine_of(process), signal.SIGKILL)
        _, err = finished(process)
    assert process.returncode == 1
    assert "earlier probes are stored in" in err
    assert read_measured(tmp_path).probes.height > 20


def test_invalid_requests_are_one_line(tmp_path):
    for args, says in (
        (("tcp", "nobody.invalid"), "'nobody.invalid': no such host"),
        (("tcp", "127.0.0.1", "--every", "0"), "--every: '0' is not a duration"),
        (("tcp", "127.0.0.1", "--every", "0.0001"), "--every: 0.0001 s; expected 0.001 s or more"),
        (("tcp", "127.0.0.1", "-4", "-6"), "exclude each other"),
        (("owd", "127.0.0.1", "--port", closed_port()), "no reflector answers there; start one with"),
        (("finish", tmp_path), "has no unfinished recording"),
    ):
        out = () if args[0] == "finish" else ("-o", tmp_path / "out")
        done = bentpipe("probe", *args, *out)
        assert done.returncode == 2, done.stderr
        assert says in done.stderr
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 1
