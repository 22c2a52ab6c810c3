"""When would a trigger have fired? A dry run on a recording, and the data that it saves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.testbed.agent.signals.catalogue import CATALOGUE
from bentpipe.testbed.agent.signals.live_trigger import Held, LiveTrigger

if TYPE_CHECKING:
    import os

    import polars as pl

    from bentpipe.triggers.trigger import Firing

DAY_S = 86_400.0


@dataclass(frozen=True)
class Savings:
    """Data of triggered runs against a run that never ends.

    Attributes:
        runs: Runs that would have been: none starts while another one runs.
        run_bytes: Bytes of a run.
        run_s: Length of a run [s].
        triggered_bytes: Bytes of all of them.
        continuous_bytes: Bytes of a run over the whole recording at the same rate.
    """

    runs: int
    run_bytes: int
    run_s: float
    triggered_bytes: int
    continuous_bytes: int

    @property
    def share_of_time(self) -> float:
        """Share of the time in which a run would have been."""
        return self.triggered_bytes / self.continuous_bytes if self.continuous_bytes else 0.0


@dataclass(frozen=True)
class DryRun:
    """Result of a dry run.

    Attributes:
        expression: The condition.
        recording: Name of the recording.
        window_s: Length of its windows [s].
        begin_s: First time of the recording [s since 1970].
        end_s: Last time.
        clock_known: Whether these are times of a wall clock.
        firings: The firings.
        evaluations: Windows that were evaluated.
        missing: Windows without a sample that was needed.
        holding: Windows in which the condition held.
        savings: Data that it saves; None: not requested.
        notes: What was assumed, one line each.
    """

    expression: str
    recording: str
    window_s: float
    begin_s: float
    end_s: float
    clock_known: bool
    firings: tuple[Firing, ...]
    evaluations: int
    missing: int
    holding: int
    savings: Savings | None
    notes: tuple[str, ...]

    @property
    def duration_s(self) -> float:
        """Length of the recording [s]."""
        return self.end_s - self.begin_s

    @property
    def least_between_s(self) -> float | None:
        """Least time between two firings [s]; None: there are fewer than two."""
        times = [firing.t_s for firing in self.firings]
        return min((later - earlier for earlier, later in pairwise(times)), default=None)

    @property
    def firings_per_day(self) -> float | None:
        """Firings in a day at this rate; None: the recording has no length."""
        return len(self.firings) * DAY_S / self.duration_s if self.duration_s > 0 else None

    def to_polars(self) -> pl.DataFrame:
        """Return the firings as a table: ``t_s``, and the signals' means in the window."""
        import polars as pl

        return pl.DataFrame([{"t_s": firing.t_s, **firing.values} for firing in self.firings])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        savings = self.savings
        return {
            "expression": self.expression,
            "recording": self.recording,
            "window_s": self.window_s,
            "begin_s": self.begin_s,
            "duration_s": self.duration_s,
            "clock_known": self.clock_known,
            "firings": [{"t_s": each.t_s, "values": _finite(each.values)} for each in self.firings],
            "evaluations": self.evaluations,
            "missing": self.missing,
            "holding": self.holding,
            "least_between_s": self.least_between_s,
            "firings_per_day": self.firings_per_day,
            "savings": None
            if savings is None
            else {
                "runs": savings.runs,
                "triggered_bytes": savings.triggered_bytes,
                "continuous_bytes": savings.continuous_bytes,
                "share_of_time": savings.share_of_time,
            },
            "notes": list(self.notes),
        }


def dry_run_trigger(
    expression: str,
    recording: str | os.PathLike[str],
    *,
    window_s: float = 1.0,
    for_windows: int = 1,
    cooldown_s: float = 300.0,
    run_bytes: int | None = None,
    run_seconds: float | None = None,
) -> DryRun:
    """Compute when a trigger would have fired, and how much data it saves.

    Slow signals are held and windows end as at a node, so that a node with these samples fires at the same times.

    Args:
        expression: The condition.
        recording: A recording of a terminal or of pings, or a measured Run.
        window_s: Length of a window [s].
        for_windows: Windows in sequence that it must hold for.
        cooldown_s: Least time between two firings [s].
        run_bytes: Bytes of the run that it starts, for `DryRun.savings`; None: not computed.
        run_seconds: Length of that run [s].

    Raises:
        UserError: Not a condition, a signal that the recording does not have, or an unreadable recording.

    Example:
        >>> import polars as pl
        >>> from bentpipe.testbed.agent.signals.dry_run import dry_run_trigger
        >>> rtt_ms = [90.0 if t == 40 else 30.0 for t in range(60)]
        >>> times = [1_760_000_000_000_000_000 + t * 10**9 for t in range(60)]
        >>> pl.DataFrame({"t_unix_ns": times, "pop_ping_latency_ms": rtt_ms}).write_parquet("dish.parquet")
        >>> result = dry_run_trigger("latency_smoothed_ms > 2 * mean(latency_smoothed_ms, 5)", "dish.parquet")
        >>> len(result.firings), result.firings[0].values
        (1, {'latency_smoothed_ms': 90.0})
    """
    from bentpipe.testbed.agent.signals.recordings import read_recording
    from bentpipe.triggers.trigger import Trigger

    if (run_bytes is None) != (run_seconds is None):
        raise UserError("run_bytes and run_seconds: one of the two", expected="both, or none")
    if run_bytes is not None and run_bytes < 0:
        raise UserError(f"{run_bytes}", where="run_bytes", expected="0 or more")
    if run_seconds is not None and not 0.001 <= run_seconds <= 1e7:
        raise UserError(f"{run_seconds:g} s", where="run_seconds", expected="0.001 to 1e7 s")
    trigger = Trigger(expression, CATALOGUE, window_s=window_s, for_windows=for_windows, cooldown_s=cooldown_s)
    path = Path(recording)
    source = read_recording(path)
    if absent := sorted(trigger.expression.signals - source.signals):
        there = ", ".join(sorted(source.signals))
        raise UserError(f"has no {', '.join(absent)}", where=str(path), expected=f"a condition on {there}")
    live, held, hold_s = LiveTrigger(trigger), dict[str, Held](), source.hold_s
    firings: list[Firing] = []
    begin_s, end_s = None, 0.0
    for t_s, values in source.rows():
        begin_s = t_s if begin_s is None else begin_s
        end_s = t_s
        mine = {name: values[name] for name in trigger.expression.signals & values.keys()}
        firings += live.push(t_s, mine, held)
        held.update((name, Held(t_s, value, hold_s[name])) for name, value in mine.items())
    firings += live.pass_time(end_s + window_s, held)
    notes = tuple(
        note for note in source.notes if "latency_ms" in trigger.expression.signals or "latency_ms" not in note
    )
    begin_s = end_s if begin_s is None else begin_s
    savings = None
    if run_bytes is not None and run_seconds is not None:
        savings = _savings(firings, end_s - begin_s, run_bytes, run_seconds)
    return DryRun(
        expression=expression,
        recording=path.name,
        window_s=window_s,
        begin_s=begin_s,
        end_s=end_s,
        clock_known=source.clock_known,
        firings=tuple(firings),
        evaluations=trigger.evaluations,
        missing=trigger.missing,
        holding=trigger.holding,
        savings=savings,
        notes=notes,
    )


def trigger_signals() -> pl.DataFrame:
    """Return the signals that triggers may use: name, feed, unit, meaning, least and most plausible value.

    Example:
        >>> from bentpipe.testbed.agent.signals.dry_run import trigger_signals
        >>> trigger_signals()["name"][0]
        'latency_ms'
    """
    import polars as pl

    return pl.DataFrame(
        [
            {
                "name": signal.name,
                "feed": signal.feed,
                "unit": signal.unit,
                "meaning": signal.meaning,
                "least": float(signal.least),
                "most": float(signal.most),
            }
            for signal in CATALOGUE.values()
        ]
    )


def _savings(firings: list[Firing], duration_s: float, run_bytes: int, run_s: float) -> Savings:
    runs, free_s = 0, float("-inf")
    for firing in firings:
        if firing.t_s >= free_s:
            runs, free_s = runs + 1, firing.t_s + run_s
    return Savings(runs, run_bytes, run_s, runs * run_bytes, round(run_bytes * duration_s / run_s))


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    return {name: value if value == value else None for name, value in values.items()}  # noqa: PLR0124 - NaN
