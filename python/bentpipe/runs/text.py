"""Formatting of numbers and results for the terminal's tables and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bentpipe.experiments.flow_names import without_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.runs.estimates import Estimate
    from bentpipe.runs.latency import LoadLatency
    from bentpipe.runs.summary import ItemSummary, LeftOut, SchemeSummary

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


RESULT_COLUMNS = (
    *("scheme", "flow", "goodput [Mbit/s]", "95 % CI", "whole run [Mbit/s]", "share [%]", "RTT median [ms]"),
    *("RTT p95 [ms]", "retransmitted", "item", "items", "item median [ms]", "item p95 [ms]", "n"),
)
"""Columns of results. A terminal of 80 columns breaks their heads before the units."""

OPTIONAL_COLUMNS = ("share [%]", "item", "items", "item median [ms]", "item p95 [ms]")
"""Columns of flows that share the path, and of applications with items: transfers, messages, requests."""


class ResultTable(NamedTuple):
    """A table of results."""

    title: str
    columns: Sequence[str]
    rows: list[list[str]]


def result_tables(summaries: Iterable[SchemeSummary], left_out: Iterable[LeftOut] = ()) -> list[ResultTable]:
    """Return a table for each Experiment, Profile and world, without `OPTIONAL_COLUMNS` that are empty.

    Schemes without a valid Run are last.
    """
    summaries, left_out = list(summaries), list(left_out)
    among = [*(each.scheme for each in summaries), *(each.scheme for each in left_out)]
    tables: dict[tuple[str, str, str], list[list[str]]] = {}
    groups: dict[tuple[str, str, str], list[SchemeSummary]] = {}
    for summary in summaries:
        groups.setdefault((summary.profile, summary.experiment, summary.group.world), []).append(summary)
    facts: dict[tuple[str, str, str], list[str]] = {}
    names_without: dict[str, str] = {}
    for key, group in groups.items():
        # The name of a race ends with its recovery, which the title has in words.
        names_without[key[1]] = key[1].removesuffix(f"-{group[0].recovery}") if group[0].recovery else key[1]
        directions = {flow.direction for each in group for flow in each.flows}
        facts[key] = sorted(directions) if len(directions) == 1 else []
        # Experiments that differ in their queues have them in their names.
        facts[key] += [group[0].queues] if group[0].queues not in group[0].experiment else []
        facts[key] += [f"recovery {group[0].recovery}"] if group[0].recovery else []
        tables[key] = result_rows(group, has_directions=len(directions) > 1, among=among)
    for left in left_out:
        if left.whole:
            tables.setdefault((left.profile, left.experiment, left.world), []).append(_without_result(left, among))
    experiments, worlds = {names_without.get(key[1], key[1]) for key in tables}, {key[2] for key in tables}
    results = []
    for (profile, experiment, world), rows in tables.items():
        named = names_without.get(experiment, experiment)
        names = [profile, *([named] if len(experiments) > 1 else []), *([world] if len(worlds) > 1 else [])]
        shown = [
            i
            for i, column in enumerate(RESULT_COLUMNS)
            if column not in OPTIONAL_COLUMNS or any(row[i] not in ("", NONE) for row in rows)
        ]
        names += facts.get((profile, experiment, world), [])
        title = f"{', '.join(names)}: means over seeds; goodput after the warm-up"
        results.append(
            ResultTable(title, [RESULT_COLUMNS[i] for i in shown], [[row[i] for i in shown] for row in rows])
        )
    return results


def _without_result(left: LeftOut, among: Sequence[str]) -> list[str]:
    return [without_folders(left.scheme, among), "not valid", *[NONE] * (len(RESULT_COLUMNS) - 3), f"0 of {left.runs}"]


def result_rows(
    summaries: Iterable[SchemeSummary], *, has_directions: bool = False, among: Iterable[str] = ()
) -> list[list[str]]:
    """Return means over the seeds under `RESULT_COLUMNS`: a row for each flow, and for each further kind of its items.

    The first row names the scheme; `has_directions`: each flow is named with its direction. Flows over several paths of
    a Network are named with their path. Names are told from those
    of the schemes `among`.
    """
    rows = []
    for summary in summaries:
        counts = " ".join(filter(None, count(summary.n, summary.valid, summary.runs)))
        has_paths = len({flow.path for flow in summary.flows}) > 1
        for i, flow in enumerate(summary.flows):
            flow_cells = [
                without_folders(summary.scheme, among) if i == 0 else "",
                (f"{flow.path}: " if has_paths else "")
                + without_folders(flow.controller, among)
                + (f" {flow.direction}" if has_directions else ""),
                mean(flow.goodput_bps, MBIT),
                interval(flow.goodput_bps, MBIT),
                mean(flow.whole_run_bps, MBIT),
                mean(flow.share, 100) if flow.share else "",
                mean(flow.rtt_median_ms),
                mean(flow.rtt_p95_ms),
                mean(flow.retransmits),
            ]
            first, *others = [_item_cells(each) for each in flow.items] or [[""] * 4]
            rows.append([*flow_cells, *first, counts])
            rows += [[*[""] * len(flow_cells), *cells, counts] for cells in others]
    return rows


def _item_cells(items: ItemSummary) -> list[str]:
    return [items.kind, completed_of(items), mean(items.median_s, 1e3), mean(items.p95_s, 1e3)]


def completed_of(items: ItemSummary) -> str:
    """Format the number of items, and of those completed if it differs."""
    every, completed = f"{items.items.mean:.4g}", f"{items.completed.mean:.4g}"
    return every if every == completed else f"{completed} of {every}"


LATENCY_COLUMNS = (
    *("scheme", "load", "down [Mbit/s]", "up [Mbit/s]", "RTT median [ms]", "95 % CI", "RTT p95 [ms]", "RTT p99 [ms]"),
    *("above path [ms]", "p95 above path [ms]", "lost [%]", "RTTs/min", "n"),
)
"""Columns of the latency under load; above path: excess of the RTT over that of the path at the same time."""


def latency_tables(summaries: Iterable[LoadLatency]) -> list[ResultTable]:
    """Return a table for each Profile, path of a Network, Experiment and world."""
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    schemes: dict[tuple[str, ...], str] = {}
    every = list(summaries)
    among = [each.group.scheme for each in every]
    experiments, worlds = {each.group.experiment for each in every}, {each.group.world for each in every}
    several = {each.group.profile for each in every if len({e.path for e in every if e.group == each.group}) > 1}
    for each in every:
        group = each.group
        where = (
            group.profile,
            *([each.path] if group.profile in several else []),
            *([group.experiment] if len(experiments) > 1 else []),
            *([group.world] if len(worlds) > 1 else []),
        )
        is_first = schemes.get(where) != group.scheme
        schemes[where] = group.scheme
        tables.setdefault(where, []).append(_latency_row(each, among, is_first=is_first))
    return [
        ResultTable(f"{', '.join(where)}: means over seeds; RTTs of pings", LATENCY_COLUMNS, rows)
        for where, rows in tables.items()
    ]


def _latency_row(each: LoadLatency, among: Sequence[str], *, is_first: bool) -> list[str]:
    return [
        without_folders(each.group.scheme, among) if is_first else "",
        each.load,
        mean(each.down_bps, MBIT),
        mean(each.up_bps, MBIT),
        mean(each.rtt_p50_ms),
        interval(each.rtt_p50_ms),
        mean(each.rtt_p95_ms),
        mean(each.rtt_p99_ms),
        mean(each.excess_p50_ms),
        mean(each.excess_p95_ms),
        mean(each.lost, 100),
        mean(each.rtts_per_min),
        " ".join(filter(None, count(each.n, each.valid, each.runs))),
    ]
