"""The path as nodes: processes in network namespaces that exchange real packets, with loss recovery between them."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from emulation import bentpipe, dumbbell_file, need, require_emulation

import bentpipe as bp
from bentpipe._native import node_names
from bentpipe.execution.emulation.proc import processes, stat_fields
from bentpipe.execution.emulation.spec import Spec
from bentpipe.profiles.parquet import read_profile, write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation.emulator import leaks

SENT = 2000
SERVER = """
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPOPTS, 1)
s.bind(("::", 8715))
s.settimeout(3)
seen, options = [], []
try:
    while True:
        data, ancillary, _, client = s.recvmsg(2000, 1000)
        seen.append(int(data[:6]))
        options += [option.hex() for *_, option in ancillary]
        if not seen[-1] % 100:
            s.sendto(b"ok", client)
except TimeoutError:
    pass
import json
json.dump([seen, options], open("SEEN", "w"))
"""
CLIENT = f"""
import socket, sys, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for option in sys.argv[1:]:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, bytes.fromhex(option))
s.connect((socket.getaddrinfo("server", 8715, socket.AF_INET6)[0][4]))
for i in range({SENT}):
    s.send(f"{{i:06d}}".encode() + bytes(500))
    time.sleep(0.001)
time.sleep(4)
"""


@pytest.fixture(autouse=True)
def _emulation():
    require_emulation()


@pytest.fixture
def lossy(tmp_path):
    """1 % of the packets are lost each way."""
    file = tmp_path / "lossy.parquet"
    write_profile(preset_profile("dumbbell:rate=100mbit,rtt=20ms,queue=100ms,loss=0.01", 60.0), file)
    return file


def run(tmp_path, path, *options, arguments=()):
    server, client, seen = tmp_path / "server.py", tmp_path / "client.py", tmp_path / "seen"
    server.write_text(SERVER.replace("SEEN", str(seen)))
    client.write_text(CLIENT)
    out = tmp_path / "out"
    serve = f"{sys.executable} {server}"
    program = [sys.executable, client, *arguments]
    done = bentpipe("run", path, "--nodes", *options, "-o", out, "--server", serve, "--", *program, timeout_s=60)
    assert done.returncode == 0, done.stderr
    (file,) = out.glob("**/run.json")
    return *json.loads(seen.read_text()), file.parent


def test_nodes_recover_losses_and_keep_the_order(tmp_path, lossy):
    seen, _, folder = run(tmp_path, lossy, "--recovery", "satguard")
    assert seen == sorted(seen)
    assert len(seen) >= SENT - 5
    record = json.loads((folder / "run.json").read_text())
    overhead = record["summary"]["recovery"]["overhead"]
    assert record["summary"]["recovery"]["scheme"] == "satguard"
    assert 5 <= overhead["retransmitted"] <= 70
    assert overhead["protected"] >= SENT
    assert overhead["node_malformed"] == overhead["node_frames_lost"] == 0
    # Each datagram crosses two wires, in an outer header of 56 bytes.
    assert overhead["node_frames"] > 2 * SENT
    assert overhead["node_header_bytes"] >= 56 * overhead["node_frames"]
    links = bp.Run.read(folder).links()
    assert set(links["direction"]) == {"up", "down"}
    assert (
        links.filter(links["flow"] == -1)["drops_loss"].sum() == 0
    )  # what the ends of a link lose is no packet of a host


def test_nodes_without_recovery_lose_packets(tmp_path, lossy):
    seen, _, folder = run(tmp_path, lossy)
    assert SENT - 60 <= len(seen) <= SENT - 5
    assert json.loads((folder / "run.json").read_text())["experiment"].get("recovery") is None


def test_an_option_of_others_arrives_untouched(tmp_path, lossy):
    """The program's own hop-by-hop option, of the same type as ours, stands in the inner packet."""
    foreign = "00003e0401020304"
    seen, options, _ = run(tmp_path, lossy, "--recovery", "satguard", arguments=[foreign])
    assert len(seen) >= SENT - 5
    # The kernel writes the next header, UDP, into its first octet.
    assert set(options) == {"11" + foreign[2:]}


def test_handovers_migrate_copies_between_satellites_and_wireshark_reads_the_frames(tmp_path):
    need("ping")
    file = tmp_path / "leo.parquet"
    bp.Profile.make(site="louvain", to="london", duration=60, start="2026-05-10T09:00:00Z").write(file)
    names = node_names(read_profile(file))
    assert names[:2] == ["terminal", "ground"]
    assert len(names) > 3
    done = bentpipe(
        *["run", file, "--nodes", "--recovery", "satguard", "--offset", "10s", "--capture", "-o", tmp_path / "out"],
        *["--server", "exec python3 -m http.server --bind :: 8715"],
        *["--", "ping", "-qi", "0.005", "-c", "800", "server"],
        timeout_s=60,
    )
    assert done.returncode == 0, done.stderr
    (record,) = (tmp_path / "out").glob("**/run.json")
    overhead = json.loads(record.read_text())["summary"]["recovery"]["overhead"]
    assert overhead["migrated"] > 0
    assert overhead["migrated_bytes"] > 0
    assert {f"{name}.pcap" for name in names} <= {each.name for each in record.parent.iterdir()}
    if shutil.which("tshark") is None:
        need("tshark")
    fields = ["satguard.hseq", "satguard.hack.first", "satguard.hack.last", "satguard.fseq", "satguard.tunnel.kind"]
    command = ["tshark", "-n", "-X", f"lua_script:{record.parent / 'nodes.lua'}", "-T", "fields", "-E", "separator=,"]
    command += [part for field in fields for part in ("-e", field)]
    rows = []
    for name in names:
        read = subprocess.run(
            [*command, "-r", record.parent / f"{name}.pcap"], capture_output=True, text=True, check=False
        )
        assert read.returncode == 0, read.stderr
        assert "malformed" not in read.stdout.lower()
        assert "lua" not in read.stderr.lower(), read.stderr
        rows += [line.split(",") for line in read.stdout.splitlines()]
    hseqs, firsts, lasts, fseqs, kinds = zip(*rows, strict=True)
    # The sending node's loss element drops the others.
    assert 0.9 * overhead["protected"] < sum(map(bool, hseqs)) <= overhead["protected"]
    assert all(bool(first) == bool(last) for first, last in zip(firsts, lasts, strict=True))
    assert any(firsts)
    assert len(set(fseqs)) > 700
    assert {"1", "2"} <= set(kinds)  # copies and acknowledgements between satellites


def test_packets_larger_than_the_path_are_answered(tmp_path):
    need("ping")
    file = dumbbell_file(tmp_path)
    ping = ["ping", "-4", "-M", "do", "-c", "1", "-W", "2", "-s", "1480", "server"]
    done = bentpipe("run", file, "--nodes", "--recovery", "satguard", "--", "sh", "-c", f"{' '.join(ping)}; exit 0")
    # The host's own device has the path's MTU, so its kernel answers.
    assert "1500" in done.stdout + done.stderr


def test_requests_that_nodes_cannot_run_are_refused_in_one_line(tmp_path):
    file = dumbbell_file(tmp_path)
    for options, problem in [
        (["--mtu", "9000"], "--mtu 9000; expected at most 1528"),
        (["--recovery", "linkguardian"], "recovery scheme linkguardian; expected satguard or none"),
        (["--recovery", "satguard:buffer_kb=0"], "buffer_kb"),
        (["--recovery", "satguard:marked_flows=1"], "option marked_flows; expected none: nodes protect every flow"),
    ]:
        done = bentpipe("run", file, "--nodes", *options, "--", "true")
        assert done.returncode == 2, done.stderr
        (line,) = [each for each in done.stderr.splitlines() if each.startswith("error: ")]
        assert problem in line


def test_a_buffer_of_one_packet_protects_hardly_anything(tmp_path, lossy):
    seen, _, folder = run(tmp_path, lossy, "--recovery", "satguard:buffer_kb=1")
    overhead = json.loads((folder / "run.json").read_text())["summary"]["recovery"]["overhead"]
    assert overhead["unprotected"] > overhead["protected"]
    assert len(seen) >= SENT - 60


def test_nodes_do_not_repeat_the_profile():
    profile = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 2.0)
    spec = Spec(workload={"program": {"command": ["true"], "server": None, "server_log": None}}, nodes=True)
    assert json.loads(spec.to_json(profile))["at_end"] == "hold"


def children(pid):
    pids = []
    for folder in processes():
        with contextlib.suppress(OSError):
            if stat_fields(folder)[1] == str(pid):
                pids.append(int(folder.name))
    return sorted(pids)


@pytest.mark.parametrize("victim", range(4))
def test_a_killed_node_leaves_nothing(tmp_path, victim):
    """`kill -9` of any node: the run ends with one line, and no namespace, interface or process stays."""
    file = dumbbell_file(tmp_path)
    namespaces, devices = leaks.namespaces(), leaks.devices()
    command = [sys.executable, "-m", "bentpipe", "run", file, "--nodes", "--", "sh", "-c", "echo up; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "up\n"
        (supervisor,) = children(process.pid)
        (session,) = children(supervisor)
        nodes = [pid for pid in children(session) if b"supervisor" in read(pid)]
        assert len(nodes) == 3  # terminal, ground station, one satellite
        os.kill(nodes[victim] if victim < 3 else session, signal.SIGKILL)
        _, errors = process.communicate(timeout=20)
        assert process.returncode != 0
        if victim < 3:
            assert "error: node " in errors
            assert "Traceback" not in errors
        deadline = time.monotonic() + 10
        while any(is_alive(pid) for pid in (*nodes, session, supervisor)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not [pid for pid in (*nodes, session, supervisor) if is_alive(pid)]
    assert not leaks.left_of(leaks.namespaces, namespaces)
    assert not leaks.left_of(leaks.devices, devices)


def read(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def is_alive(pid):
    return bool(read(pid))
