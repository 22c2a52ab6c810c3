"""Record samples, changes of state, outages and obstruction maps of a terminal, for months."""

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

#: Longest time until a sample is written [s]: a fifth of the second that may be lost, since a slow disk needs time too.
FLUSH_S = 0.2
#: Interval at which the terminal's history is read for outages [s]. Chosen here: a third of its 15 minutes.
HISTORY_S = 300
#: Length of the terminal's history [s]: older gaps cannot be filled.
HISTORY_LENGTH_S = 900
#: Times without a sample from this length on are gaps [s].
GAP_S = 1.5
#: Difference of time of day and monotonic time that means the clock was set [s]; more than NTP slews.
STEP_S = 1.0
#: First wait before a failed history is requested again [s]; each request delays samples. The longest is `HISTORY_S`.
FIRST_BACK_OFF_S = 15

_NANOS = 10**9
_status_values = attrgetter(*STATUS)
#: A row of `SAMPLES` without values.
_BLANK = dict.fromkeys(SAMPLES)


class Recorder:
    """Writes a terminal's samples to a folder, and continues an earlier recording there, killed or not.

    Args:
        client: The terminal.
        directory: The folder, created if missing. One recorder at a time.
        clock: The clock of samples; flushing uses the machine's own.
        every_s: Interval of samples [s].
        map_every_s: Interval of obstruction maps [s]; 0: none.
        on_change: Called for each change.
        on_sample: Called for each sample once it is recorded, in the recorder's thread; may remove closed files.

    Raises:
        UserError: The folder cannot be written, or another recorder uses it.
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
        on_sample: Callable[[Sample], None] | None = None,
    ) -> None:
        """Lock the folder, and find the end of an earlier recording."""
        if not 0 <= map_every_s <= 86_400:
            raise UserError(f"map-every: {map_every_s:g} s; expected 0 (none) to a day")
        self._client, self._clock, self._map_every_ns = client, clock, round(map_every_s * _NANOS)
        self._gap_s = max(GAP_S, GAP_S * every_s)
        self._on_change = on_change or (lambda _: None)
        self._on_sample = on_sample or (lambda _: None)
        self._follower = Follower(client, clock, every_s, self._changed)
        self._lock = locked(Path(directory), "another recorder writes there; expected a separate folder")
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
        """Find the last sample of an earlier recording."""
        written = _latest(self._samples.folder, pl.col("t_unix_ns"))
        # Samples in the future were written while the clock was ahead.
        now, self._began_ns = clock.now_unix_ns(), clock.elapsed_ns()
        self._last_unix_ns = _latest(self._samples.folder, pl.col("t_unix_ns").filter(pl.col("t_unix_ns") <= now))
        self._last_ns: int | None = None
        # A machine without a battery-backed clock starts with an old time, which hides a gap before its start. The gap
        # can be computed once the clock is set.
        old = self._began_ns < HISTORY_LENGTH_S * _NANOS
        is_gap_known = self._last_unix_ns is not None and now - self._last_unix_ns > self._gap_s * _NANOS
        self._written_unix_ns = written if old and not is_gap_known else None

    def run(self, for_s: float | None = None) -> int:
        """Record for a time [s], or for ever, then unlock the folder; return the number of samples.

        Raises:
            UserError, StoreError: Writing fails.
        """
        count = 0
        try:
            for sample in self._follower.samples(for_s):
                self._record(sample)
                count += 1
                self._on_sample(sample)
        finally:
            try:
                self._writer.close()
            finally:
                os.close(self._lock)
        return count

    def _record(self, sample: Sample) -> None:
        now = sample.t_unix_ns
        self._detect_gap(now, sample.elapsed_ns)
        self._samples.add((now, "status", None, None, *_status_values(sample.status)))
        # Write the new sample before filling gaps, so that a slow history loses nothing.
        self._flush()
        if self._clock.elapsed_ns() >= self._next_history_ns:
            gaps = len(self._gaps)
            self._read_history(sample)
            self._flush(at_once=len(self._gaps) < gaps)
        if self._map_every_ns and self._clock.elapsed_ns() >= self._next_map_ns:
            self._read_map(sample)
        self._flush()

    def _detect_gap(self, now: int, elapsed_ns: int) -> None:
        """Detect missing samples before this one, by monotonic time, because the clock may have been set."""
        last, last_ns = self._last_unix_ns, self._last_ns
        self._last_unix_ns, self._last_ns = now, elapsed_ns
        if last is None:
            return
        gone_ns = now - last
        if last_ns is not None and abs(gone_ns - (elapsed_ns - last_ns)) > STEP_S * _NANOS:
            gone_ns = elapsed_ns - last_ns
            set_by_ns = now - last - gone_ns
            self._writer.end()  # a segment has one clock
            self._gaps = [(begin + set_by_ns, end + set_by_ns) for begin, end in self._gaps]
            self._detect_gap_before_start(now - (elapsed_ns - self._began_ns))
            text = f"this machine's clock was set by {set_by_ns / _NANOS:+.1f} s"
            self._events.add((now, "clock", text, last, None, None, None, None))
            self._on_change(Change(now, "clock", text))
        if gone_ns > self._gap_s * _NANOS:
            self._gaps.append((now - gone_ns, now))
            self._request_history_soon(elapsed_ns)

    def _detect_gap_before_start(self, began_unix_ns: int) -> None:
        """After the clock was set, detect missing samples between the earlier recording and this one."""
        written, self._written_unix_ns = self._written_unix_ns, None
        if written is not None and began_unix_ns - written > self._gap_s * _NANOS:
            self._gaps.append((written, began_unix_ns))
            self._request_history_soon(self._clock.elapsed_ns())

    def _request_history_soon(self, elapsed_ns: int) -> None:
        if not self._back_off_s:
            self._next_history_ns = elapsed_ns

    def _flush(self, *, at_once: bool = False) -> None:
        """Flush if due; `at_once`: flush now, without delaying the next regular flush."""
        if at_once or time.monotonic() - self._flushed_s >= FLUSH_S:
            self._writer.flush()
            if not at_once:
                self._flushed_s = time.monotonic()

    def _read_history(self, sample: Sample) -> None:
        """Fill gaps, and record outages that have ended."""
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
            elif now - gap[0] > HISTORY_LENGTH_S * _NANOS:
                self._note_gap(gap, 0)
                self._gaps.remove(gap)

    def _fill(self, gap: tuple[int, int], history: History, now_unix_ns: int, sample: Sample) -> None:
        """Add rows for the seconds within a gap; half a second at its ends belongs to existing samples."""
        times = history.times_unix_ns(now_unix_ns)
        half = _NANOS // 2
        inside = np.flatnonzero((times > gap[0] + half) & (times < gap[1] - half)).tolist()
        device = {name: getattr(sample.status, name) for name in ("device_id", "hardware_version", "software_version")}
        series = {
            "pop_ping_drop_rate": history.pop_ping_drop_rate,
            "pop_ping_latency_ms": history.pop_ping_latency_ms,
            "downlink_throughput_bps": history.downlink_throughput_bps,
            "uplink_throughput_bps": history.uplink_throughput_bps,
            "power_in_w": history.power_in_w,
        }
        for place in inside:
            numbers = {name: float(column[place]) for name, column in series.items() if len(column)}
            values = {name: value for name, value in numbers.items() if not math.isnan(value)}
            about = {"t_unix_ns": int(times[place]), "source": "history", "counter": int(history.counter[place])}
            self._samples.add(tuple((_BLANK | device | values | about).values()))
        self._note_gap(gap, len(inside))

    def _note_gap(self, gap: tuple[int, int], filled: int) -> None:
        length_s = (gap[1] - gap[0]) / _NANOS
        text = f"no sample for {length_s:.1f} s; {filled} s of it filled in from the terminal's history"
        self._events.add((gap[1], "gap", text, gap[0], length_s, None, None, filled))

    def _note_outages(self, history: History, sample: Sample) -> None:
        running = sample.status.outage_start_unix_ns
        for outage in history.outages:
            last = self._last_outage_unix_ns
            # The list and the event log may differ slightly in the start.
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
            current = self._client.obstruction_map()
        except DishError:
            return  # old firmware has none; the next sample detects a lost terminal
        before, quality = self._map, current.quality
        whole = before is None or before.shape != quality.shape or self._maps.begins_with(sample.t_unix_ns)
        changed = np.flatnonzero(quality.ravel() >= 0 if whole else (quality != before).ravel())
        rows, columns = quality.shape
        about = (sample.status.software_version, rows, columns, current.max_theta_deg, current.frame, whole)
        self._maps.add((sample.t_unix_ns, *about, changed.tolist(), quality.ravel()[changed].tolist()))
        self._map = quality

    def _changed(self, change: Change) -> None:
        self._events.add((change.t_unix_ns, change.kind, change.text, None, None, None, None, None))
        if change.kind == "lost":  # there is no other flush until the terminal is back
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


def _latest(folder: Path, column: pl.Expr) -> int | None:
    """Return the largest value in the newest file that has one; None if no file has."""
    for path in reversed(parts(folder, LAYOUT)):
        largest = pl.scan_parquet(path, glob=False).select(column.max()).collect().item()
        if largest is not None:
            return int(largest)
    return None


def _open_gaps(samples: Path, events: Path, last_unix_ns: int | None, gap_s: float) -> list[tuple[int, int]]:
    """Return recent gaps that the terminal's history may still fill, left by a killed recorder.

    Rows are flushed before their gap event: a gap with an event has been filled as far as possible.
    """
    if last_unix_ns is None:
        return []
    since = last_unix_ns - HISTORY_LENGTH_S * _NANOS
    is_recent = pl.col("t_unix_ns").is_between(since, last_unix_ns)
    times = _recent(samples, "t_unix_ns").filter(is_recent).sort("t_unix_ns").collect()
    is_noted = pl.col("kind").is_in(["gap", "clock"])
    noted = set(_recent(events, "start_unix_ns", "kind").filter(is_noted).collect()["start_unix_ns"])
    return [
        (before, now)
        for before, now in pairwise(times["t_unix_ns"].to_list())
        if now - before > gap_s * _NANOS and before not in noted
    ]


def _recent(folder: Path, *columns: str) -> pl.LazyFrame:
    """Scan columns of the files that may overlap the terminal's history."""
    newest = parts(folder, LAYOUT)[-2 * HISTORY_LENGTH_S // 60 :]
    if not newest:
        return pl.LazyFrame(schema={name: TABLES[folder.name][name] for name in columns})
    return pl.concat([pl.scan_parquet(path, glob=False).select(columns) for path in newest])


def _version() -> str:
    from bentpipe import __version__

    return __version__
