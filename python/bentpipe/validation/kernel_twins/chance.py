"""What chance alone does to a Run of the simulator: Runs over the same realised path with other seeds."""

from __future__ import annotations

import math
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.execution.racing import run_experiment
from bentpipe.execution.sinks.folder import OtherRunError
from bentpipe.experiments.experiment import ROLE
from bentpipe.experiments.file import ExperimentFile
from bentpipe.runs.estimates import Estimate, t_quantile
from bentpipe.validation.sim_vs_kernel.worlds import HOST, experiment_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.runs.store import Run
    from bentpipe.validation.sim_vs_kernel.cells import Cell

FIRST_SEED = 1000
"""First seed of these Runs: no Run on the kernel has it."""


def simulate_again(
    cell: Cell, path: Profile, duration_s: float, seed: int, many: int, out: Path, host: Mapping[str, int]
) -> tuple[Run, ...]:
    """Simulate a cell `many` times over the path that a seed draws, from its phase: all else is drawn by other seeds.

    Runs that the folder `out` has are not repeated. Raises `UserError` if they are of another experiment.
    """

    def run(other: int) -> Run:
        # A Run draws its path with the Profile's own seed plus its own.
        drawn = path if path.seed is None else path.reseed((path.seed + seed - other) % 2**64)
        experiment = experiment_of(cell, drawn, duration_s, seed)
        hosts = {HOST: experiment.hosts[HOST].replace(**host)}
        file = ExperimentFile(experiment.replace(seed=other, hosts=hosts), {ROLE: Path(cell.profile)})
        return run_experiment(file, [drawn], out=out / f"seed{seed}-{other}", jobs=1, careful=False).runs[0]

    with warnings.catch_warnings(), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        warnings.simplefilter("ignore")  # as the Run that it is compared with
        try:
            return tuple(pool.map(run, range(FIRST_SEED, FIRST_SEED + many)))
        except OtherRunError as error:
            raise UserError(f"{error.problem}; choose another folder with -o, or remove {out}") from error


def ratio_beside_chance(ours: Sequence[float], theirs: Sequence[Sequence[float]]) -> Estimate | None:
    """Return the geometric mean of `ours` over the means of `theirs`, with an interval from the scatter of `theirs`.

    Each of ours is one Run, over the path of all Runs in its sequence of `theirs`. One Run says nothing about its own
    scatter; the interval of 95 % is that of a Run that scatters as theirs do (in logarithms, all phases pooled).
    None: a Run has no value above 0, or there is nothing to compare.

    Example:
        >>> from bentpipe.validation.kernel_twins.chance import ratio_beside_chance
        >>> ratio = ratio_beside_chance([11.0], [[9.0, 10.0, 11.0]])
        >>> f"{ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
        '1.10 (0.67 to 1.82)'
    """
    every = [*ours, *(value for values in theirs for value in values)]
    if not ours or len(ours) != len(theirs) or not all(theirs) or min(every) <= 0:
        return None
    logs = [[math.log(value) for value in values] for values in theirs]
    offs = [math.log(one) - fmean(values) for one, values in zip(ours, logs, strict=True)]
    degrees = sum(len(values) - 1 for values in logs)
    squares = sum((value - fmean(values)) ** 2 for values in logs for value in values)
    mean, low, high = fmean(offs), None, None
    if degrees and squares:
        variance_of_mean = squares / degrees * sum(1 + 1 / len(values) for values in logs) / len(ours) ** 2
        half = t_quantile(degrees) * math.sqrt(variance_of_mean)
        low, high = math.exp(mean - half), math.exp(mean + half)
    ends = [math.exp(off) for off in offs]
    return Estimate(len(ours), math.exp(mean), median(ends), low, high, min(ends), max(ends))
