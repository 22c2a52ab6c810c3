"""`tune`: every point of a grid over the same paths, the best one within a limit, and that one again on fresh paths."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.sweeps.engine import run_sweep
from bentpipe.execution.sweeps.job import race_jobs
from bentpipe.tuning.scores import Score, by_second, score

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe._native import Profile
    from bentpipe.execution.sweeps.engine import Progress
    from bentpipe.execution.sweeps.job import Job
    from bentpipe.experiments.experiment import Direction
    from bentpipe.runs.estimates import Estimate
    from bentpipe.tuning.grid import Grid

UNASKED_S = 3600.0
"""What a grid may cost before it is asked for [core-seconds]. Chosen here: half an hour on a laptop with two cores."""


@dataclass(frozen=True)
class Cell:
    """A point of the grid and what it is worth."""

    point: tuple[str, ...]
    scheme: str
    score: Score


@dataclass(frozen=True)
class Tuned:
    """What tuning found.

    Attributes:
        grid: What was tried.
        default: The scheme everything is held against: the controller as it was given, without the grid's tunables.
        cells: In the order of the grid.
        most_inflation: The limit on the RTT's inflation, mean and p95 (0.10: 10 %).
        best: The largest gain within the limit; None: no point is within it, or none gains anything.
        fresh: `best` scored again on what had no part in choosing it: what was luck does not come again.
        fresh_on: What that was, and how much of it was new: other Profiles, other draws, or only other starts.
        failed: Runs that failed, in one line each.
    """

    grid: Grid
    default: str
    cells: tuple[Cell, ...]
    most_inflation: float
    best: Cell | None
    fresh: Score | None
    failed: tuple[str, ...] = ()
    fresh_on: str = ""

    def to_dict(self) -> dict[str, Any]:
        """What ``tune --json`` prints."""
        names = [name for name, _ in self.grid.axes]

        def cell(each: Cell) -> dict[str, Any]:
            return {"point": dict(zip(names, each.point, strict=True)), "scheme": each.scheme, **asdict(each.score)}

        return {
            "controller": self.grid.controller,
            "default": self.default,
            "most_inflation": self.most_inflation,
            "cells": [cell(each) for each in self.cells],
            "best": None if self.best is None else cell(self.best),
            "fresh": None if self.fresh is None else {"on": self.fresh_on, **asdict(self.fresh)},
            "failed": list(self.failed),
        }


def tune(
    paths: Sequence[Profile],
    grid: Grid,
    *,
    out: Path,
    direction: Direction = "down",
    duration_s: float | None = None,
    seeds: int = 1,
    most_inflation: float = 0.10,
    fresh_paths: Sequence[Profile] = (),
    on: str | None = None,
    threads: int | None = None,
    agreed: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Tuned:
    """Try every point of a grid on every Profile with every seed, against the controller as it is.

    Args:
        paths: The Profiles.
        grid: What to try.
        out: Folder of the results' table; what is there already is not run again.
        direction: The way the data goes.
        duration_s: Of each Run; None: the whole of the shortest Profile.
        seeds: N stands for the seeds 0 … N−1; without `fresh_paths` the winner is scored again on N … 2N−1.
        most_inflation: The best point's RTT may be longer than the default's by less than this part, in the
            mean and in the 95th percentile of all seconds.
        fresh_paths: Profiles that have no part in choosing the best point; on these it is scored again, with the seeds
            0 … N−1. A measured Profile is the same path with every seed, so of those keep some.
        on: A Dask scheduler; None: this machine.
        threads: Of this machine.
        agreed: Whether a grid that takes more than `UNASKED_S` of core time is all right.
        on_progress: As of `run_sweep`; the fresh Runs count, too.

    Raises:
        UserError: What cannot be run, or what costs more than was agreed to: the message says how much.
        and what `run_sweep` raises.
    """
    if not 0.0 <= most_inflation <= 1e3:
        raise UserError(f"--max-rtt-inflation: {most_inflation:g}; wanted a part from 0, for example 0.10 for 10 %")
    how: dict[str, Any] = {"direction": direction, "duration_s": duration_s, "measure": by_second}
    default = grid.controller
    known = {path.content_hash() for path in paths}
    for path in fresh_paths:
        if path.content_hash() in known:
            raise UserError(
                f"--fresh: {path.name} is among the Profiles that choose the best point; wanted another one"
            )
    first = race_jobs(paths, [default], seeds=seeds, **how)
    if not agreed:
        _ask(first, grid, len(paths) * seeds)
    settings = {grid.scheme(point): point for point in grid.points()}
    jobs = race_jobs(paths, [default, *settings], seeds=seeds, **how)
    fresh_runs = 2 * seeds * len(fresh_paths or paths)  # the winner's and the default's
    extra = fresh_runs / (len(jobs) + fresh_runs)

    def heard(progress: Progress, begin: float, end: float) -> None:
        if on_progress is not None:
            on_progress(replace(progress, share=begin + (end - begin) * progress.share))

    swept = run_sweep(jobs, out=out, on=on, threads=threads, on_progress=lambda p: heard(p, 0.0, 1.0 - extra))
    runs = [run for run in swept.runs if run is not None]
    cells = tuple(Cell(point, scheme, score(runs, scheme, default)) for scheme, point in settings.items())
    failed = list(swept.failed.values())
    best = best_of(cells, most_inflation)
    fresh = None
    if best is not None:
        pair = [default, best.scheme]
        if fresh_paths:
            again = race_jobs(fresh_paths, pair, seeds=seeds, **how)
        else:
            again = [job for job in race_jobs(paths, pair, seeds=2 * seeds, **how) if job.work.seed >= seeds]
        rescored = run_sweep(again, out=out, on=on, threads=threads, on_progress=lambda p: heard(p, 1.0 - extra, 1.0))
        fresh = score([run for run in rescored.runs if run is not None], best.scheme, default)
        failed += rescored.failed.values()
    said = "" if fresh is None else _fresh_on(paths, fresh_paths, seeds)
    return Tuned(grid, default, cells, most_inflation, best, fresh, tuple(failed), said)


def _fresh_on(paths: Sequence[Profile], fresh_paths: Sequence[Profile], seeds: int) -> str:
    """How new what the winner was scored again on was, in one line."""
    if fresh_paths:
        return f"{len(fresh_paths)} other Profile(s), which had no part in choosing it"
    again = f"seeds {seeds} … {2 * seeds - 1}"
    drawn = sum(path.seed is not None for path in paths)
    if drawn == len(paths):
        return f"the same places and hours drawn anew, {again}"
    same = "the same path(s), in which nothing is drawn, from other moments on at most"
    if drawn == 0:
        return f"{same}, {again}: luck is not ruled out; --fresh takes Profiles kept for this"
    return f"{drawn} of {len(paths)} Profiles drawn anew, and {same}, {again}; --fresh takes Profiles kept for this"


def best_of(cells: Sequence[Cell], most_inflation: float) -> Cell | None:
    """The point with the largest gain within a limit of inflation; None: none is within it, or none gains anything.

    A point of which Runs failed is none: what it cannot finish may be what is hard.
    """

    def gain(cell: Cell) -> float:
        found: Estimate | None = cell.score.gain
        return 0.0 if found is None else found.mean

    within = [
        cell for cell in cells if not cell.score.missing and cell.score.within(most_inflation) and gain(cell) > 1.0
    ]
    return max(within, key=gain, default=None)


def _ask(first: Sequence[Job], grid: Grid, runs_a_point: int) -> None:
    """Refuse a grid that costs much: by what the default's first Run takes.

    It is run in a folder of its own: from the table of results it would cost nothing the second time.
    """
    with TemporaryDirectory(prefix="bentpipe-tune-") as folder:
        began_s = _spent_s()
        # A Run that fails is no measure of those that do not.
        run_sweep(first[:1], out=Path(folder), threads=1).whole()
        took_s = _spent_s() - began_s
    runs = grid.size * runs_a_point
    core_s = runs * took_s
    if core_s > UNASKED_S:
        cores = len(os.sched_getaffinity(0))
        raise UserError(
            f"--grid: {grid.size:,} points on {runs_a_point:,} paths are {runs:,} Runs, about {_span(core_s)} of one "
            f"core ({_span(core_s / cores)} here); --yes runs them, fewer values or --on a cluster cost less"
        )


def _spent_s() -> float:
    """Processor time so far [s], of processes that have ended too: controllers in Python run in some of their own."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _span(seconds: float) -> str:
    for size, name in ((86400.0 * 365, "years"), (86400.0, "days"), (3600.0, "hours")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds / 60:.0f} minutes"
