"""The interface of a feed, and what every feed has in common."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from bentpipe.testbed.agent.signals.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from bentpipe.testbed.agent.signals.catalogue import Signal

Values = dict[str, object]
"""Values by the name of their signal, as they came: the board refuses what is not plausible."""


class Feed(abc.ABC):
    """A source of signals.

    A feed lives in the board's event loop; what blocks goes to a thread. It may raise anything: the board notes the
    error and calls `samples` again after a pause. A sample's time is the board's, when it arrives: feeds with their own
    clocks cannot mislead a trigger.

    Attributes:
        name: Its name.
        hold_s: How long a value counts as the present one if no newer follows [s].
        stale_s: Age from which the feed is reported as stale [s].
        note: What users of its signals should know, in one line; empty: nothing.
    """

    name: str = ""
    hold_s: float = 0.0
    stale_s: float = 10.0
    note: str = ""

    @abc.abstractmethod
    def samples(self) -> AsyncIterator[Values]:
        """Yield values as they become known, for ever, or until the feed has ended."""

    @property
    def signals(self) -> Mapping[str, Signal]:
        """The signals that it gives, by name."""
        return {name: signal for name, signal in CATALOGUE.items() if signal.feed == self.name}

    async def close(self) -> None:
        """Release what it holds; it gives no samples after that."""
        return
