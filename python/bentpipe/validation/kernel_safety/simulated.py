"""Simulated downloads beside every clock: goodput and queueing delay, with the controllers of the kernel."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.execution.host_clock import simulate_with_clock
from bentpipe.execution.waits import delays, lone_ms, wait_ms
from bentpipe.experiments.experiment import NS_PER_S, CrossTraffic, Experiment, Flow, Host, ProfileRef
from bentpipe.experiments.traffic import cross_traffic
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import SLOT_PHASE_S, SLOT_S, parse_utc
from bentpipe.validation.kernel_safety import clocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.execution.job import Outcome
    from bentpipe.validation import OnProgress
    from bentpipe.validation.kernel_safety.clocks import Clock

PARENTS = {"bbr3-leo": "bbr3", "cubic-leo": "cubic"}
"""Controllers that read the clock, and those that they must not be worse than."""
DURATION_S, QUICK_DURATION_S = 120.0, 40.0
"""Duration of a Run [s]: eight slots."""
FIRST_S = 40.0
"""Duration of a shorter flow [s]: the first part of a Run, before most flows have a clock of their own."""
WARMUP_S = 10.0
"""Not counted [s]."""
USED = "host_clock"
"""State of a controller that uses the host's clock (`crates/twins`)."""
_TICK_S = 1e-6
"""Far below the step of a Run's samples [s]."""
_SPARE_S = 5.0
"""Length of a Profile beyond its Run, for late replies [s]."""
_BUFFER_BYTES = 64_000_000
"""Send and receive buffers: they never limit a flow, so that controllers are compared and not `wmem_max`."""

PATHS = (
    "melbourne perth 2026-06-21T09:00:00Z 701",
    "tokyo singapore 2026-06-21T20:00:00Z 702",
    "santiago miami 2026-06-21T03:00:00Z 703",
    "seattle chicago 2026-06-22T17:00:00Z 704",
    "dublin frankfurt 2026-06-22T11:00:00Z 705",
    "nairobi mumbai 2026-06-22T14:00:00Z 706",
    "barcelona paris 2026-06-22T21:00:00Z 707",
    "miami sao-paulo 2026-06-23T01:00:00Z 708",
    "berlin amsterdam 2026-06-23T18:00:00Z 709",
    "auckland los-angeles 2026-06-23T06:00:00Z 710",
    "manila tokyo 2026-06-23T13:00:00Z 711",
    "reykjavik london 2026-06-24T19:00:00Z 712",
)
"""SITE TO START SEED. Neither pairs nor days nor seeds are those of a study; drawn before a Run on them."""
QUICK_PATHS = 2
STILL = (
    "fibre:loss=1e-4 off-peak",
    "geo:loss=1e-5 off-peak",
    "dumbbell:rate=50mbit,rtt=40ms,queue=0.3bdp none",
)
"""Preset and background traffic of paths without handovers: a host has one clock for all its connections. The last has
a queue that congestion overflows often, so that an ignored loss matters."""
QUICK_STILL = 1
_START = "2026-06-21T09:00:00Z"


@dataclass(frozen=True)
class Path:
    """A Profile, whether it is a LEO path, and the background traffic on it."""

    profile: Profile
    is_leo: bool = True
    cross: tuple[CrossTraffic, ...] = ()


@dataclass(frozen=True)
class Figures:
    """Figures of a Run, or of its first part, after its warm-up.

    Attributes:
        goodput_bps: Goodput [bit/s].
        queue_ms: Mean queueing delay of its packets [ms]; None: none passed.
        used_s: How long its controller used the host's clock, also in the warm-up [s]; equal figures may differ in it.
    """

    goodput_bps: float
    queue_ms: float | None
    used_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Score:
    """A Run.

    Attributes:
        path: Name of its path.
        is_leo: Whether that is one of `PATHS`, not of `STILL`.
        scheme: Its controller.
        clock: Name of the host's clock.
        whole: Its figures.
        first: Those of its first `FIRST_S`.
    """

    path: str
    is_leo: bool
    scheme: str
    clock: str
    whole: Figures
    first: Figures


def scores(on_progress: OnProgress, *, quick: bool) -> list[Score]:
    """Simulate every controller beside every clock on every path, and its parent once."""
    duration_s = QUICK_DURATION_S if quick else DURATION_S
    texts = (*PATHS[:QUICK_PATHS], *STILL[:QUICK_STILL]) if quick else (*PATHS, *STILL)
    cases = [
        *((parent, clocks.NONE) for parent in PARENTS.values()),
        *((scheme, clock) for scheme in PARENTS for clock in (clocks.QUICK if quick else clocks.EVERY)),
    ]
    done: list[Score] = []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for text in texts:
            path = still_path(text, duration_s) if text in STILL else path_of(text, duration_s)
            for score in pool.map(partial(_case, path, duration_s), cases):
                done.append(score)
                on_progress(len(done) / (len(texts) * len(cases)))
    return done


def path_of(text: str, duration_s: float) -> Path:
    """Make the Profile of a text in `PATHS` for Runs of a duration [s]."""
    site, to, start, seed = text.split()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a route that is a great circle
        profile = make_profile(
            site,
            to,
            start_unix_ns=parse_utc(start),
            duration_s=duration_s + _SPARE_S,
            seed=int(seed),
            name=f"{site}-{to}-{seed}",
        )
    return Path(profile)


def still_path(text: str, duration_s: float) -> Path:
    """Make the path of a text in `STILL`."""
    preset, traffic = text.split()
    profile = preset_profile(preset, duration_s + _SPARE_S, start_unix_ns=parse_utc(_START), name=preset.split(":")[0])
    cross = () if traffic == "none" else (cross_traffic(profile, traffic, "down"),)
    return Path(profile, False, cross)


def edge_s(path: Profile) -> float:
    """Return the first handover of a Profile with slots, whether it has one there or not [s after its beginning]."""
    return (SLOT_PHASE_S - path.start_unix_ns / NS_PER_S) % SLOT_S


def _case(path: Path, duration_s: float, case: tuple[str, Clock]) -> Score:
    return run(path, *case, duration_s)


def run(path: Path, scheme: str, clock: Clock, duration_s: float) -> Score:
    """Simulate a download beside a clock."""
    profile = path.profile
    writes = clock.writes(edge_s(profile), duration_s, profile.seed or 0)
    outcome = simulate_with_clock(experiment(path, scheme, duration_s), profile, writes)
    lone = lone_ms(profile, "down")
    whole, first = (figures(outcome, lone, end_s) for end_s in (duration_s, min(FIRST_S, duration_s)))
    return Score(profile.name, path.is_leo, scheme, clock.name, whole, first)


def figures(outcome: Outcome, lone: NDArray[np.float64], end_s: float) -> Figures:
    """Return the figures of a Run's only flow from its warm-up to a whole second, with a lone packet's delays."""
    seconds = outcome.seconds().filter(pl.col("t_s") <= end_s + _TICK_S)
    received = seconds["goodput_bytes"].to_list()
    goodput_bps = (received[-1] - received[0]) * 8 / (len(received) - 1) if len(received) > 1 else 0.0
    measured = delays(outcome, 0)
    count = sum(t_s <= end_s + _TICK_S for t_s in measured["t_s"])
    until_end = {name: values[:count] for name, values in measured.items()}
    return Figures(goodput_bps, wait_ms(until_end, lone, WARMUP_S), used_s(outcome, end_s))


def used_s(outcome: Outcome, end_s: float) -> float:
    """Return how long before `end_s` a Run's only flow used the host's clock [s]."""
    states = outcome.events().filter((pl.col("kind") == "state") & (pl.col("flow") == 0))
    times_s = [min(t_s, end_s) for t_s in states["t_s"].to_list()]
    spans_s = [later - t_s for t_s, later in zip(times_s, [*times_s[1:], end_s], strict=True)]
    return float(
        sum(span_s for span_s, state in zip(spans_s, states["detail"].to_list(), strict=True) if state == USED)
    )


def experiment(path: Path, scheme: str, duration_s: float) -> Experiment:
    """Return the Experiment of a download."""
    profile = path.profile
    flow = Flow(controller=scheme, sender="host", receiver="host")
    return Experiment(
        name="kernel-safety",
        seed=0,
        duration_ns=round(duration_s * NS_PER_S),
        profiles=(ProfileRef(role=flow.profile, name=profile.name, hash=profile.content_hash()),),
        flows=(flow,),
        warmup_ns=round(WARMUP_S * NS_PER_S),
        hosts={"host": Host(wmem_max_bytes=_BUFFER_BYTES, rmem_max_bytes=_BUFFER_BYTES)},
        cross=path.cross,
    )


def of(done: Sequence[Score], scheme: str, clock: str, *, is_leo: bool) -> list[Score]:
    """Return the scores of a controller beside a clock, on LEO paths or the others, in the order of the paths."""
    return [each for each in done if (each.scheme, each.clock, each.is_leo) == (scheme, clock, is_leo)]
