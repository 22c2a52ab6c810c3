"""Captures of both ends, read by independent readers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from emulation import bentpipe, need, require_emulation
from pcapng import FileScanner
from pcapng.blocks import EnhancedPacket, InterfaceDescription, InterfaceStatistics
from pcapng.exceptions import TruncatedFile

from bentpipe.errors import UserError
from bentpipe.execution.program import run_program
from bentpipe.execution.racing import race
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.store import find_runs

pytestmark = pytest.mark.filterwarnings("ignore:Field type should not be:DeprecationWarning")  # python-pcapng's own

RAW = 101  # LINKTYPE_RAW: the packet begins with its IP header
INBOUND, OUTBOUND = "inbound", "outbound"

SINK = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7)); time.sleep(60)"
SENDER = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[1])):
    s.sendto(i.to_bytes(4, "big") * 50, ("server", 7))
    time.sleep(0.001)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(scope="module", autouse=True)
def _emulation():
    require_emulation()


@dataclass
class Packet:
    at_ns: int
    data: bytes
    comment: str
    flags: str

    @property
    def udp(self):
        """The payload of a datagram to port 7, else None."""
        is_ours = self.data[0] == 0x45 and self.data[9] == 17 and self.data[22:24] == b"\0\7"
        return self.data[28:] if is_ours else None

    @property
    def number(self):
        return int(re.match(r"#(\d+) ", self.comment)[1])


def read(file):
    """Return a file's packets and its statistics."""
    packets, interfaces, statistics = [], [], []
    with file.open("rb") as stream:
        try:
            for block in FileScanner(stream):
                if isinstance(block, InterfaceDescription):
                    interfaces.append(block)
                elif isinstance(block, InterfaceStatistics):
                    statistics.append(block)
                elif isinstance(block, EnhancedPacket):
                    assert block.captured_len == block.packet_len == len(block.packet_data)
                    at_ns = (block.timestamp_high << 32) + block.timestamp_low
                    (comment,) = block.options.get_all("opt_comment")
                    packets.append(Packet(at_ns, block.packet_data, comment, block.options["epb_flags"].inout))
        except TruncatedFile:
            pass  # the block in which it was killed
    (interface,) = interfaces
    assert interface.link_type == RAW
    assert interface.timestamp_resolution == pytest.approx(1e-9)
    return packets, interface, statistics


def ms_in(pattern, comment):
    return float(re.search(pattern, comment)[1])


def captured(profile, command, out, **options):
    result = run_program(profile, command, out=out, capture=True, **options)
    files = {end: read(result.run.path / f"{end}.pcapng") for end in ("client", "server")}
    return result, files


def python(code, *arguments):
    return [sys.executable, "-c", code, *map(str, arguments)]


SERVER = f'exec {sys.executable} -c "{SINK}"'


def test_both_captures_have_every_packet_with_its_fate(tmp_path):
    count = 400
    lossy = preset_profile("dumbbell:rate=10mbit,rtt=30ms,loss=0.3", 60.0, start_unix_ns=0, name="lossy")
    before_ns = time.time_ns()
    result, files = captured(lossy, python(SENDER, count, 0.3), tmp_path, server=SERVER)
    after_ns = time.time_ns()
    client, server = files["client"][0], files["server"][0]
    for end, (packets, interface, statistics) in files.items():
        assert interface.options["if_name"] == end
        assert all(before_ns < packet.at_ns < after_ns for packet in packets)
        assert [p.at_ns for p in packets] == sorted(p.at_ns for p in packets)
        assert len(statistics) == 1
        assert statistics[0].options["isb_ifdrop"] == 0
        assert statistics[0].options["isb_ifrecv"] == len(packets)

    # Content: what was sent, in the order in which it was sent, and what got through.
    sent = [p for p in client if p.udp is not None]
    got = [p for p in server if p.udp is not None]
    assert [p.udp for p in sent] == [i.to_bytes(4, "big") * 50 for i in range(count)]
    assert all(p.flags == OUTBOUND for p in sent)
    assert all(p.flags == INBOUND for p in got)
    by_number = {p.number: p for p in sent}
    assert len(by_number) == count
    assert [p.data for p in got] == [by_number[p.number].data for p in got]

    # The comments agree with the counters.
    relay = result.emulated.done["relay"]
    outcomes = Counter(p.comment.split()[1].rstrip(":") for p in client + server if p.flags == OUTBOUND)
    assert outcomes["delivered"] == relay["delivered"]
    assert outcomes["dropped"] == relay["lost"]
    assert outcomes["held"] == relay["held"]
    assert sum(p.flags == INBOUND for p in client + server) == relay["delivered"]
    lost = [p for p in sent if "dropped" in p.comment]
    assert {p.number for p in sent} - {p.number for p in lost} == {p.number for p in got}
    assert lost
    assert all("loss process of" in p.comment for p in lost)

    # Delays are the Profile's: 15 ms one way, and what a packet of 228 bytes takes at 10 Mbit/s.
    least_ms = 15.0 + 228 * 8 / 10e6 * 1e3
    for packet in got:
        origin = by_number[packet.number]
        delay_ms = ms_in(r"due after ([\d.]+) ms", packet.comment)
        late_ms = ms_in(r"handed on ([\d.]+) ms late", packet.comment)
        assert delay_ms == ms_in(r"delivered: ([\d.]+) ms one way over", origin.comment)
        assert delay_ms >= least_ms - 1e-3
        stamp = re.search(r"sent at (\d+)\.(\d{9}),", packet.comment)
        assert int(stamp[1] + stamp[2]) == origin.at_ns
        assert packet.at_ns - origin.at_ns == pytest.approx((delay_ms + late_ms) * 1e6, abs=1)
        shares = [float(ms) for ms in re.findall(r"([\d.]+) ms (?:queue|transmission|propagation)", origin.comment)]
        assert sum(shares) == pytest.approx(delay_ms, abs=1e-6)
        assert "15.000000 ms propagation" in origin.comment
    quiet = sum(ms_in(r"due after ([\d.]+) ms", p.comment) < least_ms + 0.01 for p in got)
    assert quiet > len(got) / 2  # the path is idle between most of them

    record = json.loads((result.run.path / "run.json").read_text())
    output = record["summary"]["emulator"]["capture"]
    assert output == {"written": [len(client), len(server)], "not_captured": 0, "out_of_order": 0, "failed": None}
    assert not list(tmp_path.glob(".unfinished-*"))


@pytest.mark.parametrize(
    ("path", "fate"),
    [
        ("dumbbell:rate=0.2mbit,rtt=30ms,queue=1bdp", "dropped: queue full of"),
        ("dumbbell:rate=0.5mbit,rtt=3s,queue=100bdp", "held: on its way when the run ended"),
    ],
)
def test_comments_of_dropped_packets(path, fate, tmp_path):
    slow = preset_profile(path, 60.0, start_unix_ns=0, name="slow")
    result, files = captured(slow, python(SENDER, 200, 0.0), tmp_path, server=SERVER)
    relay = result.emulated.done["relay"]
    results = [p for p in files["client"][0] + files["server"][0] if fate in p.comment]
    assert len(results) == relay["lost" if "dropped" in fate else "held"] > 0
    waited = [ms_in(r"([\d.]+) ms queue", p.comment) for p in files["client"][0] if " ms queue" in p.comment]
    assert max(waited) > 10.0  # in line for a slow path


def test_tcpdump_reads_the_captures(tmp_path):
    need("tcpdump")
    dumbbell = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 60.0, start_unix_ns=0, name="dumbbell")
    result, files = captured(dumbbell, python(SENDER, 20, 0.1), tmp_path, server=SERVER)
    for end, (packets, *_) in files.items():
        file = result.run.path / f"{end}.pcapng"
        message = subprocess.run(["tcpdump", "-r", file, "-nn", "-vv"], capture_output=True, text=True, check=True)
        heads = [line for line in message.stdout.splitlines() if re.match(r"\d\d:\d\d:\d\d\.\d{6,9} IP", line)]
        assert len(heads) == len(packets)
        assert "bad udp cksum" not in message.stdout


def test_a_capture_requires_an_output_folder(tmp_path):
    dumbbell = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 60.0, start_unix_ns=0, name="dumbbell")
    with pytest.raises(UserError, match=r"capture: no folder for the Run; expected `out`"):
        run_program(dumbbell, ["true"], capture=True)
    with pytest.raises(UserError, match=r"capture: .*`on_kernel`"):
        race([dumbbell], ["cubic"], out=tmp_path / "out", duration_s=1.0, capture=True)
    file = tmp_path / "dumbbell.parquet"
    write_profile(dumbbell, file)
    message = bentpipe("run", file, "--capture", "--", "true")
    assert message.returncode == 2
    assert len(message.stderr.strip().splitlines()) == 1


@pytest.mark.filterwarnings("ignore::bentpipe.execution.sinks.folder.KernelWarning")  # what a busy machine makes of it
def test_a_race_on_the_kernel_is_captured(tmp_path):
    dumbbell = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 60.0, start_unix_ns=0, name="dumbbell")
    options = {"on_kernel": True, "out": tmp_path, "duration_s": 2.0, "phase_s": 0.0}
    race([dumbbell], ["cubic"], **options)
    again = race([dumbbell], ["cubic"], capture=True, **options)
    assert again.resumed == 0  # the Run was there, its packets were not
    (run,) = find_runs(tmp_path)
    assert race([dumbbell], ["cubic"], capture=True, **options).resumed == int(run.record.valid)
    (run,) = find_runs(tmp_path)
    down = [p for p in read(run.path / "client.pcapng")[0] if p.flags == INBOUND]
    assert sum(len(p.data) for p in down) * 8 / 2.0 > 5e6
    capture = run.record.summary["emulator"]["capture"]
    assert capture["not_captured"] == 0


def test_a_capture_is_readable_after_a_kill(tmp_path):
    dumbbell = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 60.0, start_unix_ns=0, name="dumbbell")
    file, out = tmp_path / "dumbbell.parquet", tmp_path / "out"
    write_profile(dumbbell, file)
    command = [sys.executable, "-m", "bentpipe", "run", str(file), "-o", str(out), "--capture"]
    with subprocess.Popen(
        [*command, "--server", SERVER, "--", *python(SENDER, 100_000, 0.0)], stderr=subprocess.DEVNULL
    ) as child:
        deadline = time.monotonic() + 60.0
        while not any(f.stat().st_size > 150_000 for f in out.glob(".unfinished-*/client.pcapng")):
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(child.pid, signal.SIGKILL)
    (folder,) = out.glob(".unfinished-*")
    sent = [p for p in read(folder / "client.pcapng")[0] if p.udp is not None]
    got = [p for p in read(folder / "server.pcapng")[0] if p.udp is not None]
    assert len(sent) > 300
    assert {p.number for p in got} <= {p.number for p in sent} | {sent[-1].number + i for i in range(1000)}
    assert len(got) > 200
