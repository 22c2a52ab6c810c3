"""Reader of Experiment files: TOML, with times in seconds (`docs/reference/experiment.md`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.experiments.apps import parse_app
from bentpipe.experiments.experiment import (
    NS_PER_S,
    CrossTraffic,
    Direction,
    Experiment,
    Flow,
    Host,
    HostTiming,
    Pings,
    PingSize,
    ProfileRef,
    Size,
    TransferSizes,
)
from bentpipe.experiments.load_tests import with_test
from bentpipe.experiments.plugins import is_python_controller
from bentpipe.experiments.recovery import parse_recovery
from bentpipe.experiments.schemes import EcnMode, known_controllers, parse_scheme, read_tunable
from bentpipe.files import read_text
from bentpipe.profiles.queue_rules import QueueRule
from bentpipe.profiles.queues import parse_queue
from bentpipe.records import LARGEST, Items, Name, Record, Text

LONGEST_S = LARGEST // NS_PER_S
"""Longest duration [s], 292 years: the limit of the simulator's 64-bit times."""

Seconds = Annotated[float, Field(ge=0, le=LONGEST_S)]

PositiveSeconds = Annotated[float, Field(ge=1e-9, le=LONGEST_S)]
"""At least the simulator's resolution."""


class ProfileEntry(Record):
    """A Profile of the file."""

    role: Text
    """The name that flows use."""
    file: Text
    """The Profile's file, relative to this one."""


class FlowFields(Record):
    """Fields that flows and cross traffic share."""

    controller: Text
    """Name in the registry, or of a Python controller."""
    direction: Direction = "down"
    """Direction of the data."""
    profile: Text | None = None
    """Role of its Profile; default: the first one."""
    options: dict[Name, int | float | Text] = Field(default_factory=dict)
    """Tunables of the controller: numbers, or names of choices."""
    sender: Text | None = None
    """Name of the sending host in `hosts`; default: a host with the default settings."""
    receiver: Text | None = None
    """Likewise the receiving host."""


class FlowEntry(FlowFields):
    """A flow of the file."""

    start_s: Seconds = 0.0
    """Start [s since the start of the run]."""
    stop_s: PositiveSeconds | None = None
    """When it stops sending [s since the start of the run]."""
    app: Text = "bulk"
    """Its application, in the syntax of ``race --app``."""
    ecn: EcnMode = "off"
    """Requested ECN mode."""


class CrossEntry(FlowFields):
    """Cross traffic of the file."""

    offered_bps: Size
    """Mean rate of the bytes of new transfers [bit/s]."""
    least_bytes: Size
    """Smallest transfer."""
    most_bytes: Size
    """Largest transfer."""
    tail_index: Annotated[float, Field(ge=0.1, le=10)]
    """The smaller it is, the larger the share of bytes in the largest transfers."""


class PingEntry(Record):
    """Pings of the file."""

    every_s: PositiveSeconds
    """Time between two pings [s]."""
    bytes: PingSize = 84
    """Size of a ping and of its reply, with headers [bytes]."""
    profile: Text | None = None
    """Role of its Profile; default: the first one."""
    start_s: Seconds = 0.0
    """When the first is sent [s since the start of the run]."""
    stop_s: PositiveSeconds | None = None
    """Time from which none is sent [s since the start of the run]; default: the end."""


class QueueEntry(Record):
    """A queue rule of the file."""

    aqm: Text
    """The rule, in the syntax of ``race --aqm``."""
    profile: Text | None = None
    """Role of its Profile; default: every Profile."""


class ExperimentToml(Record):
    """An Experiment file."""

    name: Text
    """Name of the folder of its Runs."""
    duration_s: PositiveSeconds
    """Duration [s]."""
    seed: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """Seed of the first Run."""
    warmup_s: Seconds | None = None
    """Warm-up, left out of steady-state figures [s]; default: 10 s, or a quarter of a duration below 40 s."""
    sample_step_s: Seconds = 0.1
    """Time between samples [s], at least 1 ms."""
    offset_s: Seconds = 0.0
    """Offset in the Profiles at which the run begins [s]."""
    profiles: Annotated[Items[ProfileEntry], Field(min_length=1)]
    """The paths, by role."""
    host_timing: HostTiming = "linux-vm"
    """Model of the time that the simulated hosts take."""
    hosts: Annotated[dict[Name, Host], Field(min_length=1)] | None = None
    """Hosts by name, with the settings that differ from the defaults."""
    flows: Annotated[Items[FlowEntry], Field(min_length=1)] | None = None
    """The flows; needed without `test`."""
    test: Text | None = None
    """A test of `load_tests.toml`, in place of flows and pings."""
    controller: Text | None = None
    """Controller of the test's flows, with tunables as in ``race --cc``."""
    pings: Annotated[Items[PingEntry], Field(min_length=1)] | None = None
    """Pings beside the flows."""
    queues: Annotated[Items[QueueEntry], Field(min_length=1)] | None = None
    """Rules that replace the Profiles' own queues."""
    cross: Annotated[Items[CrossEntry], Field(min_length=1)] | None = None
    """Cross traffic."""
    recovery: Text | None = None
    """Loss recovery inside the network, with tunables as in ``race --recovery``; Runs then have one-way delays."""

    @model_validator(mode="after")
    def _check_flows(self) -> Self:
        if self.test is None:
            if self.flows is None:
                raise UserError("key 'flows' is missing", expected="flows, or test with a controller")
            if self.controller is not None:
                raise UserError("controller without test", expected="the controller of each flow")
            return self
        if (
            also := next((key for key in ("flows", "pings", "warmup_s") if getattr(self, key) is not None), None)
        ) is not None:
            raise UserError(f"{also} with test", expected="test alone, which decides them")
        if self.controller is None:
            raise UserError("key 'controller' is missing", expected="the controller of the test's flows")
        if len(self.profiles) > 1:
            raise UserError(f"{len(self.profiles)} profiles with test", expected="one")
        return self


@dataclass(frozen=True)
class ExperimentFile:
    """An Experiment whose Profiles are not yet read: `files` maps each role to its Parquet file."""

    experiment: Experiment
    files: Mapping[str, Path]


def read_experiment(path: Path) -> ExperimentFile:
    """Read an Experiment from a TOML file; Profile files are relative to it.

    Raises:
        UserError: The message names file, field, problem and expected value.
    """
    return parse_experiment(read_text(path), str(path), path.parent)


def parse_experiment(text: str, where: str, folder: Path) -> ExperimentFile:
    """Parse an Experiment from TOML text; `where` names it in messages, `folder` contains its Profile files."""
    toml = ExperimentToml.from_toml(text, where)
    files: dict[str, Path] = {}
    for i, entry in enumerate(toml.profiles):
        if entry.role in files:
            raise UserError(
                f"role {shown(entry.role)} is given twice",
                where=f"{where}: profiles[{i}]",
                expected="a role of its own for every Profile",
            )
        files[entry.role] = folder / entry.file
    names = _Names(list(files), list(toml.hosts or {}), known_controllers())
    experiment = Experiment(
        name=toml.name,
        seed=toml.seed,
        duration_ns=_ns(toml.duration_s),
        sample_step_ns=_ns(toml.sample_step_s),
        offset_ns=_ns(toml.offset_s),
        profiles=tuple(ProfileRef(role=role, name=file.stem, hash="") for role, file in files.items()),
        host_timing=toml.host_timing,
        hosts=toml.hosts or {},
        flows=tuple(
            Flow(
                start_ns=_ns(flow.start_s),
                stop_ns=None if flow.stop_s is None else _ns(flow.stop_s),
                app=parse_app(flow.app, f"{where}: flows[{i}].app"),
                ecn=flow.ecn,
                **names.checked(flow, f"{where}: flows[{i}]"),
            )
            for i, flow in enumerate(toml.flows or ())
        ),
        queues=tuple(names.queue(entry, f"{where}: queues[{i}]") for i, entry in enumerate(toml.queues or ())),
        cross=tuple(
            CrossTraffic(
                offered_bps=cross.offered_bps,
                sizes=TransferSizes(
                    least_bytes=cross.least_bytes, most_bytes=cross.most_bytes, tail_index=cross.tail_index
                ),
                **names.checked(cross, f"{where}: cross[{i}]"),
            )
            for i, cross in enumerate(toml.cross or ())
        ),
        pings=tuple(names.pings(entry, f"{where}: pings[{i}]") for i, entry in enumerate(toml.pings or ())),
        recovery=None if toml.recovery is None else parse_recovery(toml.recovery, f"{where}: recovery"),
    )
    if toml.test is not None and toml.controller is not None:
        try:
            experiment = with_test(experiment, toml.test, parse_scheme(toml.controller))
        except UserError as error:
            raise error.within(where) from None
    if toml.warmup_s is not None:
        experiment = experiment.replace(warmup_ns=_ns(toml.warmup_s))
    return ExperimentFile(experiment, files)


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


@dataclass(frozen=True)
class _Names:
    """The names that flows of a file may use."""

    roles: Sequence[str]
    hosts: Sequence[str]
    controllers: Sequence[str]

    def checked(self, entry: FlowFields, where: str) -> dict[str, Any]:
        """Return the shared fields of a flow or of cross traffic, with every name checked."""
        if not is_python_controller(entry.controller) and entry.controller not in self.controllers:
            hint = did_you_mean(entry.controller, self.controllers)
            problem = f"controller is {shown(entry.controller)}{hint} (there are {', '.join(self.controllers)})"
            raise UserError(problem, where=where, code="unknown_name")
        for key, name in (("sender", entry.sender), ("receiver", entry.receiver)):
            _check_name(key, name, self.hosts, where)
        _check_name("profile", entry.profile, self.roles, where)
        try:
            options = {name: read_tunable(entry.controller, name, str(text)) for name, text in entry.options.items()}
        except UserError as error:
            raise error.within(where) from None
        return {
            "controller": entry.controller,
            "direction": entry.direction,
            "profile": entry.profile or self.roles[0],
            "options": options,
            "sender": entry.sender,
            "receiver": entry.receiver,
        }

    def pings(self, entry: PingEntry, where: str) -> Pings:
        """Return the pings of an entry."""
        _check_name("profile", entry.profile, self.roles, where)
        return Pings(
            every_ns=_ns(entry.every_s),
            bytes=entry.bytes,
            profile=entry.profile or self.roles[0],
            start_ns=_ns(entry.start_s),
            stop_ns=None if entry.stop_s is None else _ns(entry.stop_s),
        )

    def queue(self, entry: QueueEntry, where: str) -> QueueRule:
        """Return the queue rule of an entry."""
        _check_name("profile", entry.profile, self.roles, where)
        rule = parse_queue(entry.aqm, f"{where}: aqm")
        return rule if entry.profile is None else rule.replace(profile=entry.profile)


def _check_name(key: str, name: str | None, known: Sequence[str], where: str) -> None:
    if name is not None and name not in known:
        expected = " or ".join(repr(each) for each in known) or "no such key, as the file has no hosts"
        raise UserError(f"{key} is {shown(name)}", where=where, expected=expected, code="unknown_name")
