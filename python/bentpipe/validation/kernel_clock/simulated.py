"""Bulk downloads in the simulator, and what the clock tells of the polls that a kernel would give."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.execution.racing import race
from bentpipe.validation.kernel_clock import paths
from bentpipe.validation.kernel_clock.traces import acks_of, readings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SPAN_S = {"leo": 120.0, "irregular": 240.0, "fibre": 180.0, "geo": 240.0}
"""Duration of a download [s]. Those without slots take 12.2 h in all."""
COUNTS = {"leo": 40, "irregular": 40, "fibre": 20, "geo": 6}
COUNTS_QUICK = {"leo": 2, "irregular": 1, "fibre": 1}
"""How many paths of each kind."""
CONTROLLERS = ("bbr", "bbr3-leo", "cubic")
WITH_TRAFFIC = ("fibre", "geo")
"""Kinds whose odd numbers share the path with cross traffic."""
AFTER_S = 60.0
"""Traffic after which the clock is to be known (issue 21) [s]."""
TIMES = ("right", "wrong")
"""The host's time of day: right, or wrong by 2 to 13 s."""


@dataclass(frozen=True)
class Summary:
    """What the clock told in the seconds of a flow; an error is that of the phase of slots of 15 s [s], without a sign.

    Attributes:
        after_s: Error after `AFTER_S`, or at the end of a shorter flow; None: no clock.
        first_s: Time of the first clock [s]; None: there was none.
        worst_s: Largest error at any second; None: no clock.
        seconds: Seconds of the flow.
        sure: Seconds with a clock.
    """

    after_s: float | None
    first_s: float | None
    worst_s: float | None
    seconds: int
    sure: int


def summary(readings: Sequence[tuple[float, float | None]]) -> Summary:
    """Return the summary of a flow's readings: time [s] and error of the phase [s]; None: no clock.

    Example:
        >>> from bentpipe.validation.kernel_clock.simulated import summary
        >>> summary([(59.0, None), (60.0, -0.1), (61.0, 0.2)])
        Summary(after_s=0.1, first_s=60.0, worst_s=0.2, seconds=3, sure=2)
    """
    sure = [(t_s, abs(error)) for t_s, error in readings if error is not None]
    after = next((error for t_s, error in readings if t_s >= AFTER_S), readings[-1][1])
    return Summary(
        after_s=None if after is None else abs(after),
        first_s=sure[0][0] if sure else None,
        worst_s=max((error for _, error in sure), default=None),
        seconds=len(readings),
        sure=len(sure),
    )


def downloads(kind: str, number: int) -> list[dict[str, Any]]:
    """Simulate a download with each controller over a path; return what the clock told.

    Returns:
        A list of ``{kind, number, controller, right, wrong}``: the `Summary` by the host's time of day.
    """
    span_s = SPAN_S[kind]
    with tempfile.TemporaryDirectory() as folder:
        raced = race(
            [paths.path_of(kind, number, span_s + 5.0)],
            CONTROLLERS,
            out=Path(folder),
            duration_s=span_s,
            phase_s=0.0,
            traffic="peak" if kind in WITH_TRAFFIC and number % 2 else None,
            hook_trace=True,
        )
        rows = []
        for run in raced.runs:
            acks = acks_of(run.path / "flow-0.hooks.gz")
            row: dict[str, Any] = {"kind": kind, "number": number, "controller": run.scheme}
            for time_of_day in TIMES:
                off_ns = 0 if time_of_day == "right" else (2 + number % 12) * 10**9
                readings = readings_of([acks], span_s, paths.START_UNIX_NS + off_ns)
                errors = [
                    (t_s, paths.phase_error_s(reading.hint.at_ns / 1e9) if reading.is_sure else None)
                    for t_s, reading in readings
                ]
                row[time_of_day] = asdict(summary(errors))
            rows.append(row)
        return rows
