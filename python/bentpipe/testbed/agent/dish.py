"""The terminal in the agent: always recorded within a disk budget, sliced for each run, newest values for pages."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Literal

from bentpipe.testbed.agent.dish_budget import keep_within
from bentpipe.testbed.agent.dish_slice import slice_recording
from bentpipe.testbed.agent.signals.board import line_of
from bentpipe.testbed.agent.signals.catalogue import plausible
from bentpipe.testbed.agent.signals.dish import of_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

    from bentpipe.measurements.dish.client import DishClient
    from bentpipe.measurements.dish.clocks import Clock
    from bentpipe.measurements.dish.following import Change, Sample
    from bentpipe.measurements.dish.status import Status
    from bentpipe.testbed.schemas.policy import Sharing

DishState = Literal["none", "lost", "connected"]

COLUMNS = (
    "t_unix_ms",
    "latency_smoothed_ms",
    "drop_rate",
    "downlink_bps",
    "uplink_bps",
    "obstructed",
    "fraction_obstructed",
    "connected",
)
"""Columns of live rows, as a `TelemetryBatch` has them."""

KEPT_ROWS = 300
"""Live rows that are kept: five minutes."""

KEPT_NOTES = 20
"""Notes that are kept."""

BUDGET_EVERY = 60
"""Samples between two looks at the disk budget: a minute."""

STALE_S = 5.0
"""Age from which a terminal counts as lost [s]."""

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""First and longest pause before the recorder is started again [s]."""


class DishRecording:
    """Records a terminal in a thread of its own until it is stopped.

    The recorder is today's of `bentpipe dish record`: a terminal that is lost is waited for, and gaps are filled from
    its history. Where the recorder itself fails (a full or failing disk), that is a note, and it is started again.

    Args:
        client: The terminal.
        folder: Folder of the recording; an earlier recording there goes on.
        budget_bytes: Most bytes of it on the disk: the oldest hours go first.
        every_s: Interval of samples [s].
        map_every_s: Interval of obstruction maps [s]; 0: none.
        on_note: Called with one-line notes, from the recorder's thread: lost, connected, rebooted, disk.
        clock: The recorder's clock; None: the machine's.
        first_wait_s: First pause before the recorder is started again [s].

    Raises:
        UserError: The extra ``dish`` is not installed.
    """

    def __init__(
        self,
        client: DishClient | str,
        folder: Path,
        *,
        budget_bytes: int,
        every_s: float = 1.0,
        map_every_s: float = 15.0,
        on_note: Callable[[str], object] = lambda _: None,
        clock: Clock | None = None,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        """Set it up; `start` begins."""
        from bentpipe.measurements.dish.extra import require_extra

        require_extra()
        from bentpipe.measurements.dish.client import DishClient
        from bentpipe.measurements.dish.clocks import WallClock

        self.folder = folder
        self.notes: deque[str] = deque(maxlen=KEPT_NOTES)
        self._client = DishClient(client) if isinstance(client, str) else client
        self.budget_bytes, self._every_s, self._map_every_s = budget_bytes, every_s, map_every_s
        self._on_note, self._first_wait_s = on_note, first_wait_s
        self._stopped = threading.Event()
        self._clock = _StoppableClock(clock or WallClock(), self._stopped)
        self._rows: deque[tuple[float | None, ...]] = deque(maxlen=KEPT_ROWS)
        self._sampled_s: float | None = None
        self._samples = 0
        self._thread = threading.Thread(target=self._run, name="dish-recording", daemon=True)

    def start(self) -> None:
        """Start recording."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop recording; what was recorded is on the disk then."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._client.close()

    @property
    def state(self) -> DishState:
        """``connected``: its newest sample is the present; ``lost``: it does not answer."""
        sampled_s = self._sampled_s
        return "connected" if sampled_s is not None and time.monotonic() - sampled_s <= STALE_S else "lost"

    def newest(self) -> dict[str, float | None]:
        """Return the newest row by column; empty: there is none."""
        return dict(zip(COLUMNS, self._rows[-1], strict=True)) if self._rows else {}

    def rows_after(self, t_unix_ms: float) -> list[tuple[float | None, ...]]:
        """Return the kept rows of `COLUMNS` after a time [ms since 1970]."""
        return [row for row in tuple(self._rows) if row[0] is not None and row[0] > t_unix_ms]

    def slice(self, from_at_ms: int, to_at_ms: int, share: Sharing) -> dict[str, pl.DataFrame]:
        """Return the tables of a time for a measured Run; see `slice_recording`."""
        return slice_recording(self.folder, from_at_ms, to_at_ms, share)

    def _run(self) -> None:
        from bentpipe.measurements.dish.recording.recorder import Recorder

        wait_s = self._first_wait_s
        while not self._stopped.is_set():
            before = self._samples
            try:
                Recorder(
                    self._client,
                    self.folder,
                    self._clock,
                    every_s=self._every_s,
                    map_every_s=self._map_every_s,
                    on_change=self._note_change,
                    on_sample=self._take,
                ).run()
            except _StoppedError:
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, a run of the agent goes on without
                self._note(f"the recording stopped: {line_of(error)}")
            wait_s = self._first_wait_s if self._samples > before else min(2 * wait_s, LONGEST_WAIT_S)
            self._stopped.wait(wait_s)

    def _take(self, sample: Sample) -> None:
        self._sampled_s = time.monotonic()
        values, _ = plausible(_signals(sample.status))
        t_unix_ms = sample.t_unix_ns / 1e6
        self._rows.append((t_unix_ms, *(values.get(name) for name in COLUMNS[1:])))
        if self._samples % BUDGET_EVERY == 0:
            removed = keep_within(self.folder, self.budget_bytes)
            if removed:
                self._note(f"the recording is over its {self.budget_bytes} bytes: {len(removed)} oldest files removed")
        self._samples += 1

    def _note_change(self, change: Change) -> None:
        self._note(f"{change.kind}: {change.text}")

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self._on_note(text)


def _signals(status: Status) -> dict[str, object]:
    return {
        **of_status(status),
        "drop_rate": status.pop_ping_drop_rate,
        "downlink_bps": status.downlink_throughput_bps,
        "uplink_bps": status.uplink_throughput_bps,
    }


class _StoppedError(Exception):
    """The recorder is to stop."""


class _StoppableClock:
    """A clock whose waits end when the recording is stopped."""

    def __init__(self, clock: Clock, stopped: threading.Event) -> None:
        self._clock, self._stopped = clock, stopped

    def now_unix_ns(self) -> int:
        return self._clock.now_unix_ns()

    def elapsed_ns(self) -> int:
        return self._clock.elapsed_ns()

    def sleep_s(self, seconds: float) -> None:
        from bentpipe.measurements.dish.clocks import WallClock

        if isinstance(self._clock, WallClock):
            self._stopped.wait(max(0.0, seconds))
        else:
            self._clock.sleep_s(seconds)
        if self._stopped.is_set():
            raise _StoppedError
