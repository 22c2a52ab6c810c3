"""A dry run in words: rows of a table, and lines below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.times import format_utc

if TYPE_CHECKING:
    from bentpipe.testbed.agent.signals.dry_run import DryRun

LEAST_RATE_S = 3600
"""Shortest recording of which a rate per day is told [s]."""
MOST_ROWS = 100
"""Most firings that are listed; JSON has all."""


def firing_rows(result: DryRun) -> tuple[list[str], list[list[object]]]:
    """Return the headings and rows of the table of firings."""
    names = sorted(result.firings[0].values) if result.firings else []
    heading = "time (UTC)" if result.clock_known else "time [s]"
    rows: list[list[object]] = [
        [_time(result, each.t_s), *(f"{each.values[name]:.4g}" for name in names)]
        for each in result.firings[:MOST_ROWS]
    ]
    return [heading, *names], rows


def summary_lines(result: DryRun) -> list[str]:
    """Return what the dry run says, line by line."""
    count = len(result.firings)
    is_long = result.firings_per_day is not None and result.duration_s >= LEAST_RATE_S
    per_day = f", {result.firings_per_day:.4g} a day at this rate" if is_long else ""
    lines = [f"{count} firing{'' if count == 1 else 's'} in {_span(result.duration_s)}{per_day}"]
    if count > MOST_ROWS:
        lines.append(f"the first {MOST_ROWS} are listed; --format json has all")
    if result.least_between_s is not None:
        lines.append(f"least time between two: {result.least_between_s:.4g} s")
    share = result.holding / result.evaluations if result.evaluations else 0.0
    missing = f"; {result.missing} lacked a sample" if result.missing else ""
    lines.append(f"the condition holds in {result.holding} of {result.evaluations} windows ({share:.2%}){missing}")
    if result.savings is not None:
        savings = result.savings
        runs = f"{savings.runs} run{'' if savings.runs == 1 else 's'}"
        lines.append(
            f"{runs} would send {_bytes(savings.triggered_bytes)}; one that never ends "
            f"{_bytes(savings.continuous_bytes)}: {1 - savings.share_of_time:.1%} saved"
        )
    return lines


def _time(result: DryRun, t_s: float) -> str:
    if not result.clock_known:
        return f"{t_s - result.begin_s:.3f}"
    return format_utc(round(t_s * 1000) * 10**6)


def _span(seconds: float) -> str:
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _bytes(count: int) -> str:
    bits = 8 * count
    for prefix, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if bits >= size:
            return f"{bits / size:.3g} {prefix}bit"
    return f"{bits} bit"
