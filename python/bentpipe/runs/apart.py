"""Experiments of one name told apart: Runs that are not comparable must not share a table or a figure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bentpipe.runs.store import Run

SEPARATOR = " · "
"""Between the name of an Experiment and its settings that differ from others of that name."""


def distinguish(runs: Iterable[Run]) -> list[Run]:
    """Add to the Experiment's name the settings in which Experiments of that name differ, but for seed and scheme.

    They are world, duration, queues, cross traffic, host timing, hosts, the applications and times of flows, and the
    Profile's content. Runs of programs and Experiments that differ in nothing are returned unchanged.
    """
    every = list(runs)
    groups: dict[str, list[Run]] = {}
    for run in every:
        if run.record.program is None:
            groups.setdefault(run.experiment, []).append(run)
    names = {id(run): name for group in groups.values() for run, name in zip(group, _names(group), strict=True)}
    return [_named(run, names[id(run)]) if id(run) in names else run for run in every]


def original_name(experiment: str) -> str:
    """Return the name of an Experiment without the settings that `distinguish` added."""
    return experiment.partition(SEPARATOR)[0]


def settings_of(experiment: str) -> str:
    """Return the settings that `distinguish` added to the name; empty: none."""
    return experiment.partition(SEPARATOR)[2]


def _named(run: Run, name: str) -> Run:
    if name == run.experiment:
        return run
    return replace(run, record=run.record.replace(experiment=run.record.experiment.replace(name=name)))


def _names(runs: Sequence[Run]) -> list[str]:
    """Return the names of Runs of one Experiment's name."""
    aspects = [[of(run) for of in (*ASPECTS, _other)] for run in runs]
    differing = [len({each[i][0] for each in aspects}) > 1 for i in range(len(ASPECTS) + 1)]
    by_label: dict[str, set[str]] = {}
    for run in runs:
        by_label.setdefault(run.label, set()).add(_profiles(run)[0])
    taken: dict[str, list[str]] = {}
    names = []
    for run, each in zip(runs, aspects, strict=True):
        parts = [text for (_, text), differs in zip(each, differing, strict=True) if differs]
        key = json.dumps([value for value, _ in each])
        if len(by_label[run.label]) > 1:
            value, text = _profiles(run)
            parts.append(text)
            key += value
        suffix = ", ".join(filter(None, parts))
        keys = taken.setdefault(suffix, [])
        keys += [] if key in keys else [key]
        number = keys.index(key) + 1
        settings = ", ".join(filter(None, [suffix, f"settings {number}" if number > 1 else ""]))
        names.append(f"{run.experiment}{SEPARATOR}{settings}" if settings else run.experiment)
    return names


def _world(run: Run) -> tuple[str, str]:
    return run.world, run.world


def _duration(run: Run) -> tuple[str, str]:
    return str(run.record.experiment.duration_ns), f"{run.duration_s:g} s"


def _queues(run: Run) -> tuple[str, str]:
    rules = run.record.experiment.queues
    text = " and ".join(rule.description for rule in rules) or "the Profile's queues"
    return json.dumps([rule.to_dict() for rule in rules]), text


def _traffic(run: Run) -> tuple[str, str]:
    cross = run.record.experiment.cross
    return json.dumps([each.to_dict() for each in cross]), "cross traffic" if cross else "no cross traffic"


def _host_timing(run: Run) -> tuple[str, str]:
    timing = run.record.experiment.host_timing
    return timing, f"{timing} hosts"


def _other(run: Run) -> tuple[str, str]:
    """Return hosts, times and the flows without their controllers; two that differ are numbered."""
    experiment = run.record.experiment
    excluded = {"controller", "options", "ecn"}
    flows = {json.dumps(flow.model_dump(mode="json", exclude=excluded), sort_keys=True) for flow in experiment.flows}
    rest = experiment.model_dump(mode="json", include={"warmup_ns", "sample_step_ns", "hosts", "pings"})
    return json.dumps([sorted(flows), rest], sort_keys=True), ""


def _profiles(run: Run) -> tuple[str, str]:
    hashes = [profile.base_hash for profile in run.record.profiles]
    return json.dumps(hashes), f"Profile {'+'.join(each[:8] for each in hashes)}"


ASPECTS: tuple[Callable[[Run], tuple[str, str]], ...] = (_world, _duration, _queues, _traffic, _host_timing)
"""Settings of a Run: each as a value to compare and as text."""
