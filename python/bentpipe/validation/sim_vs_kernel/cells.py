"""The fixed list of what is held against the kernel: 24 cells of a path and an entrant.

Each path meets each controller alone, and three pairs. Of the six pairs that three controllers make, each comes twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ALONE = ("reno", "cubic", "bbr")

PAIRS: Mapping[str, tuple[str, ...]] = {
    "fibre": ("cubic+cubic", "reno+bbr", "cubic+bbr"),
    "geo": ("reno+reno", "bbr+bbr", "reno+cubic"),
    "leo-computed": ("cubic+cubic", "bbr+bbr", "cubic+bbr"),
    "leo-measured": ("reno+reno", "reno+cubic", "reno+bbr"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One path (`bentpipe.validation.sim_vs_kernel.paths`) and one entrant of a race."""

    profile: str
    flows: str

    @property
    def alone(self) -> bool:
        """Whether one flow has the path to itself."""
        return "+" not in self.flows


CELLS: tuple[Cell, ...] = tuple(Cell(profile, flows) for profile, pairs in PAIRS.items() for flows in (*ALONE, *pairs))


@dataclass(frozen=True, slots=True)
class Effort:
    """How long each Run is, and how many seeds there are.

    Two flows need at least ten for their shares to be called equal. Chosen here: three for a flow alone, whose figures
    mostly differ between runs by a per cent or so. A flow alone runs for 70 s, the first ten of them warm-up: BBR all
    but stops for 1.3 s on the geostationary path (`PROBE_RTT`), on Linux 6.18 every 17 to 50 s, and whether that is in
    a shorter Run at all is chance. Pairs run for half a minute: ten of each take the time. A cell that is outside after
    that, or not surely inside, is looked at once more with the seeds of `second_look`: where figures scatter, a few
    Runs say little. If it still is, the kernel is held against itself, with `repeated` of the seeds again. `insist`:
    whether a Run on a machine that was not quite calm is repeated.
    """

    alone_s: float = 70.0
    pair_s: float = 30.0
    alone: int = 3
    pairs: int = 10
    alone_again: int = 10
    pairs_again: int = 20
    repeated: int = 20
    insist: bool = True

    def duration_s(self, cell: Cell) -> float:
        """How long a Run of the cell is [s]."""
        return self.alone_s if cell.alone else self.pair_s

    def seeds(self, cell: Cell, *, second_look: bool = False) -> int:
        """Seeds of a cell, those of the first look among those of the second."""
        if second_look:
            return self.alone_again if cell.alone else self.pairs_again
        return self.alone if cell.alone else self.pairs

    def kernel_s(self, cells: Mapping[Cell, int]) -> float:
        """How long so many of the kernel's Runs of each cell take: in real time, one after the other [s]."""
        return sum(many * (self.duration_s(cell) + START_S) for cell, many in cells.items())

    def first_look(self) -> dict[Cell, int]:
        """All cells, with their seeds of the first look."""
        return {cell: self.seeds(cell) for cell in CELLS}


START_S = 1.0
"""What an emulation takes to start and to end [s], about."""

FULL = Effort()

QUICK = Effort(alone_s=20.0, pair_s=20.0, alone=1, pairs=1, alone_again=1, pairs_again=1, repeated=0, insist=False)
"""One seed, and ten seconds after the warm-up: eight minutes. It says whether something is far off, not more."""
