"""The emulator without a TUN device, as an ordinary user: a veth pair and a packet socket replace it."""

import json
import os
import random
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from emulation import bentpipe, need, wait_for

from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation.emulator.faults import processes_with

pytestmark = pytest.mark.usefixtures("emulation")

#: In a mount namespace of its own; the machine's file stays as it is.
NO_TUN = '[ ! -e /dev/net/tun ] || mount --bind /dev/null /dev/net/tun; exec "$@"'
#: There too: a closed folder's place is taken by an open one that holds only what the interpreter needs of it.
OPENED = (
    "mount --bind {kept} {aside}; mount -t tmpfs -o mode=755 opened {closed}; "
    "mkdir -p {kept}; mount --move {aside} {kept}; "
)
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

#: Sends everything back, after all of it has come.
MIRROR = """
import socket
listener = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    peer, _ = listener.accept()
    with peer:
        body = bytearray()
        while chunk := peer.recv(1 << 20):
            body += chunk
        peer.sendall(body)
"""
BULK = """
import hashlib, random, socket, sys
family = socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET
body = random.Random(1).randbytes(6_000_000)
s = socket.socket(family)
s.connect(socket.getaddrinfo("server", 7, family, socket.SOCK_STREAM)[0][4])
s.sendall(body)
s.shutdown(socket.SHUT_WR)
back = hashlib.sha256()
while chunk := s.recv(1 << 20):
    back.update(chunk)
print("same" if back.digest() == hashlib.sha256(body).digest() else "other")
"""
ECHO = """
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 7))
while True:
    body, peer = s.recvfrom(65535)
    s.sendto(body, peer)
"""
DATAGRAMS = """
import random, socket, sys
family = socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.settimeout(5.0)
s.connect(socket.getaddrinfo("server", 7, family, socket.SOCK_DGRAM)[0][4])
for size in map(int, sys.argv[2:]):
    body = random.Random(size).randbytes(size)
    s.send(body)
    print(size, s.recv(65535) == body)
"""


def opening(aside):
    """Return shell commands that let every user execute this interpreter; none where every user can already.

    A Python that root has built at home lies behind a folder that is closed to others.
    """
    kept = Path(sys.base_prefix)
    closed = [folder for folder in kept.parents if not folder.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return ""
    return OPENED.format(
        kept=shlex.quote(str(kept)), aside=shlex.quote(str(aside)), closed=shlex.quote(str(closed[-1]))
    )


@pytest.fixture(scope="module")
def without_tun(tmp_path_factory):
    """Return the command prefix that runs a command without TUN and without privileges."""
    need("unshare", "setpriv", "mount")
    root = os.getuid() == 0
    script = f"set -e; {opening(tmp_path_factory.mktemp('aside'))}{NO_TUN}" if root else NO_TUN
    before = ["unshare", "--mount" if root else "-Urm", "sh", "-c", script, "sh", *(NOBODY if root else ())]
    # By a second process: the first is opened with what `setpriv` still may, and Python then takes another's library.
    again = "import bentpipe, subprocess, sys; subprocess.run([sys.executable, '-c', 'import bentpipe'], check=True)"
    tried = subprocess.run([*before, sys.executable, "-c", again], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        # Where the checkout lies, not what the machine can do: a folder that is closed to other users.
        pytest.skip(f"no process without privileges here that can load bentpipe: {tried.stderr.strip()[-200:]}")
    return before


@pytest.fixture(scope="module")
def place():
    """A directory that every user may write to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture(scope="module")
def path(place):
    """A path of 100 Mbit/s and 20 ms RTT."""
    file = place / "dumbbell.parquet"
    write_profile(preset_profile("dumbbell:rate=100mbit,rtt=20ms", 60.0, start_unix_ns=0, name="dumbbell"), file)
    file.chmod(0o644)
    return file


def served(server):
    return f"exec {sys.executable} -c '{server}'"


def run(without_tun, path, *command, options=(), server=None):
    serving = ["--server", served(server)] if server else []
    return bentpipe("run", path, *options, *serving, "--", *command, before=without_tun)


def record(out):
    """Return the emulator's measurements of the one Run under `out`."""
    (file,) = out.rglob("run.json")
    return json.loads(file.read_text())["summary"]["emulator"]


@pytest.mark.parametrize("family", ["4", "6"])
@pytest.mark.parametrize("mtu", [1280, 1500, 9000])
def test_bulk_data_arrives_unchanged_in_both_directions(mtu, family, without_tun, path, place):
    out = place / f"bulk-{mtu}-{family}"
    options = ["--mtu", mtu, "-o", out]
    done = run(without_tun, path, sys.executable, "-c", BULK, family, options=options, server=MIRROR)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["same"]
    output = record(out)
    assert (output["device"], output["qdisc"]) == ("veth", "noqueue")
    assert output["user_namespace"] == (os.getuid() == 0)  # else the test's own namespace has the rights
    assert output["device_drops"] == [0, 0]
    assert output["offload_refused"] is None
    assert output["relay"]["kernel_rejected"] == 0
    assert output["relay"]["delivered"] >= 2 * 6_000_000 // mtu


@pytest.mark.parametrize("family", ["4", "6"])
def test_datagrams_up_to_the_mtu_and_above(family, without_tun, path):
    sizes = ["0", "1", "17", "1451", "1452", "1453", "1472", "1473", "3000", "20000", "60000"]
    done = run(without_tun, path, sys.executable, "-c", DATAGRAMS, family, *sizes, server=ECHO)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [f"{size} True" for size in sizes]


def test_bursts_of_datagrams_are_split(without_tun, path, place):
    """One call, many datagrams (UDP_SEGMENT = 103), as QUIC sends."""
    code = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_UDP, 103, "
        "1200); s.sendto(bytes(1200 * 40), ('server', 7)); time.sleep(0.5)"
    )
    out = place / "bursts"
    done = run(without_tun, path, sys.executable, "-c", code, options=["-o", out], server=ECHO)
    assert done.returncode == 0, done.stderr
    relay = record(out)["relay"]
    assert relay["not_forwarded"] == 0
    assert relay["delivered"] >= 2 * 40


def test_packets_that_overflow_the_ring_are_counted(without_tun, path, place):
    """At the machine's largest packet rate, each packet is delivered, dropped by the path's queue, held, or counted."""
    flood = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "n, end = 0, time.monotonic() + 1.0\n"
        "while time.monotonic() < end: n += s.sendto(bytes(1), ('100.64.0.1', 7))\n"
        "print(n)\n"
        "time.sleep(0.5)"
    )
    sink = 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7))\nwhile True: s.recv(1)'
    out = place / "flood"
    done = run(without_tun, path, sys.executable, "-c", flood, options=["-o", out], server=sink)
    assert done.returncode == 0, done.stderr
    output = record(out)
    counted = sum(output["relay"][name] for name in ("delivered", "lost", "held", "kernel_rejected", "refused"))
    sent = int(done.stdout)
    assert sent <= counted + sum(output["device_drops"]) <= sent + 20  # the kernels' own: multicast reports


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_ping(family, without_tun, path):
    need("ping")
    done = run(without_tun, path, "ping", family, "-c", "3", "-i", "0.2", "-s", "2000", "server")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 received" in done.stdout


def test_a_users_program_has_network_capabilities_only(without_tun, path):
    done = run(without_tun, path, "grep", "^Cap", "/proc/self/status")
    held = {name: int(mask, 16) for name, mask in (line.split(":") for line in done.stdout.splitlines())}
    network = 1 << 10 | 1 << 12 | 1 << 13  # CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW (linux/capability.h)
    if os.getuid() == 0:
        assert {held[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {network}
    # A file that is closed even to its owner stays so.
    code = "import os; os.umask(0o777); open('closed', 'w').close(); open('closed')"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        done = run(without_tun, path, "sh", "-c", f'cd {folder} && exec {sys.executable} -c "{code}"')
    assert "PermissionError" in done.stderr


def test_a_users_tcpdump_sees_its_own_packets(without_tun, path):
    need("tcpdump", "ping")
    look = (
        "tcpdump -i bentpipe -n -c 2 --immediate-mode icmp 2>/dev/null & "
        "sleep 1; ping -4 -c 2 -i 0.2 server >/dev/null; wait"
    )
    done = run(without_tun, path, "sh", "-c", look)
    assert "ICMP echo request" in done.stdout, done.stderr
    assert "ICMP echo reply" in done.stdout


def test_the_machines_network_sees_no_packets(without_tun, path):
    before = socket.if_nameindex()
    look = "import socket; print(sorted(name for _, name in socket.if_nameindex()))"
    done = run(without_tun, path, sys.executable, "-c", look)
    assert done.stdout.strip() == "['bentpipe', 'lo']"
    assert socket.if_nameindex() == before


def test_removing_the_paths_device_ends_the_program(without_tun, path):
    need("ip")
    done = run(without_tun, path, "sh", "-c", "ip link del bentpipe; exec sleep 60")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: the path's device `bentpipe` in the client's namespace is gone, or down")


def test_kill_leaves_nothing(without_tun, path, place):
    before = socket.if_nameindex()
    for attempt in range(3):
        mark = f"bentpipe-veth-{os.getpid()}-{attempt}"
        code = "import sys, time; open(sys.argv[2], 'w'); time.sleep(60)"
        ready = place / mark
        program = [sys.executable, "-c", code, mark, str(ready)]
        command = [*without_tun, sys.executable, "-m", "bentpipe", "run", str(path), "--server", served(ECHO)]
        with subprocess.Popen([*command, "--", *program], stderr=subprocess.DEVNULL) as child:
            wait_for(ready, child)
            time.sleep(random.Random(attempt).uniform(0.0, 0.2))
            child.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 10.0
        while processes_with(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not processes_with(mark)
    assert socket.if_nameindex() == before


def test_kernel_check_reports_veth_as_ok(without_tun):
    done = bentpipe("kernel", "check", "--json", before=without_tun)
    assert done.returncode == 0, done.stderr
    (device,) = (check for check in json.loads(done.stdout)["checks"] if check["name"] == "device")
    assert device["ok"]
    assert "veth" in device["found"]
