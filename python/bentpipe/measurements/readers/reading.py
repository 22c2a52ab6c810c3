"""Parsed tool output: flows with their tables, and the tool's own summary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Column = list[float | int | str | bool | None]


@dataclass(frozen=True)
class Arrivals:
    """Arrival times of a text: its first `ends[i]` bytes had arrived at `unix_ns[i]` [ns since 1970]; both ascend."""

    ends: Sequence[int]
    unix_ns: Sequence[int]

    def at(self, end: int) -> int | None:
        """Return when the first `end` bytes had arrived [ns since 1970]; None: unknown."""
        place = bisect_left(self.ends, end)
        return self.unix_ns[place] if place < len(self.ends) else None


@dataclass(frozen=True)
class Flow:
    """One flow, stream, transfer or target of a tool.

    Attributes:
        name: Unique among the tool's flows.
        protocol: ``TCP``, ``UDP``, ``SCTP``, ``ICMP``.
        sends: Whether the tool is the sender; None: both directions (request and reply).
        start_unix_ns: Time 0 of the flow [ns since 1970]; None: not in the output.
        start_early_s: How much earlier time 0 may have been [s]; 0: exact.
        intervals: Columns of a table with one row per interval; ``t_s`` is the interval's end after time 0 [s].
        samples: Columns of a table with one row per probe; ``t_s`` is the send time after time 0 [s].
        counts: Totals of the flow, units in their names; None: not in the output.
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
    """The parsed output of a tool.

    Attributes:
        tool: A key of `bentpipe.measurements.readers.TOOLS`.
        version: The tool's version as printed; None: not printed.
        flows: At least one.
        tool_summary: The tool's own summary, under the tool's names and units.
        notes: One line per missing fact or assumption.
    """

    tool: str
    version: str | None
    flows: Sequence[Flow]
    tool_summary: Mapping[str, Any]
    notes: Sequence[str] = ()
