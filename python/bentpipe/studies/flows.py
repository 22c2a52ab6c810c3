"""Simulated flows of a study: Runs by key, with the columns that iperf3 prints for each flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.execution.job import Job, Outcome, experiment_jobs
from bentpipe.execution.sinks.table import SweptRun
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.experiments.experiment import NS_PER_S, Experiment
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.work import Base
from bentpipe.scenarios.services import load_services
from bentpipe.studies.study import Request
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from bentpipe._native import Profile

Floats = NDArray[np.float64]

DAY_NS = 24 * 3600 * NS_PER_S

#: Identifies a Run within a study: path, direction, controller, …
Key = tuple[str, ...]


@dataclass(frozen=True)
class Track:
    """Samples of one flow.

    Attributes:
        t_s: Sample times since the Run's start [s].
        goodput_bps: Since the previous sample [bit/s].
        retransmits: Segments retransmitted since the previous sample.
        cwnd_bytes: Congestion window [bytes].
        rtt_ms: Smoothed RTT; NaN: unknown [ms].
        rtt_var_ms: Its mean deviation [ms].
    """

    t_s: Floats
    goodput_bps: Floats
    retransmits: Floats
    cwnd_bytes: Floats
    rtt_ms: Floats
    rtt_var_ms: Floats

    def between(self, start_s: float, end_s: float) -> Track:
        """Return the samples after `start_s` and up to `end_s`."""
        inside = (self.t_s > start_s + 1e-9) & (self.t_s <= end_s + 1e-9)
        return Track(*(getattr(self, name)[inside] for name in self.__dataclass_fields__))

    def binned(self, width_s: float) -> tuple[Floats, Floats]:
        """Average the goodput in whole bins of `width_s`; return their ends [s] and means [bit/s]."""
        step_s = float(np.median(np.diff(self.t_s))) if len(self.t_s) > 1 else width_s
        many = max(1, round(width_s / step_s))
        whole = len(self.t_s) // many * many
        return self.t_s[many - 1 : whole : many], self.goodput_bps[:whole].reshape(-1, many).mean(axis=1)

    @property
    def mean_bps(self) -> float:
        """Mean goodput [bit/s]; 0 without samples."""
        return float(self.goodput_bps.mean()) if len(self.goodput_bps) else 0.0


@dataclass(frozen=True)
class StudyRun:
    """A Run of a study."""

    run: SweptRun

    @cached_property
    def tracks(self) -> list[Track]:
        """The Run's flows."""
        return [Track(*(np.array(flow[name], np.float64) for name in _COLUMNS)) for flow in self.run.measures["flows"]]

    @property
    def cross(self) -> list[Mapping[str, Any]]:
        """Summaries of the Run's cross traffic."""
        return list(self.run.record.summary.get("cross", []))


_COLUMNS = ("t_s", "goodput_bps", "retransmits", "cwnd_bytes", "rtt_ms", "rtt_var_ms")


def per_sample(outcome: Outcome) -> dict[str, Any]:
    """Return the columns of a `Track` for each flow; unknown values are None."""
    samples = outcome.samples()
    flows = []
    for number, flow in enumerate(outcome.experiment.flows):
        start_s = flow.start_ns / 1e9
        rows = samples.filter(pl.col("flow") == number, pl.col("t_s") > start_s + 1e-9)
        t_s = rows["t_s"].to_numpy()
        lasted_s = np.diff(t_s, prepend=start_s)
        arrived = np.diff(rows["goodput_bytes"].to_numpy().astype(np.int64), prepend=0)
        retransmits = np.diff(rows["retransmits"].to_numpy().astype(np.int64), prepend=0)
        flows.append(
            {
                "t_s": [round(float(t), 6) for t in t_s],
                "goodput_bps": np.rint(arrived * 8 / lasted_s).astype(np.int64).tolist(),
                "retransmits": retransmits.tolist(),
                "cwnd_bytes": rows["cwnd_bytes"].to_list(),
                "rtt_ms": rows["rtt_smoothed_ms"].round(3).to_list(),
                "rtt_var_ms": rows["rtt_var_ms"].round(3).to_list(),
            }
        )
    return {"flows": flows}


def on_day(preset: str, duration_s: float, day: int, parameters: Mapping[str, Any] | None = None) -> Profile:
    """Return a published service's path, `day` days later at the same hour: other satellites and another seed.

    A static preset is the same on every day. `parameters` are those of `make_profile`.
    """
    service = load_services().get(preset)
    if service is None:
        return preset_profile(preset, duration_s)
    start_unix_ns = parse_utc(service.start) + day * DAY_NS
    return preset_profile(preset, duration_s, start_unix_ns=start_unix_ns, seed=day, parameters=parameters)


def as_drawn(paths: Sequence[Profile]) -> list[Profile]:
    """Return each path as its Run uses it: path number i drawn with seed i, so the first is unchanged."""
    return [Base("path", path.name, path, "").drawn(seed) for seed, path in enumerate(paths)]


class RunBatch:
    """Runs to execute, by key; several Runs of a key differ in seed."""

    def __init__(self) -> None:
        """Start without Runs."""
        self._jobs: list[Job] = []
        self._keys: list[Key] = []

    def add(self, key: Key, experiment: Experiment, path: Profile) -> None:
        """Add a Run of `key`: the Experiment with its seed over one Profile, which seeds above 0 draw anew."""
        jobs = experiment_jobs(experiment, [path], measure=per_sample)
        self._jobs += jobs
        self._keys += [key] * len(jobs)

    def run(self, request: Request, shares: tuple[float, float] = (0.0, 1.0)) -> dict[Key, list[StudyRun]]:
        """Execute all Runs; store results in the study's folder. `shares` is the range of progress to report."""
        begins, ends = shares
        result = run_sweep(
            self._jobs,
            out=request.out / "runs",
            on=request.on,
            on_progress=lambda progress: request.on_progress(begins + (ends - begins) * progress.share),
        )
        runs: dict[Key, list[StudyRun]] = {}
        for key, run in zip(self._keys, result.whole(), strict=True):
            runs.setdefault(key, []).append(StudyRun(run))
        return runs


def quantile(values: Sequence[Floats], q: float) -> float | None:
    """Return the `q` quantile of all values together; None without values."""
    joined = np.concatenate(values) if values else np.empty(0)
    joined = joined[np.isfinite(joined)]
    return float(np.quantile(joined, q)) if len(joined) else None
