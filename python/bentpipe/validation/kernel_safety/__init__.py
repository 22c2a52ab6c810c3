"""Claim: a wrong clock of the host, one that jumps, and one whose program was killed cost no more than 3 %.

README.md beside this file states the claim and its tests. This module simulates; `emulated` uses this machine's kernel.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from bentpipe.runs.bootstrap import bootstrap, bootstrap_ratio
from bentpipe.validation import Outcome, Row
from bentpipe.validation.kernel_safety import clocks, simulated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.validation import OnProgress
    from bentpipe.validation.kernel_safety.clocks import Clock
    from bentpipe.validation.kernel_safety.simulated import Score

CLAIM = "kernel-safety"
LEAST = 0.97
"""Least goodput over that of the parent (issue 21): of the mean over paths with its interval, and of each path."""


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False) -> Outcome:
    """Simulate downloads beside right and wrong clocks; needs no data."""
    del data
    done = simulated.scores(on_progress, quick=quick)
    every = clocks.QUICK if quick else clocks.EVERY
    rows = [row for scheme in simulated.PARENTS for clock in every for row in rows_of(done, scheme, clock)]
    duration_s = simulated.QUICK_DURATION_S if quick else simulated.DURATION_S
    leo, still = (len({each.path for each in done if each.is_leo == is_leo}) for is_leo in (True, False))
    notes = [
        f"{leo} LEO paths and {still} others, one seed, {duration_s:g} s each without the first "
        f"{simulated.WARMUP_S:g} s; intervals are bootstraps of 95 % over paths, paired by path",
        "a clock's value is that of the same controller without one: what is below 1 there is the clock's doing",
    ]
    return Outcome(CLAIM, rows, notes, cells=[asdict(each) for each in done])


def rows_of(done: Sequence[Score], scheme: str, clock: Clock) -> list[Row]:
    """Return the rows of a controller beside a clock: goodput over its parent's, over its own, and the queue."""
    parent = simulated.PARENTS[scheme]
    title = f"{scheme}, {clock.name}"
    rows = []
    for is_leo, where in ((True, ""), (False, ", not LEO")):
        mine = simulated.of(done, scheme, clock.name, is_leo=is_leo)
        theirs = simulated.of(done, parent, clocks.NONE.name, is_leo=is_leo)
        own = simulated.of(done, scheme, clocks.NONE.name, is_leo=is_leo)
        if not mine:
            continue
        ratios, mean, low, worst = _goodput(mine, theirs)
        judged = low >= LEAST and min(ratios) >= LEAST
        rows.append(
            Row(
                f"{title}{where}: goodput ÷ {parent}",
                mean,
                worst,
                f"≥ {LEAST:g}, mean and worst path" if clock.is_judged else "reported, no limit",
                judged if clock.is_judged else None,
            )
        )
        if clock != clocks.NONE:
            _, mean, _, worst = _goodput(mine, own)
            subject = f"{title}{where}: goodput ÷ its own without a clock"
            rows.append(Row(subject, mean, worst, "reported, no limit", None))
        rows.append(_queue(f"{title}{where}", mine, theirs, parent))
    return rows


def _goodput(mine: Sequence[Score], theirs: Sequence[Score]) -> tuple[list[float], str, float, str]:
    """Return the ratios of the paths, their mean in words, the lower end of its interval, and the worst path."""
    ratios = [
        ours.goodput_bps / other.goodput_bps if other.goodput_bps else 1.0
        for ours, other in zip(mine, theirs, strict=True)
    ]
    mean, low, high = bootstrap(ratios)
    worst = min(range(len(ratios)), key=ratios.__getitem__)
    return (
        ratios,
        f"{mean:.3f} ({low:.3f} to {high:.3f}), n = {len(ratios)}",
        low,
        f"worst: {ratios[worst]:.3f}, {mine[worst].path}",
    )


def _queue(title: str, mine: Sequence[Score], theirs: Sequence[Score], parent: str) -> Row:
    both = [
        (ours.queue_ms, other.queue_ms)
        for ours, other in zip(mine, theirs, strict=True)
        if ours.queue_ms is not None and other.queue_ms is not None
    ]
    ratio, low, high = bootstrap_ratio([ours for ours, _ in both], [other for _, other in both])
    mean_ms = sum(ours for ours, _ in both) / len(both) if both else float("nan")
    return Row(
        f"{title}: mean queueing delay ÷ {parent}",
        f"{ratio:.3f} ({low:.3f} to {high:.3f}); {mean_ms:.1f} ms",
        "",
        "reported, no limit",
        None,
    )
