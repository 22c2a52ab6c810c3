"""The simulator against this machine's own kernel: the same Profile, the same Experiment, in both worlds.

`compare` runs the 24 cells (`cells`) over four paths (`paths`) in both worlds (`worlds`), judges them (`judge`) and
writes a page (`page`). The kernel is the reference.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.sim_vs_kernel.cells import CELLS, FULL, QUICK, Cell, Effort
from bentpipe.validation.sim_vs_kernel.explanations import against_itself, explained_by
from bentpipe.validation.sim_vs_kernel.judge import QUANTITIES, Verdict, judge
from bentpipe.validation.sim_vs_kernel.page import write_page
from bentpipe.validation.sim_vs_kernel.paths import make_paths
from bentpipe.validation.sim_vs_kernel.worlds import Worlds, repeat, run_cell, same_path, side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe import Profile

CLAIM = "sim-vs-kernel"

OUT = Path("out") / CLAIM
"""Where Runs and page go, unless another folder is asked for; ``--quick`` has one of its own beside it."""


FIRST_LOOK_SHARE, THIRD_LOOK = 0.7, 0.9
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
        return [
            {
                **verdict.to_dict(explained_by(verdict)),
                "against_itself": {
                    quantity: asdict(found)
                    for quantity in verdict.outside
                    if quantity in QUANTITIES and (found := against_itself(verdict, quantity)) is not None
                },
            }
            for verdict in self.verdicts
        ]


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
        repeated = side(worlds.repeated) if worlds.repeated else None
        verdict = judge(worlds.cell, side(worlds.simulated), side(worlds.kernel), worlds.why_invalid, repeated)
        found[worlds.cell] = worlds, verdict

    def look(
        run: Callable[[Cell, Callable[[float], None]], Worlds], seeds: Mapping[Cell, int], begin: float, end: float
    ) -> None:
        total, done = effort.kernel_s(seeds), 0.0
        for cell, more in seeds.items():
            share = effort.kernel_s({cell: more}) / total

            def heard(part: float, done: float = done, share: float = share) -> None:
                on_progress(begin + (end - begin) * (done + part * share))

            take(run(cell, heard))
            done += share

    def first(cell: Cell, heard: Callable[[float], None]) -> Worlds:
        return run_cell(cell, path_of(cell), effort, out, heard)

    def second(cell: Cell, heard: Callable[[float], None]) -> Worlds:
        return run_cell(cell, path_of(cell), effort, out, heard, second_look=True)

    def itself(cell: Cell, heard: Callable[[float], None]) -> Worlds:
        return repeat(found[cell][0], path_of(cell), effort, out, heard)

    look(first, effort.first_look(), 0.0, FIRST_LOOK_SHARE)
    more = {cell: effort.seeds(cell, second_look=True) - effort.seeds(cell) for cell in CELLS}
    look(second, {cell: n for cell, n in more.items() if n and found[cell][1].in_doubt}, FIRST_LOOK_SHARE, THIRD_LOOK)
    unexplained = [cell for cell in CELLS if not found[cell][1].within and explained_by(found[cell][1]) is None]
    look(itself, dict.fromkeys(unexplained, effort.repeated) if effort.repeated else {}, THIRD_LOOK, 1.0)
    on_progress(1.0)
    verdicts = [found[cell][1] for cell in CELLS]
    comparison = Comparison(verdicts, notes)
    return Comparison(verdicts, notes, write_page(out, comparison.cells(), [found[cell][0] for cell in CELLS], notes))


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Run the comparison as a claim."""
    folder = out or (OUT.with_name(f"{CLAIM}-quick") if quick else OUT)
    comparison = compare(folder, effort_of(quick), data=data, on_progress=on_progress)
    rows = [row for verdict in comparison.verdicts for row in _rows(verdict)]
    notes = [*comparison.notes, f"side by side: {comparison.page}"]
    return Outcome(CLAIM, rows, notes, cells=comparison.cells())


def _rows(verdict: Verdict) -> list[Row]:
    cell = f"{verdict.cell.profile}, {verdict.cell.flows} (n = {verdict.n})"
    ours, theirs = verdict.simulated, verdict.kernel
    because = f" ({why})" if (why := explained_by(verdict)) else ""

    def row(what: str, quantity: str, scale: float, digits: int, limit: str, name: str) -> Row:
        values = [f"{scale * world.mean(quantity):.{digits}f}" for world in (ours, theirs)]
        return Row(f"{cell}: {what}", values[0], values[1], limit + because, name not in verdict.outside)

    alone = verdict.cell.alone
    rows = [row("goodput [Mbit/s]", "goodput_bps", 1e-6, 2, "± 5 %" if alone else "± 3 %", "goodput")]
    if alone:
        rows.append(row("one-way delay [ms]", "delay_ms", 1.0, 2, "± 5 % or 1 ms", "delay"))
        rows.append(row("sent again [%]", "retransmit_rate", 100.0, 3, "± 20 % or 0.1 point", "retransmits"))
    elif (test := verdict.share_test) is not None:
        limit = f"TOST ± 5 points, p {test.p:.3f}" + because
        shares = [f"{100 * share:.1f}" for share in (test.simulated, test.kernel)]
        rows.append(Row(f"{cell}: first flow's share [%]", shares[0], shares[1], limit, test.equivalent))
    if verdict.why_invalid is not None:
        rows.append(Row(f"{cell}: the kernel's runs", "", verdict.why_invalid, "valid", within=False))
    return rows
