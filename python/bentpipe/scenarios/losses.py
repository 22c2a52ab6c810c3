"""Loss environments: named parameters of the access model's loss process, with source and level."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError, unknown_name
from bentpipe.records import Name, Record, Text
from bentpipe.scenarios.tables import packaged_text

DEFAULT_LOSS = "busy"
"""The environment of a Profile made without a name."""

OWN = "own"
"""Name of parameters that are no environment's, so no environment has it."""

Share = Annotated[float, Field(ge=0, le=1)]
LengthMs = Annotated[float, Field(ge=1e-3, le=1e4)]


class LossSide(Record):
    """One direction."""

    episodes_per_s: Annotated[float, Field(ge=0, le=50)]
    """Rate of episodes at load 1, without those at reconfigurations [1/s]."""


class LossParameters(Record):
    """Parameters of the loss process, in the ranges that the access model accepts (``LossParams``)."""

    up: LossSide
    """Terminal to Internet."""
    down: LossSide
    """Internet to terminal."""
    reconfiguration_probability: Share
    """Probability that a reconfiguration has an episode before its interruption, and independently one after it."""
    load_power: Annotated[float, Field(ge=0, le=4)]
    """The rate is proportional to this power of the load; 0: the same at every hour."""
    least_gap_s: Annotated[float, Field(ge=0, le=7.5)] = 0.0
    """Least time between the starts of two episodes, and between an episode and the slot's edges [s]; default: none."""
    length_median_ms: LengthMs
    """Median duration of an episode [ms]."""
    reconfiguration_length_median_ms: LengthMs | None = None
    """Median duration of an episode at a reconfiguration [ms]; default: that of the others."""
    length_log_sigma: Annotated[float, Field(ge=0, le=4)]
    """σ of the duration's logarithm."""
    probability_inside: Share
    """Probability that a packet inside an episode is lost."""


class LossLevel(Record):
    """Level of loss in Profiles of an environment: shares, mean of both directions and over all hours."""

    lost: Share
    """Share of packets lost in one direction."""
    pings_lost: Share
    """Share of pings lost, in either direction."""
    episodes_per_s: Annotated[float, Field(ge=0, le=100)]
    """Episodes in one direction, with those at reconfigurations [1/s]."""
    lossy_seconds: Share
    """Share of seconds with an episode in one direction; 1 if losses are independent."""
    lost_at_edges: Share
    """Share of packets lost in the second before and the second after a slot edge."""


class LossEntry(Record):
    """A loss environment, as ``loss.toml`` has it."""

    description: Text
    """What it is the loss of, in one line."""
    source: Text
    """Publication or measurement, in one line."""
    fitted_to: Text
    """The figures that the parameters follow, and what is assumed."""
    level: LossLevel
    """Level of loss in its Profiles."""
    parameters: LossParameters
    """Parameters of the loss process."""


class LossEnvironment(LossEntry):
    """A loss environment with its name, the value of ``--loss``."""

    name: str

    def process(self) -> dict[str, Any]:
        """Return the access model's parameters under ``loss``, as a Profile's recipe has them."""
        return self.parameters.model_dump(exclude_defaults=True)


class LossFile(Record):
    """``loss.toml``."""

    loss: Annotated[dict[Name, LossEntry], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if OWN in self.loss:
            raise UserError(f"{OWN} is the name of parameters without an environment", where="loss", expected="another")
        return self


@cache
def load_losses() -> Mapping[str, LossEnvironment]:
    """Return the packaged loss environments, by name."""
    return MappingProxyType(parse_losses(packaged_text("loss.toml"), "loss.toml"))


def find_loss(name: str, where: str = "loss") -> LossEnvironment:
    """Return a loss environment by name. Raises `UserError` with the nearest name; `where` names the value."""
    known = load_losses()
    if name not in known:
        raise unknown_name("loss environment", name, known, "`bentpipe loss` lists them", where)
    return known[name]


def parse_losses(text: str, where: str) -> dict[str, LossEnvironment]:
    """Read TOML text shaped like ``loss.toml``; `where` names it in messages. Raises `UserError`."""
    entries = LossFile.from_toml(text, where).loss
    return {name: LossEnvironment(name=name, **dict(entry)) for name, entry in entries.items()}
