"""The fixed list of what is held against the kernel: 24 cells of a path and a scheme.

Each path meets each controller alone, and three pairs. Of the six pairs that three controllers make, each comes twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WARMUP_S = 10.0
"""Left out of all figures [s], also of the quick version's short runs."""

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
    """How long each Run is, and how many seeds there are.

    Two flows need at least ten for their shares to be called equal. Chosen here: three for a flow alone, whose figures
    mostly differ between runs by a per cent or so. A flow alone runs for 70 s, the first ten of them warm-up: BBR all
    but stops for 1.3 s on the geostationary path (`PROBE_RTT`), on Linux 6.18 every 17 to 50 s, and whether that is in
    a shorter Run at all is chance. Pairs run for half a minute: ten of each take the time. A cell that is outside after
    that, or not surely inside, is looked at again with more seeds, as often as there are numbers of them: where figures
    scatter, a few Runs say little. If it still is, the kernel is held against itself, with `repeated` of the seeds
    again. `simulated`: seeds of a pair in the simulator, which has time for them, in every look. `insist`: whether a
    Run on a machine that was not quite calm is repeated.
    """

    alone_s: float = 70.0
    pair_s: float = 30.0
    alone: tuple[int, ...] = (3, 10)
    pairs: tuple[int, ...] = (10, 20, 40)
    repeated: int = 20
    simulated: int = 200
    insist: bool = True

    def duration_s(self, cell: Cell) -> float:
        """How long a Run of the cell is [s]."""
        return self.alone_s if cell.alone else self.pair_s

    def seeds(self, cell: Cell) -> tuple[int, ...]:
        """Seeds of a cell in each look, those of one among those of the next."""
        return self.alone if cell.alone else self.pairs

    def kernel_s(self, cells: Mapping[Cell, int]) -> float:
        """How long so many of the kernel's Runs of each cell take: in real time, one after the other [s]."""
        return sum(many * (self.duration_s(cell) + START_S) for cell, many in cells.items())

    def first_look(self) -> dict[Cell, int]:
        """All cells, with their seeds of the first look."""
        return {cell: self.seeds(cell)[0] for cell in CELLS}


START_S = 1.0
"""What an emulation takes to start and to end [s], about."""

FULL = Effort()

QUICK = Effort(alone_s=20.0, pair_s=20.0, alone=(1,), pairs=(1,), repeated=0, simulated=1, insist=False)
"""One seed, and ten seconds after the warm-up: eight minutes. It says whether something is far off, not more."""
