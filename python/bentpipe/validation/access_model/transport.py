"""The transport test: Reno, CUBIC and BBR over measured Profiles and over the model's, at the same place and time.

Both kinds of Profile are made from pings by the converter for measured Profiles; the model's pings are sent when the
real ones were. Properties that pings do not show are equal for both: capacity (a saturation trace, started at another
slot for each window), queue and duration. Events between two probes are missing in both. The model's own capacity has a
separate test.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.execution.racing import race
from bentpipe.profiles.build import Points
from bentpipe.profiles.measured.capacity import Capacity
from bentpipe.profiles.measured.make import FromPings, profile_from_pings
from bentpipe.profiles.path import held
from bentpipe.scenarios.units import parse_queue
from bentpipe.validation.access_model.pings import SLOT_S, Floats
from bentpipe.validation.access_model.rank_test import Rank, rank_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.runs.store import Run

CONTROLLERS = ("reno", "cubic", "bbr")
#: Duration of a Run [s]: four slots. Goodput leaves out the first seconds, which are start-up.
RUN_S = 60.0
#: Queue limit: a tenth of a second at the median of the capacity trace (48 Mbit/s); chosen here, the same for all.
QUEUE_BYTES = 600_000
#: Compared figures of a Run, by the logarithm: name, and key of its flow or column of its samples (median).
FIGURES = (
    ("goodput [ln]", "goodput_bps"),
    ("median RTT [ln]", "rtt_median_ms"),
    ("p95 RTT [ln]", "rtt_p95_ms"),
    ("RTT's mean deviation [ln]", "rtt_var_ms"),
)
#: Smallest mean deviation [ms]: a microsecond, the unit of a kernel.
_LEAST_DEVIATION_MS = 1e-3


def turned(capacity: Capacity) -> list[Capacity]:
    """Return the downlink trace started at each of its slots, with the part before appended; read every 0.1 s."""
    assert capacity.down is not None and capacity.duration_s is not None  # noqa: PT018 - a trace
    grid = np.arange(0.0, capacity.duration_s, 0.1)
    count = int(capacity.duration_s / SLOT_S)
    value = held(capacity.down.t_s, capacity.down.value, grid)
    return [
        Capacity(
            None, Points.of(grid, np.roll(value, -k * round(SLOT_S / 0.1))), capacity.duration_s, None, capacity.source
        )
        for k in range(count)
    ]


@dataclass(frozen=True)
class Flows:
    """Results of one controller over several paths: the columns are `FIGURES` [bit/s, ms, ms, ms]."""

    figures: Floats

    def quantiles(self, figure: int) -> Floats:
        """Return 10th, 50th and 90th percentiles of a figure."""
        percentiles: Floats = np.percentile(self.figures[:, figure], [10, 50, 90])
        return percentiles


def path_of(name: str, t_s: Floats, rtt_ms: Floats, capacity: Capacity, *, silent_is_lost: bool) -> Profile:
    """Return a measured Profile from a window's answered pings; with `silent_is_lost` silences are lost probes."""
    table = pl.DataFrame({"unix_ns": np.round(t_s * 1e9).astype(np.int64), "rtt_ms": rtt_ms})
    queue = parse_queue(f"{QUEUE_BYTES}bytes", "queue")
    how = FromPings(
        capacities=[capacity], queue=queue, name=name, silent_is_lost=silent_is_lost, source="pings of a window"
    )
    return profile_from_pings(table, how).profile


def flows(paths: Sequence[Profile], on_progress: Callable[[float], None]) -> dict[str, Flows]:
    """Run each controller alone over each path."""
    with tempfile.TemporaryDirectory() as folder:
        raced = race(
            paths,
            CONTROLLERS,
            out=Path(folder) / "runs",
            duration_s=RUN_S,
            phase_s=0.0,
            on_progress=lambda progress: on_progress(progress.share),
        )
        by_controller: dict[str, list[list[float]]] = {controller: [] for controller in CONTROLLERS}
        for run in raced.runs:
            by_controller[run.scheme].append(_figures(run))
    return {controller: Flows(np.array(figures, float)) for controller, figures in by_controller.items()}


def _figures(run: Run) -> list[float]:
    (flow,) = run.flows
    deviation_ms = run.samples()["rtt_var_ms"].median()
    assert isinstance(deviation_ms, float)  # a Run of a minute has samples
    of_flow = [float(flow[key]) for _, key in FIGURES[:-1]]
    return [*of_flow, max(deviation_ms, _LEAST_DEVIATION_MS)]


def ranks(real: dict[str, Flows], held_out: dict[str, Flows], model: dict[str, Flows]) -> list[Rank]:
    """Rank each controller and figure: distances are |ln| of ratios."""
    return [
        one
        for controller in CONTROLLERS
        for one in rank_by(
            lambda a, b: np.abs(np.log(a / b)),
            [f"{controller} {name}" for name, _ in FIGURES],
            list(real[controller].figures),
            list(held_out[controller].figures),
            list(model[controller].figures),
        )
    ]


def split(whole: dict[str, Flows], counts: Mapping[str, int]) -> dict[str, dict[str, Flows]]:
    """Split flows by kind of path: `counts` has the number of paths of each kind, in order."""
    ends = np.cumsum(list(counts.values()))
    parts = {c: np.split(f.figures, ends[:-1]) for c, f in whole.items()}
    return {name: {c: Flows(parts[c][k]) for c in parts} for k, name in enumerate(counts)}


def together(*parts: dict[str, Flows]) -> dict[str, Flows]:
    """Join flows over the paths of all parts."""
    return {c: Flows(np.concatenate([part[c].figures for part in parts])) for c in CONTROLLERS}
