"""Results of a race: per Profile and scheme over the seeds, with confidence intervals."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from bentpipe.errors import UserError
from bentpipe.experiments.recovery import recovery_name
from bentpipe.runs.estimates import Estimate, estimate, jain_index, paired_ratio
from bentpipe.runs.items import Items, items_by_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bentpipe.runs.run_record import World
    from bentpipe.runs.store import Run


class Group(NamedTuple):
    """Runs that differ in seed and start phase only; `settings` is the rest of their Experiment and its Profiles.

    `settings` of a program's Runs is empty: `by_command` names them by their options.
    """

    experiment: str
    profile: str
    scheme: str
    world: World
    settings: str


@dataclass(frozen=True)
class StartUp:
    """The start-up phase of a flow, before its steady state.

    `reached` of the n runs reached 90 % of their steady goodput; `time_to_90_s` is over those, None if there were none.
    `overshoot` is the peak in flight ÷ the steady median.
    """

    reached: int
    time_to_90_s: Estimate | None
    overshoot: Estimate | None
    retransmits: Estimate | None


@dataclass(frozen=True)
class ItemSummary:
    """The items of one kind of a flow's application; None: none was complete in any run."""

    kind: str
    items: Estimate
    completed: Estimate
    median_s: Estimate | None
    p95_s: Estimate | None


@dataclass(frozen=True)
class FlowSummary:
    """One flow of a scheme over the seeds: goodput after the warm-up, `whole_run_bps` with the start-up.

    The rates are over the runs that know them; None: a program's connection was closed before the warm-up in all.
    `completed_s` is the time to completion over the runs in which the flow completed; None: in no run, or the flow has
    no end. `items` are those of its application, by kind. `path` is the role of its Profile. `share` is the flow's
    share in the goodput of the run's flows of its Profile, direction and time; None: there is no other, or one whose
    time is not the same overlaps with it.
    A summary may be of `count` flows: rates and retransmits are their sums, others the means over them. `start_s` is
    when they start, since the start of the run.
    """

    controller: str
    count: int
    start_s: float
    direction: str
    path: str | None
    goodput_bps: Estimate | None
    whole_run_bps: Estimate | None
    rtt_median_ms: Estimate | None
    rtt_p95_ms: Estimate | None
    retransmits: Estimate
    completed_s: Estimate | None
    items: tuple[ItemSummary, ...]
    start_up: StartUp
    share: Estimate | None


@dataclass(frozen=True)
class SchemeSummary:
    """One scheme on one Profile in one Experiment and world.

    `valid` of its `runs` were valid, and `n` of those count: all of them, or one if all have equal figures (a path on
    which the seed has no effect). `total_bps` is the goodput of all flows together, over the runs that know it, `jain`
    their fairness index; None if they differ in Profile, direction or time. `queues` describes the disciplines that
    replace the Profile's own; empty: none. `recovery` names the loss recovery; empty: none was asked for.
    """

    group: Group
    n: int
    valid: int
    runs: int
    flows: tuple[FlowSummary, ...]
    total_bps: Estimate | None
    jain: Estimate | None
    queues: str
    recovery: str

    @property
    def experiment(self) -> str:
        """Name of the Experiment."""
        return self.group.experiment

    @property
    def profile(self) -> str:
        """Label of the Profile."""
        return self.group.profile

    @property
    def scheme(self) -> str:
        """The scheme."""
        return self.group.scheme


@dataclass(frozen=True)
class LeftOut:
    """A scheme on one Profile with `invalid` of its `runs` excluded, and the reason of the first."""

    experiment: str
    profile: str
    scheme: str
    world: World
    invalid: int
    runs: int
    why: str

    @property
    def whole(self) -> bool:
        """Tell whether all its Runs are excluded."""
        return self.invalid == self.runs


def left_out(runs: Iterable[Run]) -> list[LeftOut]:
    """Return the schemes with invalid Runs, in order of first occurrence."""
    return [
        LeftOut(*key[:4], len(invalid), len(group), str(invalid[0].record.why_invalid or "no reason is given"))
        for key, group in group_runs(runs).items()
        if (invalid := [run for run in group if not run.record.valid])
    ]


def group_runs(runs: Iterable[Run]) -> dict[Group, list[Run]]:
    """Group Runs by Experiment, Profile, scheme and world, each group sorted by seed."""
    groups: dict[Group, list[Run]] = {}
    for run in runs:
        group = Group(run.experiment, run.label, run.scheme, run.world, _settings(run))
        groups.setdefault(group, []).append(run)
    return {key: sorted(group, key=lambda run: run.seed) for key, group in groups.items()}


def _settings(run: Run) -> str:
    if run.record.program is not None:
        return ""
    experiment = run.record.experiment.model_dump(mode="json", exclude={"seed", "offset_ns", "profiles"})
    return json.dumps([[each.base_hash for each in run.record.profiles], experiment], sort_keys=True)


def summarise(runs: Iterable[Run], *, together: bool = False) -> list[SchemeSummary]:
    """Return one summary per Experiment, Profile, scheme and world, in order of first occurrence.

    `together`: flows of one controller, direction, path and time are one flow of the summary.

    Experiments of one name that differ in more than seed and start phase (queues, duration) have summaries of their
    own. Runs that are not valid count only in `runs`. A scheme without a valid run has no summary (`left_out` names
    it).

    Raises:
        UserError: Two valid Runs of a race differ in nothing, or in the start phase only, so a seed would count twice.
    """
    summaries = []
    for key, group in group_runs(runs).items():
        valid = [run for run in group if run.record.valid]
        if valid:
            _check_seeds(key, [run.seed for run in valid if run.record.program is None])
            summaries.append(_scheme(key, valid, len(group), together=together))
    return summaries


def _check_seeds(group: Group, seeds: Sequence[int]) -> None:
    twice = next((seed for seed, other in pairwise(seeds) if seed == other), None)
    if twice is not None:
        raise UserError(
            f"{group.scheme} over {group.profile}: two Runs have seed {twice}",
            expected="one Run for each seed",
            hint="the Runs of one race",
        )


def counted(runs: Iterable[Run]) -> list[Run]:
    """Select the Runs of one scheme on one Profile that count: the valid ones.

    If all have equal figures, the seed has no effect and they are one result. If one differs, every seed counts: two
    equal failures are two failures.
    """
    valid = [run for run in runs if run.record.valid]
    return valid[:1] if len({_figures(run) for run in valid}) == 1 else valid


def _scheme(group: Group, valid: list[Run], runs: int, *, together: bool) -> SchemeSummary:
    results = counted(valid)
    known = [run for run in results if all(flow["goodput_bps"] is not None for flow in run.flows)]
    totals = [total_goodput_bps(run) for run in known]
    count = min(len(run.flows) for run in results)
    numbers = flows_together(results[0])[:count] if together else [(i,) for i in range(count)]
    return SchemeSummary(
        group=group,
        n=len(results),
        valid=len(valid),
        runs=runs,
        flows=tuple(_flow(each, results) for each in numbers),
        total_bps=_estimate_known(totals),
        jain=_estimate_known([_jain(run) for run in known], ceiling=1.0),
        queues=" and ".join(rule.description for rule in results[0].record.experiment.queues),
        recovery="" if (recovery := results[0].record.experiment.recovery) is None else recovery_name(recovery),
    )


def flows_together(run: Run) -> list[tuple[int, ...]]:
    """Return the numbers of the flows of a Run that have one controller, direction, path and time."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, (name, path, flow, times) in enumerate(zip(run.names, run.flow_paths, run.flows, _times(run), strict=True)):
        groups.setdefault((name, path, flow["direction"], times), []).append(i)
    return [tuple(numbers) for numbers in groups.values()]


def _figures(run: Run) -> str:
    """Return a Run's figures for comparison: content hashes differ if one packet arrives a nanosecond later."""
    return json.dumps([run.flows, run.pings], sort_keys=True)


def _flow(numbers: Sequence[int], runs: Sequence[Run]) -> FlowSummary:
    flows = [_combined([run.flows[i] for i in numbers]) for run in runs]
    starts = [flow["startup"] for flow in flows]
    times = [start["time_to_90_s"] for start in starts]
    return FlowSummary(
        controller=runs[0].names[numbers[0]],
        count=len(numbers),
        start_s=_times(runs[0])[numbers[0]][0],
        direction=str(flows[0]["direction"]),
        path=runs[0].flow_paths[numbers[0]],
        goodput_bps=_estimate_known([flow["goodput_bps"] for flow in flows]),
        whole_run_bps=_estimate_known([flow["whole_run_bps"] for flow in flows]),
        rtt_median_ms=_estimate_known([flow["rtt_median_ms"] for flow in flows]),
        rtt_p95_ms=_estimate_known([flow["rtt_p95_ms"] for flow in flows]),
        retransmits=estimate([flow["retransmits"] for flow in flows]),
        completed_s=_estimate_known([flow.get("completed_s") for flow in flows]),
        items=_items([items_by_kind(run, numbers) for run in runs]),
        start_up=StartUp(
            reached=sum(time is not None for time in times),
            time_to_90_s=_estimate_known(times),
            overshoot=_estimate_known([start["overshoot"] for start in starts]),
            retransmits=_estimate_known([start["retransmits"] for start in starts]),
        ),
        share=_estimate_known([_share(run, flow, numbers) for run, flow in zip(runs, flows, strict=True)], ceiling=1.0),
    )


def _combined(flows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the figures of flows as those of one: sums of rates and retransmits, means of others."""
    if len(flows) == 1:
        return flows[0]

    def over(of: Callable[[Sequence[float]], float], name: str, among: Sequence[Mapping[str, Any]]) -> float | None:
        values = [each[name] for each in among if each.get(name) is not None]
        return of(values) if len(values) == len(among) else None

    starts = [flow["startup"] for flow in flows]
    means = ("rtt_median_ms", "rtt_p95_ms", "completed_s")
    return {
        "direction": flows[0]["direction"],
        **{name: over(sum, name, flows) for name in ("goodput_bps", "whole_run_bps", "retransmits")},
        **{name: over(fmean, name, flows) for name in means},
        "startup": {
            **{name: over(fmean, name, starts) for name in ("time_to_90_s", "overshoot")},
            "retransmits": over(sum, "retransmits", starts),
        },
    }


def _times(run: Run) -> list[tuple[float, float]]:
    """Return start and stop of each flow, since the start of the run [s]."""
    specs = run.record.experiment.flows
    if len(specs) != len(run.flows):  # a damaged record
        return [(0.0, run.duration_s)] * len(run.flows)
    return [
        (spec.start_ns / 1e9, run.duration_s if spec.stop_ns is None else min(spec.stop_ns / 1e9, run.duration_s))
        for spec in specs
    ]


def _share(run: Run, flow: Mapping[str, Any], numbers: Sequence[int]) -> float | None:
    """Return the share of some flows in the goodput of those of their Profile, direction and time.

    None: there is no other, one of them has another time, or a rate is unknown. The rate of a flow is over its own
    time, so it says nothing about a part of it.
    """
    times, paths = _times(run), run.flow_paths
    start_s, stop_s = times[numbers[0]]
    others = [
        i
        for i, (other, (begin_s, end_s)) in enumerate(zip(run.flows, times, strict=True))
        if other["direction"] == flow["direction"]
        and paths[i] == paths[numbers[0]]
        and begin_s < stop_s
        and start_s < end_s
    ]
    rates = [run.flows[i]["goodput_bps"] for i in others]
    if len(others) <= len(numbers) or len({times[i] for i in others}) > 1 or None in rates or not (total := sum(rates)):
        return None
    return float(flow["goodput_bps"] / total)


def _jain(run: Run) -> float | None:
    """Return the fairness index of a Run's flows; None: they are one, or differ in Profile, direction or time."""
    kinds = set(zip(run.flow_paths, (flow["direction"] for flow in run.flows), _times(run), strict=True))
    return jain_index([flow["goodput_bps"] for flow in run.flows]) if len(run.flows) > 1 and len(kinds) == 1 else None


def _items(runs: Sequence[Mapping[str, Items]]) -> tuple[ItemSummary, ...]:
    kinds = dict.fromkeys(kind for run in runs for kind in run)
    every = {kind: [run.get(kind, Items(kind, 0, 0, ())) for run in runs] for kind in kinds}
    return tuple(
        ItemSummary(
            kind,
            estimate([each.items for each in items]),
            estimate([each.completed for each in items]),
            _estimate_known([each.quantile_s(50) for each in items]),
            _estimate_known([each.quantile_s(95) for each in items]),
        )
        for kind, items in every.items()
    )


def _estimate_known(values: Sequence[Any], ceiling: float = math.inf) -> Estimate | None:
    known = [float(value) for value in values if value is not None]
    return estimate(known, ceiling=ceiling) if known else None


def compare(runs: Iterable[Run], ours: str, theirs: str, of: Callable[[Run], float]) -> dict[str, Estimate]:
    """Return the ratio of `of` for scheme `ours` to that for `theirs`, per Profile, paired by seed.

    It is a geometric mean: the ratio of `theirs` to `ours` is its inverse, and ratios of several Profiles may be
    averaged. A Profile without common seeds, or with a run where `of` is zero, is left out. If all seeds have equal
    figures they count once.
    """
    ratios = {label: paired_ratio(*values) for label, values in paired_values(runs, ours, theirs, of).items()}
    return {label: ratio for label, ratio in ratios.items() if ratio is not None}


def compare_difference(runs: Iterable[Run], ours: str, theirs: str, of: Callable[[Run], float]) -> dict[str, Estimate]:
    """Return the mean difference of `of` between schemes `ours` and `theirs`, per Profile, paired by seed.

    If both have the same seeds, it equals the difference of their means from `summarise`. Profiles and seeds count as
    in `compare`.
    """
    return {
        label: estimate([a - b for a, b in zip(mine, others, strict=True)], floor=-math.inf)
        for label, (mine, others) in paired_values(runs, ours, theirs, of).items()
    }


def paired_values(
    runs: Iterable[Run], ours: str, theirs: str, of: Callable[[Run], float]
) -> dict[str, tuple[list[float], list[float]]]:
    """Return `of` for both schemes by Profile, over the seeds with a valid Run of both; no entry without such seeds."""
    return {
        label: ([of(run) for run, _ in pairs], [of(run) for _, run in pairs])
        for label, pairs in _pairs(runs, ours, theirs).items()
        if pairs
    }


def _pairs(runs: Iterable[Run], ours: str, theirs: str) -> dict[str, list[tuple[Run, Run]]]:
    """Pair valid Runs of two schemes with the same seed, by Profile; one pair if all have equal figures."""
    by_label: dict[str, tuple[dict[int, Run], dict[int, Run]]] = {}
    for run in runs:
        if run.scheme in (ours, theirs) and run.record.valid:
            pair = by_label.setdefault(run.label, ({}, {}))
            pair[0 if run.scheme == ours else 1][run.seed] = run
    return {
        label: _one_if_alike([(mine[seed], others[seed]) for seed in sorted(mine.keys() & others.keys())])
        for label, (mine, others) in by_label.items()
    }


def _one_if_alike(pairs: list[tuple[Run, Run]]) -> list[tuple[Run, Run]]:
    return pairs[:1] if len({(_figures(mine), _figures(other)) for mine, other in pairs}) == 1 else pairs


def total_goodput_bps(run: Run) -> float:
    """Return the goodput of all flows of a Run together [bit/s], without those whose rate is not known."""
    return float(sum(flow["goodput_bps"] or 0.0 for flow in run.flows))
