"""Connections of a program behind a Profile are separate flows with complete bytes, however short."""

import json
import sys
from collections import Counter
from itertools import pairwise

import pytest
from emulation import SERVER, python, rows

from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.spec import Spec
from bentpipe.execution.program import run_program
from bentpipe.profiles.presets import preset_profile

pytestmark = pytest.mark.usefixtures("emulation")


def test_dns_queries_take_no_flow_slots_from_tcp(dumbbell, tmp_path):
    """After three hundred short UDP flows, each TCP connection has its own number in both tables."""
    code = (
        "import socket\n"
        "for _ in range(300):\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'?', ('server', 9)); s.close()\n"
        "for _ in range(3):\n"
        "    s = socket.create_connection(('server', 80)); s.sendall(bytes(100_000)); s.shutdown(1); s.recv(1)\n"
        "    s.close()"
    )
    serve = (
        "import socket; s = socket.create_server(('', 80))\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    while c.recv(65536): pass\n"
        "    c.close()"
    )
    emulated = run_program(dumbbell, python(code), server=f'exec {sys.executable} -c "{serve}"').emulated
    account = emulated.done["experiment"]["flows"]
    assert len(account) == 3
    samples, links = emulated.samples(), emulated.links()
    assert set(samples["flow"]) <= {0, 1, 2}
    per_flow = Counter()
    for row in rows(links):
        if row["direction"] == "up":
            per_flow[int(row["flow"])] += row["delay_n"]
    assert all(per_flow[flow] >= 100_000 / 1500 for flow in range(3))
    assert per_flow[max(per_flow)] == 300  # all short ones together


#: Answers each connection on port 80 with `size` bytes, closes it, and goes on.
GIVE = """
import socket, sys
s = socket.create_server(("", 80))
while True:
    c, _ = s.accept()
    c.recv(65536)
    c.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Type: text/plain\\r\\n\\r\\n" + bytes(int(sys.argv[1])))
    c.close()
"""


#: Fetches what `GIVE` has, `n` times one after the other, each time from `port` (0: one of the kernel's choice), and
#: closes, or resets, the connection.
FETCH = """
import socket, struct, sys, time
n, port, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for _ in range(n):
    s = socket.socket()
    if port:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", port))
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.connect(("server", 80))
    s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    while s.recv(65536):
        pass
    s.close()
    time.sleep(0.1 if port else 0.0)  # the last acknowledgement frees it
"""


def fetch(tmp_path, profile, size, n, *, port=0, how="close"):
    give = tmp_path / "give.py"
    give.write_text(GIVE)
    command = [sys.executable, "-c", FETCH, str(n), str(port), how]
    result = run_program(profile, command, server=f"exec {sys.executable} {give} {size}", out=tmp_path / "out")
    assert result.exit_code == 0
    return result


@pytest.fixture(scope="module")
def fast():
    """A path of 50 Mbit/s and 20 ms RTT, for a minute."""
    return preset_profile("dumbbell:rate=50mbit,rtt=20ms", 60.0, start_unix_ns=0, name="fast")


@pytest.mark.parametrize(("n", "size"), [(1, 800_000), (5, 800_000), (5, 1000)])
def test_short_transfers_have_complete_bytes_and_durations(n, size, fast, tmp_path):
    """Transfers of a fifth of a second, or shorter than a sample: the kernel's close event has all bytes."""
    result = fetch(tmp_path, fast, size, n)
    flows = result.emulated.done["flows"]
    assert len(flows) == n
    payload_bps = 50e6 * 1460 / 1500
    for flow, summary in zip(flows, result.run.flows, strict=True):
        assert size <= flow["delivered_bytes"] < size + 1000
        assert summary["direction"] == "down"
        span_s = (flow["stop"] - flow["start"]) * 1e-9
        assert span_s >= 2 * 0.02  # handshake, and question and answer
        # The last flow's last packet may come after the program's end, which is the Run's.
        assert summary["whole_run_bps"] == pytest.approx(flow["delivered_bytes"] * 8 / span_s, rel=0.02)
        assert 0 < summary["goodput_bps"] < payload_bps
        # How long it took is the flow's own time, whatever the run's is; its last packet may come after that.
        assert summary["completed_s"] == pytest.approx(span_s, rel=0.02)
    assert all(first["stop"] <= after["stop"] for first, after in pairwise(flows))
    samples = result.emulated.samples()
    last = {int(flow): int(count) for flow, count in zip(samples["flow"], samples["goodput_bytes"], strict=True)}
    assert last == {i: flow["delivered_bytes"] for i, flow in enumerate(flows)}
    emulator = result.run.record.summary["emulator"]
    assert emulator["flows_without_samples"] == emulator["closes_missed"] == emulator["relay"]["unnumbered"] == 0
    assert (emulator["device"], emulator["qdisc"]) in (("tun", "pfifo_fast"), ("veth", "noqueue"))
    assert emulator["closes_unavailable"] is None


@pytest.mark.parametrize("how", ["close", "reset"])
def test_connections_that_reuse_a_port_are_counted(how, fast, tmp_path):
    emulated = fetch(tmp_path, fast, 100_000, 3, port=4000, how=how).emulated
    (flow,) = emulated.done["flows"]
    assert flow["is_complete"]
    # A socket that resets forgets what it received; the other end knows what was acknowledged, all but a few segments.
    assert (300_000 if how == "close" else 290_000) <= flow["delivered_bytes"] < 301_000
    assert emulated.done["flows_without_samples"] == 0


def test_a_connection_open_at_the_end_is_not_completed(dumbbell):
    code = "import socket, time; s = socket.create_connection(('server', 80)); s.sendall(b'x'); time.sleep(60)"
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    serve = deaf + "import socket, time; s = socket.create_server(('', 80)); c, _ = s.accept(); time.sleep(60)"
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 2.0, start_unix_ns=0, name="short")
    workload = {
        "program": {"command": python(deaf + code), "server": f'exec {sys.executable} -c "{serve}"', "server_log": None}
    }
    emulated = emulate(short, Spec(workload=workload, at_end="stop", offset_s=0.0, grace_s=0.3))
    (flow,) = json.loads(emulated.summary_json())["flows"]
    assert flow["completed_s"] is None


def test_a_failed_connection_is_no_flow(dumbbell):
    code = "import socket\ntry: socket.create_connection(('server', 81))\nexcept OSError: pass"
    done = run_program(dumbbell, python(code), server=SERVER).emulated.done
    assert not done["flows"]
    assert done["flows_without_samples"] == 0


def test_unknown_bytes_give_no_goodput(fast, tmp_path):
    emulated = fetch(tmp_path, fast, 1000, 1).emulated
    emulated.done["flows"][0]["is_complete"] = False
    emulated.done["closes_unavailable"] = "no such thing here"
    summary = json.loads(emulated.summary_json())
    assert summary["flows"][0]["goodput_bps"] is None
    assert summary["flows"][0]["whole_run_bps"] is None
    assert not summary["valid"]
    assert "the bytes of 1 closed TCP flows are unknown (no such thing here)" in summary["why_invalid"]
