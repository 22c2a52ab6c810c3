"""Tool output: parsed on the Run's clock, stored beside the Run, and passed on unchanged."""

import gzip
import json
import os
import pty
import subprocess
import sys
import time

import pytest
from emulation import bentpipe, dumbbell_file, kept
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.measurements.readers.reading import Arrivals
from bentpipe.measurements.readers.tools import TOOLS, read, recognise
from bentpipe.measurements.tool_output.stored import program_output
from bentpipe.measurements.tool_output.tee import KEPT_BYTES

PING = b"""PING server(server (fd62:656e:7470::1)) 56 data bytes
64 bytes from server (fd62:656e:7470::1): icmp_seq=1 ttl=64 time=40.4 ms
64 bytes from server (fd62:656e:7470::1): icmp_seq=1 ttl=64 time=40.9 ms (DUP!)
From fe80::1%eth0: icmp_seq=2 Destination unreachable: Address unreachable
no answer yet for icmp_seq=3
64 bytes from server (fd62:656e:7470::1): icmp_seq=4 ttl=64 time=41 ms

--- server ping statistics ---
4 packets transmitted, 2 received, +1 duplicates, +1 errors, 50% packet loss, time 401ms
rtt min/avg/max/mdev = 40.400/40.700/41.000/0.089 ms
"""
PING_D = b"""PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
[1795199963.534768] 64 bytes from 192.0.2.1: icmp_seq=65535 ttl=64 time=40.5 ms
[1795199963.749741] 64 bytes from 192.0.2.1: icmp_seq=0 ttl=64 time=40.2 ms
"""
BUSYBOX = b"""PING server (fd62:656e:7470::1): 56 data bytes
64 bytes from fd62:656e:7470::1: seq=0 ttl=64 time=40.485 ms

--- server ping statistics ---
2 packets transmitted, 1 packets received, 50% packet loss
round-trip min/avg/max = 40.485/40.485/40.485 ms
"""


def stream(socket, begin, end, **more):
    return {
        "socket": socket,
        "start": begin,
        "end": end,
        "seconds": end - begin,
        "bytes": 125_000,
        "bits_per_second": 1e6,
        "omitted": False,
        **more,
    }


def iperf3(protocol="TCP"):
    """The layout of iperf 3.12 with one stream each way."""
    sending = {"sender": True, "retransmits": 3, "snd_cwnd": 14_280, "rtt": 40_177, "rttvar": 12}
    receiving = {"sender": False}
    intervals = [
        {"streams": [stream(5, i, i + 1, **sending), stream(7, i, i + 1, **receiving)], "sum": {}} for i in range(3)
    ]
    ends = [
        {"sender": {**stream(5, 0, 3), "retransmits": 9}, "receiver": stream(5, 0, 3.04)},
        {"sender": stream(7, 0, 3), "receiver": stream(7, 0, 3.04)},
    ]
    start = {
        "connected": [{"socket": 5}, {"socket": 7}],
        "version": "iperf 3.12",
        "timestamp": {"time": "…", "timesecs": 1_795_199_948},
        "test_start": {"protocol": protocol, "omit": 0},
    }
    return {"start": start, "intervals": intervals, "end": {"streams": ends}}


def as_stream(document):
    events = [("start", document["start"]), *(("interval", i) for i in document["intervals"]), ("end", document["end"])]
    return "".join(json.dumps({"event": name, "data": data}, separators=(",", ":")) + "\n" for name, data in events)


def irtt():
    base = 1_795_199_968_000_000_000
    trips = []
    for i, lost in enumerate(("false", "true_up", "false", "true_down", "true")):
        stamps = {"client": {"send": {"wall": base + i * 20_000_000, "monotonic": i}}}
        delay = {"rtt": 40_500_000, "send": 20_100_000, "receive": 20_400_000} if lost == "false" else {}
        trips.append({"seqno": i, "lost": lost, "timestamps": stamps, "delay": delay})
    return {
        "version": {"irtt": "0.9.0", "protocol": 1, "json_format": 1},
        "config": {"remote_address": "100.64.0.1:2112"},
        "stats": {"duplicates": 0, "late_packets": 1},
        "round_trips": trips,
    }


def curl(url="http://server:8000/"):
    times = {f"time_{n}": 0.1 for n in ("namelookup", "connect", "appconnect", "pretransfer", "starttransfer")}
    sizes = {
        "size_download": 1000,
        "size_upload": 0,
        "speed_download": 5000,
        "speed_upload": 0,
        "http_code": 200,
        "response_code": 200,
    }
    return {
        **times,
        "time_total": 0.2,
        **sizes,
        "exitcode": 0,
        "url_effective": url,
        "curl_version": "libcurl/7.88.1 O",
    }


TEXTS = {
    "ping": PING,
    "ping -D": PING_D,
    "busybox": BUSYBOX,
    "iperf3": json.dumps(iperf3(), indent="\t").encode(),
    "iperf3 stream": as_stream(iperf3()).encode(),
    "irtt": json.dumps(irtt(), indent=4).encode(),
    "curl": json.dumps(curl()).encode() + b"\n" + json.dumps(curl("http://server:8000/two")).encode(),
}


def read_any(data, arrivals=None):
    tool = recognise(data)
    assert tool is not None
    return read(tool, data, "standard output", arrivals)


def test_ping_keeps_replies_duplicates_errors_and_silence():
    (flow,) = read_any(PING).flows
    assert flow.samples["kind"] == ["reply", "duplicate", "error", "unanswered", "reply"]
    assert flow.samples["rtt_ms"] == [40.4, 40.9, None, None, 41.0]
    assert flow.samples["says"][2] == "Destination unreachable: Address unreachable"
    assert flow.counts == {
        "sent_packets": 4,
        "received_packets": 2,
        "lost_packets": 2,
        "duplicates": 1,
        "corrupted_packets": 0,
        "icmp_errors": 1,
    }
    assert flow.start_unix_ns is None  # neither printed nor seen
    assert flow.samples["t_s"] == [None] * 5


def test_ping_of_busybox_and_of_older_times():
    (flow,) = read_any(BUSYBOX).flows
    assert (flow.samples["seq"], flow.counts["lost_packets"]) == ([0], 1)
    reading = read_any(PING_D)
    (flow,) = reading.flows
    assert flow.samples["seq"] == [65535, 65536]  # counted on
    # Sent one RTT before the time that is printed.
    assert flow.start_unix_ns == 1_795_199_963_494_268_000
    assert flow.samples["t_s"][1] == pytest.approx(0.215273, abs=1e-9)
    assert "no statistics of '192.0.2.1': ping was killed" in reading.notes
    assert flow.counts["sent_packets"] is flow.counts["lost_packets"] is None


def test_arrival_times_replace_missing_timestamps():
    lines = PING.splitlines(keepends=True)
    ends = [sum(map(len, lines[: i + 1])) for i in range(len(lines))]
    arrivals = Arrivals(ends, [10**18 + i * 10**8 for i in range(len(lines))])
    (flow,) = read_any(PING, arrivals).flows
    assert flow.start_unix_ns == 10**18 + 10**8 - 40_400_000
    assert flow.samples["t_s"][4] == pytest.approx(0.4 - 0.0006)


def test_iperf3_in_both_layouts_is_the_same():
    whole, streamed = read_any(TEXTS["iperf3"]), read_any(TEXTS["iperf3 stream"])
    assert whole == streamed
    up, down = whole.flows
    assert (up.sends, down.sends) == (True, False)
    assert up.intervals["sent_bps"] == [1e6] * 3
    assert "goodput_bps" not in up.intervals  # bytes written by a sender are not goodput
    assert down.intervals["goodput_bps"] == [1e6] * 3
    assert up.intervals["rtt_ms"] == pytest.approx([40.177] * 3)
    assert (up.counts["retransmits"], up.counts["goodput_bps"]) == (9, 1e6)
    assert whole.version == "3.12"


def test_iperf3_start_is_bounded_by_its_intervals():
    data = TEXTS["iperf3 stream"]
    second = 1_795_199_948 * 10**9
    places = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    # Interval i ended 0.3 s + i s after the second that iperf3 names, and its line came 5 ms later, the first 50 ms.
    late_ns = [0, 50_000_000, 5_000_000, 5_000_000, 0]
    unix_ns = [second + 300_000_000 + i * 10**9 + late for i, late in enumerate(late_ns)]
    flow = read_any(data, Arrivals(places, unix_ns)).flows[0]
    assert flow.start_unix_ns == second + 305_000_000
    assert flow.start_early_s == pytest.approx(0.305)
    assert read_any(data).flows[0].start_unix_ns == second


def test_irtt_has_one_way_delays_and_the_direction_of_loss():
    (flow,) = read_any(TEXTS["irtt"]).flows
    assert flow.samples["lost"] == [None, "up", None, "down", "unknown"]
    assert flow.samples["owd_up_ms"] == [20.1, None, 20.1, None, None]
    assert flow.samples["t_s"] == [0.0, 0.02, 0.04, 0.06, 0.08]
    assert (flow.counts["lost_packets"], flow.counts["lost_up_packets"], flow.counts["late_packets"]) == (3, 1, 1)
    packed = gzip.compress(TEXTS["irtt"])
    assert recognise(packed) == "irtt"
    assert read("irtt", packed, "x") == read_any(TEXTS["irtt"])
    assert recognise(gzip.compress(b"a download")) is None


def test_curl_has_a_flow_per_transfer():
    first, second = read_any(TEXTS["curl"]).flows
    assert (first.name, second.name) == ("http://server:8000/", "http://server:8000/two")
    assert (first.counts["goodput_bps"], first.counts["time_total_s"]) == (40_000.0, 0.2)
    assert (first.sends, first.counts["sent_bps"]) == (False, None)


def test_an_upload_of_curl_is_recognised():
    sizes = {"size_download": 20, "speed_download": 100, "size_upload": 2_000_000, "speed_upload": 10_000_000}
    (flow,) = read_any(json.dumps(curl() | sizes).encode()).flows
    assert (flow.sends, flow.counts["sent_bps"], flow.counts["goodput_bps"]) == (True, 8e7, None)
    assert (flow.counts["sent_bytes"], flow.counts["received_bytes"]) == (2_000_000, 20)


def test_gzipped_output_is_bounded_like_plain_text(monkeypatch):
    monkeypatch.setattr("bentpipe.measurements.readers.tools.MOST_BYTES", len(TEXTS["irtt"]) - 1)
    with pytest.raises(UserError, match="standard output"):
        read("irtt", gzip.compress(TEXTS["irtt"]), "standard output")
    assert KEPT_BYTES == 128 << 20


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (PING.replace(b"time=41 ms", b"time=61000 ms"), "standard output:6: an RTT of 61000 ms"),
        (PING.replace(b"2 received", b"5 received"), "standard output:9: 5 of 4 packets received"),
        (PING.replace(b"no answer", b"rm -rf"), "standard output:5: 'rm -rf yet for"),
        (TEXTS["iperf3"][:700], "standard output:.*: is not JSON"),
        (json.dumps({**iperf3(), "intervals": []}).encode(), "standard output: no interval"),
        (TEXTS["iperf3"].replace(b'"rtt": 40177', b'"rtt": -1'), r"intervals\[0\]\.streams\[0\]\.rtt: -1"),
        (TEXTS["iperf3"].replace(b"1000000.0", b"1e999"), r"streams\[0\].bits_per_second: inf"),
        (TEXTS["irtt"].replace(b'"rtt": 40500000', b'"rtt": 1e30'), r"round_trips\[0\]\.delay\.rtt"),
        (TEXTS["irtt"].replace(b"true_up", b"perhaps"), r"round_trips\[1\]\.lost: 'perhaps'"),
        (TEXTS["irtt"][:-900], "standard output:.*: is not JSON"),
        (TEXTS["curl"].replace(b'"time_total": 0.2', b'"time_total": -1'), "transfer 1.time_total: -1"),
        (TEXTS["curl"][:-9], r"standard output:\d+: is not JSON"),
        (gzip.compress(TEXTS["irtt"])[:-30], "gzip file is truncated"),
    ],
)
def test_impossible_values_are_refused_with_their_place(data, says):
    with pytest.raises(UserError, match=says):
        read_any(data)


def test_truncated_output_is_kept_if_lines_are_independent():
    reading = read_any(TEXTS["iperf3 stream"][: TEXTS["iperf3 stream"].index(b'{"event":"end"') + 20])
    assert len(reading.flows[0].intervals["t_s"]) == 3
    assert reading.notes == ["truncated: no results at its end"]
    reading = read_any(PING[:170])
    assert reading.flows[0].samples["rtt_ms"] == [40.4]
    assert reading.notes[0] == "line 3 is truncated; left out"


@st.composite
def mutated(draw, text):
    """`text` with some bytes cut out, put in twice or replaced: near enough to get past the first look."""
    data = bytearray(text)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        to = min(len(data), at + draw(st.integers(0, 40)))
        noise = st.one_of(
            st.binary(max_size=12),
            st.sampled_from(
                [b"-1", b"1e400", b"NaN", b"[" * 3000, b"9" * 5000, b"null", b"{}", b'"', bytes(data[at:to])]
            ),
        )
        data[at:to] = draw(noise)
    return bytes(data)


def numbers_of(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for entry in value:
            yield from numbers_of(entry)
    elif isinstance(value, float | int):
        yield value


@pytest.mark.parametrize("tool", TOOLS)
@given(data=st.data())
def test_any_output_is_parsed_or_refused(tool, data):
    """Any text gives tables with columns of equal length and finite numbers, or a one-line error."""
    names = [name for name in TEXTS if recognise(TEXTS[name]) == tool]
    text = data.draw(st.one_of(st.binary(max_size=300), *(mutated(TEXTS[name]) for name in names)))
    recognise(text)
    arrivals = data.draw(st.sampled_from([None, Arrivals([], []), Arrivals([100, 10**9], [0, 2**62])]))
    try:
        reading = read(tool, text, "standard output", arrivals)
    except UserError as error:
        refusal = str(error)
    else:
        refusal = None
    if refusal is not None:
        assert "\n" not in refusal
        assert "standard output" in refusal
        return
    assert reading.flows
    for flow in reading.flows:
        for table in (flow.samples, flow.intervals):
            assert len({len(column) for column in table.values()}) <= 1
            assert all(abs(value) < 1e19 for value in numbers_of(dict(table)))
        assert all(-1 < value < 1e19 for value in numbers_of(dict(flow.counts)))


@given(
    st.lists(st.tuples(st.integers(0, 999_999), st.sampled_from(["reply", "lost", "twice"])), min_size=1, max_size=60)
)
def test_every_printed_reply_of_ping_is_parsed(session):
    """RTT: a session that is printed as ping does and read again."""
    output, expected = ["PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."], []
    for seq, (rtt_us, fate) in enumerate(session, 1):
        line = f"64 bytes from 192.0.2.1: icmp_seq={seq % 65536} ttl=60 time={rtt_us / 1000:.3f} ms"
        if fate != "lost":
            output.append(line)
            expected.append((seq, rtt_us / 1000, "reply"))
        if fate == "twice":
            output.append(line + " (DUP!)")
            expected.append((seq, rtt_us / 1000, "duplicate"))
    received = sum(fate != "lost" for _, fate in session)
    output += ["", "--- 192.0.2.1 ping statistics ---"]
    output.append(f"{len(session)} packets transmitted, {received} received, 0% packet loss, time 9ms")
    (flow,) = read_any("\n".join([*output, ""]).encode()).flows
    columns = flow.samples
    assert list(zip(columns["seq"], columns["rtt_ms"], columns["kind"], strict=True)) == expected
    assert flow.counts["lost_packets"] == len(session) - received


# With an emulation.


@pytest.fixture(scope="module")
def dumbbell(tmp_path_factory):
    return dumbbell_file(tmp_path_factory.mktemp("path"))


def says(text, *, sleep_s=0.0):
    """A program that prints `text` in two halves."""
    code = (
        "import sys, time; t = bytes.fromhex(sys.argv[1]); h = len(t) // 2; o = sys.stdout.buffer; "
        f"o.write(t[:h]); o.flush(); time.sleep({sleep_s}); o.write(t[h:])"
    )
    return [sys.executable, "-c", code, text.hex()]


def test_output_is_passed_through_unchanged_and_stored(dumbbell, tmp_path):
    text = TEXTS["irtt"]
    done = bentpipe("run", dumbbell, "-o", tmp_path / "out", "--", *says(text))
    assert done.stdout.encode() == text
    run, summary = kept(tmp_path / "out")
    assert (run.path / "program.out").read_bytes() == text
    output = program_output(run)
    assert (output.tool, output.version) == ("irtt", "0.9.0")
    assert output.flows[0].samples["rtt_ms"].to_list() == [40.5, None, 40.5, None, None]
    assert summary["flows"][0]["owd_up_median_ms"] == 20.1
    # Its clock is the Run's.
    clock = json.loads((run.path / "program.json").read_text())["clock_unix_ns"]
    sent_ns = irtt()["round_trips"][0]["timestamps"]["client"]["send"]["wall"]
    assert output.flows[0].samples["t_s"][0] == pytest.approx((sent_ns - clock) / 1e9, abs=1e-6)


def test_output_of_unknown_programs_is_stored_raw(dumbbell, tmp_path):
    noise = bytes(range(256)) * 1000
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"
    command = [
        sys.executable,
        "-m",
        "bentpipe",
        "run",
        dumbbell,
        "-o",
        tmp_path / "out",
        "--",
        sys.executable,
        "-c",
        code,
    ]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.stdout == noise
    run, summary = kept(tmp_path / "out")
    assert (run.path / "program.out").read_bytes() == noise
    assert summary["tool"] is None
    assert program_output(run) is None


def test_invalid_output_is_one_note(dumbbell, tmp_path):
    done = bentpipe("run", dumbbell, "-o", tmp_path / "out", "--", *says(TEXTS["irtt"][:-900]))
    assert done.returncode == 0
    notes = [line for line in done.stderr.splitlines() if "irtt" in line]
    assert len(notes) == 1
    assert "output of irtt is not stored in program.json: standard output:" in notes[0]
    run, summary = kept(tmp_path / "out")
    assert summary["note"] in notes[0]
    assert program_output(run) is None
    assert (run.path / "program.out").read_bytes() == TEXTS["irtt"][:-900]


def test_programs_without_output_store_nothing(dumbbell, tmp_path):
    assert bentpipe("run", dumbbell, "-o", tmp_path / "out", "--", "true").returncode == 0
    assert kept(tmp_path / "out")[1] is None
    assert bentpipe("run", dumbbell, "--", *says(b"abc")).stdout == "abc"


def test_output_is_passed_through_at_once(dumbbell, tmp_path):
    """The first half is there while the program still runs."""
    command = [sys.executable, "-m", "bentpipe", "run", str(dumbbell), "-o", str(tmp_path / "out"), "--"]
    with subprocess.Popen([*command, *says(b"abcdef", sleep_s=60)], stdout=subprocess.PIPE) as process:
        assert process.stdout.read(3) == b"abc"
        assert process.poll() is None
        process.terminate()
        process.communicate(timeout=30)
    assert (kept(tmp_path / "out")[0].path / "program.out").read_bytes() == b"abc"


def test_a_closed_reader_ends_the_program(dumbbell, tmp_path):
    command = [sys.executable, "-m", "bentpipe", "run", str(dumbbell), "-o", str(tmp_path / "out"), "--", "yes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(60) == 128 + 13  # SIGPIPE, as without -o


def test_stored_output_is_limited(dumbbell, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["bentpipe.measurements.tool_output.tee"], "KEPT_BYTES", 1000)
    from bentpipe.execution.program import run_program
    from bentpipe.profiles.parquet import read_profile

    result = run_program(read_profile(dumbbell), says(TEXTS["irtt"]), out=tmp_path / "out")
    assert f"only 1000 of {len(TEXTS['irtt'])} bytes of standard output are stored" in result.note
    assert (result.run.path / "program.out").read_bytes() == TEXTS["irtt"][:1000]
    assert KEPT_BYTES > 2**20


def on_a_terminal(command, tmp_path):
    """Return the output of `command` on a terminal, and its exit code."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 4096):
                seen += chunk
        except OSError:  # no process has it open any more
            pass
        os.close(ours)
        return seen, process.wait(60)


@pytest.mark.parametrize(("name", "is_kept"), [("ping", True), ("vi", False)])
def test_a_terminal_stays_a_terminal(dumbbell, tmp_path, name, is_kept):
    """A tool still sees a terminal of the same size; of anything else bentpipe keeps its hands off."""
    program = tmp_path / name
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "print(os.isatty(1), os.get_terminal_size(1).columns, os.ttyname(1) == os.ttyname(0), flush=True)\n"
    )
    program.chmod(0o755)
    seen, code = on_a_terminal(
        [sys.executable, "-m", "bentpipe", "run", dumbbell, "-o", "out", "--", program], tmp_path
    )
    assert code == 0
    size = os.get_terminal_size(pty.openpty()[0]).columns
    assert seen == f"True {size} {not is_kept}\r\n".encode()
    run, summary = kept(tmp_path / "out")
    assert (summary is not None) == is_kept == (run.path / "program.out").exists()


def test_a_damaged_file_is_one_line(dumbbell, tmp_path):
    bentpipe("run", dumbbell, "-o", tmp_path / "out", "--", *says(TEXTS["curl"]))
    run, summary = kept(tmp_path / "out")
    assert [flow["time_total_s"] for flow in summary["flows"]] == [0.2, 0.2]
    (run.path / "program.json").write_text("{}")
    with pytest.raises(UserError, match=r"program\.json: its SHA-256 is not the one"):
        program_output(run)


def test_curl_without_timestamps_is_placed_by_arrival(dumbbell, tmp_path):
    before = time.time()
    bentpipe("run", dumbbell, "-o", tmp_path / "out", "--", *says(TEXTS["curl"]))
    flow = kept(tmp_path / "out")[1]["flows"][0]
    assert -0.2 <= flow["start_s"] <= time.time() - before
