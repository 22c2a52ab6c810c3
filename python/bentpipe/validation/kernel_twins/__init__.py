"""Claim: on the same path, a controller in the kernel does what its twin does in the simulator.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.errors import UserError, printable
from bentpipe.experiments.schemes import needs_of
from bentpipe.kernel import controllers
from bentpipe.kernel.clock.daemon import clock_program
from bentpipe.kernel.libbpf import KernelRefusedError
from bentpipe.runs.estimates import paired_ratio
from bentpipe.runs.text import interval
from bentpipe.times import SLOT_S
from bentpipe.validation import Outcome, Row
from bentpipe.validation.kernel_twins.announcing import clock_for, clock_of
from bentpipe.validation.kernel_twins.chance import ratio_beside_chance, simulate_again
from bentpipe.validation.kernel_twins.paths import QUICK, make_paths
from bentpipe.validation.sim_vs_kernel.cells import START_S, WARMUP_S, Cell, Effort
from bentpipe.validation.sim_vs_kernel.worlds import (
    Worlds,
    kernel_host,
    run_cell,
    same_path,
    side,
    simulate,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bentpipe._native import Profile
    from bentpipe.runs.estimates import Estimate
    from bentpipe.runs.store import Run
    from bentpipe.validation import OnProgress

CLAIM = "kernel-twins"
OUT = Path("out") / CLAIM

TOLERANCE = 0.05
"""Largest difference of goodput and of the mean window on each path (issue 21)."""

FULL = Effort(alone_s=30.0, alone=(2,))
SHORT = Effort(alone_s=15.0, alone=(1,), insist=False)
"""One seed, and five seconds after the warm-up: it shows that the comparison works, and no more."""
PATHS = 10
AGAIN = 10
"""Further Runs of the simulator over the path of each Run on the kernel. Chosen here: minutes of two processors."""
TOGETHER = 2
"""Runs on the kernel at once, each with hosts and a path of its own."""
ALONE = frozenset({"hybla"})
"""Controllers whose window grows with each ACK, whatever it covers. A Run beside delays the program that receives, so
its kernel sends fewer: these run one at a time."""
SIMULATED_SHARE = 0.1
"""Progress when all is simulated: about its part of the time."""


@dataclass(frozen=True)
class Twins:
    """A controller on a path, in the kernel and in the simulator.

    Attributes:
        goodput_bps: Goodput of each seed in the kernel, and, for each, of the simulator's Runs over the same realised
            path: the first with the same seed, the others with other seeds [bit/s].
        window_bytes: Mean window of each [bytes].
        why_invalid: Why the kernel's Runs do not count; None: they do.
    """

    controller: str
    path: str
    goodput_bps: tuple[list[float], list[list[float]]]
    window_bytes: tuple[list[float], list[list[float]]]
    why_invalid: str | None

    def ratio(self, figure: str) -> Estimate | None:
        """Return kernel ÷ simulator of a figure, with the interval of chance; None: there is no ratio."""
        return None if self.why_invalid else ratio_beside_chance(*getattr(self, figure))


def real_time_s(*, quick: bool) -> float:
    """Return how long the kernel's Runs take [s]."""
    effort, paths = (SHORT, len(QUICK)) if quick else (FULL, PATHS)
    names = controllers.available()
    wait_s = SLOT_S / 2 * sum(needs_of(name) in {"clock", "schedule"} for name in names)  # half a slot each
    run_s = (effort.alone_s + START_S) * sum(TOGETHER if name in ALONE else 1 for name in names)
    return paths * effort.alone[0] * (run_s + wait_s) / TOGETHER


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Run each controller on each path in both worlds; needs no data.

    Runs that the folder has are not repeated: after an interruption the same command goes on.
    """
    del data
    effort = SHORT if quick else FULL
    folder = out or (OUT.with_name(f"{OUT.name}-quick") if quick else OUT)
    names = controllers.available()
    if not names:
        return Outcome(CLAIM, skipped="no programs are compiled here (make kernel)")
    if (other := clock_program()) is not None:
        return Outcome(CLAIM, skipped=f"process {printable(other)} keeps the clock of this host: end it first")
    every = make_paths(effort.alone_s, quick=quick)
    again = 0 if quick else AGAIN
    try:
        with loaded(names):
            _require_defaults(names)
            twins = _run(every, names, effort, again, folder, on_progress)
    except UserError as error:
        return Outcome(CLAIM, skipped=str(error))
    rows = [row for name in names for row in _rows([each for each in twins if each.controller == name])]
    notes = [
        f"{len(every)} paths, {effort.alone[0]} Runs on the kernel, {effort.alone_s:g} s each without the first "
        f"{WARMUP_S:g} s, {TOGETHER} at once; {1 + again} of the simulator for each of them",
        "within, off: all values, no value of a path's interval of 95 % (from the simulator's scatter); else undecided",
    ]
    notes += [f"{each.controller} on {each.path}: not valid: {each.why_invalid}" for each in twins if each.why_invalid]
    return Outcome(CLAIM, rows, notes, cells=[_cell(each) for each in twins])


def _run(
    every: Sequence[Profile], names: Sequence[str], effort: Effort, again: int, folder: Path, on_progress: OnProgress
) -> list[Twins]:
    """Simulate all cells, then run them on the kernel: no simulation takes a processor beside a Run in real time.

    The controllers that a simulator gives the schedule come last, beside `bentpipe clock`: all others have no clock.
    """
    cells = [(path, name, folder / path.name / name) for path in every for name in names]
    host = kernel_host()
    others: dict[Path, list[tuple[Run, ...]]] = {}
    for n, (path, name, out) in enumerate(cells, 1):
        cell, seeds = Cell(path.name, name), effort.alone[0]
        simulate(cell, path, effort, seeds, out, host)
        others[out] = [
            simulate_again(cell, path, effort.alone_s, seed, again, out / "again", host) if again else ()
            for seed in range(seeds)
        ]
        on_progress(SIMULATED_SHARE * n / len(cells))
    twins: dict[Path, Twins] = {}

    def run(path: Profile, name: str, out: Path, check: Callable[[str], None]) -> Twins:
        worlds = run_cell(Cell(path.name, name), path, effort, out, lambda _: None)
        try:
            check(name)
        except UserError:
            for each in worlds.kernel:  # else the next command would take them
                shutil.rmtree(each.path)
            raise
        return _compare(worlds, others[out])

    def run_all(
        group: Sequence[tuple[Profile, str, Path]],
        together: int = TOGETHER,
        check: Callable[[str], None] = lambda _: None,
    ) -> None:
        with ThreadPoolExecutor(together) as pool:
            waiting = {cell[2]: pool.submit(run, *cell, check) for cell in group}
            try:
                for out, each in waiting.items():
                    twins[out] = each.result()
                    on_progress(SIMULATED_SHARE + (1 - SIMULATED_SHARE) * len(twins) / len(cells))
            finally:
                pool.shutdown(cancel_futures=True)

    by_clock: dict[tuple[float, float] | None, list[tuple[Profile, str, Path]]] = {None: []}
    for each in cells:
        by_clock.setdefault(clock_for(*each[:2]), []).append(each)
    without_clock = by_clock.pop(None)
    run_all([cell for cell in without_clock if cell[1] not in ALONE])
    run_all([cell for cell in without_clock if cell[1] in ALONE], together=1)
    for group in by_clock.values():
        with clock_of(group[0][0], folder) as check:
            run_all(group, check=check)
    return [twins[out] for _, _, out in cells]


@contextmanager
def loaded(names: Sequence[str]) -> Iterator[None]:
    """Load those controllers that are not loaded, and unload each of them again, whatever fails.

    Raises:
        UserError: The first error, of the block, too; later errors of unloading are its notes.
    """
    there = {each.name for each in controllers.loaded_controllers() if each.state == controllers.STATES[1]}
    mine, errors = list[str](), list[BaseException]()
    try:
        for name in names:
            if name not in there:
                controllers.load_controller(name)
                mine.append(name)
        yield
    except BaseException as error:  # noqa: BLE001 - raised below, after unloading
        errors.append(error)
    for name in mine:
        try:
            controllers.unload_controller(name)
        except (UserError, KernelRefusedError) as error:
            errors.append(error)
    for later in errors[1:]:
        errors[0].add_note(str(later))
    if errors:
        raise errors[0]


def _require_defaults(names: Sequence[str]) -> None:
    """Raise `UserError` if a controller, loaded before, has other options than its twin."""
    for name in names:
        if not controllers.has_default_options(name):
            raise UserError(
                f"{name} is loaded with other options than its twin", hint=f"bentpipe kernel unload {name}, then again"
            )


def _compare(worlds: Worlds, others: Sequence[Sequence[Run]]) -> Twins:
    if not same_path(worlds):
        raise UserError(f"{worlds.cell.profile}: both worlds had different paths", hint="choose another folder with -o")
    simulated = [[same, *more] for same, more in zip(worlds.simulated, others, strict=True)]
    goodput, window = (
        ([figure(run) for run in worlds.kernel], [[figure(run) for run in runs] for runs in simulated])
        for figure in (_goodput_bps, _window_bytes)
    )
    return Twins(worlds.cell.flows, worlds.cell.profile, goodput, window, worlds.why_invalid)


def _goodput_bps(run: Run) -> float:
    return side([run]).runs[0].goodput_bps


def _window_bytes(run: Run) -> float:
    rows = table(run, "samples").filter(pl.col("t_s") > WARMUP_S)
    return float(rows.select(pl.col("cwnd_bytes").cast(pl.Float64).mean()).item() or 0.0)


def _rows(twins: Sequence[Twins]) -> list[Row]:
    rows = []
    for figure, text in (("goodput_bps", "goodput"), ("window_bytes", "mean window")):
        ratios = {each.path: each.ratio(figure) for each in twins}
        off = {path: abs(ratio.mean - 1) if ratio else math.inf for path, ratio in ratios.items()}
        near = [path for path, by in off.items() if by <= TOLERANCE]
        within = [path for path, ratio in ratios.items() if _is_within(ratio)]
        surely_off = [path for path, ratio in ratios.items() if _is_off(ratio)]
        worst = max(off, key=lambda path: off[path])
        means = [ratio.mean for ratio in ratios.values() if ratio]
        overall = paired_ratio(means, [1.0] * len(means))
        ends = f" ({interval(overall)})" if overall and interval(overall) else ""
        mean = f"{overall.mean:.3f}{ends}" if overall else "–"
        rows.append(
            Row(
                f"{twins[0].controller}: {text}, kernel ÷ simulator",
                f"{mean}; of {len(twins)} paths {len(within)} within, {len(surely_off)} off, {len(near)} by the mean",
                f"worst: {worst} {_with_ends(ratios[worst])}",
                f"{TOLERANCE:.0%} on each path",
                False if surely_off else len(within) == len(twins) or None,
            )
        )
    return rows


def _ends(ratio: Estimate) -> tuple[float, float]:
    """Return the ends of its interval; if it has none, its mean."""
    low, high = (ratio.mean if end is None else end for end in (ratio.low, ratio.high))
    return low, high


def _is_within(ratio: Estimate | None) -> bool:
    return ratio is not None and all(abs(end - 1) <= TOLERANCE for end in _ends(ratio))


def _is_off(ratio: Estimate | None) -> bool:
    if ratio is None:
        return True
    low, high = _ends(ratio)
    return low > 1 + TOLERANCE or high < 1 - TOLERANCE


def _with_ends(ratio: Estimate | None) -> str:
    if ratio is None:
        return "not valid"
    return f"{ratio.mean:.3f}" + (f" ({interval(ratio)})" if interval(ratio) else "")


def _cell(each: Twins) -> dict[str, object]:
    figures = ("goodput_bps", "window_bytes")
    values = {name: dict(zip(("kernel", "simulator"), getattr(each, name), strict=True)) for name in figures}
    return {"controller": each.controller, "path": each.path, **values, "why_invalid": each.why_invalid}
