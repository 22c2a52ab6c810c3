"""Simulated flows of a study: Runs by what they are of, and of each flow what iperf3 prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.execution.sweeps.engine import run_sweep
from bentpipe.execution.sweeps.job import Job, Outcome, experiment_jobs
from bentpipe.execution.sweeps.swept import SweptRun
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

#: What a Run is of: a path, a direction, a controller, …
Key = tuple[str, ...]


@dataclass(frozen=True)
class Track:
    """A flow at each sample time.

    Attributes:
        t_s: Since the Run's beginning [s].
        goodput_bps: Between the sample before and this one [bit/s].
        retransmits: Segments retransmitted between the two.
        cwnd_bytes: Congestion window.
        rtt_ms: Smoothed RTT; NaN: none known.
        rtt_var_ms: Its mean deviation.
    """

    t_s: Floats
    goodput_bps: Floats
    retransmits: Floats
    cwnd_bytes: Floats
    rtt_ms: Floats
    rtt_var_ms: Floats

    def between(self, start_s: float, end_s: float) -> Track:
        """What was sampled after `start_s` and up to `end_s`."""
        inside = (self.t_s > start_s + 1e-9) & (self.t_s <= end_s + 1e-9)
        return Track(*(getattr(self, name)[inside] for name in self.__dataclass_fields__))

    def binned(self, width_s: float) -> tuple[Floats, Floats]:
        """Goodput in whole bins of `width_s`: their ends [s] and the mean in each [bit/s]."""
        step_s = float(np.median(np.diff(self.t_s))) if len(self.t_s) > 1 else width_s
        many = max(1, round(width_s / step_s))
        whole = len(self.t_s) // many * many
        return self.t_s[many - 1 : whole : many], self.goodput_bps[:whole].reshape(-1, many).mean(axis=1)

    @property
    def mean_bps(self) -> float:
        """Mean goodput [bit/s]; 0 of nothing."""
        return float(self.goodput_bps.mean()) if len(self.goodput_bps) else 0.0


@dataclass(frozen=True)
class Ran:
    """A Run of a study."""

    run: SweptRun

    @cached_property
    def tracks(self) -> list[Track]:
        """Its flows."""
        return [Track(*(np.array(flow[name], np.float64) for name in _COLUMNS)) for flow in self.run.measures["flows"]]

    @property
    def cross(self) -> list[Mapping[str, Any]]:
        """What its cross traffic came to."""
        return list(self.run.record["summary"].get("cross", []))


_COLUMNS = ("t_s", "goodput_bps", "retransmits", "cwnd_bytes", "rtt_ms", "rtt_var_ms")


def per_sample(outcome: Outcome) -> dict[str, Any]:
    """Of each flow the columns of a `Track`; what is not known is None."""
    samples = outcome.samples()
    flows = []
    for number, flow in enumerate(outcome.experiment.flows):
        start_s = flow.start_ns / 1e9
        rows = samples.filter(pl.col("flow") == number, pl.col("t_s") > start_s + 1e-9)
        t_s = rows["t_s"].to_numpy()
        lasted_s = np.diff(t_s, prepend=start_s)
        arrived = np.diff(rows["goodput_bytes"].to_numpy().astype(np.int64), prepend=0)
        again = np.diff(rows["retransmits"].to_numpy().astype(np.int64), prepend=0)
        flows.append(
            {
                "t_s": [round(float(t), 6) for t in t_s],
                "goodput_bps": np.rint(arrived * 8 / lasted_s).astype(np.int64).tolist(),
                "retransmits": again.tolist(),
                "cwnd_bytes": rows["cwnd_bytes"].to_list(),
                "rtt_ms": rows["rtt_smoothed_ms"].round(3).to_list(),
                "rtt_var_ms": rows["rtt_var_ms"].round(3).to_list(),
            }
        )
    return {"flows": flows}


def on_day(preset: str, duration_s: float, day: int, parameters: Mapping[str, Any] | None = None) -> Profile:
    """A published service's path at its hour, so many days after its moment: another stretch of sky, other draws.

    A static preset is the same on every day: nothing in it is drawn. `parameters` are as of `make_profile`.
    """
    service = load_services().get(preset)
    if service is None:
        return preset_profile(preset, duration_s)
    start_unix_ns = parse_utc(service.start) + day * DAY_NS
    return preset_profile(preset, duration_s, start_unix_ns=start_unix_ns, seed=day, parameters=parameters)


def as_drawn(paths: Sequence[Profile]) -> list[Profile]:
    """What Runs meet over these, the first with seed 0, the next with 1, and so on: Profiles drawn anew."""
    return [Base("path", path.name, path, "").drawn(seed) for seed, path in enumerate(paths)]


class Field:
    """Runs to be, by key; several of a key are its seeds."""

    def __init__(self) -> None:
        """Empty."""
        self._jobs: list[Job] = []
        self._keys: list[Key] = []

    def add(self, key: Key, experiment: Experiment, path: Profile) -> None:
        """One more Run of `key`: the Experiment with its own seed over one Profile, which seeds above 0 draw anew."""
        jobs = experiment_jobs(experiment, [path], measure=per_sample)
        self._jobs += jobs
        self._keys += [key] * len(jobs)

    def run(self, request: Request, shares: tuple[float, float] = (0.0, 1.0)) -> dict[Key, list[Ran]]:
        """Runs all; results are kept in the study's folder. `shares` is the part of the progress that this is."""
        begins, ends = shares
        result = run_sweep(
            self._jobs,
            out=request.out / "runs",
            on=request.on,
            on_progress=lambda progress: request.on_progress(begins + (ends - begins) * progress.share),
        )
        found: dict[Key, list[Ran]] = {}
        for key, run in zip(self._keys, result.whole(), strict=True):
            found.setdefault(key, []).append(Ran(run))
        return found


def quantile(values: Sequence[Floats], q: float) -> float | None:
    """The `q` quantile of all values together; None if there is none."""
    joined = np.concatenate(values) if values else np.empty(0)
    joined = joined[np.isfinite(joined)]
    return float(np.quantile(joined, q)) if len(joined) else None
