"""Runs of the study ``multi-access``: bulk data, messages and a paced stream over LEO and fibre, by each scheduler."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.execution.multipath import MultipathRun, PathOutlook, SchedulerName, simulate_multipath
from bentpipe.execution.outlooks import forecast_outlook, known_outlook, learn_path, tail_outlook
from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bentpipe._native import Profile
    from bentpipe.studies.multi_access_file import AccessCase, MultiAccess

#: Scheme → its scheduler and the paths that it uses: LEO, fibre. `forecast-tail` is `forecast` with a
#: high quantile of the RTT, and `oracle` with what will be.
SCHEMES: dict[str, tuple[SchedulerName, tuple[int, ...]]] = {
    "leo alone": ("min-rtt", (0,)),
    "fibre alone": ("min-rtt", (1,)),
    "min-rtt": ("min-rtt", (0, 1)),
    "round-robin": ("round-robin", (0, 1)),
    "linger": ("linger", (0, 1)),
    "forecast": ("forecast", (0, 1)),
    "forecast-tail": ("forecast", (0, 1)),
    "oracle": ("forecast", (0, 1)),
}

#: Loss environment of a path that a flow fills.
BUSY = "busy"
#: Length of a Profile beyond the last run [s].
_SPARE_S = 3.0
#: Runs at once: the simulator leaves the interpreter's lock.
_THREADS = 2
#: Time after the handshakes before the first message or write [s].
_FIRST_S = 2.0


@dataclass(frozen=True)
class Paths:
    """The two paths of a test, and what each kind of sender knows of LEO.

    Attributes:
        full: LEO and fibre for bulk data: LEO loses as on a path that a flow fills.
        light: The same for messages and the stream, with the case's loss.
        forecast: Learned from pings before; the newest ones are those of the second before.
        tail: The same with a high quantile of the RTT.
        known: What will be, on `full` and on `light`.
        has_slots: Whether the pings before showed the slot clock.
        clock_error_s: How far the learned edges are from the true ones [s]; NaN: none were found.
    """

    full: tuple[Profile, Profile]
    light: tuple[Profile, Profile]
    forecast: PathOutlook
    tail: PathOutlook
    known: tuple[PathOutlook, PathOutlook]
    has_slots: bool
    clock_error_s: float


@dataclass
class Field:
    """What a scheme gave in a case, each list in the order of the tests."""

    goodput_bps: list[float] = field(default_factory=list)
    message_ms: list[tuple[float, float, float]] = field(default_factory=list)
    delay_ms: list[tuple[float, float, float]] = field(default_factory=list)
    reordering_bytes: list[float] = field(default_factory=list)
    leo_share: list[float] = field(default_factory=list)
    samples_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What is run: the study's file in full, or with ``--quick``."""

    file: MultiAccess
    quick: bool

    @property
    def tests(self) -> int:
        """Tests of each case."""
        return self.file.tests_quick if self.quick else self.file.tests

    @property
    def bulk_s(self) -> float:
        """Duration of a bulk run [s]."""
        return self.file.bulk_quick_s if self.quick else self.file.bulk_s

    @property
    def app_s(self) -> float:
        """Duration of a run of messages, or of a stream [s]."""
        return self.file.app_quick_s if self.quick else self.file.app_s

    @property
    def end_s(self) -> float:
        """End of the longest run [s since the Profiles' start]."""
        return self.file.learn_s + max(self.bulk_s, self.app_s)

    def both(self, case: AccessCase, test: int) -> tuple[tuple[Profile, Profile], tuple[Profile, Profile]]:
        """Make LEO and fibre of a test: `Paths.full` and `Paths.light`."""
        start_unix_ns = parse_utc(self.file.first) + round(test * self.file.every_h * 3600e9)

        def leo(loss: str) -> Profile:
            with warnings.catch_warnings():
                # The study's file gives the servers' places and states that the route is a great circle.
                warnings.simplefilter("ignore", UnpublishedRouteWarning)
                return make_profile(
                    case.site,
                    case.to,
                    start_unix_ns=start_unix_ns,
                    duration_s=self.end_s + _SPARE_S,
                    seed=test,
                    isl=case.isl,
                    loss=loss,
                )

        fibre = preset_profile(case.fibre, self.end_s + _SPARE_S)
        return (leo(BUSY), fibre), (leo(case.loss), fibre)

    def paths(self, case: AccessCase, test: int) -> Paths:
        """Make the paths of a test, and learn LEO's from the pings before."""
        learn_s, until_s = self.file.learn_s, self.end_s
        full, light = self.both(case, test)
        learned = learn_path(light[0], learn_s, model=self.file.predictor, seed=test)
        handovers = learned.handovers
        return Paths(
            full,
            light,
            forecast_outlook(light[0], learned, until_s, seed=test),
            tail_outlook(light[0], learned, until_s, seed=test),
            (known_outlook(full[0], learn_s, until_s), known_outlook(light[0], learn_s, until_s)),
            handovers is not None,
            np.nan if handovers is None else _clock_error_s(light[0], handovers.phase_s, handovers.period_s),
        )


def _clock_error_s(leo: Profile, phase_s: float, period_s: float) -> float:
    from bentpipe.profiles.path import PathView

    edges = np.array([event["at_ns"] / 1e9 for event in PathView(leo).handovers()]) + leo.start_unix_ns / 1e9
    late = (edges - phase_s + period_s / 2) % period_s - period_s / 2
    return float(np.median(np.abs(late))) if len(late) else np.nan


def run_case(
    plan: Plan, case: AccessCase, on_progress: Callable[[float], object]
) -> tuple[dict[str, Field], list[Paths]]:
    """Run every scheme over every test of a case."""
    fields = {scheme: Field() for scheme in SCHEMES}
    every = []
    for test in range(plan.tests):
        paths = plan.paths(case, test)
        every.append(paths)
        with ThreadPoolExecutor(_THREADS) as pool:
            jobs = {scheme: [pool.submit(job) for job in _jobs(plan, paths, scheme, test)] for scheme in SCHEMES}
            for scheme, (bulk, messages, stream) in jobs.items():
                _add(plan, fields[scheme], bulk.result(), messages.result(), stream.result())
        on_progress((test + 1) / plan.tests)
    return fields, every


def _jobs(plan: Plan, paths: Paths, scheme: str, test: int) -> Iterator[Callable[[], MultipathRun]]:
    scheduler, used = SCHEMES[scheme]
    file = plan.file
    workloads: tuple[tuple[bool, float, list[tuple[float, int]]], ...] = (
        (True, plan.bulk_s, []),
        (False, plan.app_s, messages_of(plan, test)),
        (False, plan.app_s, stream_of(plan)),
    )
    for is_full, duration_s, writes in workloads:
        both = paths.full if is_full else paths.light
        known = paths.known[0 if is_full else 1]
        leo = {"forecast": paths.forecast, "forecast-tail": paths.tail, "oracle": known}.get(scheme)
        yield partial(
            simulate_multipath,
            [both[i] for i in used],
            scheduler,
            duration_s=duration_s,
            start_s=file.learn_s,
            writes=writes,
            outlooks=[(leo, None)[i] for i in used],
            controller=file.controller,
            seed=test,
        )


def messages_of(plan: Plan, test: int) -> list[tuple[float, int]]:
    """Return messages at even intervals with an offset of their own, so that they meet slots at all phases."""
    every_s = plan.file.message_every_s
    early_s = plan.app_s - every_s  # the last one ends within the run
    regular = np.arange(_FIRST_S, early_s, every_s)
    late = np.random.default_rng(np.random.SeedSequence([test, 0x4D5054])).uniform(0, every_s / 2, len(regular))
    return [(float(at_s), plan.file.message_bytes) for at_s in regular + late]


def stream_of(plan: Plan) -> list[tuple[float, int]]:
    """Return the writes of a stream of one rate."""
    every_s = plan.file.write_every_s
    size = round(plan.file.stream_bps * every_s / 8)
    return [(float(at_s), size) for at_s in np.arange(_FIRST_S, plan.app_s - _FIRST_S, every_s)]


def _add(plan: Plan, into: Field, bulk: MultipathRun, messages: MultipathRun, stream: MultipathRun) -> None:
    into.goodput_bps.append(bulk.goodput_bps(plan.file.warmup_s))
    into.reordering_bytes.append(float(bulk.peak_reordering_bytes))
    took = _known(messages, plan.app_s)
    into.message_ms.append((_quantile(took, 0.5), _quantile(took, 0.95), _quantile(took, 0.99)))
    delays = _known(stream, plan.app_s)
    into.delay_ms.append((_quantile(delays, 0.5), _quantile(delays, 0.99), _quantile(delays, 0.999)))
    acked = stream.acked_bytes[:, -1].astype(np.float64)
    into.leo_share.append(float(acked[0] / acked.sum()) if len(acked) > 1 else np.nan)
    into.samples_ms += [float(each) for each in delays[:: max(1, len(delays) // 500)]]


def _known(run: MultipathRun, most_s: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return completion times; what did not arrive counts as the length of the run [ms]."""
    return np.where(np.isfinite(run.completion_ms), run.completion_ms, most_s * 1e3)


def _quantile(values: np.ndarray[tuple[int], np.dtype[np.float64]], level: float) -> float:
    return float(np.quantile(values, level))
