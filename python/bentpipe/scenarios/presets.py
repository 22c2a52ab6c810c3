"""Parse static path presets such as ``dumbbell:rate=100mbit,rtt=40ms,queue=1bdp``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from bentpipe.errors import UserError, shown, unknown_name
from bentpipe.records import Name, Record, Text
from bentpipe.scenarios.tables import packaged_text
from bentpipe.scenarios.units import QueueLimit, parse_probability, parse_queue, parse_rate_bps, parse_time_ns

Kind = Literal["rate", "time", "queue", "probability"]

#: Parameters of presets and their kinds: `rate`, or `down` and `up`; and `rtt`, `queue`, `loss`.
_KINDS: Mapping[str, Kind] = {
    "rate": "rate",
    "down": "rate",
    "up": "rate",
    "rtt": "time",
    "queue": "queue",
    "loss": "probability",
}
_SETS = ({"rate", "rtt", "queue", "loss"}, {"down", "up", "rtt", "queue", "loss"})


class Parameter(Record):
    """A preset's parameter: kind, default as typed by a user, and description."""

    kind: Kind
    default: Text
    description: Text


class PresetEntry(Record):
    """A preset in ``presets.toml``."""

    description: Text
    source: Text
    parameters: Annotated[dict[Name, Parameter], Field(min_length=1)]


class PresetsFile(Record):
    """``presets.toml``."""

    presets: Annotated[dict[Name, PresetEntry], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Preset:
    """A named static path with defaults.

    Attributes:
        name: Value of ``--preset``.
        description: One line.
        source: Source of the defaults: one line.
        parameters: Name → parameter.

    """

    name: str
    description: str
    source: str
    parameters: Mapping[str, Parameter]


@dataclass(frozen=True, slots=True)
class PresetPath:
    """A static path.

    Attributes:
        preset: The preset's name.
        down_bps: Rate towards the user [bit/s].
        up_bps: Rate from the user [bit/s].
        rtt_ns: Propagation RTT [ns].
        queue: Queue limit of each direction.
        loss: Probability that a packet is lost after the queue, independent for each packet and direction.
        text: The preset with all parameters, for provenance; parses to the same path.

    """

    preset: str
    down_bps: int
    up_bps: int
    rtt_ns: int
    queue: QueueLimit
    loss: float
    text: str


@cache
def load_presets() -> Mapping[str, Preset]:
    """Return the packaged presets, by name."""
    return MappingProxyType(parse_presets(packaged_text("presets.toml"), "presets.toml"))


def parse_presets(text: str, where: str) -> dict[str, Preset]:
    """Read TOML text shaped like ``presets.toml``; `where` names it in messages. Raise `UserError`."""
    presets: dict[str, Preset] = {}
    for name, entry in PresetsFile.from_toml(text, where).presets.items():
        inside = f"{where}: presets.{name}"
        for key, parameter in entry.parameters.items():
            if key not in _KINDS:
                raise unknown_name("parameter", key, _KINDS, f"known: {', '.join(_KINDS)}", inside)
            if parameter.kind != _KINDS[key]:
                place = f"{inside}.parameters.{key}"
                raise UserError(f"kind is {parameter.kind!r}", where=place, expected=repr(_KINDS[key]))
        if set(entry.parameters) not in _SETS:
            expected = " or ".join(", ".join(sorted(s)) for s in _SETS)
            raise UserError(f"parameters are {', '.join(sorted(entry.parameters))}", where=inside, expected=expected)
        presets[name] = Preset(name, entry.description, entry.source, MappingProxyType(dict(entry.parameters)))
        _path(presets[name], {}, f"{inside}: default of ")
    return presets


def parse_preset(text: str, presets: Mapping[str, Preset] | None = None) -> PresetPath:
    """Parse ``NAME`` or ``NAME:key=value,...``; other parameters keep their defaults.

    `presets` are the known ones; default: the packaged ones. Raises `UserError` that names the preset and the key.
    """
    known = load_presets() if presets is None else presets
    name, colon, rest = text.strip().partition(":")
    name = name.strip().lower()
    if name not in known:
        raise unknown_name("preset", name, known, f"known: {', '.join(known)}")
    preset = known[name]
    given: dict[str, str] = {}
    for item in rest.split(",") if colon else []:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key or not value:
            raise UserError(f"preset {name}: {shown(item)} is not key=value; expected for example {_example(preset)}")
        key = key.lower()
        if key not in preset.parameters:
            raise unknown_name(
                f"parameter of preset {name}:", key, preset.parameters, f"it has {', '.join(preset.parameters)}"
            )
        if key in given:
            raise UserError(f"preset {name}: {key} is given twice; keep one")
        given[key] = value.lower()
    return _path(preset, given, f"preset {name}: ")


def _path(preset: Preset, given: Mapping[str, str], prefix: str) -> PresetPath:
    values = {key: given.get(key, parameter.default) for key, parameter in preset.parameters.items()}

    def where(key: str) -> str:
        return f"{prefix}{key}"

    down = "rate" if "rate" in values else "down"
    up = "rate" if "rate" in values else "up"
    return PresetPath(
        preset=preset.name,
        down_bps=parse_rate_bps(values[down], where(down)),
        up_bps=parse_rate_bps(values[up], where(up)),
        rtt_ns=parse_time_ns(values["rtt"], where("rtt")),
        queue=parse_queue(values["queue"], where("queue")),
        loss=parse_probability(values["loss"], where("loss")),
        text=f"{preset.name}:" + ",".join(f"{key}={value}" for key, value in values.items()),
    )


def _example(preset: Preset) -> str:
    return f"{preset.name}:" + ",".join(f"{key}={parameter.default}" for key, parameter in preset.parameters.items())
