"""Compare the simulator with this machine's kernel: the same Profile and Experiment in both worlds.

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
from bentpipe.validation.sim_vs_kernel.page import write_page
from bentpipe.validation.sim_vs_kernel.paths import make_paths
from bentpipe.validation.sim_vs_kernel.reference import store_reference
from bentpipe.validation.sim_vs_kernel.rows import cell_of, rows_of
from bentpipe.validation.sim_vs_kernel.worlds import Worlds, repeat, run_cell, same_path, side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe._native import Profile

CLAIM = "sim-vs-kernel"

OUT = Path("out") / CLAIM
"""Default folder for Runs and page; ``--quick`` has its own beside it."""


FIRST_LOOK_SHARE, LAST_LOOK = 0.6, 0.9
"""Progress at the end of the first look, and at the start of the repeated kernel Runs. Only then is it known how many
cells need them."""


@dataclass(frozen=True)
class Comparison:
    """Verdicts on all cells, notes, and the page."""

    verdicts: list[Verdict]
    notes: list[str] = field(default_factory=list)
    page: Path | None = None

    def cells(self) -> list[dict[str, Any]]:
        """Return the records that ``validate --json`` prints."""
        return [cell_of(verdict) for verdict in self.verdicts]


def effort_of(quick: bool) -> Effort:
    """Return the effort of the whole comparison, or of ``--quick``."""
    return QUICK if quick else FULL


def real_time_s(*, quick: bool) -> float:
    """Return how long the first look takes on the kernel [s]."""
    effort = effort_of(quick)
    return effort.kernel_s(effort.first_look())


def compare(
    out: Path, effort: Effort, *, data: Path | None = None, on_progress: Callable[[float], None] = lambda _: None
) -> Comparison:
    """Run every cell in both worlds and judge it. Runs that `out` already has are not repeated.

    Args:
        out: Folder for Runs and page.
        effort: Duration of the Runs and number of seeds.
        data: Folder with the measurement for `leo-measured`; None: a generated one.
        on_progress: Called with the part done, 0 to 1.

    Raises:
        UserError: The machine cannot run it (no namespaces, no TUN, no such controller).
    """
    profiles: dict[float, dict[str, Profile]] = {}
    notes: list[str] = []
    for duration_s in sorted({effort.duration_s(cell) for cell in CELLS}):
        profiles[duration_s], notes = make_paths(duration_s, data, out / f"trace-{duration_s:g}")
    judged: dict[Cell, tuple[Worlds, Verdict]] = {}

    def path_of(cell: Cell) -> Profile:
        return profiles[effort.duration_s(cell)][cell.profile]

    def take(worlds: Worlds) -> None:
        if not same_path(worlds):
            raise AssertionError(f"{worlds.cell}: the two worlds had different paths")
        sides = [side(runs) if runs else None for runs in (worlds.more, worlds.repeated)]
        verdict = judge(worlds.cell, side(worlds.simulated), side(worlds.kernel), worlds.why_invalid, *sides)
        judged[worlds.cell] = worlds, verdict
        store_reference(out, worlds)

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
        return repeat(judged[cell][0], path_of(cell), effort, out, on_progress)

    look(partial(nth, 0), effort.first_look(), 0.0, FIRST_LOOK_SHARE)
    looks = max(len(effort.seeds(cell)) for cell in CELLS)
    for number in range(1, looks):
        seeds = {cell: effort.seeds(cell) for cell in CELLS if judged[cell][1].in_doubt}
        more = {cell: n[number] - n[number - 1] for cell, n in seeds.items() if number < len(n)}
        length = (LAST_LOOK - FIRST_LOOK_SHARE) / (looks - 1)
        look(
            partial(nth, number), more, LAST_LOOK - length * (looks - number), LAST_LOOK - length * (looks - 1 - number)
        )
    unexplained = [cell for cell in CELLS if not judged[cell][1].within and explained_by(judged[cell][1]) is None]
    look(itself, dict.fromkeys(unexplained, effort.repeated) if effort.repeated else {}, LAST_LOOK, 1.0)
    on_progress(1.0)
    verdicts = [judged[cell][1] for cell in CELLS]
    comparison = Comparison(verdicts, notes)
    return Comparison(verdicts, notes, write_page(out, comparison.cells(), [judged[cell][0] for cell in CELLS], notes))


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Check the claim: run the comparison."""
    folder = out or (OUT.with_name(f"{CLAIM}-quick") if quick else OUT)
    comparison = compare(folder, effort_of(quick), data=data, on_progress=on_progress)
    rows = [row for verdict in comparison.verdicts for row in rows_of(verdict)]
    notes = [*comparison.notes, f"side by side: {comparison.page}"]
    return Outcome(CLAIM, rows, notes, cells=comparison.cells())
