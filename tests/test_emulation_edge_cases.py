"""Edge cases: oversized packets, multicast, arguments that are not UTF-8, missing folders, wrong checksums."""

import json
import os
import sys

import pytest
from emulation import bentpipe, dumbbell_file, require_emulation

from bentpipe.profiles.make import make_profile
from bentpipe.profiles.parquet import read_profile, write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.store import find_runs

#: Sets the device's MTU inside to 9000, as `ip link set bentpipe mtu 9000` does (SIOCSIFMTU).
LARGER = """
import fcntl, json, socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8922, struct.pack("16si12x", b"bentpipe", 9000))
"""

ECHO = (
    f'exec {sys.executable} -c "'
    "import socket; s=socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 7))\n"
    'while True: d, a = s.recvfrom(65535); s.sendto(d, a)"'
)


@pytest.fixture
def dumbbell(tmp_path):
    return dumbbell_file(tmp_path)


def record(out):
    (file,) = out.rglob("run.json")
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("family", [4, 6])
def test_oversized_packets_get_icmp_and_make_the_run_invalid(family, dumbbell, tmp_path):
    """The sender's kernel learns the path's MTU and fragments the packets after the first."""
    code = (
        LARGER
        + f"""
s = socket.socket(socket.AF_INET6 if {family} == 6 else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)
s.connect(socket.getaddrinfo("server", 7, s.family, s.type)[0][4])
whole = 0
for _ in range(5):
    try:
        s.send(bytes(4000))
        whole += len(s.recv(65536)) == 4000
    except OSError:  # a time-out, or EMSGSIZE
        pass
print(whole)
"""
    )
    done = bentpipe("run", dumbbell, "-o", tmp_path / "out", "--server", ECHO, "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
    run = record(tmp_path / "out")
    relay = run["summary"]["emulator"]["relay"]
    assert 1 <= relay["too_large"] <= 2
    assert relay["malformed"] == 0
    assert not run["valid"]
    assert f"{relay['too_large']} packets were larger than the path's MTU and did not enter it" in run["why_invalid"]
    assert "packets were larger than the path's MTU" in done.stderr


def test_link_local_multicast_is_no_fault(dumbbell, tmp_path):
    code = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for _ in range(5): s.sendto(b'x', ('224.0.0.251', 5353))"
    )
    done = bentpipe("run", dumbbell, "-o", tmp_path / "out", "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    run = record(tmp_path / "out")
    assert run["summary"]["emulator"]["relay"]["not_forwarded"] >= 5
    assert "larger" not in str(run["why_invalid"])
    assert "apart" not in str(run["why_invalid"])


def test_arguments_need_not_be_utf8(dumbbell, tmp_path):
    word = os.fsdecode(b"a\x80\xffb")
    code = "import os, sys; os.write(1, os.fsencode(sys.argv[1]))"
    command = ["run", dumbbell, "-o", tmp_path / "out", "--", sys.executable, "-c", code, word]
    done = bentpipe(*command, encoding="latin-1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a\x80\xffb"
    assert record(tmp_path / "out")["program"]["command"][-1] == r"a\x80\xffb"
    done = bentpipe("run", dumbbell, "--", word)
    assert done.returncode == 2
    assert "cannot start it: No such file or directory" in done.stderr
    assert "surrogate" not in done.stderr


def test_a_server_and_a_folder_need_not_be_utf8(dumbbell, tmp_path):
    out = tmp_path / os.fsdecode(b"o\x80ut")
    line = os.fsdecode(b"echo '\x80' >&2; exit 3")
    done = bentpipe("run", dumbbell, "-o", out, "--capture", "--server", line, "--", "true")
    assert done.returncode == 2
    assert "ended before it listened (exit code 3)" in done.stderr


def test_the_profile_of_a_site_is_stored_with_the_run(tmp_path):
    made = ["--site", "melbourne", "--to", "sydney", "--duration", "15"]
    done = bentpipe("run", *made, "-o", tmp_path / "out", "--", "true")
    assert done.returncode == 0, done.stderr
    (run,) = find_runs(tmp_path / "out")
    stored = read_profile(tmp_path / "out" / "profiles" / "melbourne-sydney.parquet")
    assert run.record.profiles[0].base_hash == stored.content_hash()
    assert stored.content_hash() == make_profile("melbourne", "sydney", duration_s=15.0).content_hash()


@pytest.mark.parametrize("command", [["run", "P", "--seed", 2**64, "--", "true"], ["profile", "make", "--seed", 2**64]])
def test_a_seed_out_of_range_is_refused(command, tmp_path):
    done = bentpipe(*command, *(["-o", tmp_path / "x.parquet"] if command[0] == "profile" else []))
    assert done.returncode == 2
    assert "18446744073709551615" in done.stderr


@pytest.mark.parametrize("folder", ["/no/such/folder", "", "/"])
def test_a_missing_folder_for_temporary_files_is_no_fault(folder, dumbbell):
    code = "import socket; print(sorted({a[4][0] for a in socket.getaddrinfo('server', 80)})[0])"
    done = bentpipe("run", dumbbell, "--", sys.executable, "-c", code, env={**os.environ, "TMPDIR": folder})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("100.64.")


#: 200 segments of one connection, in order, whose checksums are wrong, by a raw socket.
FORGED = """
import socket, struct
def summed(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
ends = [socket.inet_aton(a) for a in ("100.64.0.2", socket.gethostbyname("server"))]
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
s.connect((socket.inet_ntoa(ends[1]), 0))
for i in range(200):
    parts = ["!HHIIBBH", 4000, 9, 1 + 100 * i, 1, 5 << 4, 0x10, 1000]
    front, back = struct.pack(*parts), struct.pack("!H", 0) + bytes(100)
    right = summed(ends[0] + ends[1] + struct.pack("!HH", 6, 120) + front + b"\\0\\0" + back)
    s.send(front + struct.pack("!H", right ^ 0x5555) + back)
"""

COUNTS = """
import signal, socket, time
def finish(*_):
    names, values = [line.split() for line in open("/proc/net/snmp") if line.startswith("Tcp:")]
    print(dict(zip(names, values))["InCsumErrors"], flush=True)
    raise SystemExit
signal.signal(signal.SIGTERM, finish)
s = socket.create_server(("", 80))
time.sleep(60)
"""


def test_a_senders_wrong_checksum_stays_wrong(tmp_path):
    """Segments that leave the path together are coalesced, and the buffer's checksum is recomputed."""
    require_emulation()
    file, script = tmp_path / "P.parquet", tmp_path / "counts.py"
    write_profile(preset_profile("dumbbell:rate=1gbit,rtt=10ms", 60.0, start_unix_ns=0, name="fast"), file)
    script.write_text(COUNTS, encoding="utf-8")
    server = f"exec {sys.executable} {script}"
    program = [sys.executable, "-c", FORGED + "import time; time.sleep(0.3)"]
    done = bentpipe("run", file, "-o", tmp_path / "out", "--server", server, "--", *program)
    assert done.returncode == 0, done.stderr
    (log,) = (tmp_path / "out").rglob("server.log")
    assert int(log.read_text(encoding="utf-8")) == 200
    assert record(tmp_path / "out")["summary"]["emulator"]["relay"]["coalesced"] == 0
