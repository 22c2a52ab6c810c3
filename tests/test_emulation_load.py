"""Whether the machine, rather than the path, limited the throughput: the rule, and a Run that it applies to."""

import json
import os
import sys

import pytest
from emulation import bentpipe, require_emulation

from bentpipe.execution.emulation.load import Second, machine_limit
from bentpipe.execution.emulation.processors import ProcessorTime
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation.emulator.delays import unlimited_path

FULL = Second(1.0, relay=0.95, processors=0.97, count=2)


def window(t_s=1.0, **other):
    """A second's row: 1 Gbit/s over 10 Gbit/s, with a backlog of no more than the sender's bursts."""
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


def limit_of(links, seconds, *, tcp_bytes=10**12):
    return machine_limit(links, seconds, tcp_bytes=tcp_bytes)


def columns(*rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_a_full_machine_and_an_idle_path_are_a_machine_limit():
    acknowledgements = window(direction="up", delivered_bytes=100_000, backlog_max_bytes=0)
    limit = limit_of(columns(window(), acknowledgements), [FULL])
    assert (limit.share, limit.unknown_share) == (1.0, 0.0)
    assert str(limit) == (
        "100% of the bytes passed while this machine was full (relay 95% busy, processors 97%) and no hop of the "
        "path was: 1 Gbit/s of the path's 10 Gbit/s"
    )


@pytest.mark.parametrize(
    "limited",
    [
        {"backlog_max_bytes": 10e9 / 8 * 1.1e-3},  # a millisecond of backlog
        {"capacity_bps": 1.1e9},  # nearly fully used
        {"drops_queue": 1},
        {"drops_aqm": 1},
        {"capacity_bps": 0.0},  # interrupted, with a backlog
    ],
)
def test_a_path_that_limits_is_no_machine_limit(limited):
    assert limit_of(columns(window(**limited)), [FULL]) is None


@pytest.mark.parametrize(
    ("second", "is_full"),
    [
        (Second(1.0, 0.85, 0.5, 8), True),  # the relay is one thread
        (Second(1.0, 0.5, 0.9, 2), True),
        (Second(1.0, 0.5, 0.7, 2), False),
        (Second(1.0, 0.3, 1.0, 2), False),  # other work
        (Second(1.0, 0.3, 1.0, 1), True),
    ],
)
def test_a_second_is_full_by_relay_or_processors(second, is_full):
    assert second.is_full == is_full


@pytest.mark.parametrize("chance", [{"drops_loss": 12}, {"drops_event": 12}])
def test_random_loss_does_not_limit(chance):
    assert limit_of(columns(window(**chance)), [FULL]).share == 1.0


def test_shares_are_of_bytes_and_counters_are_differenced():
    """Three seconds of 1 Gbit/s; in one of them the machine was full."""
    rows = window(), window(2.0, delivered_bytes=250_000_000), window(3.0, delivered_bytes=375_000_000)
    assert limit_of(columns(*rows), [FULL]).share == pytest.approx(1 / 3)
    full = window(drops_queue=7), window(2.0, delivered_bytes=250_000_000, drops_queue=7)
    assert limit_of(columns(*full), [FULL, Second(2.0, 0.95, 0.97, 2)]).share == pytest.approx(1 / 2)


def test_only_a_full_relay_limits_paced_traffic():
    """With UDP, full processors do not count, only a full relay."""
    busy = Second(1.0, relay=0.6, processors=1.0, count=2)
    links = columns(window())
    assert limit_of(links, [busy], tcp_bytes=0) is None
    assert limit_of(links, [busy], tcp_bytes=100_000_000).share == 1.0
    assert limit_of(links, [FULL], tcp_bytes=0).share == 1.0


def test_the_limit_of_a_path_without_a_capacity_is_unknown():
    limit = limit_of(columns(window(capacity_bps=None)), [FULL])
    assert (limit.share, limit.unknown_share, limit.capacity_bps) == (0.0, 1.0, None)
    assert str(limit).endswith("1 Gbit/s of a path without a limit")


def test_no_limit_without_traffic_or_measurements():
    assert limit_of({}, [FULL]) is None
    assert limit_of(columns(window()), []) is None
    assert limit_of(columns(window(delivered_bytes=0, backlog_max_bytes=0)), [FULL]) is None


def test_processor_time_is_parsed_for_a_set_of_processors():
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
    """Confine the emulation to one processor, which both ends and the relay fill."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one_processor")
def test_a_path_faster_than_the_machine_makes_the_run_invalid():
    require_emulation()
    # At 1 ms a send buffer of 4 MB does not limit a fast machine; at 10 ms it would.
    emulated = fill(preset_profile("dumbbell:rate=100gbit,rtt=1ms,queue=1bdp", 60.0, start_unix_ns=0, name="fast"))
    assert "of the path's 100 Gbit/s: the machine limited the throughput" in (emulated.why_invalid or "")
    assert json.loads(emulated.summary_json())["emulator"]["machine_bound"]["share"] > 0.25


@pytest.mark.usefixtures("one_processor")
def test_a_full_machine_on_a_path_without_a_capacity_is_a_warning():
    require_emulation()
    emulated = fill(unlimited_path(1e-3))
    assert "the machine limited the throughput" not in (emulated.why_invalid or "")
    assert "of a path without a limit: the machine may have limited the throughput" in (emulated.warning or "")


def test_a_path_that_the_programs_fill_is_no_machine_limit():
    require_emulation()
    emulated = fill(preset_profile("dumbbell:rate=20mbit,rtt=10ms,queue=1bdp", 60.0, start_unix_ns=0, name="slow"))
    assert emulated.limit is None
    assert json.loads(emulated.summary_json())["emulator"]["machine_bound"] is None


def test_a_fast_path_is_named_beforehand(tmp_path):
    require_emulation()
    for rate, is_named in (("100gbit", True), ("1gbit", False)):
        file = tmp_path / f"{rate}.parquet"
        write_profile(preset_profile(f"dumbbell:rate={rate},rtt=10ms", 60.0, start_unix_ns=0, name=rate), file)
        done = bentpipe("run", file, "--", "true")
        assert done.returncode == 0
        assert ("100gbit carries up to 100 Gbit/s" in done.stderr) == is_named
