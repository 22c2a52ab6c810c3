"""Formatting of numbers and results for the terminal's tables and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.runs.estimates import Estimate
    from bentpipe.runs.latency import LoadLatency
    from bentpipe.runs.summary import LeftOut, SchemeSummary

MBIT = 1e-6
"""bit/s to Mbit/s."""

NONE = "–"
"""Placeholder of a missing value."""


def number(value: float) -> str:
    """Format with three significant digits, a thin space between thousands, and no exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 Run``, ``2 Runs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def mean(estimate: Estimate | None, scale: float = 1.0) -> str:
    """Format the mean, or a dash if there is none."""
    return NONE if estimate is None else number(estimate.mean * scale)


def interval(estimate: Estimate | None, scale: float = 1.0) -> str:
    """Format the ends of a confidence interval; empty if there is none."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return f"{number(estimate.low * scale)}–{number(estimate.high * scale)}"


def extremes(estimate: Estimate | None, scale: float = 1.0) -> str:
    """Format the smallest and the largest value, for few or skewed values; empty if they are equal."""
    if estimate is None or estimate.smallest == estimate.largest:
        return ""
    return f"{number(estimate.smallest * scale)}–{number(estimate.largest * scale)}"


def with_interval(estimate: Estimate, scale: float = 1.0, unit: str = "") -> str:
    """Format mean and interval: ``151 Mbit/s (95 % CI 120–182, n = 3)``."""
    size = number(estimate.mean * scale) + (f" {unit}" if unit else "")
    ends = interval(estimate, scale)
    return f"{size} (95 % CI {ends}, n = {estimate.n})" if ends else f"{size} (n = {estimate.n})"


def count(n: int, valid: int, runs: int) -> tuple[str, str]:
    """Format the number of counted results, and the number of Runs if it differs: ``1`` and ``(3 alike)``."""
    if valid == n:
        return str(n), "" if n == runs else f"of {runs}"
    of = "" if valid == runs else f" of {runs}"
    return str(n), f"({valid} alike{of})"


#: Short, so that a table fits a terminal of 80 columns. The title has the units of goodput and RTT.
RESULT_COLUMNS = ("scheme", "flow", "goodput", "95 % CI", "whole", "share", "RTT", "p95", "retransmitted", "n")


def result_tables(
    summaries: Iterable[SchemeSummary], left_out: Iterable[LeftOut] = ()
) -> list[tuple[str, list[list[str]]]]:
    """Return a title and rows under `RESULT_COLUMNS` for each Experiment, Profile and world.

    Schemes without a valid Run are last.
    """
    tables: dict[tuple[str, str, str], list[list[str]]] = {}
    for summary in summaries:
        tables.setdefault((summary.profile, summary.experiment, summary.group.world), []).extend(result_rows([summary]))
    for left in left_out:
        if left.whole:
            tables.setdefault((left.profile, left.experiment, left.world), []).append(_without_result(left))
    experiments, worlds = ({key[i] for key in tables} for i in (1, 2))
    units = (
        "means over seeds; goodput [Mbit/s] after the warm-up and of the whole run, share [%], RTT median and p95 [ms]"
    )
    titles = {
        key: ", ".join([key[0], *([key[1]] if len(experiments) > 1 else []), *([key[2]] if len(worlds) > 1 else [])])
        for key in tables
    }
    return [(f"{titles[key]}\n{units}", rows) for key, rows in tables.items()]


def _without_result(left: LeftOut) -> list[str]:
    return [left.scheme, "not valid", *[NONE] * (len(RESULT_COLUMNS) - 3), f"0 of {left.runs}"]


def result_rows(summaries: Iterable[SchemeSummary]) -> list[list[str]]:
    """Return means over the seeds under `RESULT_COLUMNS`, one row per flow; the first row names the scheme."""
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
            " ".join(filter(None, count(summary.n, summary.valid, summary.runs))),
        ]
        for summary in summaries
        for i, flow in enumerate(summary.flows)
    ]


#: Under the title of `latency_tables`, which has the units.
LATENCY_COLUMNS = ("scheme", "load", "down", "up", "RTT", "95 % CI", "p95", "p99", "lost", "RTTs/min", "n")


def latency_tables(summaries: Iterable[LoadLatency]) -> list[tuple[str, list[list[str]]]]:
    """Return a title and rows under `LATENCY_COLUMNS` for each Profile, path of a Network and world."""
    tables: dict[str, list[list[str]]] = {}
    schemes: dict[str, str] = {}
    every = list(summaries)
    worlds = {each.group.world for each in every}
    several = {each.group.profile for each in every if len({e.path for e in every if e.group == each.group}) > 1}
    for each in every:
        where = each.group.profile + (f", {each.path}" if each.group.profile in several else "")
        where += "" if len(worlds) == 1 else f", {each.group.world}"
        is_first = schemes.get(where) != each.group.scheme
        schemes[where] = each.group.scheme
        tables.setdefault(where, []).append(_latency_row(each, is_first=is_first))
    units = "means over seeds; goodput of all flows [Mbit/s]; pings: RTT median, p95, p99 [ms], lost [%], RTTs a minute"
    return [(f"{where}\n{units}", rows) for where, rows in tables.items()]


def _latency_row(each: LoadLatency, *, is_first: bool) -> list[str]:
    return [
        each.group.scheme if is_first else "",
        each.load,
        mean(each.down_bps, MBIT),
        mean(each.up_bps, MBIT),
        mean(each.rtt_p50_ms),
        interval(each.rtt_p50_ms),
        mean(each.rtt_p95_ms),
        mean(each.rtt_p99_ms),
        mean(each.lost, 100),
        mean(each.rtts_per_min),
        " ".join(filter(None, count(each.n, each.valid, each.runs))),
    ]
