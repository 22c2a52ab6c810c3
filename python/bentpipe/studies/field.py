"""Controllers on many LEO paths: goodput, and the queueing delay that each causes (`waits`)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.execution.job import Outcome, experiment_jobs
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.execution.waits import delays, lone_ms, wait_ms, wait_p95_ms
from bentpipe.experiments.experiment import NS_PER_S, Direction, Experiment, Flow, Host, ProfileRef
from bentpipe.experiments.schemes import flows_of, parse_scheme
from bentpipe.experiments.traffic import cross_traffic
from bentpipe.plots.pareto import plot_pareto
from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.bootstrap import bootstrap, bootstrap_ratio
from bentpipe.studies.agreement import FEWEST
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.execution.sinks.table import SweptRun
    from bentpipe.studies.study import Request

#: Length of a Profile beyond its Run, for the start phase and late replies [s].
_SPARE_S = 5.0
#: Send and receive buffers [bytes]. They never limit a flow, so that controllers are compared and not `wmem_max`.
_BUFFER_BYTES = 64_000_000


@dataclass(frozen=True)
class Path:
    """A named Profile with the direction of the data and its background traffic (from `traffic.toml`)."""

    name: str
    profile: Profile
    direction: Direction = "down"
    traffic: str | None = None


@dataclass(frozen=True)
class Score:
    """Result of a scheme on a path.

    Attributes:
        goodput_bps: Goodput of each flow after the warm-up [bit/s].
        queue_ms: Mean queueing delay of the first flow's packets [ms]; None: none passed.
        queue_p95_ms: 95th percentile of the mean queueing delay in a packet's second [ms]; None: none passed.
    """

    goodput_bps: tuple[float, ...]
    queue_ms: float | None
    queue_p95_ms: float | None = None


def make_paths(texts: Sequence[str], duration_s: float) -> list[Path]:
    """Make the Profiles of a study's `paths` (each ``SITE TO START SEED``)."""
    paths = []
    for text in texts:
        site, to, start, seed = text.split()
        with warnings.catch_warnings():
            # The list of places states that the route is a great circle.
            warnings.simplefilter("ignore", UnpublishedRouteWarning)
            profile = make_profile(
                site, to, start_unix_ns=parse_utc(start), duration_s=duration_s + _SPARE_S, seed=int(seed)
            )
        paths.append(Path(f"{site}-{to}-{seed}", profile))
    return paths


def preset_path(written: str, duration_s: float) -> Path:
    """Return a static path, with background traffic if named: ``geo``, ``fibre:loss=1e-4 off-peak``."""
    preset, _, traffic = written.partition(" ")
    return Path(written, preset_profile(preset, duration_s + _SPARE_S), traffic=traffic or None)


def basis(paths: Sequence[Path], times_s: tuple[float, float]) -> str:
    """Return the origin of values of Runs on these paths, with their duration and warm-up [s]."""
    return f"simulated: {len(paths)} Profiles × {times_s[0]:g} s, the first {times_s[1]:g} s left out"


def race_field(
    request: Request,
    paths: Sequence[Path],
    schemes: Sequence[str],
    times_s: tuple[float, float],
    *,
    seeds: int = 1,
    shares: tuple[float, float] = (0.0, 1.0),
) -> dict[tuple[str, str], list[Score]]:
    """Run every scheme (``bbr``, ``cubic:hystart=pp``, ``cubic+bbr``) on every path; return a Score per seed.

    The keys are path and scheme. `times_s` are a Run's duration and its warm-up, which the figures leave out. Results
    are stored in the study's folder and reused. `shares` is the range of progress to report.
    """
    begins, ends = shares
    duration_s, warmup_s = times_s
    jobs = [
        job
        for path in paths
        for scheme in schemes
        for job in experiment_jobs(
            _experiment(path, scheme, duration_s, warmup_s), [path.profile], seeds=seeds, measure=first_flows_delay
        )
    ]
    swept = run_sweep(
        jobs,
        out=request.out / "runs",
        on=request.on,
        on_progress=lambda progress: request.on_progress(begins + (ends - begins) * progress.share),
    )
    runs = iter(swept.whole())
    scores = {}
    for path in paths:
        lone = lone_ms(path.profile, path.direction)
        for scheme in schemes:
            scores[path.name, scheme] = [_score(next(runs), lone, warmup_s) for _ in range(seeds)]
    return scores


def first_flows_delay(outcome: Outcome) -> dict[str, Any]:
    """Return the first flow's `delays`."""
    return delays(outcome, 0)


def _experiment(path: Path, scheme: str, duration_s: float, warmup_s: float) -> Experiment:
    flows = tuple(
        Flow(controller=controller, direction=path.direction, options=options, sender="host", receiver="host")
        for controller, options in flows_of(parse_scheme(scheme))
    )
    reference = ProfileRef(role=flows[0].profile, name=path.profile.name, hash=path.profile.content_hash())
    return Experiment(
        name="field",
        seed=0,
        duration_ns=round(duration_s * NS_PER_S),
        profiles=(reference,),
        flows=flows,
        warmup_ns=round(warmup_s * NS_PER_S),
        hosts={"host": Host(wmem_max_bytes=_BUFFER_BYTES, rmem_max_bytes=_BUFFER_BYTES)},
        cross=() if path.traffic is None else (cross_traffic(path.profile, path.traffic, path.direction),),
    )


def _score(run: SweptRun, lone: NDArray[np.float64], warmup_s: float) -> Score:
    goodput_bps = tuple(float(flow["goodput_bps"] or 0.0) for flow in run.flows)
    waits = (wait(run.measures, lone, warmup_s) for wait in (wait_ms, wait_p95_ms))
    return Score(goodput_bps, *waits)


def decided(low: float, high: float, limit: float, n: int) -> bool | None:
    """Return whether a whole interval is at least a limit; None: it contains the limit, or has too few values `n`."""
    if n < FEWEST or not math.isfinite(low + high):
        return None
    return True if low >= limit else False if high < limit else None


def pareto_figure(points: Mapping[str, tuple[Sequence[float], Sequence[float]]], gain: str) -> Figure:
    """Return the figure of queueing delays [ms] and goodputs by scheme, on the Profiles that have both."""
    known = {scheme: both for scheme, both in points.items() if both[0]}
    return plot_pareto(known, cost="mean queueing delay [ms]", gain=gain)


__all__ = [
    "Path",
    "Score",
    "bootstrap",
    "bootstrap_ratio",
    "decided",
    "first_flows_delay",
    "make_paths",
    "pareto_figure",
    "preset_path",
    "race_field",
]
