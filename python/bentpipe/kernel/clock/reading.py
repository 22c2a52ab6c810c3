"""What a source of the clock tells at one time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bentpipe.kernel.clock.record import NO_HINT, Hint


@dataclass(frozen=True)
class Reading:
    """A source's clock.

    Attributes:
        hint: What is to be written; without a period: nothing regular is known.
        confidence: Of the periodic clock, 0 to 1.
        evidence: Where it comes from, in some words.
        doubt: Why there is no clock; empty if there is one.
    """

    hint: Hint = NO_HINT
    confidence: float = 0.0
    evidence: str = ""
    doubt: str = ""

    @property
    def is_sure(self) -> bool:
        """Whether there is something to write."""
        return bool(self.hint.period_ns or self.hint.next_ns)


class Source(Protocol):
    """A source of the clock; `uses_time_of_day`: a step of the host's time of day makes it begin anew."""

    uses_time_of_day: bool

    def wait(self, until_ns: int) -> None:
        """Gather evidence until a time of the monotonic clock [ns]."""

    def read(self, now_ns: int) -> Reading:
        """Return its clock at a time of the monotonic clock [ns]."""

    def restart(self) -> None:
        """Begin anew: the host slept, and its monotonic clock with it, or its time of day was set."""

    def close(self) -> None:
        """Release what it holds."""
