"""Rows of the simulated part: a controller beside a clock, against its parent and against itself without a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.runs.bootstrap import bootstrap, bootstrap_ratio
from bentpipe.validation import Row
from bentpipe.validation.kernel_safety import clocks, simulated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.validation.kernel_safety.clocks import Clock
    from bentpipe.validation.kernel_safety.simulated import Figures, Score

LEAST = 0.97
"""Least goodput over that of the parent (issue 21), of the mean over paths with its interval and of each path; and over
that of the same controller without a clock, of the interval."""
MOST_QUEUE = 1.25
"""Most mean queueing delay over that of the same controller without a clock, of the interval and of each path. Chosen
here: a quarter more is within what paths differ by."""
NO_LIMIT = "reported, no limit"
UNDECIDED = "; undecided: the clock changed no Run"
UNKNOWN = "; undecided: no path has a ratio"

Pairs = list[tuple[str, "Figures", "Figures"]]
"""Name of the path, a Run's figures, and those that they are compared with."""


def rows_of(done: Sequence[Score], scheme: str, clock: Clock, first_s: float | None) -> list[Row]:
    """Return the rows of a controller beside a clock, on LEO paths and on others.

    Args:
        done: All scores.
        scheme: The controller.
        clock: The clock.
        first_s: Duration of the first part of a Run, which is judged besides as a shorter flow [s]; None: of none.
    """
    rows = []
    for is_leo, where in ((True, ""), (False, ", not LEO")):
        mine = simulated.of(done, scheme, clock.name, is_leo=is_leo)
        if not mine:
            continue
        parent = simulated.PARENTS[scheme]
        theirs = simulated.of(done, parent, clocks.NONE.name, is_leo=is_leo)
        own = simulated.of(done, scheme, clocks.NONE.name, is_leo=is_leo)
        title = f"{scheme}, {clock.name}{where}"
        pairs = [(ours.path, ours.whole, other.whole) for ours, other in zip(mine, own, strict=True)]
        has_acted = any(ours != other for _, ours, other in pairs)
        against = [(ours.path, ours.whole, other.whole) for ours, other in zip(mine, theirs, strict=True)]
        goodput = _goodput_row(
            f"{title}: goodput ÷ {parent}", against, is_judged=clock.is_judged, has_acted=has_acted, each_path=True
        )
        rows += [goodput, _parent_queue(title, against, parent)]
        if clock == clocks.NONE:
            continue
        rows += own_rows(title, pairs, is_judged=clock.is_judged)
        if first_s is not None and is_leo:
            pairs = [(ours.path, ours.first, other.first) for ours, other in zip(mine, own, strict=True)]
            rows += own_rows(f"{title}, first {first_s:g} s", pairs, is_judged=clock.is_judged)
    return rows


def own_rows(title: str, pairs: Pairs, *, is_judged: bool) -> list[Row]:
    """Return what the clock did: in how many Runs it was used and changed anything, goodput, and queueing delay."""
    changed = sum(ours != own for _, ours, own in pairs)
    used_s = sorted(ours.used_s for _, ours, _ in pairs)
    use = Row(
        f"{title}: Runs that the host's clock changed",
        f"{changed} of {len(pairs)}; used in {sum(each > 0 for each in used_s)}",
        f"for {used_s[len(used_s) // 2]:.0f} s in the median, {used_s[-1]:.0f} s at most",
        NO_LIMIT,
        None,
    )
    goodput = _goodput_row(
        f"{title}: goodput ÷ its own without a clock",
        pairs,
        is_judged=is_judged,
        has_acted=changed > 0,
        each_path=False,
    )
    both = [(path, ours, own) for path, ours, own in pairs if ours.queue_ms is not None and own.queue_ms]
    if not both:
        return [use, goodput]
    ours_ms, own_ms = [each.queue_ms or 0.0 for _, each, _ in both], [each.queue_ms or 0.0 for *_, each in both]
    queues = [above / below for above, below in zip(ours_ms, own_ms, strict=True)]
    mean, low, high = bootstrap_ratio(ours_ms, own_ms)
    is_short = high <= MOST_QUEUE and max(queues) <= MOST_QUEUE
    over = sum(each > MOST_QUEUE for each in queues)
    queue = Row(
        f"{title}: mean queueing delay ÷ its own without a clock",
        f"{mean:.3f} ({low:.3f} to {high:.3f}), n = {len(both)}; {sum(ours_ms) / len(both):.1f} ms",
        f"{_worst_text(max(queues), queues, both)}; {over} above the limit",
        *_limit(f"≤ {MOST_QUEUE:g}, interval and each path", is_short, is_judged=is_judged, has_acted=changed > 0),
    )
    return [use, goodput, queue]


def _goodput_row(title: str, pairs: Pairs, *, is_judged: bool, has_acted: bool, each_path: bool) -> Row:
    """Return the row of goodput over a reference. `each_path`: the limit is that of the worst path, too."""
    known = [pair for pair in pairs if pair[2].goodput_bps > 0]
    left_out = f"; {len(pairs) - len(known)} left out: the reference had no goodput" if len(known) < len(pairs) else ""
    text = f"≥ {LEAST:g}, interval and worst path" if each_path else f"interval ≥ {LEAST:g}"
    if not known:
        return Row(title, f"n = 0{left_out}", "", text + UNKNOWN if is_judged else NO_LIMIT, None)
    ratios = [ours.goodput_bps / other.goodput_bps for _, ours, other in known]
    mean, low, high = bootstrap(ratios)
    is_safe = low >= LEAST and (min(ratios) >= LEAST or not each_path)
    return Row(
        title,
        f"{mean:.3f} ({low:.3f} to {high:.3f}), n = {len(known)}{left_out}",
        _worst_text(min(ratios), ratios, known),
        *_limit(text, is_safe, is_judged=is_judged, has_acted=has_acted),
    )


def _parent_queue(title: str, pairs: Pairs, parent: str) -> Row:
    both = [(ours.queue_ms, theirs.queue_ms) for _, ours, theirs in pairs]
    known = [(above, below) for above, below in both if above is not None and below is not None]
    mean, low, high = bootstrap_ratio([above for above, _ in known], [below for _, below in known])
    return Row(
        f"{title}: mean queueing delay ÷ {parent}",
        f"{mean:.3f} ({low:.3f} to {high:.3f}), n = {len(known)}",
        "",
        NO_LIMIT,
        None,
    )


def _limit(text: str, is_within: bool, *, is_judged: bool, has_acted: bool) -> tuple[str, bool | None]:
    """Return a row's limit and verdict: a clock that changed no Run shows no safety."""
    if not is_judged:
        return NO_LIMIT, None
    return (text, is_within) if has_acted else (text + UNDECIDED, None if is_within else False)


def _worst_text(worst: float, ratios: Sequence[float], pairs: Pairs) -> str:
    return f"worst: {worst:.3f}, {pairs[ratios.index(worst)][0]}"
