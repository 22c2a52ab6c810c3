"""`tune`: scores of all points of a grid over the same paths, and the best point's score on fresh paths."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.job import race_jobs
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.tuning.scores import Score, by_second, score

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe._native import Profile
    from bentpipe.execution.engine import Progress
    from bentpipe.execution.job import Job
    from bentpipe.experiments.experiment import Direction
    from bentpipe.runs.estimates import Estimate
    from bentpipe.tuning.grid import Grid

UNCONFIRMED_S = 3600.0
"""Largest cost of a grid without confirmation [core-seconds]. Chosen here: half an hour on a laptop with two cores."""


@dataclass(frozen=True)
class Cell:
    """A point of the grid and its score."""

    point: tuple[str, ...]
    scheme: str
    score: Score


@dataclass(frozen=True)
class Tuned:
    """Result of tuning.

    Attributes:
        grid: The grid.
        default: The baseline scheme: the given controller without the grid's tunables.
        cells: The points in the order of the grid.
        most_inflation: The limit on the RTT's inflation, mean and p95 (0.10: 10 %).
        best: The point with the largest gain within the limit; None: no point is within it or gains anything.
        fresh: Score of `best` on data that were not used for the choice, where a gain by chance does not recur.
        fresh_on: Description of these data: other Profiles, other random processes, or only other offsets.
        failed: Reasons of failed Runs, in one line each.
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
        """Return the content of ``tune --json``."""
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
    """Score every point of a grid on every Profile with every seed, relative to the controller's defaults.

    Args:
        paths: The Profiles.
        grid: The grid.
        out: Folder of the results' table; stored results are reused.
        direction: Direction of the data.
        duration_s: Duration of each Run [s]; None: that of the shortest Profile.
        seeds: N stands for the seeds 0 … N−1; without `fresh_paths` the best point is scored again on N … 2N−1.
        most_inflation: Largest RTT inflation of the best point, as a share, in the mean and in the 95th percentile of
            all seconds.
        fresh_paths: Profiles that are not used for choosing the best point; on these it is scored again, with the seeds
            0 … N−1. A measured Profile is the same path with every seed, so hold some out.
        on: A Dask scheduler; None: this machine.
        threads: Number of threads on this machine.
        agreed: Allow a grid that takes more than `UNCONFIRMED_S` of core time.
        on_progress: As in `run_sweep`; the fresh Runs count too.

    Raises:
        UserError: A Run is impossible, or the grid takes more core time than allowed.
        RunsInterruptedError, ClusterError, StoreError: As in `run_sweep`.
    """
    if not 0.0 <= most_inflation <= 1e3:
        raise UserError(
            f"{most_inflation:g}",
            where="most_inflation",
            expected="a share of 0 or more, for example 0.10 for 10 %",
        )
    options: dict[str, Any] = {"direction": direction, "duration_s": duration_s, "measure": by_second}
    default = grid.controller
    known = {path.content_hash() for path in paths}
    for path in fresh_paths:
        if path.content_hash() in known:
            raise UserError(
                f"{path.name} is among the Profiles that choose the best point",
                where="fresh_paths",
                expected="another one",
            )
    first = race_jobs(paths, [default], seeds=seeds, **options)
    if not agreed:
        _check_cost(first, grid, len(paths) * seeds)
    settings = {grid.scheme(point): point for point in grid.points()}
    jobs = race_jobs(paths, [default, *settings], seeds=seeds, **options)
    fresh_runs = 2 * seeds * len(fresh_paths or paths)  # the best point's and the default's
    extra = fresh_runs / (len(jobs) + fresh_runs)

    def report(progress: Progress, begin: float, end: float) -> None:
        if on_progress is not None:
            on_progress(replace(progress, share=begin + (end - begin) * progress.share))

    swept = run_sweep(jobs, out=out, on=on, threads=threads, on_progress=lambda p: report(p, 0.0, 1.0 - extra))
    runs = [run for run in swept.runs if run is not None]
    cells = tuple(Cell(point, scheme, score(runs, scheme, default)) for scheme, point in settings.items())
    failed = [str(each) for each in swept.failed.values()]
    best = best_of(cells, most_inflation)
    fresh = None
    if best is not None:
        pair = [default, best.scheme]
        if fresh_paths:
            repeats = race_jobs(fresh_paths, pair, seeds=seeds, **options)
        else:
            repeats = [job for job in race_jobs(paths, pair, seeds=2 * seeds, **options) if job.work.seed >= seeds]
        rescored = run_sweep(
            repeats, out=out, on=on, threads=threads, on_progress=lambda p: report(p, 1.0 - extra, 1.0)
        )
        fresh = score([run for run in rescored.runs if run is not None], best.scheme, default)
        failed += map(str, rescored.failed.values())
    fresh_on = "" if fresh is None else _fresh_on(paths, fresh_paths, seeds)
    return Tuned(grid, default, cells, most_inflation, best, fresh, tuple(failed), fresh_on)


def _fresh_on(paths: Sequence[Profile], fresh_paths: Sequence[Profile], seeds: int) -> str:
    """Describe in one line the data on which the best point was scored again."""
    if fresh_paths:
        return f"{len(fresh_paths)} other Profile(s), not used for the choice"
    fresh_seeds = f"seeds {seeds} … {2 * seeds - 1}"
    drawn = sum(path.seed is not None for path in paths)
    if drawn == len(paths):
        return f"the same places and hours with other random processes, {fresh_seeds}"
    same = "the same path(s), without random processes, at most from other offsets"
    if drawn == 0:
        return f"{same}, {fresh_seeds}: the gain may be chance; try `fresh_paths` with Profiles held out for this"
    return (
        f"{drawn} of {len(paths)} Profiles with other random processes, and {same}, {fresh_seeds}; try `fresh_paths` "
        "with Profiles held out for this"
    )


def best_of(cells: Sequence[Cell], most_inflation: float) -> Cell | None:
    """Return the point with the largest gain within a limit of inflation; None: none is within it or gains anything.

    Points with failed Runs are excluded: the unfinished Runs may be the hard ones.
    """

    def gain(cell: Cell) -> float:
        estimate: Estimate | None = cell.score.gain
        return 0.0 if estimate is None else estimate.mean

    within = [
        cell for cell in cells if not cell.score.missing and cell.score.within(most_inflation) and gain(cell) > 1.0
    ]
    return max(within, key=gain, default=None)


def _check_cost(first: Sequence[Job], grid: Grid, runs_a_point: int) -> None:
    """Refuse a grid that takes long, estimated from the default's first Run.

    That Run is in a temporary folder: a stored result would take no time on the second call.
    """
    with TemporaryDirectory(prefix="bentpipe-tune-") as folder:
        began_s = _spent_s()
        # A failed Run is no estimate of the others.
        run_sweep(first[:1], out=Path(folder), threads=1).whole()
        took_s = _spent_s() - began_s
    runs = grid.size * runs_a_point
    core_s = runs * took_s
    if core_s > UNCONFIRMED_S:
        cores = len(os.sched_getaffinity(0))
        raise UserError(
            f"{grid.size:,} points on {runs_a_point:,} paths are {runs:,} Runs, about {_span(core_s)} of one core "
            f"({_span(core_s / cores)} here)",
            where="grid",
            hint="`agreed` to run them all the same, fewer values, or a cluster (`on`)",
        )


def _spent_s() -> float:
    """Return the processor time so far [s], with ended child processes, in which Python controllers run."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _span(seconds: float) -> str:
    for size, name in ((86400.0 * 365, "years"), (86400.0, "days"), (3600.0, "hours")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds / 60:.0f} minutes"
