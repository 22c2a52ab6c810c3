"""The 24 cells of the comparison: each a path and a scheme.

Each path has each controller alone, and three pairs. Of the six pairs of three controllers, each occurs twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WARMUP_S = 10.0
"""Warm-up that all results leave out, also those of the short Runs of ``--quick`` [s]."""

ALONE = ("reno", "cubic", "bbr")

PAIRS: Mapping[str, tuple[str, ...]] = {
    "fibre": ("cubic+cubic", "reno+bbr", "cubic+bbr"),
    "geo": ("reno+reno", "bbr+bbr", "reno+cubic"),
    "leo-computed": ("cubic+cubic", "bbr+bbr", "cubic+bbr"),
    "leo-measured": ("reno+reno", "reno+cubic", "reno+bbr"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One path (`bentpipe.validation.sim_vs_kernel.paths`) and one scheme of a race."""

    profile: str
    flows: str

    @property
    def alone(self) -> bool:
        """Whether one flow has the path to itself."""
        return "+" not in self.flows


CELLS: tuple[Cell, ...] = tuple(Cell(profile, flows) for profile, pairs in PAIRS.items() for flows in (*ALONE, *pairs))


@dataclass(frozen=True, slots=True)
class Effort:
    """Duration of the Runs, and number of seeds.

    Two flows need at least ten seeds to show that their shares are equal. A flow alone has three, chosen here: its
    results mostly differ by about 1 % between Runs. It runs for 70 s, of which 10 s are warm-up: on the geostationary
    path BBR nearly stops for 1.3 s (`PROBE_RTT`), on Linux 6.18 every 17 to 50 s, and chance decides whether a shorter
    Run contains that. Pairs run for 30 s, since ten of each take the time.

    A cell that is outside its limits after the first look, or not surely inside, gets another look with more seeds, as
    often as `alone` or `pairs` has numbers: where results scatter, a few Runs show little. If it is still outside, the
    kernel runs the first `repeated` seeds again, to measure its own repeatability.

    Attributes:
        alone_s: Duration of a Run with one flow [s].
        pair_s: Duration of a Run with two flows [s].
        alone: Seeds of a cell with one flow, by look.
        pairs: Seeds of a cell with two flows, by look.
        repeated: Seeds that the kernel runs twice.
        simulated: Seeds of a pair in the simulator, which is faster, in every look.
        insist: Whether a Run on a machine that was not quite idle is repeated.
    """

    alone_s: float = 70.0
    pair_s: float = 30.0
    alone: tuple[int, ...] = (3, 10)
    pairs: tuple[int, ...] = (10, 20, 40)
    repeated: int = 20
    simulated: int = 200
    insist: bool = True

    def duration_s(self, cell: Cell) -> float:
        """Return the duration of a Run of the cell [s]."""
        return self.alone_s if cell.alone else self.pair_s

    def seeds(self, cell: Cell) -> tuple[int, ...]:
        """Return the number of seeds of a cell in each look; a look includes the seeds of the one before."""
        return self.alone if cell.alone else self.pairs

    def kernel_s(self, cells: Mapping[Cell, int]) -> float:
        """Return the real time that the given number of kernel Runs of each cell takes, one after the other [s]."""
        return sum(many * (self.duration_s(cell) + START_S) for cell, many in cells.items())

    def first_look(self) -> dict[Cell, int]:
        """Return all cells with the number of seeds of their first look."""
        return {cell: self.seeds(cell)[0] for cell in CELLS}


START_S = 1.0
"""Time that an emulation takes to start and to end, about [s]."""

FULL = Effort()

QUICK = Effort(alone_s=20.0, pair_s=20.0, alone=(1,), pairs=(1,), repeated=0, simulated=1, insist=False)
"""One seed, and ten seconds after the warm-up: eight minutes. It shows only large differences."""
