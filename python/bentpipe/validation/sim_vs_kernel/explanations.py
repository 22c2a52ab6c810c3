"""Where the two worlds part for a known reason: what it is, and the test that holds it.

A reason is of a kind of cell, never of one cell's figure, and nothing in the simulator follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.validation.sim_vs_kernel.judge import (
    SHARE_MARGIN,
    delay_limit,
    delay_within,
    goodput_limit,
    retransmit_limit,
    retransmits_within,
    shows_nothing,
)

if TYPE_CHECKING:
    from bentpipe.validation.sim_vs_kernel.figures import Figures
    from bentpipe.validation.sim_vs_kernel.judge import Verdict


@dataclass(frozen=True, slots=True)
class Reason:
    """Why `quantities` of the cells on `profile` with one of `flows` may be outside.

    `late_ms`: only if the emulator's p99.9 lateness was at least this in every Run that is itself outside; one late Run
    does not excuse the others. A simulation is never late.
    """

    profile: str
    flows: tuple[str, ...]
    quantities: tuple[str, ...]
    test: str
    late_ms: float = 0.0


REASONS: tuple[Reason, ...] = (
    # A relay that stands still for a part of a short round trip hands on at once what came meanwhile. Acknowledgements
    # bunch, BBR takes that for bandwidth, and queues what it sends too fast until the sample is ten round trips old.
    Reason(
        "fibre",
        ("bbr", "bbr+bbr", "reno+bbr", "cubic+bbr"),
        ("delay", "retransmits", "shares"),
        "tests/test_sim_vs_kernel.py::test_a_path_that_stands_still_for_milliseconds_makes_bbr_queue",
        late_ms=0.5,
    ),
)


TOO_FEW_RUNS = "tests/test_sim_vs_kernel.py::test_runs_that_scatter_cannot_show_that_shares_are_the_same"
"""Means within the margin, where the kernel's own shares differ so much from run to run that no test could say so."""

CHANCE = "tests/test_sim_vs_kernel.py::test_a_kernel_that_scatters_cannot_show_that_means_are_the_same"
"""Where the kernel's own Runs of one cell differ so much that its mean is not known to the limit, and the difference of
the means, as far as it is known, may be within it."""


def explained_by(verdict: Verdict) -> str | None:
    """The tests that explain all that is outside, or None: nothing is outside, or something has no reason."""
    tests = []
    for quantity in verdict.outside:
        found = [
            reason.test
            for reason in REASONS
            if reason.profile == verdict.cell.profile
            and verdict.cell.flows in reason.flows
            and quantity in reason.quantities
            and late_ms(verdict, quantity) >= reason.late_ms
        ]
        if not found and quantity == "shares" and verdict.share_test is not None and verdict.share_test.shows_nothing:
            found = [TOO_FEW_RUNS]
        if not found and _scatters(verdict, quantity):
            found = [CHANCE]
        if not found:
            return None
        tests += found
    return "; ".join(dict.fromkeys(tests)) or None


def _scatters(verdict: Verdict, quantity: str) -> bool:
    """Whether `quantity` is outside as chance may have it."""
    names = {"goodput": "goodput_bps", "delay": "delay_ms", "retransmits": "retransmit_rate"}
    if (name := names.get(quantity)) is None:
        return False
    ours, theirs = ([float(getattr(run, name)) for run in world.runs] for world in (verdict.simulated, verdict.kernel))
    mean = verdict.kernel.mean(name)
    if quantity == "goodput":
        limit = goodput_limit(verdict.cell.alone, mean)
    else:
        limit = delay_limit(mean) if quantity == "delay" else retransmit_limit(mean)
    return shows_nothing(ours, theirs, limit)


def late_ms(verdict: Verdict, quantity: str) -> float:
    """How late the emulator was at least [ms], p99.9, in the kernel's Runs that are outside for `quantity`.

    Where none is outside by itself, only all together, in all of them.
    """
    kernel = verdict.kernel.runs
    pairs = list(zip(verdict.simulated.runs, kernel, strict=True))  # seed by seed
    outside = [theirs for ours, theirs in pairs if _apart(quantity, ours, theirs)]
    return min(run.lateness_ms[1] if run.lateness_ms else 0.0 for run in outside or kernel)


def _apart(quantity: str, ours: Figures, theirs: Figures) -> bool:
    """Whether one simulated Run and one of the kernel part by more than what their cell is allowed to."""
    if quantity == "delay":
        return not delay_within(ours.delay_ms, theirs.delay_ms)
    if quantity == "retransmits":
        return not retransmits_within(ours.retransmit_rate, theirs.retransmit_rate)
    return not abs(ours.shares[0] - theirs.shares[0]) < SHARE_MARGIN
