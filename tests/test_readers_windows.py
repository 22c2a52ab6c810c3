"""Windows' ping and tracert: every form of line, and generated logs that are read back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_texts import TRACERT, WINDOWS_PING

from bentpipe.analysis.path import path_segments
from bentpipe.errors import UserError
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.readers.windows import measure_ping
from bentpipe.measurements.runs.imports import assemble_tables, read_file

NS = 10**9
#: Lines of probes without an echo reply.
UNANSWERED = [
    "Request timed out.",
    "General failure.",
    "PING: transmit failed. General failure.",
    "Reply from 192.168.1.2: Destination host unreachable.",
    "Reply from 10.0.0.1: TTL expired in transit.",
    "Reply from 10.0.0.1: Packet needs to be fragmented but DF set.",
    "Destination host unreachable.",
]


def read(tmp_path, text, hints=None):
    path = tmp_path / "file.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    part = read_file(path, hints=hints)
    assemble_tables([part], "home")
    return part


def test_windows_ping_has_one_probe_per_line_and_second(tmp_path):
    part = read(tmp_path, WINDOWS_PING)
    probes = part.measurement.tables["probes"]
    assert part.source.format == "ping"
    assert probes["rtt_ms"].to_list() == [41.0, None, None, 1.0]
    assert probes["seq"].to_list() == [0, 1, 2, 3]
    assert (probes["unix_ns"] / NS).to_list() == [0, 1, 2, 3]
    assert probes["target"].unique().to_list() == ["pop.example"]
    assert part.measurement.clock == "relative"
    assert any("one probe per second" in note for note in part.measurement.notes)
    half = read(tmp_path, WINDOWS_PING, ReadHints(every_s=0.5, start_unix_ns=7 * NS)).measurement
    assert (half.tables["probes"]["unix_ns"] * 2 // NS).to_list() == [14, 15, 16, 17]
    assert half.clock == "utc"


def test_ipv6_several_targets_and_a_killed_ping_are_read(tmp_path):
    text = (
        "C:\\Users\\me>ping -6 pop\r\n\r\n"
        "Pinging pop [2001:db8::1] from 2001:db8::2 with 32 bytes of data:\r\n"
        "Reply from 2001:db8::1: time=30ms \r\nReply from 2001:db8::1: time<1ms \r\nControl-C\r\n^C\r\n"
        "Pinging 192.0.2.9 with 1400 bytes of data:\r\nReply from 192.0.2.9: bytes=1400 time=50ms TTL=57\r\n"
        "Pinging silent with 32 bytes of data:\r\nRequest timed out.\r\n"
    )
    part = read(tmp_path, text)
    rows = part.measurement.tables["probes"].select("target", "rtt_ms").rows()
    assert rows == [("pop", 30.0), ("pop", 1.0), ("192.0.2.9", 50.0)]
    assert any("no reply from 'silent'" in note for note in part.measurement.notes)
    assert any("no statistics of 'pop'" in note for note in part.measurement.notes)


def test_packets_without_a_line_are_lost(tmp_path):
    text = WINDOWS_PING.replace(b"Sent = 4", b"Sent = 6").replace(b"Lost = 1", b"Lost = 3")
    assert read(tmp_path, text).measurement.tables["probes"]["rtt_ms"].null_count() == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WINDOWS_PING.replace(b"Request timed out.", b"Zeit abgelaufen"), r"file\.txt:4: .*English output"),
        (b"Antwort von 192.0.2.1: Bytes=32 Zeit=14ms TTL=118\r\n", r"file\.txt:1: .*English output"),
        (WINDOWS_PING.replace(b"41ms TTL", b"99999999ms TTL"), "at most 60000 ms"),
        (WINDOWS_PING.replace(b"Received = 3", b"Received = 9"), "9 of 4 packets received"),
        (b"Pinging a with 32 bytes of data:\r\nRequest timed out.\r\n", "holds no reply"),
        (TRACERT.replace(b"  2    28", b"  x    28"), r"file\.txt:6: .*not a line of tracert"),
        (b"Tracing route to a [192.0.2.1]\r\nover a maximum of 30 hops:\r\n", "holds no hop"),
    ],
)
def test_foreign_lines_are_refused(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, text)


@settings(max_examples=100)
@given(
    probes=st.lists(st.one_of(st.integers(0, 4000), st.sampled_from(UNANSWERED)), min_size=1, max_size=60),
    ends=st.booleans(),
)
def test_generated_windows_pings_are_read_back(probes, ends):
    lines = ["", "Pinging pop [192.0.2.1] with 32 bytes of data:"]
    for one in probes:
        shown = "<1" if one == 0 else f"={one}"
        lines.append(one if isinstance(one, str) else f"Reply from 192.0.2.1: bytes=32 time{shown}ms TTL=57")
    if ends:
        lost = sum(isinstance(one, str) for one in probes)
        total = f"    Packets: Sent = {len(probes)}, Received = {len(probes) - lost}, Lost = {lost} (0% loss),"
        lines += ["", "Ping statistics for 192.0.2.1:", total]
    expected = [None if isinstance(one, str) else float(max(one, 1)) for one in probes]
    blocks = [("\r\n".join(lines) + "\r\n").encode()]
    if all(rtt is None for rtt in expected):
        with pytest.raises(UserError, match="holds no reply"):
            measure_ping(blocks, "file", ReadHints())
        return
    assert measure_ping(blocks, "file", ReadHints()).tables["probes"]["rtt_ms"].to_list() == expected


def test_tracert_becomes_hops(tmp_path):
    again = (
        b"Tracing route to 192.0.2.7 over a maximum of 30 hops\r\n\r\n"
        b"  1    <1 ms    <1 ms    <1 ms  router.home [192.168.1.1] \r\n"
        b"  2  192.168.1.1  reports: Destination host unreachable.\r\n\r\nTrace complete.\r\n"
    )
    part = read(tmp_path, TRACERT + again)
    hops = part.measurement.tables["hops"]
    assert part.source.format == "traceroute"
    assert hops.filter(target="192.0.2.1", ttl=2).select("address", "rtt_ms").rows() == [
        ("100.64.0.1", 28.0),
        (None, None),
        ("100.64.0.1", 31.0),
    ]
    assert hops.filter(target="192.0.2.1", ttl=3)["address"].null_count() == 3
    assert hops.filter(target="192.0.2.7").select("ttl", "address").unique().sort("ttl").rows() == [
        (1, "192.168.1.1"),
        (2, None),
    ]
    table = assemble_tables([part], "home")["hops"]
    trace = path_segments(table).traces.filter(target="192.0.2.1")
    assert trace.select("reached", "bent_pipe", "S1_end_ms", "S2_end_ms", "S6_end_ms").row(0) == (
        True, True, 1.0, 28.0, 40.0,
    )  # fmt: skip
