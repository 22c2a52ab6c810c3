"""Guards for real-time measurements: idle controls must pass before and after, and the Run must be valid.

The host of a virtual machine takes processors away for milliseconds at a time (`steal` in /proc/stat), which no program
inside can prevent. So a measurement waits for a calm moment, and is repeated if that moment ended too soon. A
measurement that is never valid fails: its rows are "not measurable here", with the values of the last attempt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bentpipe.execution.emulation.processors import ProcessorTime
from bentpipe.validation import Row

if TYPE_CHECKING:
    from collections.abc import Callable

ATTEMPTS = 4
"""Most repetitions of one measurement."""

CONTROLS = 10
"""Most idle controls, of about five seconds each, until one passes."""

P50_US, P99_US = 50.0, 300.0
"""Limits of the one-way delay's error, median and 99th percentile, for controls and measurements."""


@dataclass(frozen=True)
class Control:
    """One idle control: percentiles of the delay's absolute error [µs], and the share of stolen processor time."""

    p50_us: float
    p99_us: float
    p999_us: float
    stolen: float

    @property
    def passes(self) -> bool:
        """Whether the machine is calm enough for the limits that it guards."""
        return self.p50_us <= P50_US and self.p99_us <= P99_US


@dataclass(frozen=True)
class Measured:
    """Rows of one measurement; `why_not` is the reason if they do not count, whatever the controls' result."""

    rows: list[Row]
    why_not: str | None = None


class Ticks:
    """Shares of the machine's processor time since creation; NaN where the kernel does not report them."""

    def __init__(self) -> None:
        """Start the interval."""
        self._begin = ProcessorTime.now()

    def stolen(self) -> float:
        """Return the share that a virtual machine's host took away."""
        return self._shares()[0]

    def busy(self) -> float:
        """Return the share that this machine worked: neither idle, nor waiting for disks, nor stolen."""
        stolen, busy = self._shares()
        return busy - stolen

    def _shares(self) -> tuple[float, float]:
        now = ProcessorTime.now()
        if self._begin is None or now is None:
            return math.nan, math.nan
        return self._begin.stolen_share_until(now) or 0.0, self._begin.busy_share_until(now) or 0.0


class Calm:
    """Guards measurements with idle controls; the control after one is the control before the next."""

    def __init__(self, control: Callable[[], Control]) -> None:
        """`control` runs one idle control."""
        self._make = control
        self._last: Control | None = None
        self.controls: list[Control] = []
        self.notes: list[str] = []

    def guarded(self, quantity: str, measure: Callable[[], Measured]) -> list[Row]:
        """Return the rows of the first measurement that counts; else the last ones, marked as not measurable."""
        story: list[str] = []
        last: Measured | None = None
        for _ in range(ATTEMPTS):
            if not self._wait():
                story.append(f"no calm moment in {CONTROLS} idle controls")
                break
            ticks = Ticks()
            last = measure()
            stolen = ticks.stolen()
            after = self._control()
            reasons = [last.why_not] if last.why_not else []
            if not after.passes:
                reasons.append(f"the control after it fails ({_figures(after)})")
            story.append(f"{100 * stolen:.1f} % stolen, {'; '.join(reasons) or 'counts'}")
            if not reasons:
                break
        counts = last is not None and story[-1].endswith("counts")
        self.notes.append(f"{quantity}: {len(story)} of at most {ATTEMPTS} attempts: {' | '.join(story)}")
        if last is None:
            return [_not_measurable(Row(quantity, "", "", "", within=False))]
        return last.rows if counts else [_not_measurable(row) for row in last.rows]

    def _wait(self) -> bool:
        if self._last is not None and self._last.passes:
            return True
        return any(self._control().passes for _ in range(CONTROLS))

    def _control(self) -> Control:
        self._last = self._make()
        self.controls.append(self._last)
        return self._last

    def summary(self) -> str:
        """Describe all controls in one line."""
        passed = sum(control.passes for control in self.controls)
        stolen = [100 * control.stolen for control in self.controls]
        return (
            f"{passed} of {len(self.controls)} idle controls pass; the host took {min(stolen):.1f} to "
            f"{max(stolen):.1f} % of the processors during them"
        )


def _not_measurable(row: Row) -> Row:
    return replace(row, ours=f"not measurable here ({row.ours})" if row.ours else "not measurable here", within=False)


def _figures(control: Control) -> str:
    return f"p50 {control.p50_us:.0f}, p99 {control.p99_us:.0f} µs, {100 * control.stolen:.1f} % stolen"
