"""Time from a path's return until a flow is back at its rate, by the length of the outage and the sender's RTO."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.experiments.experiment import NS_PER_S, Experiment, Flow, Host, ProfileRef
from bentpipe.experiments.schemes import flows_of, parse_scheme
from bentpipe.plots.error_curves import plot_error_curves
from bentpipe.profiles.outage import Packets, with_outage
from bentpipe.studies import field
from bentpipe.studies.flows import RunBatch, Track
from bentpipe.studies.outages_file import OutageCase, Outages
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile

#: Least RTO above an RTT (`TCP_RTO_MIN`) [ms].
_RTO_MIN_MS = 200.0
#: Resamples of a bootstrap.
_DRAWS = 2000


@dataclass(frozen=True)
class Back:
    """When a flow was back after an outage.

    Attributes:
        path: Number of the path.
        length_s: Length of the outage [s].
        time_s: Time from the path's return until the flow was back [s].
        rtos: The same in RTOs of an idle path.
    """

    path: int
    length_s: float
    time_s: float
    rtos: float


def _run(request: Request) -> Result:
    file = Outages.load()
    lengths_s = file.lengths_quick_s if request.quick else file.lengths_s
    outages: list[tuple[Packets, float]] = [("lost", length_s) for length_s in lengths_s]
    outages += [("held", length_s) for length_s in file.held_lengths_s if length_s in lengths_s or not request.quick]
    paths = field.make_paths(
        file.paths[: file.paths_quick if request.quick else None], file.begins_s + max(lengths_s) + file.after_s
    )
    begins_s = [_last_edge_s(path.profile, file.begins_s) for path in paths]
    batch = RunBatch()
    for number, path in enumerate(paths):
        for scheme in dict.fromkeys(case.scheme for case in file.cases):
            end_s = begins_s[number] + max(lengths_s) + file.after_s
            batch.add(("none", scheme, str(number)), _experiment(path.profile, scheme, Host(), end_s), path.profile)
        for packets, length_s in outages:
            profile = with_outage(path.profile, begins_s[number], length_s, packets)
            end_s = begins_s[number] + length_s + file.after_s
            for case in file.cases:
                key = (packets, f"{length_s:g}", case.name, str(number))
                host = Host(rto_max_ms=case.rto_max_ms, frto=None if case.frto else False)
                batch.add(key, _experiment(profile, case.scheme, host, end_s), profile)
    runs = batch.run(request)
    backs_of: dict[tuple[Packets, str], list[Back]] = defaultdict(list)
    for number, path in enumerate(paths):
        idle_rto_s = (_idle_rtt_ms(path.profile, begins_s[number]) + _RTO_MIN_MS) / 1e3
        for packets, length_s in outages:
            for case in file.cases:
                whole = runs["none", case.scheme, str(number)][0].tracks[0]
                track = runs[packets, f"{length_s:g}", case.name, str(number)][0].tracks[0]
                time_s = back_after_s(track, whole, begins_s[number] + length_s, file)
                backs_of[packets, case.name].append(Back(number, length_s, time_s, time_s / idle_rto_s))
    lengths = f"{len(lengths_s)} lengths of an outage, {lengths_s[0]:g} to {lengths_s[-1]:g} s"
    basis = f"simulated: {len(paths)} Profiles × {lengths}"
    probing = [case for case in file.cases if case.probes]
    lost = {case.name: backs_of["lost", case.name] for case in file.cases}
    rows = [row for case in probing for row in _limits(case, lost[case.name], file, basis)]
    rows += [row for key, backs in backs_of.items() for row in _rows(key, backs, file, basis)]
    verdicts = [verdict for case in probing for verdict in _verdicts(case, lost[case.name], file, basis)]
    curves = {name: _medians(lost[name], lengths_s) for name in lost}
    figure = plot_error_curves(
        curves, error="length of the outage [s]", quantity="median time until the flow is back [s]"
    )
    notes = [
        f"back: the first {file.window_s:g} s in which the flow delivers {100 * file.share:g} % of what the same flow "
        "delivers on the same path without an outage; the time is the start of that window",
        f"a flow that is not back after {file.after_s:g} s counts as {file.after_s:g} s: it takes longer than that",
        "an outage begins at an edge of a slot; one of 15, 30, 45 or 60 s ends at one, too",
        "lost: there is no route and the queue is dropped, as when no satellite serves; held: the first hop's queue "
        "keeps what arrives until the path is back, and drops what exceeds it",
        f"RTO of an idle path: a lone packet's RTT before the outage and {_RTO_MIN_MS:g} ms",
        "intervals are bootstraps over Profiles",
    ]
    return Result(rows, verdicts, [basis], {"back": figure}, notes)


def _last_edge_s(profile: Profile, before_s: float) -> float:
    """Return the last handover or reconfiguration before a time [s]."""
    events = json.loads(profile.metadata_json())["events"]
    at_ns: int = max(event["at_ns"] for event in events if event["at_ns"] < before_s * NS_PER_S)
    return at_ns / NS_PER_S


def _idle_rtt_ms(profile: Profile, at_s: float) -> float:
    """Return the median RTT of a lone packet in the second before `at_s` [ms]."""
    sent_s = np.arange(at_s - 1.0, at_s, 0.005)
    return float(np.median(profile.delay_ms("down", sent_s)) + np.median(profile.delay_ms("up", sent_s)))


def _experiment(profile: Profile, scheme: str, host: Host, end_s: float) -> Experiment:
    (controller, options) = flows_of(parse_scheme(scheme))[0]
    return Experiment(
        name="outages",
        duration_ns=round(end_s * NS_PER_S),
        profiles=(ProfileRef(role="path", name=profile.name, hash=profile.content_hash()),),
        flows=(Flow(controller=controller, options=options, sender="host"),),
        hosts={"host": host},
    )


def back_after_s(track: Track, whole: Track, at_s: float, file: Outages) -> float:
    """Return the time from `at_s` until the flow is back [s]: the start of the first good window."""
    ours, theirs = (each.between(at_s, at_s + file.after_s) for each in (track, whole))
    many = min(len(ours.t_s), len(theirs.t_s))
    step_s = float(np.median(np.diff(track.t_s)))
    width = max(1, round(file.window_s / step_s))
    sums = [np.convolve(each.goodput_bps[:many], np.ones(width), "valid") for each in (ours, theirs)]
    good = np.flatnonzero(sums[0] >= file.share * np.maximum(sums[1], 1.0))
    return float(good[0] * step_s) if len(good) else file.after_s


def _interval(backs: Sequence[Back], unit: str) -> tuple[float, float, float]:
    """Return the median and its bootstrap interval over paths, for ``time_s`` or ``rtos``."""
    by_path = defaultdict(list)
    for back in backs:
        by_path[back.path].append(float(getattr(back, unit)))
    values = np.array(list(by_path.values()))
    picks = np.random.default_rng(0).integers(0, len(values), (_DRAWS, len(values)))
    low, high = np.quantile(np.median(values[picks].reshape(_DRAWS, -1), axis=1), [0.025, 0.975])
    return float(np.median(values)), float(low), float(high)


def _rows(key: tuple[Packets, str], backs: Sequence[Back], file: Outages, basis: str) -> list[Row]:
    packets, name = key
    case = name if packets == "lost" else f"{name}, packets held"
    median_s, low, high = _interval(backs, "time_s")
    late = sum(back.time_s >= file.after_s for back in backs)
    worst = max(backs, key=lambda back: back.time_s)
    rest = f"{late} of {len(backs)} not back after {file.after_s:g} s"
    return [
        Row(f"{case}: median", "s", None, median_s, f"95 %: {low:.2f} to {high:.2f}; {rest}", basis),
        Row(f"{case}: longest", "s", None, worst.time_s, f"outage of {worst.length_s:g} s", basis),
    ]


def _limits(case: OutageCase, backs: Sequence[Back], file: Outages, basis: str) -> list[Row]:
    median, worst = file.published["median"], file.published["worst"]
    longest_s = max(back.time_s for back in backs)
    return [median.row(_interval(backs, "rtos")[0], basis, of=case.name), worst.row(longest_s, basis, of=case.name)]


def _verdicts(case: OutageCase, backs: Sequence[Back], file: Outages, basis: str) -> list[Verdict]:
    median, worst = file.published["median"], file.published["worst"]
    rtos, low, high = _interval(backs, "rtos")
    times_s = [back.time_s for back in backs]
    longest = max(times_s)
    return [
        Verdict(
            f"{case.name}: the median is at most {median.value:g} RTOs of an idle path",
            True if high <= median.value else False if low > median.value else None,
            median.source,
            basis,
            f"{rtos:.2f}, 95 %: {low:.2f} to {high:.2f}; {len(backs)} outages",
        ),
        Verdict(
            f"{case.name}: never over {worst.value:g} s",
            longest <= worst.value,
            worst.source,
            basis,
            f"longest {longest:.1f} s; {sum(time > worst.value for time in times_s)} of {len(backs)} outages over it",
        ),
    ]


def _medians(backs: Sequence[Back], lengths_s: Sequence[float]) -> tuple[list[float], list[float]]:
    medians = [float(np.median([back.time_s for back in backs if back.length_s == length_s])) for length_s in lengths_s]
    return list(lengths_s), medians


STUDY = Study(
    name="outages",
    title="Resumption after an outage: lengths from 1 to 60 s, controllers, and the largest RTO",
    source="bentpipe's own question; docs/design/007-leo-controllers.md",
    takes="twenty minutes on two cores; --quick: under one",
    run=_run,
    sweeps=True,
)
