"""The schedules of t3p-trigger in the simulator: its pings fire the trigger, and its uploads begin at these times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.execution.job import experiment_jobs
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.experiments.experiment import NS_PER_S, Experiment, Flow, ProfileRef
from bentpipe.profiles.pings import ping_table
from bentpipe.studies.study import OnProgress
from bentpipe.studies.t3p_files import T3pTrigger
from bentpipe.testbed.agent.signals.live_trigger import Held, LiveTrigger
from bentpipe.testbed.agent.signals.ping import EVERY_S
from bentpipe.triggers.trigger import Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe._native import Profile

#: Time at the end of a path in which no upload begins, beyond its length [s].
_SPARE_S = 2.0
#: Time at the start of a path in which no upload begins: the condition has no windows before [s].
_FIRST_S = 6.0
#: Pings drift against whole seconds, on which edges of slots lie (`bentpipe.studies.simulated`).
_LATE = 1 / 599


@dataclass(frozen=True)
class Case:
    """Simulated uploads of a controller from a terminal.

    Attributes:
        terminal: Key of the terminal.
        controller: The controller.
        schedule: ``random``, or the length of the trigger's windows, as ``0.1 s``.
    """

    terminal: str
    controller: str
    schedule: str


@dataclass(frozen=True)
class Simulated:
    """Result of the simulated schedules.

    Attributes:
        goodput_bps: Goodput of each upload by case [bit/s].
        share_of_time: Share of time in which triggered uploads run, by terminal and schedule.
    """

    goodput_bps: Mapping[Case, list[float]]
    share_of_time: Mapping[tuple[str, str], float]


def firing_times_s(profile: Profile, file: T3pTrigger, window_s: float, seed: int) -> list[float]:
    """Return when the trigger would fire over a path, by pings like a node's [s since the path's start]."""
    sent_s = np.arange(0.0, profile.duration_s - _SPARE_S, EVERY_S * (1 + _LATE))
    pings = ping_table(profile, sent_s, seed=seed).drop_nulls()
    times_s = (pings["unix_ns"].to_numpy() - profile.start_unix_ns) / 1e9
    trigger = Trigger(file.condition, window_s=window_s, cooldown_s=file.cooldown_s)
    live, held = LiveTrigger(trigger), dict[str, Held]()
    firings = []
    for t_s, rtt_ms in zip(times_s.tolist(), pings["rtt_ms"].to_list(), strict=True):
        # A value is known when its reply comes.
        known_s = t_s + rtt_ms / 1e3
        firings += live.push(known_s, {"ping_ms": rtt_ms}, held)
        held["ping_ms"] = Held(known_s, rtt_ms, 1.5 * EVERY_S)
    last_s = profile.duration_s - file.upload_s - _SPARE_S
    return [firing.t_s for firing in firings if _FIRST_S <= firing.t_s < last_s]


def random_times_s(duration_s: float, gap_s: Sequence[float], seed: int) -> list[float]:
    """Return times with gaps drawn from limits [s]."""
    rng = np.random.default_rng(seed)
    times_s = np.cumsum(rng.uniform(gap_s[0], gap_s[1], int(duration_s / gap_s[0]) + 1))
    return [float(t_s) for t_s in times_s if _FIRST_S <= t_s < duration_s]


def simulate_schedules(
    paths: Mapping[str, Sequence[Profile]], file: T3pTrigger, out: Path, on_progress: OnProgress
) -> Simulated:
    """Simulate the uploads of all schedules over each terminal's paths; results in `out` are reused."""
    jobs, cases = [], []
    share_of_time: dict[tuple[str, str], float] = {}
    for terminal, profiles in paths.items():
        for number, profile in enumerate(profiles):
            usable_s = profile.duration_s - file.upload_s - _SPARE_S
            times = {"random": random_times_s(usable_s, file.gap_s, file.seed + number)}
            for window_s in file.windows_simulated_s:
                fired_s = firing_times_s(profile, file, window_s, file.seed + number)
                schedule = f"{window_s:g} s"
                times[schedule] = [t_s + file.start_delay_s for t_s in fired_s]
                share = len(fired_s) * file.upload_s / usable_s / len(profiles)
                share_of_time[terminal, schedule] = share_of_time.get((terminal, schedule), 0.0) + share
            for schedule, starts_s in times.items():
                for controller in file.controllers if starts_s else ():
                    jobs += experiment_jobs(_uploads(profile, controller, starts_s, file.upload_s), [profile])
                    cases.append(Case(terminal, controller, schedule))
    swept = run_sweep(jobs, out=out, on_progress=lambda at: on_progress(at.share))
    goodput_bps: dict[Case, list[float]] = {}
    for case, run in zip(cases, swept.whole(), strict=True):
        goodput_bps.setdefault(case, []).extend(float(flow["goodput_bps"] or 0.0) for flow in run.flows)
    return Simulated(goodput_bps, share_of_time)


def _uploads(profile: Profile, controller: str, starts_s: Sequence[float], upload_s: float) -> Experiment:
    """Return uploads one after the other over a path; no two of them meet."""
    starts_ns = [round(t_s * NS_PER_S) for t_s in starts_s]
    flows = tuple(
        Flow(controller=controller, direction="up", start_ns=t_ns, stop_ns=t_ns + round(upload_s * NS_PER_S))
        for t_ns in starts_ns
    )
    return Experiment(
        name="uploads",
        duration_ns=starts_ns[-1] + round((upload_s + 1.0) * NS_PER_S),
        profiles=(ProfileRef(role=flows[0].profile, name=profile.name, hash=profile.content_hash()),),
        flows=flows,
        sample_step_ns=NS_PER_S,
        warmup_ns=0,
    )
