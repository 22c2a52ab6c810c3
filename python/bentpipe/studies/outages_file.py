"""The record of `studies/outages.toml`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from bentpipe.records import Items, Record, Text
from bentpipe.studies.fields import PathText
from bentpipe.studies.scenario import PublishedFile

LengthS = Annotated[float, Field(ge=0.1, le=600)]


class OutageCase(Record):
    """A controller on a host."""

    scheme: Text
    """The flow's controller."""
    rto_max_ms: Annotated[int, Field(ge=1000, le=120_000)] | None = None
    """`tcp_rto_max_ms` of the sending host; default: Linux's 120 s."""
    frto: bool = True
    """`tcp_frto` of the sending host: whether new data decide if a time-out was spurious."""
    probes: bool = False
    """Whether the controller lets a time-out come just after an expected edge of a slot."""

    @property
    def name(self) -> str:
        """Name in rows."""
        options = [] if self.rto_max_ms is None else [f"tcp_rto_max_ms={self.rto_max_ms}"]
        return ", ".join([self.scheme, *options, *([] if self.frto else ["tcp_frto=0"])])


class Outages(PublishedFile):
    """``studies/outages.toml``."""

    FILE: ClassVar[str] = "studies/outages.toml"
    begins_s: Annotated[float, Field(ge=20, le=600)]
    """The outage begins at the last slot's edge before this time [s]."""
    after_s: Annotated[float, Field(ge=5, le=600)]
    """Time observed after the outage [s]."""
    lengths_s: Annotated[Items[LengthS], Field(min_length=1)]
    """Lengths of the outages [s]."""
    lengths_quick_s: Annotated[Items[LengthS], Field(min_length=1)]
    """With ``--quick``."""
    held_lengths_s: Items[LengthS]
    """Lengths of the outages in which the path holds the packets [s]."""
    paths: Annotated[Items[PathText], Field(min_length=1)]
    """Paths as ``SITE TO START SEED``."""
    paths_quick: Annotated[int, Field(ge=1, le=100)]
    """Number of paths with ``--quick``."""
    share: Annotated[float, Field(gt=0, le=1)]
    """Share of the goodput without an outage at which a flow is back."""
    window_s: Annotated[float, Field(ge=0.1, le=10)]
    """Length of the window in which it is measured [s]."""
    cases: Annotated[Items[OutageCase], Field(min_length=1)]
    """Controllers and hosts."""
