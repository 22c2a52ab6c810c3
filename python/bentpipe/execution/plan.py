"""Plan of a race: one piece of work per (Profile, scheme, seed), checked before anything starts."""

from __future__ import annotations

import hashlib
import itertools
import json
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bentpipe._native import Network, Profile
from bentpipe.errors import UserError
from bentpipe.experiments import experiment as ex
from bentpipe.experiments.apps import App, app_name
from bentpipe.experiments.load_tests import PREFIX, directions_of, with_test
from bentpipe.experiments.recovery import recovery_name
from bentpipe.experiments.schemes import parse_scheme, scheme_of
from bentpipe.experiments.traffic import cross_traffic
from bentpipe.profiles.path import PathView
from bentpipe.runs import store
from bentpipe.runs.run_record import joined_labels
from bentpipe.runs.work import Base, Work

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.profiles.queue_rules import QueueRule
    from bentpipe.runs.run_record import Phase, World

Content = TypeVar("Content", Profile, Network, Profile | Network)

SLOT_NS = 15 * ex.NS_PER_S
"""Interval of Starlink's reconfigurations [ns] (Tanveer et al., "Making Sense of Constellations", CoNEXT Companion '23,
arXiv:2307.00402): a race's start phase is uniform in one such slot."""


def label_profiles(profiles: Sequence[Profile], role: str = ex.ROLE, *, distinct: bool = True) -> list[Base]:
    """Label each Profile with its name; a second one of the same name gets ``~2``, so that results are separate.

    Raises `UserError` if two are equal and should be `distinct`, as each is raced on its own.
    """
    bases = [Base(role, label, profile, content_hash) for label, profile, content_hash in _labelled(profiles)]
    if distinct:
        _refuse_twice([(base.profile.name, base.hash) for base in bases])
    return bases


def label_contents(contents: Sequence[Profile | Network]) -> list[Base]:
    """Label distinct Profiles and networks as `label_profiles` does; a network gives a `Base` for each of its paths."""
    bases: list[Base] = []
    labelled = _labelled(contents)
    _refuse_twice([(content.name, content_hash) for _, content, content_hash in labelled])
    for label, content, content_hash in labelled:
        if isinstance(content, Profile):
            bases.append(Base(ex.ROLE, label, content, content_hash))
            continue
        for name, path in zip(content.path_names, content.profiles(), strict=True):
            bases.append(Base(name, label, path, path.content_hash(), content, content_hash))
    return bases


def _labelled(contents: Sequence[Content]) -> list[tuple[str, Content, str]]:
    """Return each content with its label and its hash."""
    labelled: list[tuple[str, Content, str]] = []
    taken: set[str] = set()
    for content in contents:
        name = store.safe_name(content.name)
        label = next(label for n in count(1) if (label := name if n == 1 else f"{name}~{n}") not in taken)
        taken.add(label)
        labelled.append((label, content, content.content_hash()))
    return labelled


def _refuse_twice(contents: Sequence[tuple[str, str]]) -> None:
    """Refuse equal contents, given by name and hash."""
    hashes = [content_hash for _, content_hash in contents]
    for i, (name, content_hash) in enumerate(contents):
        if content_hash in hashes[:i]:
            raise UserError(f"the Profile {name!r} is given twice; name each Profile once")


def plan_race(
    bases: Sequence[Base],
    schemes: Sequence[str],
    direction: ex.Direction,
    duration_s: float | None,
    seeds: int,
    out: Path,
    phase_s: float | None,
    world: World = "simulated",
    queues: tuple[QueueRule, ...] = (),
    traffic: str | None = None,
    app: App = "bulk",
    host_timing: ex.HostTiming = "linux-vm",
    test: str | None = None,
    recoveries: Sequence[ex.Recovery] = (),
) -> list[Work]:
    """Return one piece of work per (Profile, seed, scheme). Raises `UserError` if a Run is impossible.

    `app` is the application of every flow; `traffic` names cross traffic of `bentpipe.scenarios.load_traffic`; `test`
    is a test of `bentpipe.scenarios.load_tests`, which decides direction and application of its flows. With
    `recoveries` there is one piece of work for each of them.
    """
    parsed = tuple(dict.fromkeys(parse_scheme(scheme) for scheme in schemes))
    if not bases or not parsed:
        raise UserError("no Profile or no scheme", where="race", expected="at least one of each")
    if direction not in ex.DIRECTIONS:
        raise UserError(repr(direction), where="direction", expected="up or down")
    if host_timing not in ex.HOST_TIMINGS:
        raise UserError(repr(host_timing), where="host_timing", expected=" or ".join(ex.HOST_TIMINGS))
    check_seeds(seeds, len({base.label for base in bases}) * len(parsed) * max(1, len(recoveries)))
    groups = _groups(bases)
    shortest = min(bases, key=lambda base: base.duration_ns)
    least_s = ex.SAMPLE_STEP_NS / 1e9
    duration_ns = shortest.duration_ns if duration_s is None else seconds_to_ns(duration_s, "duration_s", least_s)
    if duration_ns < ex.SAMPLE_STEP_NS:
        raise UserError(
            f"the Profile {shortest.label!r} lasts {duration_ns / 1e9:g} s; expected at least {least_s:g} s"
        )
    directions = [direction]
    named = ["race", direction, *([] if app == "bulk" else [app_name(app)]), *([] if traffic is None else [traffic])]
    if test is not None:
        _check_alone(test, direction, app, traffic)
        directions = directions_of(test)
        named = [PREFIX + test]
    named += [] if host_timing == "linux-vm" else [f"{host_timing}-hosts"]
    work = []
    for group in groups:
        first = group[0]
        check_span(first.label, first.duration_ns, duration_ns, 0)
        for base in group if app == "bulk" else ():
            check_capacity(base, directions)
        rules = json.dumps([rule.to_dict() for rule in queues])
        first.profile.with_queues(first.role, rules)  # checks the rules before anything is written
        if first.network is not None:
            _check_network(first.label, world, queues, test)
        cross = tuple(cross_traffic(base.profile, traffic, direction, base.role) for base in group) if traffic else ()
        for seed in range(seeds):
            offset_ns = _offset_ns(first, duration_ns, seed, phase_s)
            for scheme, recovery in itertools.product(parsed, recoveries or (None,)):
                experiment = ex.for_scheme(
                    scheme,
                    direction,
                    [base.reference for base in group],
                    duration_ns=duration_ns,
                    seed=seed,
                    offset_ns=offset_ns,
                    queues=queues,
                    cross=cross,
                    app=app,
                    host_timing=host_timing,
                    name="-".join([*named, *([] if recovery is None else [recovery_name(recovery)])]),
                    recovery=recovery,
                )
                if test is not None:
                    experiment = with_test(experiment, test, scheme)
                folder = folder_of(out, experiment, world, group, scheme)
                phase: Phase = "drawn" if phase_s is None else "given"
                work.append(Work(tuple(group), scheme, seed, phase, experiment, folder, world))
    return work


def _groups(bases: Sequence[Base]) -> list[list[Base]]:
    """Return the Profiles of each Run: one alone, or all paths of a network."""
    groups: dict[str, list[Base]] = {}
    for base in bases:
        groups.setdefault(base.label, []).append(base)
    return list(groups.values())


def _check_network(label: str, world: World, queues: Sequence[QueueRule], test: str | None) -> None:
    """Refuse what a network cannot have."""
    for where, is_given in (("on_kernel", world == "emulated"), ("queues", bool(queues)), ("test", test is not None)):
        if is_given:
            raise UserError(
                f"given with the Network {label!r}",
                where=where,
                expected="a Profile",
                hint="`bentpipe network path` writes one path of a Network as a Profile",
            )


def _check_alone(test: str, direction: ex.Direction, app: App, traffic: str | None) -> None:
    """Refuse what a test decides."""
    for where, given in (("direction", direction != "down"), ("app", app != "bulk"), ("traffic", traffic is not None)):
        if given:
            raise UserError("given with a test", where=where, expected=f"none, as the test {test} decides its flows")


def plan_experiment(
    experiment: ex.Experiment, bases: Sequence[Base], seeds: int, out: Path, world: World = "simulated"
) -> list[Work]:
    """Plan an Experiment from a file for the seeds s, s + 1, …, where s is its own seed."""
    check_seeds(seeds)
    for base in bases:
        check_span(base.label, base.duration_ns, experiment.duration_ns, experiment.offset_ns)
        bulk = [flow for flow in experiment.flows if flow.profile == base.role and flow.app == "bulk"]
        check_capacity(base, [flow.direction for flow in bulk])
    references = tuple(base.reference for base in bases)
    flows = [(flow.controller, flow.options) for flow in experiment.flows]
    scheme = scheme_of(flows, [flow.ecn for flow in experiment.flows])
    work = []
    for seed in range(experiment.seed, experiment.seed + seeds):
        seeded = experiment.replace(seed=seed, profiles=references)
        folder = folder_of(out, seeded, world, bases, scheme)
        work.append(Work(tuple(bases), scheme, seed, "given", seeded, folder, world))
    return work


def folder_of(out: Path, experiment: ex.Experiment, world: World, bases: Sequence[Base], scheme: str) -> Path:
    """Return the folder of a Run below `out`."""
    run = f"{joined_labels(base.label for base in bases)}.{scheme}.seed{experiment.seed}"
    return store.run_folder(out, experiment.name, world, bases[0].profile.start_unix_ns, run)


#: Largest number of Runs of one command. Chosen here, to catch typing errors: ten times a large sweep.
MOST_RUNS = 1_000_000


def check_seeds(seeds: int, runs_of_one: int = 1) -> None:
    """Refuse fewer than one seed, and more than `MOST_RUNS` Runs in all, with `runs_of_one` Runs per seed."""
    if seeds < 1:
        raise UserError(str(seeds), where="seeds", expected="at least 1 (N stands for seeds 0 to N−1)")
    if seeds * runs_of_one > MOST_RUNS:
        raise UserError(
            str(seeds), where="seeds", expected=f"at most {MOST_RUNS // runs_of_one} (a million Runs in all)"
        )


def check_span(label: str, profile_ns: int, duration_ns: int, offset_ns: int, where: str = "duration_s") -> None:
    """Refuse a run that is longer than its Profile `label`; `where` names the duration in the message."""
    if offset_ns + duration_ns > profile_ns:
        begins = f" from {offset_ns / 1e9:g} s on" if offset_ns else ""
        raise UserError(
            f"{duration_ns / 1e9:g} s{begins} exceeds the Profile {label!r}",
            where=where,
            expected=f"at most {profile_ns / 1e9:g} s in all",
            hint="a longer Profile",
        )


def check_capacity(base: Base, directions: Sequence[ex.Direction]) -> None:
    """Refuse bulk flows in directions in which their Profile never has a capacity, unless it is a permanent outage."""
    for direction in directions:
        if not _has_capacity(base, direction):
            raise UserError(
                f"the Profile {base.label!r}: no capacity {direction}wards, where nothing but buffers would limit a "
                f"bulk flow; expected a capacity; try `bentpipe profile from … --capacity {direction}=100mbit`"
            )


@lru_cache(maxsize=16)  # a study plans many Experiments over one Profile
def _has_capacity(base: Base, direction: ex.Direction) -> bool:
    view = PathView(base.profile)
    capacity_bps = view.capacity(direction).value  # infinite: no limit; 0: an interruption
    return bool(np.isfinite(capacity_bps).all() or (np.isfinite(capacity_bps) & (capacity_bps > 0)).any())


def seconds_to_ns(value_s: float, where: str, least_s: float = 0.0) -> int:
    """Convert the user's seconds to nanoseconds; refuse NaN, infinities, values below `least_s` and above 1e9."""
    if not least_s <= value_s <= 1e9:
        raise UserError(f"{value_s:g} s", where=where, expected=f"at least {least_s:g} s and at most 1e9 s")
    return round(value_s * ex.NS_PER_S)


def _offset_ns(base: Base, duration_ns: int, seed: int, phase_s: float | None) -> int:
    if phase_s is None:
        return start_offset_ns(base, duration_ns, seed)
    offset_ns = seconds_to_ns(phase_s, "phase_s")
    check_span(base.label, base.duration_ns, duration_ns, offset_ns)
    return offset_ns


def start_offset_ns(base: Base, duration_ns: int, seed: int) -> int:
    """Draw the start phase of a Run over a Profile: within a slot, or the rest of the Profile if that is less [ns]."""
    check_span(base.label, base.duration_ns, duration_ns, 0)
    return drawn_phase_ns(seed, min(SLOT_NS, base.duration_ns - duration_ns))


def drawn_phase_ns(seed: int, span_ns: int) -> int:
    """Draw the start phase of a seed, uniform in 0 … `span_ns` [ns].

    It uses SHA-256 and not a library's generator, whose stream may change with its version.
    """
    digest = hashlib.sha256(f"bentpipe start phase {seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * (span_ns + 1) >> 64
