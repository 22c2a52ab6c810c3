"""Whether the machine, and not the path, was what the programs filled: the rule, and a Run of which it holds."""

import json
import os
import sys

import pytest
from emulation import bentpipe, require_emulation

from bentpipe.execution.emulation.load import Second
from bentpipe.execution.emulation.load import bound as bound_of
from bentpipe.execution.emulation.processors import ProcessorTime
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation.emulator.delays import unlimited_path

FULL = Second(1.0, relay=0.95, processors=0.97, count=2)


def window(t_s=1.0, **other):
    """A second's row: 1 Gbit/s over 10 Gbit/s, and nothing waits for more than the sender's bursts."""
    row = {
        "t_s": t_s,
        "hop": "bottleneck",
        "direction": "down",
        "flow": -1,
        "capacity_bps": 10e9,
        "backlog_max_bytes": 66_000,
        "delivered_bytes": 125_000_000,
        "drops_queue": 0,
        "drops_loss": 0,
        "drops_event": 0,
        "drops_aqm": 0,
    }
    return {**row, **other}


def bound(links, seconds, *, tcp_bytes=10**12):
    return bound_of(links, seconds, tcp_bytes=tcp_bytes)


def columns(*rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_a_full_machine_and_an_empty_path():
    acknowledgements = window(direction="up", delivered_bytes=100_000, backlog_max_bytes=0)
    found = bound(columns(window(), acknowledgements), [FULL])
    assert (found.share, found.unknown_share) == (1.0, 0.0)
    assert str(found) == (
        "100% of the bytes passed while this machine was full (relay 95% of the time at work, processors 97%) and no "
        "element of the path was: 1 Gbit/s of the path's 10 Gbit/s"
    )


@pytest.mark.parametrize(
    "limited",
    [
        {"backlog_max_bytes": 10e9 / 8 * 1.1e-3},  # a millisecond's worth stood
        {"capacity_bps": 1.1e9},  # nearly all of it was used
        {"drops_queue": 1},
        {"drops_aqm": 1},
        {"capacity_bps": 0.0},  # interrupted, and something waits
    ],
)
def test_a_path_that_holds_back_is_the_limit(limited):
    assert bound(columns(window(**limited)), [FULL]) is None


@pytest.mark.parametrize(
    ("second", "is_full"),
    [
        (Second(1.0, 0.85, 0.5, 8), True),  # the relay is one thread
        (Second(1.0, 0.5, 0.9, 2), True),
        (Second(1.0, 0.5, 0.7, 2), False),
        (Second(1.0, 0.3, 1.0, 2), False),  # others' work
        (Second(1.0, 0.3, 1.0, 1), True),
    ],
)
def test_what_fills_a_machine(second, is_full):
    assert second.is_full == is_full


@pytest.mark.parametrize("chance", [{"drops_loss": 12}, {"drops_event": 12}])
def test_what_is_lost_by_chance_does_not_hold_back(chance):
    assert bound(columns(window(**chance)), [FULL]).share == 1.0


def test_bytes_are_weighed_and_counters_are_taken_apart():
    """Three seconds of 1 Gbit/s of which one was the machine's."""
    rows = window(), window(2.0, delivered_bytes=250_000_000), window(3.0, delivered_bytes=375_000_000)
    assert bound(columns(*rows), [FULL]).share == pytest.approx(1 / 3)
    full = window(drops_queue=7), window(2.0, delivered_bytes=250_000_000, drops_queue=7)
    assert bound(columns(*full), [FULL, Second(2.0, 0.95, 0.97, 2)]).share == pytest.approx(1 / 2)


def test_what_paces_itself_is_told_of_by_its_lateness():
    """Full processors beside UDP: only a relay that has no time left decides."""
    busy = Second(1.0, relay=0.6, processors=1.0, count=2)
    links = columns(window())
    assert bound(links, [busy], tcp_bytes=0) is None
    assert bound(links, [busy], tcp_bytes=100_000_000).share == 1.0
    assert bound(links, [FULL], tcp_bytes=0).share == 1.0


def test_of_a_path_without_a_rate_nobody_knows():
    found = bound(columns(window(capacity_bps=None)), [FULL])
    assert (found.share, found.unknown_share, found.capacity_bps) == (0.0, 1.0, None)
    assert str(found).endswith("1 Gbit/s of a path without a limit")


def test_nothing_passed_or_nothing_is_known():
    assert bound({}, [FULL]) is None
    assert bound(columns(window()), []) is None
    assert bound(columns(window(delivered_bytes=0, backlog_max_bytes=0)), [FULL]) is None


def test_time_of_some_processors():
    text = "cpu  9 9 9 9 9 9 9 9\ncpu0 1 0 0 5 1 0 0 3 0 0\ncpu1 2 0 0 8 0 0 0 0 0 0\ncpu2 7 7 7 7 7 7 7 7\n"
    assert ProcessorTime.parse(text, {0, 1}) == ProcessorTime(stolen=3, idle=14, total=20)
    assert ProcessorTime.parse(text, {0, 5}) is None
    later = ProcessorTime(stolen=4, idle=15, total=30)
    assert ProcessorTime(stolen=3, idle=14, total=20).busy_share_until(later) == pytest.approx(0.9)


#: Fills the connection for three seconds.
FILL = (
    "import socket, time; s = socket.create_connection(('server', 80)); end = time.monotonic() + 3\n"
    "while time.monotonic() < end: s.send(bytes(1 << 17))"
)
SERVE = (
    "import socket; s = socket.create_server(('', 80)); c, _ = s.accept(); room = bytearray(1 << 18)\n"
    "while c.recv_into(room): pass"
)


def fill(path):
    command = [sys.executable, "-c", FILL]
    return run_program(path, command, server=f'exec {sys.executable} -c "{SERVE}"', offset_s=0.0).emulated


@pytest.fixture
def one_processor():
    """All that happens is on one processor, which both ends and the relay fill, however many the machine has."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one_processor")
def test_a_path_that_is_faster_than_the_machine_makes_no_valid_run():
    require_emulation()
    # So short that a send buffer of 4 MB is not the limit of a fast machine, which 10 ms make it.
    emulated = fill(preset_profile("dumbbell:rate=100gbit,rtt=1ms,queue=1bdp", 60.0, start_unix_ns=0, name="fast"))
    assert "of the path's 100 Gbit/s: the figures are the machine's" in (emulated.why_invalid or "")
    assert json.loads(emulated.summary_json())["emulator"]["machine_bound"]["share"] > 0.25


@pytest.mark.usefixtures("one_processor")
def test_a_path_without_a_rate_says_so_and_is_no_fault():
    require_emulation()
    emulated = fill(unlimited_path(1e-3))
    assert "the figures are the machine's" not in (emulated.why_invalid or "")
    assert "of a path without a limit: the throughput may be the machine's" in (emulated.warning or "")


def test_a_path_that_the_programs_fill_is_not_the_machines():
    require_emulation()
    emulated = fill(preset_profile("dumbbell:rate=20mbit,rtt=10ms,queue=1bdp", 60.0, start_unix_ns=0, name="slow"))
    assert emulated.bound is None
    assert json.loads(emulated.summary_json())["emulator"]["machine_bound"] is None


def test_a_fast_path_is_named_beforehand(tmp_path):
    require_emulation()
    for rate, said in (("100gbit", True), ("1gbit", False)):
        file = tmp_path / f"{rate}.parquet"
        write_profile(preset_profile(f"dumbbell:rate={rate},rtt=10ms", 60.0, start_unix_ns=0, name=rate), file)
        done = bentpipe("run", file, "--", "true")
        assert done.returncode == 0
        assert ("100gbit carries up to 100 Gbit/s" in done.stderr) == said
