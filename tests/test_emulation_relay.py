"""The relay's handling of packets, and its measurements of itself."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from emulation import SERVER, echo, python, rows

from bentpipe.execution.emulation.processors import ProcessorTime
from bentpipe.execution.program import run_program
from bentpipe.profiles.presets import preset_profile

pytestmark = pytest.mark.usefixtures("emulation")


def test_packets_larger_than_the_mtu_are_fragmented(dumbbell, tmp_path):
    rtts, emulated = echo(dumbbell, tmp_path, size=3000, mtu=600, n=3)
    assert None not in rtts
    assert emulated.done["relay"]["delivered"] >= 3 * 2 * 6


@pytest.mark.parametrize("family", [4, 6])
def test_fragments_belong_to_their_packets_flow(family, dumbbell, tmp_path):
    _, emulated = echo(dumbbell, tmp_path, size=3000, mtu=1280, n=20, family=family)
    flows = Counter()
    for row in rows(emulated.links()):
        flows[int(row["flow"])] += row["delay_n"]
    # One flow, and before it had grown to be one, those that share a place.
    assert len(flows.keys() - {-1}) == 2
    assert max(flows.items(), key=lambda flow: (flow[0] >= 0, flow[1]))[1] >= 20 * 2 * 3 - 20


@pytest.mark.parametrize("segment", [100, 536, 1200, 1400])
def test_bursts_of_small_segments_are_split(segment, dumbbell, tmp_path):
    """As QUIC sends: one call, many datagrams smaller than the MTU (UDP_SEGMENT = 103)."""
    count = min(60_000 // segment, 60)
    code = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_UDP, 103, "
        f"{segment}); s.sendto(bytes({segment} * {count}), ('server', 7)); import time; time.sleep(0.3)"
    )
    emulated = run_program(dumbbell, python(code), server=SERVER).emulated
    relay = emulated.done["relay"]
    up = [row for row in rows(emulated.links()) if row["direction"] == "up" and row["flow"] == -1]
    assert relay["not_forwarded"] == 0
    assert sum(row["delay_n"] for row in up) + max(row["drops_queue"] for row in up) >= count


def test_the_loss_rate_is_the_profiles(tmp_path):
    lossy = preset_profile("dumbbell:rate=10mbit,rtt=30ms,loss=0.5", 60.0, start_unix_ns=0, name="lossy")
    code = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for i in range(1000): s.sendto(b'x' * 100, ('server', 7)); time.sleep(0.0005)\n"
        "time.sleep(0.2)"
    )
    emulated = run_program(lossy, python(code), server="exec sleep 60 & exec " + SERVER.removeprefix("exec ")).emulated
    up = [row for row in rows(emulated.links()) if row["direction"] == "up" and row["flow"] == -1]
    lost = max(row["drops_loss"] for row in up)
    assert 400 < lost < 600  # 1000 packets, half lost: 6 standard deviations are 95


def test_a_run_reports_wakeup_lateness_and_ingress_wait(dumbbell, tmp_path):
    to = "('server', 7)"
    # One by one: beside a flood the relay need not sleep, and who does not sleep is never woken late.
    drip = (
        "import socket, time; s = socket.socket(type=socket.SOCK_DGRAM)\n"
        f"for _ in range(600): s.sendto(b'', {to}); time.sleep(0.001)"
    )
    began = time.monotonic()
    relay = run_program(dumbbell, python(drip), server=SERVER).emulated.done["relay"]
    took_ms = 1e3 * (time.monotonic() - began)
    assert relay["delivered"] >= 100
    assert 0.0 < relay["wakeup_p99_ms"] <= relay["wakeup_max_ms"] < took_ms  # packets were due, so alarms rang
    late_ms = [relay[f"lateness_{part}_ms"] for part in ("p50", "p99", "p999", "max")]
    assert 0.0 <= late_ms[0] <= late_ms[-1] < took_ms
    assert late_ms == sorted(late_ms)
    assert 0.0 < relay["ingress_wait_p99_ms"] < took_ms


def test_an_idle_relay_sleeps(dumbbell):
    """Processor time of process 1, the emulator, read by the program."""
    code = (
        "import time; time.sleep(2)\n"
        "from pathlib import Path\n"
        "for task in Path('/proc/1/task').iterdir():\n"
        "    if (task / 'comm').read_text().strip() == 'relay':\n"
        "        user, system = (task / 'stat').read_text().rsplit(')', 1)[1].split()[11:13]\n"
        "        exit(min(int(user) + int(system), 200))\n"
        "exit(201)"  # no such thread: nothing was measured
    )
    ticks = run_program(dumbbell, python(code)).exit_code
    assert ticks < 0.1 * 2 * os.sysconf("SC_CLK_TCK")  # asleep nine tenths of the time, however slow the machine


def test_a_run_reports_stolen_time(dumbbell):
    emulated = run_program(dumbbell, ["true"]).emulated
    share = json.loads(emulated.summary_json())["emulator"]["stolen_share"]
    if ProcessorTime.now() is None:
        assert share is None
    else:
        assert 0.0 <= share <= 1.0
    emulated.done["relay"] |= {"lateness_n": 1000, "late": 20, "lateness_max_ms": 2.0}
    emulated.stolen_share = 0.134
    assert emulated.why_invalid.endswith("the hypervisor took 13% of the processors' time")
    emulated.stolen_share = 0.0
    assert "hypervisor" not in emulated.why_invalid


def test_hosts_have_a_small_tcp_hash_table_and_default_settings(dumbbell, tmp_path):
    """The sampler walks the table ten times a second; the kernel derives two other settings from its size."""
    names = ["ipv4/tcp_max_tw_buckets", "ipv4/tcp_max_syn_backlog", "ipv4/tcp_ehash_entries"]
    files, kept = " ".join(f"/proc/sys/net/{name}" for name in names), tmp_path / "settings"
    assert run_program(dumbbell, ["sh", "-c", f"cat {files} > {kept}"]).exit_code == 0
    *derived, places = map(int, kept.read_text().split())
    *usual, machines = (int(Path("/proc/sys/net", name).read_text()) for name in names)
    assert derived == usual
    # Below zero: a namespace that shares the table of the one that it was made in, as all do before Linux 6.1.
    assert places == 16384 or (places == -machines and not Path("/proc/sys/net/ipv4/tcp_child_ehash_entries").exists())
