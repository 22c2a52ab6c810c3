"""The report's opening sentences, each computed from the Runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.plots.style import entrant_name, look
from bentpipe.runs import compare, total_goodput_bps
from bentpipe.runs.text import MBIT, interval, mean, number, with_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.runs import EntrantSummary, FlowSummary, Run

BASELINE = "cubic"
"""Others are compared with CUBIC where it ran: it is Linux's default and what the published studies compare with."""


def opening(label: str, summaries: Sequence[EntrantSummary], runs: Sequence[Run]) -> list[str]:
    """What a race over one Profile showed, in a few sentences.

    `summaries` and `runs` are those of this Profile in one Experiment.
    """
    alone = [summary for summary in summaries if len(summary.flows) == 1]
    if all(summary.total_bps.mean == 0 for summary in summaries):
        return [f"Over {label} nothing got through: there was no path, or none that carried data."] if summaries else []
    sentences = []
    if alone:
        best = max(alone, key=lambda summary: summary.total_bps.mean)
        others = [summary for summary in alone if summary is not best]
        sentences.append(_best(label, best, others, runs))
        if others:
            sentences.append(_price(best.flows[0], _baseline(others).flows[0]))
    sentences += [_sharing(label, summary) for summary in summaries if len(summary.flows) > 1]
    return sentences


def _baseline(summaries: Sequence[EntrantSummary]) -> EntrantSummary:
    """CUBIC, or else the best of those that are left."""
    return next(
        (summary for summary in summaries if summary.entrant == BASELINE),
        max(summaries, key=lambda summary: summary.total_bps.mean),
    )


def _best(label: str, best: EntrantSummary, others: Sequence[EntrantSummary], runs: Sequence[Run]) -> str:
    reached = f"Over {label}, {entrant_name(best.entrant)} reached {with_interval(best.total_bps, MBIT, 'Mbit/s')}"
    if not others:
        return f"{reached}."
    against = _baseline(others)
    ratio = compare(runs, best.entrant, against.entrant, total_goodput_bps).get(label)
    theirs = f"{entrant_name(against.entrant)}'s {number(against.total_bps.mean * MBIT)} Mbit/s"
    if ratio is None:
        return f"{reached}, against {theirs}."
    ends = interval(ratio)
    if not ends:
        return f"{reached}, {number(ratio.mean)} × {theirs}; without a spread over the seeds no interval can be given."
    unclear = ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high
    doubt = f", which {ratio.n} results do not tell apart from no difference" if unclear else ""
    return f"{reached}, {number(ratio.mean)} × {theirs} (95 % CI of the ratio {ends}, paired by seed){doubt}."


def _price(best: FlowSummary, against: FlowSummary) -> str:
    ours, theirs = look(best.controller).name, look(against.controller).name
    parts = [f"{mean(best.retransmits)} retransmitted segments a run against {mean(against.retransmits)} for {theirs}"]
    if best.rtt_median_ms and against.rtt_median_ms:
        parts.insert(0, f"a median RTT of {mean(best.rtt_median_ms)} ms against {mean(against.rtt_median_ms)} ms")
    return f"{ours} came with {' and '.join(parts)}."


def _sharing(label: str, summary: EntrantSummary) -> str:
    together = f"{mean(summary.total_bps, MBIT)} Mbit/s"
    index = f"; Jain's index {summary.jain.mean:.2f}" if summary.jain else ""
    controllers = {flow.controller for flow in summary.flows}
    if len(controllers) == 1:
        return f"Sharing {label}, {len(summary.flows)} flows of {look(controllers.pop()).name} got {together}{index}."
    flows = sorted(summary.flows, key=lambda flow: -flow.goodput_bps.mean)
    first = flows[0]
    others = " and ".join(look(flow.controller).name for flow in flows[1:])
    name = look(first.controller).name
    if first.share is None:
        return f"Sharing {label}, neither {name} nor {others} got anything through."
    share = f"{first.share.mean:.0%}".replace("%", " %")
    ends = interval(first.share, 100)
    between = f" (95 % CI {ends}, n = {first.share.n})" if ends else ""
    return f"Sharing {label} with {others}, {name} took {share}{between} of their {together}{index}."
