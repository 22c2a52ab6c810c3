"""The recorder: samples, what changed, outages and obstruction maps of a terminal, for months."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient, DishError
from bentpipe.measurements.dish.clocks import Clock
from bentpipe.measurements.dish.following import Change, Follower, Sample
from bentpipe.measurements.dish.history import SAME_NS, History
from bentpipe.measurements.dish.recording.tables import LAYOUT, SAMPLES, STATUS, TABLES
from bentpipe.segments import Segments, Writer, locked, parts

#: Longest time that a sample waits for the disk [s]: a fifth of what may be lost, for a slow disk needs some too.
FLUSH_S = 0.2
#: How often the terminal's history is read for outages [s]. Chosen here: a third of the 15 minutes it holds.
HISTORY_S = 300
#: What the terminal's history holds [s]: a gap that is older cannot be closed.
HISTORY_HOLDS_S = 900
#: Times without an answer from this on are gaps [s]: there was no sample where there should have been one.
GAP_S = 1.5
#: The machine's clock was set if it went this much more or less than time did [s]. More than NTP slews.
STEP_S = 1.0
#: Waits between questions for a history that does not come [s]: each holds up samples. The longest is `HISTORY_S`.
FIRST_BACK_OFF_S = 15

_NANOS = 10**9
_status_values = attrgetter(*STATUS)
#: A row of `SAMPLES` before anything is known.
_BLANK = dict.fromkeys(SAMPLES)


class Recorder:
    """Writes a terminal's samples into a folder. It goes on where an earlier one, killed or not, stopped.

    Args:
        client: The terminal.
        directory: The folder; made if it is not there. One recorder at a time.
        clock: Time and waiting. How soon rows reach the disk goes by the machine's own.
        every_s: Interval of samples.
        map_every_s: Interval of obstruction maps; 0: none.
        on_change: Told of each change.

    Raises:
        UserError: The folder cannot be written, or another recorder writes there.
    """

    def __init__(
        self,
        client: DishClient,
        directory: str | os.PathLike[str],
        clock: Clock,
        *,
        every_s: float = 1.0,
        map_every_s: float = 15.0,
        on_change: Callable[[Change], None] | None = None,
    ) -> None:
        """Takes the folder, and finds out where to go on."""
        if not 0 <= map_every_s <= 86_400:
            raise UserError(f"map-every: {map_every_s:g} s; wanted 0 (none) to a day")
        self._client, self._clock, self._map_every_ns = client, clock, round(map_every_s * _NANOS)
        self._gap_s = max(GAP_S, GAP_S * every_s)
        self._on_change = on_change or (lambda _: None)
        self._follower = Follower(client, clock, every_s, self._changed)
        self._lock = locked(Path(directory), "another recorder writes there; wanted a folder of its own")
        self._flushed_s = 0.0
        made_by = f"bentpipe {_version()}"
        root = Path(directory)
        tables = {name: Segments(root, name, made_by, LAYOUT) for name in ("samples", "events", "maps")}
        self._samples, self._events, self._maps = tables.values()
        self._writer = Writer(tables, self._note_full_disk)
        for path in (p for table in tables.values() for p in table.set_aside):
            self._changed(
                Change(clock.now_unix_ns(), "damaged", f"{path}: does not read; renamed to {path.name}.damaged")
            )
        self._find_last(clock)
        self._gaps = _open_gaps(self._samples.folder, self._events.folder, self._last_unix_ns, self._gap_s)
        self._last_outage_unix_ns = _latest(self._events.folder, pl.col("start_unix_ns").filter(_IS_OUTAGE))
        self._next_history_ns = self._next_map_ns = clock.elapsed_ns()
        self._back_off_s = 0
        self._undated = 0
        self._map: NDArray[np.float32] | None = None

    def _find_last(self, clock: Clock) -> None:
        """Until when was recorded before."""
        written = _latest(self._samples.folder, pl.col("t_unix_ns"))
        # What was written while the clock was ahead is no last sample.
        now, self._began_ns = clock.now_unix_ns(), clock.elapsed_ns()
        self._last_unix_ns = _latest(self._samples.folder, pl.col("t_unix_ns").filter(pl.col("t_unix_ns") <= now))
        self._last_ns: int | None = None
        # A machine without a clock that runs when it is off begins with an old time, by which nothing is missing. What
        # is, can be told when its clock is set.
        old = self._began_ns < HISTORY_HOLDS_S * _NANOS
        told = self._last_unix_ns is not None and now - self._last_unix_ns > self._gap_s * _NANOS
        self._written_unix_ns = written if old and not told else None

    def run(self, for_s: float | None = None) -> int:
        """Records for a time [s], or for ever; returns how many samples it took. Then the folder is free again.

        Raises:
            UserError, StoreError: The disk refuses.
        """
        count = 0
        try:
            for sample in self._follower.samples(for_s):
                self._take_in(sample)
                count += 1
        finally:
            try:
                self._writer.close()
            finally:
                os.close(self._lock)
        return count

    def _take_in(self, sample: Sample) -> None:
        now = sample.t_unix_ns
        self._look_for_gap(now, sample.elapsed_ns)
        self._samples.add((now, "status", None, None, *_status_values(sample.status)))
        # First the new sample, then what was missed: a slow history loses nothing.
        self._flush()
        if self._clock.elapsed_ns() >= self._next_history_ns:
            gaps = len(self._gaps)
            self._read_history(sample)
            self._flush(at_once=len(self._gaps) < gaps)
        if self._map_every_ns and self._clock.elapsed_ns() >= self._next_map_ns:
            self._read_map(sample)
        self._flush()

    def _look_for_gap(self, now: int, elapsed_ns: int) -> None:
        """Whether samples are missing before this one: by the count of time, for the clock may have been set."""
        last, last_ns = self._last_unix_ns, self._last_ns
        self._last_unix_ns, self._last_ns = now, elapsed_ns
        if last is None:
            return
        gone_ns = now - last
        if last_ns is not None and abs(gone_ns - (elapsed_ns - last_ns)) > STEP_S * _NANOS:
            gone_ns = elapsed_ns - last_ns
            set_by_ns = now - last - gone_ns
            self._writer.end()  # a segment is of one clock
            self._gaps = [(begin + set_by_ns, end + set_by_ns) for begin, end in self._gaps]
            self._look_before_start(now - (elapsed_ns - self._began_ns))
            text = f"this machine's clock was set by {set_by_ns / _NANOS:+.1f} s"
            self._events.add((now, "clock", text, last, None, None, None, None))
            self._on_change(Change(now, "clock", text))
        if gone_ns > self._gap_s * _NANOS:
            self._gaps.append((now - gone_ns, now))
            self._ask_soon(elapsed_ns)

    def _look_before_start(self, began_unix_ns: int) -> None:
        """Now that the time is known: whether samples are missing between the recording before and this one."""
        written, self._written_unix_ns = self._written_unix_ns, None
        if written is not None and began_unix_ns - written > self._gap_s * _NANOS:
            self._gaps.append((written, began_unix_ns))
            self._ask_soon(self._clock.elapsed_ns())

    def _ask_soon(self, elapsed_ns: int) -> None:
        if not self._back_off_s:
            self._next_history_ns = elapsed_ns

    def _flush(self, *, at_once: bool = False) -> None:
        """`at_once`: beside the others, so that the next sample does not wait because of it."""
        if at_once or time.monotonic() - self._flushed_s >= FLUSH_S:
            self._writer.flush()
            if not at_once:
                self._flushed_s = time.monotonic()

    def _read_history(self, sample: Sample) -> None:
        """Closes gaps, and notes outages that are over."""
        try:
            history = self._client.history()
        except DishError:
            history = None
        now = self._clock.now_unix_ns()
        self._back_off_s = 0 if history is not None else min(2 * self._back_off_s or FIRST_BACK_OFF_S, HISTORY_S)
        self._next_history_ns = self._clock.elapsed_ns() + (self._back_off_s or HISTORY_S) * _NANOS
        if history is not None:
            self._note_outages(history, sample)
        for gap in list(self._gaps):
            if history is not None:
                self._fill(gap, history, now, sample)
                self._gaps.remove(gap)
            elif now - gap[0] > HISTORY_HOLDS_S * _NANOS:
                self._note_gap(gap, 0)
                self._gaps.remove(gap)

    def _fill(self, gap: tuple[int, int], history: History, now_unix_ns: int, sample: Sample) -> None:
        """Rows for the seconds within a gap. Half a second at its ends belongs to the samples that are there."""
        times = history.times_unix_ns(now_unix_ns)
        half = _NANOS // 2
        inside = np.flatnonzero((times > gap[0] + half) & (times < gap[1] - half)).tolist()
        who = {name: getattr(sample.status, name) for name in ("device_id", "hardware_version", "software_version")}
        series = {
            "pop_ping_drop_rate": history.pop_ping_drop_rate,
            "pop_ping_latency_ms": history.pop_ping_latency_ms,
            "downlink_throughput_bps": history.downlink_throughput_bps,
            "uplink_throughput_bps": history.uplink_throughput_bps,
            "power_in_w": history.power_in_w,
        }
        for place in inside:
            numbers = {name: float(found[place]) for name, found in series.items() if len(found)}
            values = {name: value for name, value in numbers.items() if not math.isnan(value)}
            about = {"t_unix_ns": int(times[place]), "source": "history", "counter": int(history.counter[place])}
            self._samples.add(tuple((_BLANK | who | values | about).values()))
        self._note_gap(gap, len(inside))

    def _note_gap(self, gap: tuple[int, int], filled: int) -> None:
        length_s = (gap[1] - gap[0]) / _NANOS
        text = f"no sample for {length_s:.1f} s; {filled} s of it filled in from the terminal's history"
        self._events.add((gap[1], "gap", text, gap[0], length_s, None, None, filled))

    def _note_outages(self, history: History, sample: Sample) -> None:
        running = sample.status.outage_start_unix_ns
        for outage in history.outages:
            last = self._last_outage_unix_ns
            # The list and the event log may differ a little in when it began.
            known = last is not None and outage.start_unix_ns < last + SAME_NS
            if known or (running is not None and abs(outage.start_unix_ns - running) < SAME_NS):
                continue
            row = (outage.start_unix_ns, outage.duration_s, outage.cause, outage.did_switch, None)
            self._events.add((outage.end_unix_ns, "outage", None, *row))
            self._last_outage_unix_ns = outage.start_unix_ns
        if history.undated > self._undated:
            text = f"outages without a usable time in the terminal's history, left out: {history.undated}"
            self._changed(Change(sample.t_unix_ns, "undated", text))
        self._undated = history.undated

    def _read_map(self, sample: Sample) -> None:
        self._next_map_ns += self._map_every_ns
        late_ns = max(0, self._clock.elapsed_ns() - self._next_map_ns)
        self._next_map_ns += late_ns // self._map_every_ns * self._map_every_ns
        try:
            found = self._client.obstruction_map()
        except DishError:
            return  # old firmware has none; a terminal that went away is noticed by the next sample
        before, quality = self._map, found.quality
        whole = before is None or before.shape != quality.shape or self._maps.begins_with(sample.t_unix_ns)
        changed = np.flatnonzero(quality.ravel() >= 0 if whole else (quality != before).ravel())
        rows, columns = quality.shape
        about = (sample.status.software_version, rows, columns, found.max_theta_deg, found.frame, whole)
        self._maps.add((sample.t_unix_ns, *about, changed.tolist(), quality.ravel()[changed].tolist()))
        self._map = quality

    def _changed(self, change: Change) -> None:
        self._events.add((change.t_unix_ns, change.kind, change.text, None, None, None, None, None))
        if change.kind == "lost":  # nothing else will flush before the terminal is back
            self._flush(at_once=True)
        self._on_change(change)
        if change.kind == "connected":
            self._note_location(change.t_unix_ns)

    def _note_full_disk(self, text: str) -> None:
        change = Change(self._clock.now_unix_ns(), "disk", text)
        self._events.add((change.t_unix_ns, change.kind, change.text, None, None, None, None, None))
        self._on_change(change)

    def _note_location(self, t_unix_ns: int) -> None:
        try:
            text = "{:.6f},{:.6f},{:.1f}".format(*self._client.location())
        except DishError as error:
            text = str(error)
        self._events.add((t_unix_ns, "location", text, None, None, None, None, None))


_IS_OUTAGE = pl.col("kind") == "outage"


def _latest(folder: Path, what: pl.Expr) -> int | None:
    """The largest value in the newest file that has one; None where there is none."""
    for path in reversed(parts(folder, LAYOUT)):
        found = pl.scan_parquet(path, glob=False).select(what.max()).collect().item()
        if found is not None:
            return int(found)
    return None


def _open_gaps(samples: Path, events: Path, last_unix_ns: int | None, gap_s: float) -> list[tuple[int, int]]:
    """Gaps in what was recorded last that the terminal may still know: a killed recorder had no time to close them.

    Rows are flushed before the event that says so: a gap that has its event was closed as far as it could be.
    """
    if last_unix_ns is None:
        return []
    since = last_unix_ns - HISTORY_HOLDS_S * _NANOS
    there = pl.col("t_unix_ns").is_between(since, last_unix_ns)
    times = _recent(samples, "t_unix_ns").filter(there).sort("t_unix_ns").collect()
    said = pl.col("kind").is_in(["gap", "clock"])
    noted = set(_recent(events, "start_unix_ns", "kind").filter(said).collect()["start_unix_ns"])
    return [
        (before, now)
        for before, now in pairwise(times["t_unix_ns"].to_list())
        if now - before > gap_s * _NANOS and before not in noted
    ]


def _recent(folder: Path, *columns: str) -> pl.LazyFrame:
    """Columns of the files that may reach into the time that a terminal's history holds."""
    newest = parts(folder, LAYOUT)[-2 * HISTORY_HOLDS_S // 60 :]
    if not newest:
        return pl.LazyFrame(schema={name: TABLES[folder.name][name] for name in columns})
    return pl.concat([pl.scan_parquet(path, glob=False).select(columns) for path in newest])


def _version() -> str:
    from bentpipe import __version__

    return __version__
