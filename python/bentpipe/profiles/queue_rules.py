"""Records of queue disciplines and of the rules that replace a Profile's queues (`crates/profile/src/queue.rs`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bentpipe.records import Record

Nanoseconds = Annotated[int, Field(ge=0, lt=2**64)]
"""A time [ns]."""


class BytesLimit(Record):
    """A size in bytes."""

    bytes: Annotated[int, Field(ge=0, lt=2**64)]


class PacketsLimit(Record):
    """A size in packets."""

    packets: Annotated[int, Field(ge=0, lt=2**64)]


class TimeLimit(Record):
    """A size as time at the current capacity."""

    time_ns: Nanoseconds


Limit = BytesLimit | PacketsLimit | TimeLimit
"""A size or a threshold of a queue."""


class Codel(Record):
    """CoDel (RFC 8289)."""

    target_ns: Nanoseconds
    """Acceptable standing delay [ns]."""
    interval_ns: Nanoseconds
    """How long the target may be exceeded [ns]: a worst-case RTT."""
    ecn: bool
    """Whether packets that support ECN are marked instead of dropped."""


class FqCodel(Record):
    """FQ-CoDel (RFC 8290)."""

    codel: Codel
    flows: Annotated[int, Field(ge=1, le=65_536)]
    """Number of queues that flows are hashed to."""
    quantum_bytes: Annotated[int, Field(ge=64, le=2**24)]
    """Bytes from one queue before the next one is served."""


class Red(Record):
    """RED (Floyd and Jacobson 1993)."""

    min: Limit
    """Average length below which no packet is marked or dropped."""
    max: Limit
    """Average length above which all packets are marked or dropped."""
    max_probability_ppb: Annotated[int, Field(ge=0, le=10**9)]
    """Probability just below `max` [1e-9]."""
    weight_log: Annotated[int, Field(ge=0, le=24)]
    """The average moves by 2^-`weight_log` of the difference."""
    ecn: bool
    """Whether packets that support ECN are marked instead of dropped."""


class Step(Record):
    """Step marking (RFC 8257)."""

    threshold: Limit
    """Backlog, or queueing delay, beyond which every packet is marked."""


class CodelDiscipline(Record):
    """The discipline ``codel``."""

    codel: Codel


class FqCodelDiscipline(Record):
    """The discipline ``fq_codel``."""

    fq_codel: FqCodel


class RedDiscipline(Record):
    """The discipline ``red``."""

    red: Red


class StepDiscipline(Record):
    """The discipline ``step``."""

    step: Step


QueueDiscipline = Literal["drop_tail"] | CodelDiscipline | FqCodelDiscipline | RedDiscipline | StepDiscipline
"""A queue discipline with its parameters."""


def _is_none(value: object) -> bool:
    return value is None


class QueueRule(Record):
    """A rule that replaces queues of a Profile."""

    discipline: QueueDiscipline
    """The new discipline."""
    hop: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """Name of the hop, with ``*`` as wildcard; None: every hop that has a capacity."""
    direction: Annotated[Literal["up", "down"] | None, Field(exclude_if=_is_none)] = None
    """Direction; None: both."""
    limit: Annotated[Limit | None, Field(exclude_if=_is_none)] = None
    """The new size; None: the Profile's own."""
    profile: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """Role of the Profile; None: every Profile."""

    @property
    def description(self) -> str:
        """The rule in a few words: the queues it applies to, and the discipline."""
        name = self.discipline if isinstance(self.discipline, str) else next(iter(type(self.discipline).model_fields))
        place = "/".join(part for part in (self.hop, self.direction) if part)
        return f"{place}: {name}" if place else name
