"""The record of ``scenarios/studies/multi-access.toml``."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from bentpipe.records import Items, Name, Record, Text
from bentpipe.studies.fields import TestS
from bentpipe.studies.scenario import Count, PublishedFile, StudyFile, Utc


class AccessCase(Record):
    """A pair of paths of multi-access."""

    site: Text
    """Terminal of the LEO path."""
    to: Text
    """Its server."""
    isl: Text = "auto"
    """Its use of inter-satellite links."""
    fibre: Text
    """Preset of the other path."""
    loss: Name
    """Loss environment of messages and the stream; a bulk flow has `busy`."""
    description: Text
    """One line."""


class MultiAccess(PublishedFile):
    """``studies/multi-access.toml``."""

    FILE: ClassVar[str] = "studies/multi-access.toml"
    case: Annotated[dict[Name, AccessCase], Field(min_length=1)]
    """Pairs of paths by name."""
    controller: Name
    """Controller of each subflow."""
    predictor: Name
    """Predictor of the RTT."""
    first: Utc
    """Start of the first test."""
    every_h: Annotated[float, Field(gt=0, le=240)]
    """Time between the starts of two tests [h]."""
    tests: Count
    """Tests of each case."""
    tests_quick: Count
    """With ``--quick``."""
    learn_s: Annotated[float, Field(ge=0, le=86_400)]
    """Time of the pings before a test, from which the forecasts are learned [s]."""
    warmup_s: Annotated[float, Field(ge=0.2, le=600)]
    """Begin of a bulk run that its goodput leaves out [s]."""
    bulk_s: TestS
    """Duration of a bulk run [s]."""
    bulk_quick_s: TestS
    """With ``--quick`` [s]."""
    app_s: TestS
    """Duration of messages, and of the stream [s]."""
    app_quick_s: TestS
    """With ``--quick`` [s]."""
    message_bytes: Annotated[int, Field(ge=1000, le=10**9)]
    """Size of a message [bytes]."""
    message_every_s: Annotated[float, Field(ge=0.5, le=60)]
    """Time between messages [s]."""
    stream_bps: Annotated[float, Field(ge=10_000, le=1e9)]
    """Rate of the stream [bit/s]."""
    write_every_s: Annotated[float, Field(ge=0.001, le=1)]
    """Time between its writes [s]."""


class MultiAccessKernel(StudyFile):
    """``studies/multi-access-kernel.toml``."""

    FILE: ClassVar[str] = "studies/multi-access-kernel.toml"
    cases: Annotated[Items[Name], Field(min_length=1)]
    """Cases of multi-access."""
    tests: Count
    """Tests of each case."""
    tests_quick: Count
    """With ``--quick``."""
    bulk_s: TestS
    """Duration of a bulk run [s]."""
    app_s: TestS
    """Duration of messages, and of the stream [s]."""
    warmup_s: Annotated[float, Field(ge=0.2, le=600)]
    """Begin of a bulk run that its goodput leaves out [s]."""
    within: Annotated[float, Field(gt=1, le=10)]
    """Factor by which both worlds may differ."""
