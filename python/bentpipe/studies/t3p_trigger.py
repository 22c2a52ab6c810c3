"""Uploads that a trigger starts when latency rises, and uploads at random times (T3P, section 6.2, figure 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots.value_cdfs import plot_value_cdfs
from bentpipe.studies.agreement import FEWEST
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import SOURCE, load_terminals
from bentpipe.studies.t3p_files import T3pTrigger
from bentpipe.studies.t3p_trigger_savings import Traffic, saving_rows
from bentpipe.studies.t3p_trigger_simulated import Case, Simulated, simulate_schedules
from bentpipe.studies.t3p_trigger_testbed import Pass, Schedule, measure_schedules
from bentpipe.studies.t3p_uplink import load_uplink, uplink_paths
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from bentpipe._native import Profile

_7 = "section 6.2, figure 7"
#: Quantile that "a longer tail" compares; chosen here.
TAIL = 0.9
#: Resamples of the bootstrap.
_DRAWS = 4000
#: Part of the progress that the simulator has.
_SIMULATED_PART = 0.1
_HOUR_NS = 3600 * 10**9


@dataclass(frozen=True)
class Fall:
    """How far a quantile of triggered uploads lies below that of random ones, with its 95 % interval [%].

    Attributes:
        percent: The fall; negative: a rise.
        low: Lower end of the interval; None: too few uploads.
        high: Upper end.
        n: Numbers of triggered and random uploads.
    """

    percent: float
    low: float | None
    high: float | None
    n: tuple[int, int]

    @property
    def text(self) -> str:
        """The interval in words."""
        triggered, at_random = self.n
        counts = f"n = {triggered} triggered, {at_random} random"
        return counts if self.low is None else f"95 %: {self.low:.0f} to {self.high:.0f} %, {counts}"


def fall_of(triggered: Sequence[float], at_random: Sequence[float], level: float = 0.5) -> Fall | None:
    """Return the fall of a quantile; uploads are resampled within each schedule. None: a schedule has none."""
    one, other = np.asarray(triggered, np.float64), np.asarray(at_random, np.float64)
    if not len(one) or not len(other) or not np.quantile(other, level):
        return None
    percent = 100 * (1 - float(np.quantile(one, level)) / float(np.quantile(other, level)))
    if min(len(one), len(other)) < FEWEST:
        return Fall(percent, None, None, (len(one), len(other)))
    rng = np.random.default_rng(0)
    tops, bottoms = (np.quantile(rng.choice(each, (_DRAWS, len(each))), level, axis=1) for each in (one, other))
    low, high = np.quantile(100 * (1 - tops / np.maximum(bottoms, 1.0)), (0.025, 0.975))
    return Fall(percent, float(low), float(high), (len(one), len(other)))


def _run(request: Request) -> Result:
    file = T3pTrigger.load()
    hours = file.hours_quick if request.quick else file.hours
    keys = dict.fromkeys([*file.homes, *file.simulated])
    paths = {key: _paths(file, key, hours) for key in keys}
    simulated = simulate_schedules(
        {key: paths[key] for key in file.simulated},
        file,
        request.out / "runs",
        lambda share: request.on_progress(_SIMULATED_PART * share),
    )
    trials = request.trials or (file.trials_quick if request.quick else file.trials)
    passes = measure_schedules(
        {key: paths[key][0] for key in file.homes},
        file,
        trials,
        request.out,
        lambda share: request.on_progress(_SIMULATED_PART + (1 - _SIMULATED_PART) * share),
    )
    return result_of(file, passes, simulated, len(hours))


def _paths(file: T3pTrigger, key: str, hours: Sequence[int]) -> list[Profile]:
    starts = [parse_utc(file.first) + hour * _HOUR_NS for hour in hours]
    return uplink_paths(load_terminals()[key], load_uplink().server, starts, file.duration_s, seed=file.seed)


def result_of(file: T3pTrigger, passes: Mapping[Schedule, Pass], simulated: Simulated, paths: int) -> Result:
    """Return the study's result from its uploads."""
    names = {key: terminal.name for key, terminal in load_terminals().items()}
    emulated = _emulated_goodput(passes, file.homes)
    through = f"emulated through the testbed: {file.upload_s:g} s, the kernel's {file.kernel}"
    rows, groups = list[Row](), list[tuple[str, str, Fall | None, Fall | None]]()
    for key in file.homes:
        groups.append((names[key], through, *_falls(emulated["triggered"][key], emulated["random"][key])))
    pools = [[value for key in file.homes for value in emulated[schedule][key]] for schedule in ("triggered", "random")]
    homes = " and ".join(names[key] for key in file.homes)
    groups.append((homes, through, *_falls(pools[0], pools[1])))
    basis = f"simulated: {paths} × {file.duration_s / 60:g} min"
    for controller in file.controllers:
        for window_s in file.windows_simulated_s:
            for key in file.simulated:
                triggered, at_random = (
                    simulated.goodput_bps.get(Case(key, controller, schedule), [])
                    for schedule in (f"{window_s:g} s", "random")
                )
                name = f"{names[key]}, {controller}, windows of {window_s:g} s"
                groups.append((name, basis, *_falls(triggered, at_random)))
    for name, origin, median, _ in groups:
        note = "" if median is None else f"; {median.text}"
        rows.append(file.published["fall"].row(None if median is None else median.percent, f"{origin}{note}", of=name))
    traffic = Traffic.of(passes, file.upload_s, len(file.homes))
    rows += saving_rows(file, traffic, through)
    for (key, schedule), share in simulated.share_of_time.items():
        of = f"{names[key]}, windows of {schedule}"
        rows.append(file.published["share"].row(100 * share, basis, of=of))
    return Result(
        rows,
        _verdicts(groups),
        [
            f"{through}: {_counts(passes)} at homes behind computed paths of {homes} to {load_uplink().server.name}",
            f"{basis} of each of {', '.join(names[key] for key in file.simulated)}, {', '.join(file.controllers)}",
        ],
        {
            "figure-7": plot_value_cdfs(
                {
                    f"{schedule}, {names[key]}": [value / 1e6 for value in emulated[schedule][key]]
                    for key in file.homes
                    for schedule in ("random", "triggered")
                    if emulated[schedule][key]
                },
                label=f"mean goodput of an upload of {file.upload_s:g} s [Mbit/s]",
            )
        },
        _notes(file, passes),
    )


def _emulated_goodput(passes: Mapping[Schedule, Pass], homes: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    goodput: dict[str, dict[str, list[float]]] = {}
    for schedule, each in passes.items():
        by_home: dict[str, list[float]] = {home: [] for home in homes}
        goodput[schedule] = by_home
        for upload in each.uploads:
            if upload.state == "done" and upload.goodput_bps is not None:
                by_home[upload.home].append(upload.goodput_bps)
    return goodput


def _falls(triggered: Sequence[float], at_random: Sequence[float]) -> tuple[Fall | None, Fall | None]:
    return fall_of(triggered, at_random), fall_of(triggered, at_random, TAIL)


def _verdicts(groups: Sequence[tuple[str, str, Fall | None, Fall | None]]) -> list[Verdict]:
    verdicts = []
    for name, basis, median, tail in groups:
        for statement, fall in (
            ("random runs offer a higher median", median),
            (f"random runs have a longer tail ({TAIL:.0%} quantile)", tail),
        ):
            holds = None
            if fall is not None and fall.low is not None and fall.high is not None:
                holds = True if fall.low > 0 else False if fall.high < 0 else None
            why = "no uploads" if fall is None else f"triggered {fall.percent:.1f} % below random ({fall.text})"
            verdicts.append(Verdict(f"{name}: {statement}", holds, _7, basis, why))
    return verdicts


def _counts(passes: Mapping[Schedule, Pass]) -> str:
    parts = []
    for schedule, each in passes.items():
        done = sum(upload.state == "done" for upload in each.uploads)
        parts.append(f"{done} of {len(each.uploads)} {schedule} uploads done in {each.took_s / 60:.1f} min")
    return ", ".join(parts)


def _notes(file: T3pTrigger, passes: Mapping[Schedule, Pass]) -> list[str]:
    others = [upload.state for each in passes.values() for upload in each.uploads if upload.state != "done"]
    return [
        f"feed: `{file.condition}` over the node's pings to the far end of its path, ten a second, a window for each; "
        "the paper does not name its feed",
        f"the testbed uses the kernel's {file.kernel}: Linux has no BBRv2. bentpipe's BBRv2 is in the simulator's rows",
        "in computed paths capacity does not follow latency: most spikes are reconfigurations, over before the upload "
        f"begins, and the rest of their slot is clear. An upload of {file.upload_s:g} s at a random time meets an edge "
        "in one of three cases. A satellite that is worse for whole slots, as the paper supposes, is rare in them",
        "a run with `path: profile: …` would begin a path of its own; so the node lives behind the emulated path",
        *([f"{len(others)} uploads were not done: {', '.join(sorted(set(others)))}"] if others else []),
    ]


STUDY = Study(
    name="t3p-trigger",
    title="Uploads that a latency trigger starts against uploads at random times, through the testbed",
    source=f"{SOURCE}, section 6.2, figure 7",
    takes="half an hour in real time; --quick: five minutes",
    run=_run,
    trials=True,
)
