"""What a reader returns: flows with their tables, and the tool's own summary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Column = list[float | int | str | bool | None]


@dataclass(frozen=True)
class Arrivals:
    """When a text was written: after byte `ends[i]` at `unix_ns[i]` [ns since 1970], both ascending."""

    ends: Sequence[int]
    unix_ns: Sequence[int]

    def at(self, end: int) -> int | None:
        """When the text's first `end` bytes were there [ns since 1970]; None: not known."""
        place = bisect_left(self.ends, end)
        return self.unix_ns[place] if place < len(self.ends) else None


@dataclass(frozen=True)
class Flow:
    """One flow, stream, transfer or target of a tool.

    Attributes:
        name: What tells it from the tool's others.
        protocol: ``TCP``, ``UDP``, ``SCTP``, ``ICMP``.
        sends: Whether the tool is its sender; None: it goes there and back.
        start_unix_ns: Its time 0 [ns since 1970]; None: the text does not tell.
        start_early_s: How much earlier time 0 may have been [s]; 0: it is exact.
        intervals: Columns of a table with one row per interval; ``t_s`` is its end [s] after time 0.
        samples: Columns of a table with one row per probe; ``t_s`` [s] after time 0 is when it was sent.
        counts: Whole-flow numbers, units in their names; None: the tool does not say.
    """

    name: str
    protocol: str
    sends: bool | None
    start_unix_ns: int | None
    start_early_s: float = 0.0
    intervals: Mapping[str, Column] = field(default_factory=dict)
    samples: Mapping[str, Column] = field(default_factory=dict)
    counts: Mapping[str, float | int | str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """What a tool said.

    Attributes:
        tool: As in `bentpipe.measurements.readers.TOOLS`.
        version: As it names it; None: it does not.
        flows: At least one.
        tool_summary: Its own summary under its own names and units.
        notes: Lines on what is missing or was assumed.
    """

    tool: str
    version: str | None
    flows: Sequence[Flow]
    tool_summary: Mapping[str, Any]
    notes: Sequence[str] = ()
