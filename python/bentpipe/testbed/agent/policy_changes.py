"""A changed policy reaches the parts that were made of the former one: levels, feeds, the recording's budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.testbed.agent.counters import NodeExporterCounters
from bentpipe.testbed.agent.signals.dish import SCAVENGER_EVERY_S, DishFeed
from bentpipe.testbed.agent.signals.weather import WeatherFeed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.agent.counters import CounterReader
    from bentpipe.testbed.agent.dish import DishRecording
    from bentpipe.testbed.agent.household import ScavengerMode
    from bentpipe.testbed.agent.signals.feed import Feed
    from bentpipe.testbed.schemas.policy import HostPolicy

PLAIN_EVERY_S = 1.0
"""Interval of polls of a terminal where nothing yields [s]."""


def dish_interval_s(policy: HostPolicy) -> float:
    """Return the interval of polls of a terminal [s]."""
    return SCAVENGER_EVERY_S if policy.scavenger.enabled else PLAIN_EVERY_S


class PolicyFollower:
    """Gives each changed policy to a node's parts.

    Args:
        feeds: Feeds of its signals.
        scavenger: Scavenger mode; None: the node has no terminal.
        router: Counters of the household's router.
    """

    def __init__(
        self, feeds: Sequence[Feed] = (), scavenger: ScavengerMode | None = None, router: CounterReader | None = None
    ) -> None:
        """Keep them."""
        self._feeds, self._scavenger, self._router = tuple(feeds), scavenger, router
        self.recording: DishRecording | None = None

    async def follow(self, policy: HostPolicy) -> None:
        """Give them a changed policy."""
        if self._scavenger is not None:
            await self._scavenger.set_levels(policy.scavenger)
        for feed in self._feeds:
            if isinstance(feed, WeatherFeed):
                feed.allow(policy.feed_urls)
            elif isinstance(feed, DishFeed):
                feed.every_s = dish_interval_s(policy)
        if isinstance(self._router, NodeExporterCounters):
            self._router.allow(policy.feed_urls)
        if self.recording is not None:
            self.recording.budget_bytes = policy.disk_bytes // 4
