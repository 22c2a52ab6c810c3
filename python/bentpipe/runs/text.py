"""Numbers and results as people read them: for the terminal's table and the report alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.runs.estimates import Estimate
    from bentpipe.runs.summary import LeftOut, SchemeSummary

MBIT = 1e-6
"""bit/s to Mbit/s."""

NONE = "–"
"""Stands for a value that does not exist."""


def number(value: float) -> str:
    """Three significant digits, thousands apart by a thin space, and no exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def plural(count: int, what: str) -> str:
    """``1 Run``, ``2 Runs``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def mean(found: Estimate | None, scale: float = 1.0) -> str:
    """The mean, or a dash where there is none."""
    return NONE if found is None else number(found.mean * scale)


def interval(found: Estimate | None, scale: float = 1.0) -> str:
    """The ends of a confidence interval, or nothing where there is none."""
    if found is None or found.low is None or found.high is None:
        return ""
    return f"{number(found.low * scale)}–{number(found.high * scale)}"


def extremes(found: Estimate | None, scale: float = 1.0) -> str:
    """The smallest and the largest value, or nothing where there is one: what few and skewed values can tell."""
    if found is None or found.smallest == found.largest:
        return ""
    return f"{number(found.smallest * scale)}–{number(found.largest * scale)}"


def with_interval(found: Estimate, scale: float = 1.0, unit: str = "") -> str:
    """``151 Mbit/s (95 % CI 120–182, n = 3)``."""
    size = number(found.mean * scale) + (f" {unit}" if unit else "")
    ends = interval(found, scale)
    return f"{size} (95 % CI {ends}, n = {found.n})" if ends else f"{size} (n = {found.n})"


def count(summary: SchemeSummary) -> tuple[str, str]:
    """The results that count, and how many Runs they come from if that is another number: ``1`` and ``(3 alike)``."""
    if summary.valid == summary.n:
        return str(summary.n), "" if summary.n == summary.runs else f"of {summary.runs}"
    of = "" if summary.valid == summary.runs else f" of {summary.runs}"
    return str(summary.n), f"({summary.valid} alike{of})"


#: Short, so that a table fits a terminal of 80 columns whole. Goodput and RTT units stand in the title.
RESULT_COLUMNS = ("scheme", "flow", "goodput", "95 % CI", "whole", "share", "RTT", "p95", "retransmitted", "n")


def result_tables(
    summaries: Iterable[SchemeSummary], left_out: Iterable[LeftOut] = ()
) -> list[tuple[str, list[list[str]]]]:
    """A title and rows under `RESULT_COLUMNS` for each Profile, in order; schemes without a valid Run come last."""
    by_profile: dict[str, list[list[str]]] = {}
    for summary in summaries:
        by_profile.setdefault(summary.profile, []).extend(result_rows([summary]))
    for left in left_out:
        if left.whole:
            by_profile.setdefault(left.profile, []).append(_without_result(left))
    units = (
        "means over seeds; goodput [Mbit/s] after the warm-up and of the whole run, share [%], RTT median and p95 [ms]"
    )
    return [(f"{profile}\n{units}", rows) for profile, rows in by_profile.items()]


def _without_result(left: LeftOut) -> list[str]:
    return [left.scheme, "not valid", *[NONE] * (len(RESULT_COLUMNS) - 3), f"0 of {left.runs}"]


def result_rows(summaries: Iterable[SchemeSummary]) -> list[list[str]]:
    """Means over the seeds under `RESULT_COLUMNS`, one row per flow; the scheme is named in its first."""
    return [
        [
            summary.scheme if i == 0 else "",
            flow.controller,
            mean(flow.goodput_bps, MBIT),
            interval(flow.goodput_bps, MBIT),
            mean(flow.whole_run_bps, MBIT),
            mean(flow.share, 100) if flow.share else "",
            mean(flow.rtt_median_ms),
            mean(flow.rtt_p95_ms),
            mean(flow.retransmits),
            " ".join(filter(None, count(summary))),
        ]
        for summary in summaries
        for i, flow in enumerate(summary.flows)
    ]
