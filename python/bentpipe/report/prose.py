"""The report's opening sentences, computed from the Runs.

The estimator is that of the tables: arithmetic means over the counted results. A difference between two schemes is the
mean of the differences seed by seed, which equals the difference of those means. Its interval is narrower than the two
intervals suggest, because both schemes had the same path.
"""

from __future__ import annotations

import re
from statistics import fmean
from typing import TYPE_CHECKING

from bentpipe.plots.style import look, scheme_name
from bentpipe.runs.summary import compare_difference, paired_values, total_goodput_bps
from bentpipe.runs.text import MBIT, interval, mean, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.runs.estimates import Estimate
    from bentpipe.runs.store import Run
    from bentpipe.runs.summary import FlowSummary, LeftOut, SchemeSummary

BASELINE = "cubic"
"""Baseline of comparisons where it ran: CUBIC is Linux's default and the baseline of published studies."""

MOST_BUFFERED = 20.0
"""A flow that its buffers limit for a larger share of the time than this is reported [%]. Chosen here."""


def opening(label: str, summaries: Sequence[SchemeSummary], runs: Sequence[Run]) -> list[str]:
    """Summarise a race over one Profile in a few sentences.

    `summaries` and `runs` are those of this Profile in one Experiment.
    """
    alone = [summary for summary in summaries if len(summary.flows) == 1]
    if all(_total(summary).mean == 0 for summary in summaries):
        return [f"Over {label} no data arrived: there was no path, or it lost everything."] if summaries else []
    sentences = []
    if alone:
        best = max(alone, key=lambda summary: _total(summary).mean)
        first = [summary for summary in alone if _rate(_total(summary)) == _rate(_total(best))]
        others = [summary for summary in alone if summary not in first]
        alike = [other for other in others if _may_be_chance(_gap(best, other, runs))]
        if alike:
            sentences.append(_unsure(label, best, alike, runs))
        sentences.append(_best(label, best, first, alone=not others, unsure=bool(alike)))
        if others:
            against = _baseline(others)
            sentences.append(_comparison(best, against, runs, is_stated=alike == [against]))
            sentences.append(_price(best.flows[0], against.flows[0]))
    sentences += [_sharing(label, summary) for summary in summaries if len(summary.flows) > 1]
    return sentences


def buffered(shares: Mapping[str, Sequence[float]]) -> list[str]:
    """Name the schemes that were limited by buffers and not by congestion control: their goodput compares buffers.

    `shares`: for each scheme's flow, the shares of its time limited by the receive window and the send buffer [%].
    """
    limited = {name: max(each) for name, each in shares.items() if "+" not in name and max(each) > MOST_BUFFERED}
    if not limited:
        return []
    names = [f"{scheme_name(name)} ({share:.0f} % of the time)" for name, share in limited.items()]
    return [
        f"Buffers at the hosts (rwnd, sndbuf), and not cwnd, limited {_and(names) if len(names) > 1 else names[0]}: an "
        "Experiment file can raise them (wmem_max_bytes, rmem_max_bytes)."
    ]


def left_out(label: str, left: Sequence[LeftOut], *, not_valid: bool, on_kernel: bool) -> str:
    """Describe the excluded Runs over one Profile, the reasons and the remedy; empty if all count.

    `not_valid`: no Run of the Profile counts.
    """
    if not left:
        return ""
    # Reasons of one kind differ only in numbers: one of each kind is given here, all are in the list of Runs.
    kinds = {re.sub(r"[0-9]+([.][0-9]+)?", "0", each.why): each.why for each in reversed(left)}
    why = "; ".join(reversed(kinds.values()))
    invalid = sum(each.invalid for each in left)
    them = "it" if invalid == 1 else "all" if not_valid else "them"
    remedy = f"The same command runs {them} again"
    if on_kernel:
        remedy += "; first end other work on this machine, or use a slower path"
    if not_valid:
        none = "The only Run" if invalid == 1 else f"None of the {invalid} Runs"
        valid = "is not valid" if invalid == 1 else "is valid"
        return (
            f"{none} over {label} {valid}. Tables and figures are marked so and are no results. Why: {why}. {remedy}."
        )
    parts = [
        f"{'all' if each.whole else f'{each.invalid} of'} {each.runs} Runs of {scheme_name(each.scheme)}"
        if each.runs > 1
        else f"the only Run of {scheme_name(each.scheme)}"
        for each in left
    ]
    excluded = parts[0] if len(parts) == 1 else _and(parts)
    are = "is" if invalid == 1 else "are"
    return f"Over {label}, {excluded} {are} left out as not valid. Why: {why}. {remedy}."


def _baseline(summaries: Sequence[SchemeSummary]) -> SchemeSummary:
    """Return CUBIC, or else the best of the others."""
    return next(
        (summary for summary in summaries if summary.scheme == BASELINE),
        max(summaries, key=lambda summary: _total(summary).mean),
    )


def _gap(best: SchemeSummary, other: SchemeSummary, runs: Sequence[Run]) -> Estimate | None:
    return compare_difference(runs, best.scheme, other.scheme, total_goodput_bps).get(best.profile)


def _may_be_chance(gap: Estimate | None) -> bool:
    return gap is not None and gap.low is not None and gap.high is not None and gap.low <= 0 <= gap.high


def _unsure(label: str, best: SchemeSummary, alike: Sequence[SchemeSummary], runs: Sequence[Run]) -> str:
    """State, before any winner, which schemes do not differ significantly from the best."""
    together = _and([scheme_name(summary.scheme) for summary in (best, *alike)])
    gap = _gap(best, alike[0], runs)
    where = (
        f"the difference, {_ends(gap)}, includes zero" if len(alike) == 1 and gap else "each difference includes zero"
    )
    return (
        f"Over {label}, {together} do not differ significantly: seed by seed, on the same path, the 95 % interval of "
        f"{where}, so the order may be chance."
    )


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _ends(gap: Estimate) -> str:
    return "" if gap.low is None or gap.high is None else f"{_signed(gap.low)} to {_signed(gap.high)} Mbit/s"


def _best(label: str, best: SchemeSummary, first: Sequence[SchemeSummary], *, alone: bool, unsure: bool = False) -> str:
    """Name the scheme with the highest goodput; several if their printed digits are equal."""
    names = [scheme_name(summary.scheme) for summary in first]
    where = "On average" if unsure else f"Over {label}"
    if len(names) == 1:
        verb = "carried" if alone else "carried the most:"
        return f"{where}, {names[0]} {verb} {_rate(_total(best))}{_spread(best)}."
    verb = "carried the same" if alone else "carried the most"
    return f"{where}, {_and(names)} {verb}, {_rate(_total(best))} each."


def _total(summary: SchemeSummary) -> Estimate:
    return _known(summary.total_bps)


def _known(estimate: Estimate | None) -> Estimate:
    """Return a rate of a race, where none is unknown (`RunRecord`)."""
    assert estimate is not None
    return estimate


def _rate(estimate: Estimate) -> str:
    return f"{number(estimate.mean * MBIT)} Mbit/s"


def _spread(summary: SchemeSummary) -> str:
    """Describe the number of runs and the interval."""
    if summary.n == 1:
        return " (one run)" if summary.valid == 1 else f" (the same in all {summary.valid} runs)"
    ends = interval(_total(summary), MBIT)
    confidence = f"; 95 % interval {ends}" if ends else ""
    return f" (mean of {summary.n} runs{confidence})"


def _comparison(best: SchemeSummary, against: SchemeSummary, runs: Sequence[Run], *, is_stated: bool = False) -> str:
    """Compare the runner-up, or CUBIC, with the best: means over common seeds, their ratio and difference.

    `is_stated`: the difference is already stated in an earlier sentence.
    """
    ours, theirs = scheme_name(best.scheme), scheme_name(against.scheme)
    if _total(against).mean == 0:
        return f"{theirs} carried nothing."
    values = paired_values(runs, best.scheme, against.scheme, total_goodput_bps).get(best.profile)
    mine, others = (fmean(each) for each in values) if values else (_total(best).mean, _total(against).mean)
    if others == 0:
        return f"{theirs} carried nothing on the seeds that both ran."
    times = mine / others
    # Two digits: a reader who divides the rounded means gets the same.
    many = f"{times:.0f}" if times >= 9.95 else f"{times:.1f}"
    more = f"{many} times as much"
    if times < 1.1:
        more = f"{100 * (times - 1):.1f} % more" if times >= 1 else f"{100 * (1 - times):.1f} % less"
    gap = _gap(best, against, runs)
    # A seed with a valid Run of only one of them is in that scheme's mean and in no comparison.
    subset = values is not None and len(values[0]) < max(best.n, against.n)
    both = f"Over the {len(values[0])} seeds that both ran, " if subset and values else ""
    beside = f", {ours} {number(mine * MBIT)} Mbit/s" if subset else ""
    text = f"{both}{theirs} carried {number(others * MBIT)} Mbit/s{beside}, so {ours} carried {more}"
    if gap is None or not _ends(gap) or is_stated:
        return f"{text}."
    if _may_be_chance(gap):
        return f"{text} (difference {_ends(gap)}, 95 % interval)."
    return f"{text}; seed by seed, on the same path, the difference is {_ends(gap)} (95 % interval)."


def _signed(bps: float) -> str:
    return f"−{number(-bps * MBIT)}" if bps < 0 else number(bps * MBIT)


def _price(best: FlowSummary, against: FlowSummary) -> str:
    ours, theirs = look(best.controller).name, look(against.controller).name
    retransmits = (
        f"{ours} retransmitted {mean(best.retransmits)} segments in a run, {theirs} {mean(against.retransmits)}"
        if best.retransmits.mean or against.retransmits.mean
        else "neither retransmitted a segment"
    )
    if not best.rtt_median_ms or not against.rtt_median_ms:
        return f"{retransmits}."
    return (
        f"The median RTT was {mean(best.rtt_median_ms)} ms under {ours} and "
        f"{mean(against.rtt_median_ms)} ms under {theirs}; {retransmits}."
    )


def _sharing(label: str, summary: SchemeSummary) -> str:
    together = f"{_rate(_total(summary))} together"
    index = f"; Jain's fairness index is {summary.jain.mean:.2f} (1 is even)" if summary.jain else ""
    controllers = {flow.controller for flow in summary.flows}
    if len({flow.path for flow in summary.flows}) > 1:
        counts = " and ".join(
            f"{sum(flow.controller == each for flow in summary.flows)} of {look(each).name}"
            for each in sorted(controllers)
        )
        return f"Over the paths of {label}, flows ({counts}) carried {together}."
    if len(controllers) == 1:
        name = look(controllers.pop()).name
        return f"Sharing {label}, {len(summary.flows)} flows of {name} carried {together}{index}."
    flows = sorted(summary.flows, key=lambda flow: -_known(flow.goodput_bps).mean)
    first = flows[0]
    others = " and ".join(look(flow.controller).name for flow in flows[1:])
    name = look(first.controller).name
    if first.share is None:
        return f"Sharing {label}, neither {name} nor {others} delivered any data."
    ends = interval(first.share, 100)
    between = f" (95 % interval {ends})" if ends else ""
    return (
        f"Sharing {label}, {name} and {others} carried {together}; {name} had {first.share.mean * 100:.0f} % of it "
        f"on average over the runs{between}{index}."
    )
