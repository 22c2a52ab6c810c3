"""The clock of a host without a kernel: polls, records, sources, and the program that keeps it."""

import contextlib
import json
import socket
import struct
import time
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.execution.racing import race
from bentpipe.kernel.clock import daemon
from bentpipe.kernel.clock.learning import LEAST_RTT_NS, QUIET_SEARCHES, Watch
from bentpipe.kernel.clock.reading import Reading
from bentpipe.kernel.clock.record import Hint, HostClockRecord, described, second_of_minute
from bentpipe.kernel.clock.sockets import WAIT_S, SocketId, SocketTable, TcpSample, parse_answers
from bentpipe.profiles.parquet import write_profile
from bentpipe.validation.kernel_clock import simulated_rows
from bentpipe.validation.kernel_clock.paths import irregular_path, leo_path, other_path, phase_error_s
from bentpipe.validation.kernel_clock.simulated import summary
from bentpipe.validation.kernel_clock.traces import acks_of, readings_of

S = 10**9
SLOT = 15 * S


def sample(number, delivered, at_s=0.0, rtt_ms=30, remote=(203, 0, 113, 7)):
    ends = bytes(4) + bytes([192, 0, 2, 1]).ljust(16, b"\0") + bytes(remote).ljust(16, b"\0") + bytes(4)
    at_ns = round(at_s * S)
    name = SocketId(2, ends + number.to_bytes(8, "little"))
    return TcpSample(name, at_ns, at_ns, delivered, delivered, rtt_ms * 10**6, rtt_ms * 10**6, is_idle=False)


@given(st.binary(max_size=400), st.integers(0, 2**32 - 1))
def test_any_answer_of_the_kernel_is_read_without_an_error(data, sequence):
    for is_dump in (True, False):
        with contextlib.suppress(UserError):  # what says that a dump is refused
            samples, _ = parse_answers(data, sequence, 5 * S, is_dump=is_dump)
            assert all(each.last_ack_ns <= 5 * S for each in samples)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_an_answer_with_any_body_is_read_without_an_error(body, size):
    head = struct.pack("=IHHII", 16 + len(body), 20, 0, 7, 0)
    assert len(parse_answers(head + body, 7, S)[0]) <= 1
    inner = struct.pack("=BBBB", 2, 1, 0, 0) + bytes(68) + struct.pack("=HH", size, 2) + body
    head = struct.pack("=IHHII", 16 + len(inner), 20, 0, 7, 0)
    assert len(parse_answers(head + inner, 7, S)[0]) <= 1


def test_a_refused_dump_is_one_line_and_a_closed_socket_is_no_error():
    refused = struct.pack("=IHHIIi", 20, 2, 0, 7, 0, -2)
    with pytest.raises(UserError, match="no socket statistics: No such file or directory; expected Linux with CONFIG"):
        parse_answers(refused, 7, S)
    assert parse_answers(refused, 7, S, is_dump=False) == ([], True)


def test_a_socket_that_was_closed_is_known_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        end, _ = server.accept()
        table = SocketTable()
        port = client.getsockname()[1].to_bytes(2, "big")
        (open_one,) = [each.id for part in table.established() for each in part if each.id.ends[:2] == port]
        assert [each.id for each in table.poll([open_one])] == [open_one]
        client.close()
        end.close()  # the client's end waits in TIME_WAIT, without statistics
        before_s = time.monotonic()
        assert table.poll([open_one]) == []
        assert time.monotonic() - before_s < WAIT_S / 2
        table.close()


def choose(watch, samples):
    for at in range(0, len(samples), 3):
        watch.consider(samples[at : at + 3])
    watch.choose()


def test_one_that_delivers_more_is_polled_in_place_of_one_that_trickles():
    watch = Watch()
    few = [sample(n, 0) for n in range(8)]
    choose(watch, [*few, sample(9, 0)])
    choose(watch, [replace(each, delivered=1) for each in few])
    assert {each.number for each in watch.sockets} == set(range(8))
    choose(watch, [*(replace(each, delivered=2) for each in few), sample(9, 0)])
    choose(watch, [*(replace(each, delivered=3) for each in few), sample(9, 5000)])
    assert 9 in {each.number for each in watch.sockets}


def test_sockets_that_deliver_most_are_polled_and_near_ones_are_not():
    watch = Watch()
    first = [sample(n, 10) for n in range(1, 12)] + [sample(20, 10, rtt_ms=1), sample(21, 10, remote=(127, 0, 0, 1))]
    choose(watch, first)
    assert watch.sockets == []
    assert watch.read(S).doubt == "no connection of this network namespace sends"
    choose(watch, [replace(each, delivered=each.delivered + 1) for each in first if each.id.number >= 20])
    assert watch.read(S).doubt == "all data that is sent stays within this machine, or has an RTT below 5 ms"
    choose(watch, first)
    choose(watch, [replace(each, delivered=each.delivered + each.id.number) for each in first])
    assert watch.read(S).doubt == "too little traffic"
    assert {each.number for each in watch.sockets} == set(range(4, 12))
    assert sample(20, 10, rtt_ms=1).min_rtt_ns < LEAST_RTT_NS
    for _ in range(QUIET_SEARCHES):
        choose(watch, [replace(each, delivered=each.delivered + each.id.number) for each in first])
    assert watch.sockets == []


@pytest.fixture(scope="module")
def flows(tmp_path_factory):
    """ACKs of bulk downloads with BBR over a LEO path, one with random intervals, and fibre."""
    paths = [leo_path(1, 70.0), irregular_path(0, 70.0), other_path("fibre", 70.0)]
    raced = race(
        paths, ["bbr"], out=tmp_path_factory.mktemp("clock"), duration_s=62.0, phase_s=0.0, hook_trace=True, jobs=2
    )
    return [acks_of(run.path / "flow-0.hooks.gz") for run in raced.runs]


def test_a_minute_of_a_download_sets_the_clock_within_03_s_and_other_paths_have_none(flows):
    def clocks(events):
        return [(t, reading) for t, reading in readings_of([events], 62.0) if reading.is_sure]

    leo, irregular, fibre = map(clocks, flows)
    assert leo[0][0] <= 60.0
    assert all(abs(phase_error_s(reading.hint.at_ns / S)) < 0.3 for _, reading in leo)
    assert irregular == fibre == []


def test_a_record_has_the_form_of_the_kernel_and_satcp_takes_the_next_handover():
    hint = Hint(SLOT, 2 * S, last_ns=17 * S, next_ns=47 * S)
    record = hint.record("bbr3_leo", 30 * S)
    assert HostClockRecord.from_bytes(record.to_bytes()) == record
    assert (record.period_ns, record.at_ns, record.until_ns) == (SLOT, 2 * S, 30 * S)
    assert record.next_ns(20 * S) == 32 * S
    assert record.next_ns(1 * S) == 2 * S
    ahead = hint.record("satcp", 60 * S)
    assert (ahead.at_ns + ahead.period_ns, ahead.until_ns) == (47 * S, 47 * S)
    assert described(record, 31 * S)["period_s"] is None
    assert described(record, 29 * S)["valid_s"] == 1.0
    assert Hint().record("bbr3_leo", 30 * S).until_ns == 0
    assert second_of_minute(59 * S, 7 * S, 0) == 59.0


class Maps:
    def __init__(self):
        self.names, self.hints = [], []

    def write(self, hint, until_ns):
        self.hints.append(hint)
        return self.names

    def withdraw(self):
        self.hints.append("withdrawn")


class Source:
    uses_time_of_day = True
    is_closed = False
    restarts = 0

    def __init__(self, readings):
        self.readings = iter(readings)

    def wait(self, until_ns):
        pass

    def read(self, now_ns):
        return next(self.readings, Reading(doubt="end"))

    def restart(self):
        self.restarts += 1

    def close(self):
        self.is_closed = True


def test_each_change_is_an_event_and_the_end_withdraws(monkeypatch):
    monkeypatch.setattr(daemon, "RENEW_NS", S)
    events, maps = [], Maps()
    sure = Reading(Hint(SLOT, 12 * S), 0.99, "1 socket watched")
    moved = Reading(Hint(SLOT, 13 * S), 0.99, "1 socket watched")
    source = Source([Reading(doubt="no traffic"), sure, sure, moved, Reading(doubt="missed"), Reading(doubt="missed")])
    keeping = daemon.Keeping(source, events.append, maps)
    maps.names = ["bbr3_leo"]
    assert keeping.run(6.0)
    kinds = [event.kind for event in events if event.kind != "time"]
    assert kinds == ["controllers", "waiting", "found", "moved", "withdrawn", "ended"]
    change = next(event for event in events if event.kind == "found")
    assert change.values["period_s"] == 15.0
    assert "confidence 0.990" in change.to_line()
    assert json.loads(json.dumps(change.to_dict()))["event"] == "found"
    assert maps.hints[-1] == "withdrawn"
    assert maps.hints[0] == Hint()
    assert maps.hints[1] == sure.hint


def test_a_step_of_the_time_of_day_and_a_sleep_begin_anew(monkeypatch):
    steps = iter([(0, 0), (0, 0), (2 * S, 0), (2 * S, 5 * S)])
    monkeypatch.setattr(daemon, "_offsets", lambda: next(steps))
    monkeypatch.setattr(daemon, "RENEW_NS", S)
    events, source = [], Source([])
    assert not daemon.Keeping(source, events.append, Maps()).run(3.0)
    texts = [event.text for event in events if event.kind == "time"]
    assert texts == ["the time of day was set by +2.00 s", "the host slept for 5.0 s"]
    assert source.restarts == 2


def test_the_command_line_refuses_bad_input(tmp_path):
    write_profile(other_path("fibre", 60.0), tmp_path / "F.parquet")
    lines = {
        ("--learn", "--dish", "x"): (2, "one of the three"),
        (): (2, "one of the three"),
        ("--profile", str(tmp_path / "none.parquet")): (2, "none.parquet"),
        ("--profile", str(tmp_path / "F.parquet")): (3, "no clock"),
        ("--learn", "--for", "0"): (2, "for"),
        ("--learn", "--start", "now"): (2, "start"),
    }
    for line, (code, text) in lines.items():
        done = CliRunner().invoke(app, ["clock", *line])
        assert (done.exit_code, text in done.output) == (code, True), (line, done.output)


def test_the_claim_fails_without_a_clock_after_a_minute_with_a_wrong_one_and_with_one_on_fibre():
    def rows(leo, fibre):
        kinds = [("leo", each) for each in leo] + [("fibre", fibre)]
        times = [dict.fromkeys(("right", "wrong"), asdict(summary(readings))) for _, readings in kinds]
        return simulated_rows(
            [{"kind": kind, "controller": "bbr", **each} for (kind, _), each in zip(kinds, times, strict=True)]
        )

    right, late, wrong, none = ([(50.0, a), (60.0, b)] for a, b in ((0.1, 0.1), (None, None), (0.4, 0.1), (None, None)))
    judged = ["clock after 60 s", "worst error", "found after"]
    for leo, fibre, expected in [
        ([right, right], none, [True, True, None, None, True, None, True]),
        ([right, late], none, [False, True, None, None, True, None, True]),
        ([late, late], none, [False, False, None, None, False, None, True]),
        ([right, wrong], right, [True, False, None, None, False, None, False]),
    ]:
        made = rows(leo, fibre)
        assert [row.within for row in made] == expected
        parts = [*judged, *judged, "flows with a clock"]
        assert all(part in row.quantity for part, row in zip(parts, made, strict=True))


@given(st.lists(st.tuples(st.floats(0, 200), st.none() | st.floats(-7.5, 7.5)), min_size=1))
def test_a_summary_counts_the_seconds_with_a_clock(readings):
    made = summary(readings)
    assert made.seconds == len(readings)
    assert (made.sure == 0) == (made.first_s is None) == (made.worst_s is None)
    assert made.after_s is None or made.after_s <= made.worst_s
