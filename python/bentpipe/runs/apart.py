"""Experiments of one name told apart: Runs that are not comparable must not share a table or a figure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bentpipe.experiments.experiment import Experiment
    from bentpipe.runs.failed import FailedRun
    from bentpipe.runs.store import Run


def distinguish(runs: Iterable[Run]) -> list[Run]:
    """Set the `settings` of Runs whose Experiments have one name and differ, but for seed and scheme.

    They are world, duration, queues, cross traffic, host timing, hosts, the applications and times of flows, and the
    Profile's content. Runs of programs and Experiments that differ in nothing are returned unchanged.
    """
    every = list(runs)
    groups: dict[str, list[Run]] = {}
    for run in every:
        if run.record.program is None:
            groups.setdefault(run.record.experiment.name, []).append(run)
    settings = {id(run): text for group in groups.values() for run, text in zip(group, _settings(group), strict=True)}
    return [replace(run, settings=text) if (text := settings.get(id(run))) else run for run in every]


def find_alike(experiment: Experiment, scheme: str, runs: Iterable[Run]) -> str | None:
    """Return `Run.experiment` of the Runs with the settings of an Experiment with a scheme, but for world and Profile.

    None: there is none.
    """
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        by_name.setdefault(run.experiment, []).append(run)
    for name, mine in by_name.items():
        stored = next((run for run in mine if run.scheme == scheme), mine[0])
        if stored.record.experiment.name == experiment.name and _is_alike(experiment, scheme, stored):
            return name
    return None


def experiment_of(failed: FailedRun, runs: Sequence[Run]) -> str | None:
    """Return `Run.experiment` of the Runs with the settings, world and Profile of a failed one; None: there is none.

    Runs over other Profiles count if none is over its own.
    """
    mine = [run for run in runs if run.world == failed.world]
    over = [run for run in mine if run.label == failed.profile and _hashes(run) == failed.profile_hashes]
    others = [run for run in mine if run.label != failed.profile]
    return next((name for each in (over, others) if (name := find_alike(failed.requested, failed.scheme, each))), None)


def _hashes(run: Run) -> tuple[str, ...]:
    return tuple(profile.base_hash for profile in run.record.profiles)


def _is_alike(experiment: Experiment, scheme: str, run: Run) -> bool:
    """Tell whether a Run of an Experiment with a scheme would have the settings of `run`, but for world and Profile."""
    own = run.record.experiment
    if scheme == run.scheme and _flows(experiment) != _flows(own):
        return False
    return all(of(experiment)[0] == of(own)[0] for of in ASPECTS)


def _settings(runs: Sequence[Run]) -> list[str]:
    """Return the settings of Runs of one Experiment's name."""
    aspects = [[(run.world, run.world), *(of(run.record.experiment) for of in ASPECTS)] for run in runs]
    differing = [len({each[i][0] for each in aspects}) > 1 for i in range(len(ASPECTS) + 1)]
    by_label: dict[str, set[str]] = {}
    for run in runs:
        by_label.setdefault(run.label, set()).add(_profiles(run)[0])
    taken: dict[str, list[str]] = {}
    variants: dict[tuple[str, str], list[str]] = {}
    settings = []
    for run, each in zip(runs, aspects, strict=True):
        parts = [text for (_, text), differs in zip(each, differing, strict=True) if differs]
        key = json.dumps([value for value, _ in each])
        if len(by_label[run.label]) > 1:
            value, text = _profiles(run)
            parts.append(text)
            key += value
        # `_other` leaves out controllers, in which schemes differ; Runs of one scheme have the same, flow by flow.
        key += str(_number(variants.setdefault((key, run.scheme), []), _flows(run.record.experiment)))
        suffix = ", ".join(filter(None, parts))
        number = _number(taken.setdefault(suffix, []), key)
        settings.append(", ".join(filter(None, [suffix, f"settings {number}" if number > 1 else ""])))
    return settings


def _number(keys: list[str], key: str) -> int:
    """Return the number of a key among others, from 1 on, and add it if it is new."""
    if key not in keys:
        keys.append(key)
    return keys.index(key) + 1


def _flows(experiment: Experiment) -> str:
    return json.dumps([flow.to_dict() for flow in experiment.flows], sort_keys=True)


def _duration(experiment: Experiment) -> tuple[str, str]:
    return str(experiment.duration_ns), f"{experiment.duration_ns / 1e9:g} s"


def queue_rules(experiment: Experiment) -> tuple[str, str]:
    """Return an Experiment's queue rules as a value to compare and as text."""
    rules = experiment.queues
    text = " and ".join(rule.description for rule in rules) or "the Profile's queues"
    return json.dumps([rule.to_dict() for rule in rules]), text


def _traffic(experiment: Experiment) -> tuple[str, str]:
    cross = experiment.cross
    return json.dumps([each.to_dict() for each in cross]), "cross traffic" if cross else "no cross traffic"


def _host_timing(experiment: Experiment) -> tuple[str, str]:
    return experiment.host_timing, f"{experiment.host_timing} hosts"


def _recovery(experiment: Experiment) -> tuple[str, str]:
    recovery = experiment.recovery
    if recovery is None:
        return "", "no recovery"
    return json.dumps(recovery.to_dict(), sort_keys=True), f"recovery {recovery.scheme}"


def _other(experiment: Experiment) -> tuple[str, str]:
    """Return hosts, times and the flows without their controllers; two that differ are numbered."""
    excluded = {"controller", "options", "ecn"}
    flows = {json.dumps(flow.model_dump(mode="json", exclude=excluded), sort_keys=True) for flow in experiment.flows}
    rest = experiment.model_dump(mode="json", include={"warmup_ns", "sample_step_ns", "hosts", "pings", "test"})
    return json.dumps([sorted(flows), rest], sort_keys=True), ""


def _profiles(run: Run) -> tuple[str, str]:
    hashes = _hashes(run)
    return json.dumps(hashes), f"Profile {'+'.join(each[:8] for each in hashes)}"


ASPECTS: tuple[Callable[[Experiment], tuple[str, str]], ...] = (
    _duration,
    queue_rules,
    _traffic,
    _host_timing,
    _recovery,
    _other,
)
"""Settings of an Experiment: each as a value to compare and as text."""
