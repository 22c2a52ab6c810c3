"""Which Runs a report shows, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bentpipe.experiments.flow_names import flow_parts
from bentpipe.plots.style import LOOKS
from bentpipe.runs.summary import total_goodput_bps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.runs.store import Run


def drawable_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the Runs to draw. If none of a Profile's is valid, return all of them, marked valid."""
    if any(run.record.valid for run in runs):
        return list(runs)
    return [replace(run, record=run.record.replace(valid=True)) for run in runs]


def sorted_runs(runs: Iterable[Run]) -> list[Run]:
    """Sort by Experiment and Profile; single flows before shared paths, in the order of `LOOKS`; then by seed."""
    known = {controller: i for i, controller in enumerate(LOOKS)}

    def key(run: Run) -> tuple[object, ...]:
        controllers = flow_parts(run.scheme)
        ranks = [known.get(controller.partition(":")[0], len(known)) for controller in controllers]
        return run.experiment, run.label, len(controllers), ranks, run.scheme, run.seed

    return sorted(runs, key=key)


def shown_seed(runs: Sequence[Run]) -> tuple[int, str]:
    """Select the seed whose Runs are drawn over time: the median by the goodput of all its Runs together.

    Only seeds with the most Runs are candidates. Of two medians the lower is taken.

    Returns:
        The seed, and the selection in words.
    """
    by_seed: dict[int, list[Run]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    most = max(map(len, by_seed.values()))
    totals = sorted((sum(map(total_goodput_bps, each)), seed) for seed, each in by_seed.items() if len(each) == most)
    seed = totals[(len(totals) - 1) // 2][1]
    if len(totals) == 1:
        return seed, f"seed {seed}"
    return seed, f"seed {seed} (of {len(totals)}, the median by the goodput of all schemes together)"


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` (2 or more) of the indices below `count`, evenly spread, including the first and last."""
    if count <= most:
        return list(range(count))
    return [i * (count - 1) // (most - 1) for i in range(most)]
