"""Fairness among flows of several controllers on one path: shares, and Jain's index by time scale.

Shares and Jain's index depend on the time scale: two alternating flows are fair over a minute and not over a second
(Jain, Chiu and Hawe, DEC-TR-301; T3P, section 5.2, has ratios of one second).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.execution.job import Outcome, race_jobs
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.experiments.schemes import parse_scheme, parse_schemes
from bentpipe.runs.estimates import Estimate, estimate, jain_index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.execution.engine import Progress
    from bentpipe.execution.sinks.table import SweptRun
    from bentpipe.experiments.experiment import Direction

SCALES_S = (1, 2, 5, 10, 30, 60, 300, 600)
"""Time scales of Jain's index [s]; those longer than half a Run are left out. Chosen here: about two per decade."""

MOST_FLOWS = 1000
"""Largest number of flows on one path. Chosen here: more are probably a typing error in ``8x``."""


@dataclass(frozen=True)
class Group:
    """`count` flows of one scheme: a controller with its tunables."""

    count: int
    scheme: str


def parse_groups(text: str) -> tuple[Group, ...]:
    """Parse ``8xcubic,8xbbr2:loss_thresh=0.08,bbr`` into groups.

    Raises:
        UserError: A count or a controller is invalid.
    """
    groups: list[Group] = []
    pieces: list[list[str]] = []
    for part in text.split(","):  # a tunable after a comma belongs to the group before it
        if pieces and "=" in part and ":" not in part:
            pieces[-1].append(part)
        else:
            pieces.append([part])
    for piece in pieces:
        written = ",".join(piece).strip()
        count, times, scheme = written.partition("x")
        number = int(count) if times and count.strip().isdigit() else None
        if number is None:
            number, scheme = 1, written
        if not 1 <= number <= MOST_FLOWS:
            raise UserError(f"{shown(written)}: {number} flows", where="flows", expected=f"1 to {MOST_FLOWS}")
        if "+" in scheme or not scheme.strip():
            raise UserError(shown(written), where="flows", expected="for example 8xcubic,8xbbr2:loss_thresh=0.08")
        try:
            groups.append(Group(number, parse_scheme(scheme)))
        except UserError as error:
            glued = re.match(r"([0-9]+)([A-Za-z]\w*)\Z", written)
            meant = f"; {glued[1]} flows are written {glued[1]}x{glued[2]}" if glued and number == 1 else ""
            where = error.where.replace("schemes", "flows", 1)
            located = UserError(f"{error.found}{meant}", where=where, expected=error.expected, hint=error.hint)
            for hint in getattr(error, "__notes__", []):
                located.add_note(hint)
            raise located from None
    if sum(group.count for group in groups) < 2:
        raise UserError(f"{shown(text)} is one flow", where="flows", expected="at least two that share the path")
    return tuple(groups)


def scheme_of_groups(groups: Sequence[Group]) -> str:
    """Return the scheme of all flows together on one path."""
    whole = "+".join(group.scheme for group in groups for _ in range(group.count))
    (scheme,) = parse_schemes(whole)
    return scheme


def goodput_by_second(outcome: Outcome) -> dict[str, Any]:
    """Return each flow's goodput, second by second after the warm-up [bit/s]."""
    table = outcome.seconds()
    flows = len(outcome.experiment.flows)
    return {
        "goodput_bps": [
            (
                table.filter(pl.col("flow") == flow).sort("t_s")["goodput_bytes"].cast(pl.Int64).diff().drop_nulls() * 8
            ).to_list()
            for flow in range(flows)
        ]
    }


@dataclass(frozen=True)
class ScaleFairness:
    """Jain's index over all flows at the time scale `scale_s`.

    `jain` is the mean over all windows of that length and all Runs, with the interval over Runs; `jain_p5` is the 5th
    percentile of the index over the windows.
    """

    scale_s: int
    jain: Estimate
    jain_p5: float


@dataclass(frozen=True)
class Fairness:
    """Result of flows that share a path.

    Attributes:
        groups: The groups of flows on the path.
        shares: Each group's share of the goodput over whole Runs (without the warm-up), 0 to 1; the fair share is its
            share of the flows.
        goodput_bps: Goodput of each group, all its flows together [bit/s].
        scales: Jain's index by time scale.
        ratios: Goodput of the first group over that of each other group, second by second, of all Runs; inf if the
            other has none.
        runs: Number of counted Runs.
        failed: Reasons of failed Runs.
    """

    groups: tuple[Group, ...]
    shares: tuple[Estimate, ...]
    goodput_bps: tuple[Estimate, ...]
    scales: tuple[ScaleFairness, ...]
    ratios: tuple[NDArray[np.float64], ...]
    runs: int
    failed: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``fairness --json``."""
        from dataclasses import asdict

        flows = sum(group.count for group in self.groups)
        return {
            "groups": [
                {
                    "scheme": group.scheme,
                    "flows": group.count,
                    "fair_share": group.count / flows,
                    "share": asdict(share),
                    "goodput_bps": asdict(goodput),
                }
                for group, share, goodput in zip(self.groups, self.shares, self.goodput_bps, strict=True)
            ],
            "jain": [asdict(each) for each in self.scales],
            "ratio_to_first_median": [
                {"scheme": group.scheme, "median": float(np.median(ratio)) if np.isfinite(np.median(ratio)) else None}
                for group, ratio in zip(self.groups[1:], self.ratios, strict=True)
            ],
            "runs": self.runs,
            "failed": list(self.failed),
        }


def fairness(
    paths: Sequence[Profile],
    groups: Sequence[Group],
    *,
    out: Path,
    direction: Direction = "down",
    duration_s: float | None = None,
    seeds: int = 1,
    on: str | None = None,
    threads: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Fairness:
    """Run bulk flows of several groups that start together and share each path to the end.

    Raises as `bentpipe.execution.sweeps.run_sweep` does; `UserError` if no Run counts.
    """
    scheme = scheme_of_groups(groups)
    jobs = race_jobs(
        paths, [scheme], direction=direction, duration_s=duration_s, seeds=seeds, measure=goodput_by_second
    )
    swept = run_sweep(jobs, out=out, on=on, threads=threads, on_progress=on_progress)
    return fairness_of([run for run in swept.runs if run is not None], groups, tuple(map(str, swept.failed.values())))


def fairness_of(runs: Sequence[SweptRun], groups: Sequence[Group], failed: tuple[str, ...] = ()) -> Fairness:
    """Compute fairness from finished Runs, measured with `goodput_by_second`."""
    series = [np.array(run.measures["goodput_bps"], dtype=np.float64) for run in runs if run.record.valid]
    series = [each for each in series if each.size and each.sum() > 0]
    if not series:
        raise UserError(failed[0] if failed else "no Run delivered any data; expected a path with capacity")
    ends = np.cumsum([group.count for group in groups])
    bounds = list(zip([0, *ends[:-1]], ends, strict=True))
    by_group = [np.array([each[a:b].sum(axis=0) for a, b in bounds]) for each in series]
    totals = [each.mean(axis=1) for each in by_group]
    shares = tuple(
        estimate([float(total[i] / total.sum()) for total in totals], ceiling=1.0) for i in range(len(groups))
    )
    goodput = tuple(estimate([float(total[i]) for total in totals]) for i in range(len(groups)))
    shortest = min(each.shape[1] for each in series)
    scales = tuple(_fairness_at_scale(series, scale) for scale in SCALES_S if scale == 1 or 2 * scale <= shortest)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = tuple(np.concatenate([_known(each[0] / each[i]) for each in by_group]) for i in range(1, len(groups)))
    return Fairness(tuple(groups), shares, goodput, scales, ratios, len(series), failed)


def _known(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Drop the seconds in which neither group has goodput."""
    return ratio[~np.isnan(ratio)]


def _fairness_at_scale(series: Sequence[NDArray[np.float64]], scale_s: int) -> ScaleFairness:
    means, whole = [], []
    for each in series:
        windows = each.shape[1] // scale_s
        summed = each[:, : windows * scale_s].reshape(each.shape[0], windows, scale_s).sum(axis=2)
        indices = [index for column in summed.T if (index := jain_index(column.tolist())) is not None]
        means.append(float(np.mean(indices)))
        whole += indices
    return ScaleFairness(scale_s, estimate(means, ceiling=1.0), float(np.percentile(whole, 5)))
