"""The recorder when the machine's clock is set: no false gap, no lost gap, and complete maps."""

import numpy as np
import polars as pl
from dish_recording import Faulty, record, seconds_of, since_start
from dish_world import SECOND, START, at

from bentpipe.measurements.dish.client import DishClient, DishError
from bentpipe.measurements.dish.recording.reading import maps, scan_recording
from bentpipe.measurements.dish.recording.recorder import Recorder
from bentpipe.measurements.dish.recording.tables import LAYOUT
from bentpipe.segments import Segments


def test_a_clock_that_is_set_back_stops_nothing(tmp_path):
    terminal, clock = at(0)
    jumped = []

    def back(transport):
        del transport
        now = clock.now_unix_ns
        clock.now_unix_ns = lambda: now() - 1000 * SECOND
        jumped.append(now())

    transport, shown = Faulty(terminal, then={50: back}), []
    client = DishClient(transport)
    seen = client.obstruction_map

    def keeping():
        results = seen()
        shown.append(results.quality.copy())
        return results

    client.obstruction_map = keeping
    changes = []
    Recorder(client, tmp_path, clock, map_every_s=10, on_change=lambda c: changes.append(c.kind)).run(400)
    rows = scan_recording(tmp_path).collect()
    assert len(jumped) == 1
    assert rows.height == 400
    assert sorted(changes) == ["clock", "connected", "rebooted"], "the terminal's clock is this one"
    Segments(tmp_path, "maps", "test", LAYOUT).merge_hours()
    results = [quality for _, quality in maps(tmp_path)]
    assert len(results) == len(shown) == 40
    for one, other in zip(results, shown, strict=True):
        assert np.array_equal(one, other), "as they were written, whatever the clock said"


def ahead(clock, by_s):
    """The clock is set."""
    now = clock.now_unix_ns
    clock.now_unix_ns = lambda: now() + by_s * SECOND


def test_a_clock_that_is_set_forward_makes_no_gap(tmp_path):
    terminal, clock = at(0)
    changes = record(Faulty(terminal, then={300: lambda _: ahead(clock, 3600)}), tmp_path, 700)
    rows = scan_recording(tmp_path).collect()
    assert rows.height == 700, "no second is there twice"
    assert rows["source"].unique().to_list() == ["status"]
    assert changes == ["connected", "clock"]
    events = scan_recording(tmp_path, "events").collect()
    assert "gap" not in events["kind"].to_list()
    assert "set by +3600.0 s" in events.filter(pl.col("kind") == "clock")["text"].item()
    record(Faulty(terminal), tmp_path, 10)
    assert scan_recording(tmp_path).filter(pl.col("source") == "history").collect().height == 0


def test_a_gap_in_which_the_clock_is_set_is_as_long_as_it_was(tmp_path):
    terminal, clock = at(0)
    transport = Faulty(terminal, then={300: lambda _: ahead(clock, -200)})
    call = transport.call

    def away(request):
        if 290 <= (clock.elapsed_ns() - START) / SECOND < 340:
            raise DishError("unreachable", "no terminal answers")
        return call(request)

    transport.call = away
    record(transport, tmp_path, 600)
    events = scan_recording(tmp_path, "events").collect()
    gap = events.filter(pl.col("kind") == "gap")
    assert gap.height == 1
    assert 50 <= gap["duration_s"].item() <= 66
    assert gap["filled"].item() >= 49


def test_a_slow_request_is_not_a_clock_step(tmp_path):
    """Where a terminal stands is asked when it comes, and may take seconds."""
    terminal, clock = at(0)
    client = DishClient(Faulty(terminal, [(100.0, 130.0)]))
    location = client.location

    def slow():
        clock.sleep_s(3)
        return location()

    client.location, changes = slow, []
    Recorder(client, tmp_path, clock, on_change=lambda change: changes.append(change.kind)).run(300)
    assert changes == ["connected", "lost", "connected"]
    times = seconds_of(tmp_path)
    assert len(times) == len(set(map(round, times)))
    assert max(np.diff(times)) <= 1.6


def test_a_clock_set_after_start_fills_the_gap_before_the_start(tmp_path):
    terminal, clock = at(0)
    record(Faulty(terminal), tmp_path, 60)
    clock.sleep_s(100)
    now, began = clock.now_unix_ns, clock.elapsed_ns()
    clock.elapsed_ns = lambda: now() - began + 5 * SECOND  # it has just started
    clock.now_unix_ns = lambda: now() - 100 * SECOND  # and has its time from a file
    client = DishClient(Faulty(terminal))

    def tick():
        del clock.now_unix_ns

    status = client.status
    calls = []

    def later():
        calls.append(1)
        if len(calls) == 20:
            tick()
        return status()

    client.status, changes = later, []
    Recorder(client, tmp_path, clock, on_change=lambda change: changes.append(change.kind)).run(60)
    assert "clock" in changes
    filled = scan_recording(tmp_path).filter(pl.col("source") == "history").collect()
    assert 95 <= filled.height <= 101
    gap = scan_recording(tmp_path, "events").filter(pl.col("kind") == "gap").collect()
    assert gap.height == 1
    assert 99 <= gap["duration_s"].item() <= 102


def test_an_open_gap_moves_with_the_clock(tmp_path):
    terminal, clock = at(0)
    client = DishClient(Faulty(terminal, [(100.0, 150.0)]))
    history, real = client.history, clock.elapsed_ns

    def slow():
        if (real() - START) / SECOND < 200:
            raise DishError("slow", "no answer in 3 s")
        return history()

    client.history = slow
    status, calls = client.status, []

    def later():
        if (real() - START) / SECOND >= 180 and not calls:
            calls.append(1)
            ahead(clock, 200)
        return status()

    client.status = later
    Recorder(client, tmp_path, clock).run(500)
    gap = scan_recording(tmp_path, "events").filter(pl.col("kind") == "gap").collect()
    assert gap.height == 1
    filled = scan_recording(tmp_path).filter(pl.col("source") == "history").collect()
    assert all(300 <= t <= 365 for t in since_start(filled["t_unix_ns"])), "by the clock as it is now"


def test_a_time_in_the_future_does_not_stop_gaps_from_being_closed(tmp_path):
    terminal, clock = at(0)
    ahead(clock, 10 * 365 * 86_400)
    record(Faulty(terminal), tmp_path, 60)
    ahead(clock, -10 * 365 * 86_400)
    record(Faulty(terminal), tmp_path, 60)
    clock.sleep_s(100)
    record(Faulty(terminal), tmp_path, 30)
    filled = scan_recording(tmp_path).filter(pl.col("source") == "history").collect()
    assert 99 <= filled.height <= 101
