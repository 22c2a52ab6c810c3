"""The simulator against this machine's own kernel: the same Profile, the same Experiment, in both worlds.

`compare` runs the 24 cells (`cells`) over four paths (`paths`) in both worlds (`worlds`), judges them (`judge`) and
writes a page (`page`). The kernel is the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.validation import OnProgress, Outcome
from bentpipe.validation.sim_vs_kernel.cells import CELLS, FULL, QUICK, Cell, Effort
from bentpipe.validation.sim_vs_kernel.explanations import explained_by
from bentpipe.validation.sim_vs_kernel.judge import Verdict, judge
from bentpipe.validation.sim_vs_kernel.kept import keep
from bentpipe.validation.sim_vs_kernel.page import write_page
from bentpipe.validation.sim_vs_kernel.paths import make_paths
from bentpipe.validation.sim_vs_kernel.rows import cell_of, rows_of
from bentpipe.validation.sim_vs_kernel.worlds import Worlds, repeat, run_cell, same_path, side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe._native import Profile

CLAIM = "sim-vs-kernel"

OUT = Path("out") / CLAIM
"""Where Runs and page go, unless another folder is asked for; ``--quick`` has one of its own beside it."""


FIRST_LOOK_SHARE, LAST_LOOK = 0.6, 0.9
"""Where in the progress the first look ends, and where the kernel begins to be held against itself: how many cells need
either is known only then."""


@dataclass(frozen=True)
class Comparison:
    """All cells, what is to be said of them, and the page."""

    verdicts: list[Verdict]
    notes: list[str] = field(default_factory=list)
    page: Path | None = None

    def cells(self) -> list[dict[str, Any]]:
        """As ``validate --json`` prints them."""
        return [cell_of(verdict) for verdict in self.verdicts]


def effort_of(quick: bool) -> Effort:
    """What ``--quick`` chooses."""
    return QUICK if quick else FULL


def compare(
    out: Path, effort: Effort, *, data: Path | None = None, on_progress: Callable[[float], None] = lambda _: None
) -> Comparison:
    """Run every cell in both worlds and hold them against each other; Runs that are in `out` already are kept.

    Args:
        out: Folder for Runs and page.
        effort: How long, how many seeds.
        data: Folder with the measurement for `leo-measured`; None: a generated one.
        on_progress: Told the share done, 0 to 1.

    Raises:
        UserError: what this machine cannot run (no namespaces, no TUN, no such controller).
    """
    profiles: dict[float, dict[str, Profile]] = {}
    notes: list[str] = []
    for duration_s in sorted({effort.duration_s(cell) for cell in CELLS}):
        profiles[duration_s], notes = make_paths(duration_s, data, out / f"trace-{duration_s:g}")
    found: dict[Cell, tuple[Worlds, Verdict]] = {}

    def path_of(cell: Cell) -> Profile:
        return profiles[effort.duration_s(cell)][cell.profile]

    def take(worlds: Worlds) -> None:
        if not same_path(worlds):
            raise AssertionError(f"{worlds.cell}: the two worlds met different paths")
        sides = [side(runs) if runs else None for runs in (worlds.more, worlds.repeated)]
        verdict = judge(worlds.cell, side(worlds.simulated), side(worlds.kernel), worlds.why_invalid, *sides)
        found[worlds.cell] = worlds, verdict
        keep(out, worlds)

    def look(
        run: Callable[[Cell, Callable[[float], None]], Worlds], seeds: Mapping[Cell, int], begin: float, end: float
    ) -> None:
        total, done = effort.kernel_s(seeds), 0.0
        for cell, more in seeds.items():
            share = effort.kernel_s({cell: more}) / total

            def on_cell_progress(part: float, done: float = done, share: float = share) -> None:
                on_progress(begin + (end - begin) * (done + part * share))

            take(run(cell, on_cell_progress))
            done += share

    def nth(number: int, cell: Cell, on_progress: Callable[[float], None]) -> Worlds:
        return run_cell(cell, path_of(cell), effort, out, on_progress, look=number)

    def itself(cell: Cell, on_progress: Callable[[float], None]) -> Worlds:
        return repeat(found[cell][0], path_of(cell), effort, out, on_progress)

    look(partial(nth, 0), effort.first_look(), 0.0, FIRST_LOOK_SHARE)
    looks = max(len(effort.seeds(cell)) for cell in CELLS)
    for number in range(1, looks):
        seeds = {cell: effort.seeds(cell) for cell in CELLS if found[cell][1].in_doubt}
        more = {cell: n[number] - n[number - 1] for cell, n in seeds.items() if number < len(n)}
        length = (LAST_LOOK - FIRST_LOOK_SHARE) / (looks - 1)
        look(
            partial(nth, number), more, LAST_LOOK - length * (looks - number), LAST_LOOK - length * (looks - 1 - number)
        )
    unexplained = [cell for cell in CELLS if not found[cell][1].within and explained_by(found[cell][1]) is None]
    look(itself, dict.fromkeys(unexplained, effort.repeated) if effort.repeated else {}, LAST_LOOK, 1.0)
    on_progress(1.0)
    verdicts = [found[cell][1] for cell in CELLS]
    comparison = Comparison(verdicts, notes)
    return Comparison(verdicts, notes, write_page(out, comparison.cells(), [found[cell][0] for cell in CELLS], notes))


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Run the comparison as a claim."""
    folder = out or (OUT.with_name(f"{CLAIM}-quick") if quick else OUT)
    comparison = compare(folder, effort_of(quick), data=data, on_progress=on_progress)
    rows = [row for verdict in comparison.verdicts for row in rows_of(verdict)]
    notes = [*comparison.notes, f"side by side: {comparison.page}"]
    return Outcome(CLAIM, rows, notes, cells=comparison.cells())
