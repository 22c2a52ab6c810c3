"""Where the two worlds part for a known reason: what it is, and the test that holds it.

A reason is of a kind of cell, never of one cell's figure, and nothing in the simulator follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.validation.sim_vs_kernel.judge import Verdict


@dataclass(frozen=True, slots=True)
class Reason:
    """Why `quantity` of the cells on `profile` with one of `flows` may be outside."""

    profile: str
    flows: tuple[str, ...]
    quantity: str
    test: str


REASONS: tuple[Reason, ...] = ()


def explained_by(verdict: Verdict) -> str | None:
    """The tests that explain all that is outside, or None: nothing is outside, or something has no reason."""
    tests = []
    for quantity in verdict.outside:
        found = [
            reason.test
            for reason in REASONS
            if (reason.profile, reason.quantity) == (verdict.cell.profile, quantity)
            and verdict.cell.flows in reason.flows
        ]
        if not found:
            return None
        tests += found
    return "; ".join(dict.fromkeys(tests)) or None
