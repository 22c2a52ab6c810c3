"""Reader of Experiment files: TOML, with times in seconds (`docs/reference/experiment.md`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError, shown
from bentpipe.experiments.experiment import (
    DIRECTIONS,
    NS_PER_S,
    SAMPLE_STEP_NS,
    CrossTraffic,
    Direction,
    Experiment,
    Flow,
    ProfileRef,
)
from bentpipe.experiments.plugins import is_python_controller
from bentpipe.experiments.schemes import ECN_MODES, known_controllers, read_tunable
from bentpipe.files import read_text
from bentpipe.profiles.queues import parse_queue
from bentpipe.scenarios.tables import Table, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LARGEST = 2**63 - 1
"""Largest integer that TOML guarantees."""

LONGEST_S = LARGEST // NS_PER_S
"""Longest duration [s], 292 years: the limit of the simulator's 64-bit times."""

SHORTEST_S = 1e-9
"""The simulator's resolution [s]."""


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
    document = Table.parse(text, where)
    known = known_controllers()
    files: dict[str, Path] = {}
    for entry in document.tables("profiles"):
        role = entry.text("role")
        if role in files:
            raise UserError(
                f"{entry.where}: role {shown(role)} is given twice; expected a role of its own for every Profile"
            )
        files[role] = folder / entry.text("file")
        entry.done()
    hosts = document.named_tables("hosts") if document.has("hosts") else {}
    duration_ns = _nanoseconds(document, "duration_s", SHORTEST_S)
    experiment = Experiment(
        name=document.text("name"),
        seed=document.integer("seed", 0, LARGEST) if document.has("seed") else 0,
        duration_ns=duration_ns,
        warmup_ns=_nanoseconds(document, "warmup_s") if document.has("warmup_s") else None,  # type: ignore[arg-type]  # the default
        sample_step_ns=_nanoseconds(document, "sample_step_s") if document.has("sample_step_s") else SAMPLE_STEP_NS,
        offset_ns=_nanoseconds(document, "offset_s") if document.has("offset_s") else 0,
        profiles=tuple(ProfileRef(role, file.stem, "") for role, file in files.items()),
        hosts={name: _host(settings) for name, settings in hosts.items()},
        flows=tuple(_flow(entry, list(files), list(hosts), known) for entry in document.tables("flows")),
        queues=tuple(_queue(entry, list(files)) for entry in document.tables("queues"))
        if document.has("queues")
        else (),
        cross=tuple(
            _cross(entry, list(files), list(hosts), known)
            for entry in (document.tables("cross") if document.has("cross") else [])
        ),
    )
    document.done()
    return ExperimentFile(experiment, files)


def _nanoseconds(table: Table, key: str, at_least_s: float = 0.0) -> int:
    return round(table.number(key, at_least_s, LONGEST_S) * NS_PER_S)


def _host(settings: Table) -> dict[str, Any]:
    host: dict[str, Any] = {
        key: settings.integer(key, 1, LARGEST)
        for key in ("rmem_max_bytes", "wmem_max_bytes", "wmem_segment_bytes", "gro_segments")
        if settings.has(key)
    }
    if settings.has("fq"):
        host["fq"] = settings.boolean("fq")
    if settings.has("ecn"):
        host["ecn"] = settings.choice("ecn", ECN_MODES)
    settings.done()
    return host


def _flow(entry: Table, roles: list[str], hosts: list[str], known: Sequence[str]) -> Flow:
    controller = _controller(entry, known)
    flow = Flow(
        controller=controller,
        start_ns=_nanoseconds(entry, "start_s") if entry.has("start_s") else 0,
        stop_ns=_nanoseconds(entry, "stop_s", SHORTEST_S) if entry.has("stop_s") else None,
        application=_application(entry),
        ecn=entry.choice("ecn", ECN_MODES) if entry.has("ecn") else "off",
        **_common_fields(entry, controller, roles, hosts),
    )
    entry.done()
    return flow


def _cross(entry: Table, roles: list[str], hosts: list[str], known: Sequence[str]) -> CrossTraffic:
    controller = _controller(entry, known)
    cross = CrossTraffic(
        offered_bps=entry.integer("offered_bps", 1, LARGEST),
        sizes={
            "least_bytes": entry.integer("least_bytes", 1, LARGEST),
            "most_bytes": entry.integer("most_bytes", 1, LARGEST),
            "tail_index": entry.number("tail_index", 0.1, 10.0),
        },
        controller=controller,
        **_common_fields(entry, controller, roles, hosts),
    )
    entry.done()
    return cross


def _controller(entry: Table, known: Sequence[str]) -> str:
    controller = entry.text("controller")
    if not is_python_controller(controller) and controller not in known:
        hint = did_you_mean(controller, known)
        raise UserError(f"{entry.where}: controller is {shown(controller)}{hint} (there are {', '.join(known)})")
    return controller


def _common_fields(entry: Table, controller: str, roles: list[str], hosts: list[str]) -> dict[str, Any]:
    """Read the common fields of flows and cross traffic: direction, Profile, tunables and hosts."""
    direction: Direction = "down"
    if entry.has("direction"):
        direction = next(d for d in DIRECTIONS if d == entry.choice("direction", DIRECTIONS))
    return {
        "direction": direction,
        "profile": entry.choice("profile", roles) if entry.has("profile") else roles[0],
        "options": _options(entry, controller),
        "sender": entry.choice("sender", hosts) if entry.has("sender") else None,
        "receiver": entry.choice("receiver", hosts) if entry.has("receiver") else None,
    }


def _queue(entry: Table, roles: list[str]) -> dict[str, Any]:
    """Read a queue rule: `aqm`, in the syntax of ``race --aqm``, and `profile`, the role of its only Profile."""
    rule = parse_queue(entry.text("aqm"), f"{entry.where}: aqm")
    if entry.has("profile"):
        rule["profile"] = entry.choice("profile", roles)
    entry.done()
    return rule


def _options(entry: Table, controller: str) -> dict[str, float]:
    """Read the controller's tunables: numbers, or names of choices."""
    try:
        return {name: read_tunable(controller, name, text) for name, text in entry.named_values("options").items()}
    except UserError as error:
        raise UserError(str(error) if str(error).startswith(entry.where) else f"{entry.where}: {error}") from None


def _application(entry: Table) -> str | dict[str, Any]:
    """Read `bytes = n`, or `write_bytes = n` with `every_s = s`; without either the flow always has data."""
    if entry.has("bytes"):
        return {"bytes": entry.integer("bytes", 1, LARGEST)}
    if entry.has("write_bytes") or entry.has("every_s"):
        write_bytes = entry.integer("write_bytes", 1, LARGEST)
        return {"paced": {"write_bytes": write_bytes, "every_ns": _nanoseconds(entry, "every_s", SHORTEST_S)}}
    return "bulk"
