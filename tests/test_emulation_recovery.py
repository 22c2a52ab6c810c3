"""Loss recovery on emulated paths: the schemes of the simulator, for real programs and the kernel's TCP."""

import json
import sys

import pytest
from emulation import bentpipe

from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile

SENT = 2000
SERVER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 8715))
s.settimeout(3)
seen = []
try:
    while True:
        data, client = s.recvfrom(2000)
        seen.append(int(data[:6]))
        if not seen[-1] % 100:
            s.sendto(b"ok", client)
except TimeoutError:
    pass
open("SEEN", "w").write(" ".join(map(str, seen)))
"""
CLIENT = f"""
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((socket.gethostbyname("server"), 8715))
for i in range({SENT}):
    s.send(f"{{i:06d}}".encode() + bytes(500))
    time.sleep(0.001)
time.sleep(4)
"""


@pytest.fixture
def lossy(tmp_path):
    """1 % of the packets are lost each way."""
    file = tmp_path / "lossy.parquet"
    write_profile(preset_profile("dumbbell:rate=100mbit,rtt=20ms,queue=100ms,loss=0.01", 60.0), file)
    return file


def received(tmp_path, path, scheme):
    server, client, seen = tmp_path / "server.py", tmp_path / "client.py", tmp_path / "seen"
    server.write_text(SERVER.replace("SEEN", str(seen)))
    client.write_text(CLIENT)
    out = tmp_path / scheme
    serve = f"{sys.executable} {server}"
    done = bentpipe(
        "run", path, "--recovery", scheme, "-o", out, "--server", serve, "--", sys.executable, client, timeout_s=60
    )
    assert done.returncode == 0, done.stderr
    (file,) = out.glob("**/run.json")
    return list(map(int, seen.read_text().split())), json.loads(file.read_text())


def test_a_program_behind_satguard_loses_next_to_nothing_and_keeps_its_order(tmp_path, lossy):
    seen, record = received(tmp_path, lossy, "satguard")
    assert seen == sorted(seen)
    # Of 2,000 packets about 0.2 are lost twice; their second retransmission comes after the longest hold.
    assert len(seen) >= SENT - 3
    assert record["experiment"]["recovery"] == {"scheme": "satguard", "options": {}}
    overhead = record["summary"]["recovery"]["overhead"]
    # 1 % of 2,000 datagrams and some answers.
    assert 5 <= overhead["retransmitted"] <= 60
    assert overhead["protected"] >= SENT
    assert 16 * SENT <= overhead["header_bytes"] <= 16 * (SENT + 60)


def test_a_program_without_recovery_loses_packets(tmp_path, lossy):
    seen, record = received(tmp_path, lossy, "none")
    assert SENT - 60 <= len(seen) <= SENT - 5
    assert record["summary"]["recovery"] == {"scheme": "none", "overhead": {}}


def test_a_race_on_the_kernel_has_recovery(tmp_path, lossy):
    options = ["--cc", "cubic", "--duration", "4", "--recovery", "none,linkguardian", "-o", tmp_path / "race", "--json"]
    done = bentpipe("race", lossy, "--on-kernel", *options, timeout_s=60)
    assert done.returncode == 0, done.stderr
    flows = {each["recovery"]: each["flows"][0] for each in json.loads(done.stdout)["runs"]}
    # 1 % of loss keeps CUBIC far below the path's 100 Mbit/s.
    assert flows["linkguardian"]["goodput_bps"] > 1.5 * flows["none"]["goodput_bps"]
