"""The record of a simulated or emulated Run: `run.json` (`docs/reference/run.md`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,  # a dependency of pydantic, which on Python 3.11 needs it here
    Self,
)

from pydantic import ConfigDict, Field, model_validator, with_config
from typing_extensions import TypedDict

from bentpipe.errors import UserError
from bentpipe.experiments.experiment import Direction, Experiment
from bentpipe.records import Items, Record

FORMAT: Literal[3] = 3
"""Format of `run.json` that this version writes and reads. Format 2 did not say which Runs are of a test (`test`)."""

MEASURED_FORMAT: Literal[2] = 2
"""Format of the `run.json` of a measured Run."""

World = Literal["simulated", "emulated"]
"""World of a Run; also the name of its node in the hierarchy, as neither world has a measuring terminal."""

Phase = Literal["drawn", "given", "wall_clock", "beginning"]
"""Source of a Run's start phase."""

_FIGURES = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


def _is_none(value: object) -> bool:
    return value is None


class ProfileRecord(Record):
    """A Profile of a Run: as it was given, and as it was drawn."""

    role: str
    """Role in the Experiment."""
    label: str
    """Its name in the race."""
    name: str
    """Its own name."""
    hash: str
    """Content hash as drawn with the Run's seed."""
    base_hash: str
    """Content hash as given."""
    start_unix_ns: Annotated[int, Field(ge=0, lt=2**63)]
    """Its start [ns since 1970, UTC]."""
    duration_s: float
    """Its duration [s]."""
    provenance: dict[str, Any]
    """How it was made."""


@with_config(_FIGURES)
class StartUpFigures(TypedDict):
    """Figures of a flow's start-up phase."""

    time_to_90_s: float | None
    overshoot: float | None
    retransmits: float | None


@with_config(_FIGURES)
class FlowFigures(TypedDict):
    """Figures of one flow; null: not known."""

    controller: str
    direction: Direction
    goodput_bps: float | None
    whole_run_bps: float | None
    rtt_median_ms: float | None
    rtt_p95_ms: float | None
    owd_p50_ms: NotRequired[float]
    owd_p99_ms: NotRequired[float]
    retransmits: int
    losses: NotRequired[int | None]
    timeouts: NotRequired[int | None]
    marks: NotRequired[int | None]
    startup: StartUpFigures
    completed_s: NotRequired[float | None]
    app: NotRequired[dict[str, float | None]]


@with_config(_FIGURES)
class LoadFigures(TypedDict):
    """Pings and goodput of a path while it had one load; null: not known."""

    load: Literal["idle", "down", "up", "both"]
    duration_s: float
    sent: int
    lost: int
    in_flight: NotRequired[int]
    rtt_p50_ms: float | None
    rtt_p95_ms: float | None
    rtt_p99_ms: float | None
    excess_p50_ms: NotRequired[float | None]
    excess_p95_ms: NotRequired[float | None]
    rtts_per_min: float | None
    down_bps: float
    up_bps: float


@with_config(_FIGURES)
class PingFigures(TypedDict):
    """Figures of the pings over one path."""

    profile: str
    sent: int
    lost: int
    in_flight: NotRequired[int]
    loads: list[LoadFigures]


@with_config(_FIGURES)
class RecoveryFigures(TypedDict):
    """Loss recovery inside the network, and its counters by name."""

    scheme: str
    overhead: dict[str, int]


@with_config(_FIGURES)
class Summary(TypedDict):
    """Figures of a Run: one entry of `flows` for each flow, in the Experiment's order."""

    flows: list[FlowFigures]
    cross: NotRequired[list[dict[str, Any]]]
    pings: NotRequired[list[PingFigures]]
    recovery: NotRequired[RecoveryFigures]
    packets: NotRequired[int]
    no_route: NotRequired[dict[str, int]]
    emulator: NotRequired[dict[str, Any]]


class ProgramRecord(Record):
    """The program of a Run and its options (`bentpipe run`)."""

    command: Items[str]
    server: str | None
    server_log: str | None
    at_end: str
    mtu: int
    gateway_controller: str | None
    internet: str
    queues: Items[str]
    listen_within_s: float


class RunRecord(Record):
    """`run.json` of a simulated or emulated Run."""

    format: Literal[3] = FORMAT
    """Number of the format."""
    world: World
    """Where it ran."""
    node: str
    """The machine that took part; `simulated` or `emulated`: this one alone."""
    scheme: str
    """The controllers of its flows, or the name of its program."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of its Profile's random processes and of its own."""
    phase: Phase
    """Source of its start phase."""
    profiles: Annotated[Items[ProfileRecord], Field(min_length=1)]
    """Its Profiles, in the order of their roles."""
    experiment: Experiment
    """The Experiment, as it ran."""
    program: Annotated[ProgramRecord | None, Field(exclude_if=_is_none)] = None
    """The program of `bentpipe run`; absent in a race."""
    program_output: Annotated[dict[str, Any] | None, Field(exclude_if=_is_none)] = None
    """Summary of the program's parsed output."""
    started_unix_ns: Annotated[int | None, Field(exclude_if=_is_none)] = None
    """When the program's emulation began [ns since 1970, UTC]."""
    versions: dict[str, str]
    """Versions of the software, and of an emulated Run of the kernel, that made it."""
    valid: bool
    """Whether its figures count."""
    why_invalid: str | None = None
    """The reason why they do not."""
    summary: Summary
    """Its figures."""
    content_hash: str
    """Hash of samples, links, events and summary."""
    files: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of each table's file."""

    @model_validator(mode="before")
    @classmethod
    def _check_numbers(cls, data: object) -> object:
        if (place := _out_of_range(data)) is not None:
            raise UserError(f"{place} is out of range", expected="a finite number of at most 64 bits")
        return data

    @model_validator(mode="after")
    def _check_figures(self) -> Self:
        flows = self.summary["flows"]
        if len(self.profiles) != len(self.experiment.profiles):
            raise UserError("profiles", expected=f"{len(self.experiment.profiles)}, as in experiment")
        if not flows and self.program is None:  # a program may have no TCP flow
            raise UserError("summary.flows is []", expected="at least one entry")
        for i, flow in enumerate(flows):
            # Null only in an invalid Run, which no figure uses, or if a program's flow ended before the warm-up.
            if self.valid and self.program is None and None in (flow["goodput_bps"], flow["whole_run_bps"]):
                raise UserError("a rate is null in a valid Run", where=f"summary.flows[{i}]", expected="a number")
        return self

    def with_labels(self, labels: Mapping[str, str]) -> Self:
        """Return the record with other labels of its Profiles, by role."""
        return self.replace(profiles=tuple(each.replace(label=labels[each.role]) for each in self.profiles))


def _out_of_range(value: object, where: str = "") -> str | None:
    """Return the place of the first number that is not finite or exceeds 64 bits; None: there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else where
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**64 else where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    places = (_out_of_range(each, f"{where}.{key}" if where else str(key)) for key, each in items)
    return next((place for place in places if place is not None), None)


def joined_labels(labels: Iterable[str]) -> str:
    """Return the label of a Run over Profiles with these labels. Paths of one network have one label.

    Example:
        >>> joined_labels(["home", "office"]), joined_labels(["N", "N", "N"])
        ('home+office', 'N')
    """
    return "+".join(dict.fromkeys(labels))
