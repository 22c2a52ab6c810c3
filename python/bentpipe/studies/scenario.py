"""The parts that the studies' TOML files have in common: published values, places, windows and hosts.

`bentpipe.studies.files` has the record of each file.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field

from bentpipe.experiments.experiment import Host
from bentpipe.records import Items, Name, Record, Text
from bentpipe.scenarios.sites import Place
from bentpipe.scenarios.tables import packaged_text
from bentpipe.studies.study import Relation, Row
from bentpipe.times import parse_utc


def _utc(text: str) -> str:
    parse_utc(text, "")
    return text


Utc = Annotated[str, AfterValidator(_utc)]
"""A time as ISO-8601 text."""

Count = Annotated[int, Field(ge=1, le=1000)]
"""A number of tests or seeds."""

Hour = Annotated[int, Field(ge=0, le=23)]
"""An hour of the day (UTC)."""

RunS = Annotated[float, Field(ge=10, le=3600)]
"""Duration of a Run [s]."""


class StudyFile(Record):
    """A file below ``scenarios/studies``."""

    FILE: ClassVar[str]

    @classmethod
    def load(cls) -> Self:
        """Read the packaged file. Raises `UserError` that names file, key, value and expectation."""
        return cls.from_toml(packaged_text(cls.FILE), cls.FILE)


class Published(Record):
    """A published value; see `bentpipe.studies.study.Row`."""

    quantity: Text
    """Name of the quantity."""
    unit: Text = ""
    """Its unit; empty for a share or a ratio."""
    value: Annotated[float, Field(ge=-1e12, le=1e12)]
    """The value."""
    source: Text
    """Figure, table or section of the publication."""
    relation: Relation = "="
    """Whether it is the value itself or a limit."""

    def row(self, ours: float | None, basis: str, *, of: str = "") -> Row:
        """Return a row with our value beside it; `of` names the subject where several are compared with one value."""
        quantity = f"{self.quantity}: {of}" if of else self.quantity
        return Row(quantity, self.unit, self.value, ours, self.source, basis, self.relation)


class PublishedFile(StudyFile):
    """A study's file with published values."""

    published: Annotated[dict[Name, Published], Field(min_length=1)]
    """Published values by key."""


class PlaceEntry(Record):
    """A study's terminal or server."""

    label: Text | None = None
    """Name in the rows; default: its key."""
    lat_deg: Annotated[float, Field(ge=-90, le=90)]
    """Latitude [deg]."""
    lon_deg: Annotated[float, Field(ge=-180, le=180)]
    """Longitude [deg]."""
    alt_m: Annotated[float, Field(ge=-430, le=9000)] = 0.0
    """Altitude [m]."""
    pop: Text | None = None
    """Code of its PoP, where known."""
    description: Text
    """One line."""

    def place(self, key: str) -> Place:
        """Return the place; `key` names it if it has no label."""
        return Place(
            name=self.label or key,
            lat_deg=self.lat_deg,
            lon_deg=self.lon_deg,
            alt_m=self.alt_m,
            pop=self.pop,
            description=self.description,
        )


class WindowsEntry(Record):
    """Windows of probing at the same hours of each day."""

    first: Utc
    """The first day."""
    days: Annotated[int, Field(ge=1, le=366)]
    """Number of days."""
    hours: Items[Hour]
    """Hours at which a window begins."""
    duration_s: Annotated[float, Field(ge=1, le=86_400)]
    """Duration of a window [s]."""


class PredictorFiles(Record):
    """Measurements that t3p-predictors finds below a folder, by their place."""

    pings: Items[Text]
    """Logs of pings."""
    telemetry: Items[Text]
    """Telemetry of terminals."""
    throughput: Items[Text]
    """Tests of throughput."""
    joint_pings: Annotated[Text, Field(alias="joint-pings")]
    """Pings of the same minutes as `joint_telemetry`."""
    joint_telemetry: Annotated[Text, Field(alias="joint-telemetry")]
    """Telemetry of the same minutes as `joint_pings`."""


class HostEntry(Record):
    """The largest buffers of a study's hosts."""

    rmem_max_bytes: Annotated[int, Field(ge=4096, le=2**40)]
    """`tcp_rmem[2]` [bytes]."""
    wmem_max_bytes: Annotated[int, Field(ge=4096, le=2**40)]
    """`tcp_wmem[2]` [bytes]."""

    def host(self) -> Host:
        """Return the host of an Experiment."""
        return Host(rmem_max_bytes=self.rmem_max_bytes, wmem_max_bytes=self.wmem_max_bytes)
