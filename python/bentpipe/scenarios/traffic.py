"""Cross traffic by name: its share of the path's capacity, and the sizes of its transfers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError, unknown_name
from bentpipe.records import Name, Record, Text
from bentpipe.scenarios.tables import packaged_text


class TrafficEntry(Record):
    """Transfers that share a path with the studied flows, as ``traffic.toml`` has them.

    Attributes:
        description: One line.
        source: Source of the values: one line.
        share: Offered load of new transfers, as a share of the path's mean capacity in their direction; None: the
            capacity difference of the access model's quietest and busiest hour
            (`bentpipe.experiments.traffic.traffic_share`).
        busiest_hour: That difference is the share.
        controller: Congestion controller of the transfers.
        least_bytes: Smallest transfer [bytes].
        most_bytes: Largest transfer [bytes].
        tail_index: Index of the bounded Pareto distribution of sizes.
    """

    description: Text
    source: Text
    share: Annotated[float, Field(ge=1e-3, le=2)] | None = None
    busiest_hour: bool = False
    controller: Text
    least_bytes: Annotated[int, Field(ge=1, le=10**12)]
    most_bytes: Annotated[int, Field(ge=1, le=10**12)]
    tail_index: Annotated[float, Field(ge=0.1, le=10)]

    @model_validator(mode="after")
    def _check_share_and_sizes(self) -> Self:
        if self.busiest_hour == (self.share is not None):
            raise UserError("share and busiest_hour", expected="one of them")
        if self.most_bytes < self.least_bytes:
            raise UserError(f"most_bytes is {self.most_bytes}", expected="at least least_bytes")
        return self


class Traffic(TrafficEntry):
    """Cross traffic with its name, the value of ``--traffic``."""

    name: str


class TrafficFile(Record):
    """``traffic.toml``."""

    traffic: Annotated[dict[Name, TrafficEntry], Field(min_length=1)]


@cache
def load_traffic() -> Mapping[str, Traffic]:
    """Return the packaged traffic, by name."""
    return MappingProxyType(parse_traffic(packaged_text("traffic.toml"), "traffic.toml"))


def find_traffic(name: str, where: str = "traffic") -> Traffic:
    """Return traffic by name. Raises `UserError` with the nearest name; `where` names the value in the message."""
    known = load_traffic()
    if name not in known:
        raise unknown_name("traffic", name, known, f"known: {', '.join(known)}", where)
    return known[name]


def parse_traffic(text: str, where: str) -> dict[str, Traffic]:
    """Read TOML text shaped like ``traffic.toml``; `where` names it in messages. Raise `UserError`."""
    entries = TrafficFile.from_toml(text, where).traffic
    return {name: Traffic(name=name, **dict(entry)) for name, entry in entries.items()}
