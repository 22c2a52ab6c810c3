"""The node's live signals: its feeds, the armed triggers, what scavenger mode sees, rows for live pages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.agent.counters import InterfaceCounters, NodeExporterCounters, rates
from bentpipe.testbed.agent.fetching import check_allowed
from bentpipe.testbed.agent.policy_changes import dish_interval_s
from bentpipe.testbed.agent.signals.board import SignalBoard
from bentpipe.testbed.agent.signals.dish import DishFeed
from bentpipe.testbed.agent.signals.ping import PingFeed
from bentpipe.testbed.agent.signals.serving import ServingFeed
from bentpipe.testbed.agent.signals.weather import WeatherFeed
from bentpipe.triggers.trigger import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe.testbed.agent.counters import CounterReader
    from bentpipe.testbed.agent.household import ScavengerMode
    from bentpipe.testbed.agent.settings import AgentSettings
    from bentpipe.testbed.agent.signals.feed import Feed
    from bentpipe.testbed.agent.signals.status import NodeFiring
    from bentpipe.testbed.schemas.desired import ArmedTrigger, Desired
    from bentpipe.testbed.schemas.policy import HostPolicy

ROUTER_EVERY_S = {"interface": 0.1, "url": 1.0}
"""Time between two readings of a router's counters [s]."""


def make_feeds(settings: AgentSettings, policy: HostPolicy) -> list[Feed]:
    """Return the feeds that the settings name. Raises `UserError`: an address or a file that cannot be used.

    A URL that the policy does not allow is not asked, and is again once it does.
    """
    feeds: list[Feed] = []
    if settings.dish is not None:
        feeds.append(DishFeed(settings.dish, dish_interval_s(policy)))
        if settings.elements is not None:
            feeds.append(ServingFeed(settings.dish, Path(settings.elements)))
    if settings.ping is not None:
        feeds.append(PingFeed(settings.ping, settings.ping_every_s, gives_latency=settings.dish is None))
    if settings.weather is not None:
        feeds.append(WeatherFeed(settings.weather, allowed=policy.feed_urls))
    return feeds


def check_urls(settings: AgentSettings, policy: HostPolicy) -> None:
    """Raise `UserError` if the settings name a URL that the host's policy does not allow."""
    router = None if settings.router is None else settings.router.partition("@")[2]
    for url in (settings.weather, router):
        if url is not None and url.startswith(("http://", "https://")):
            check_allowed(url, policy.feed_urls)


def router_counters(text: str, policy: HostPolicy) -> tuple[CounterReader, float]:
    """Return the reader of ``INTERFACE`` or ``INTERFACE@URL``, and its interval [s]. Raises `UserError`."""
    interface, at, url = text.partition("@")
    if at:
        return NodeExporterCounters(url, interface, policy.feed_urls), ROUTER_EVERY_S["url"]
    return InterfaceCounters(interface), ROUTER_EVERY_S["interface"]


class NodeSignals:
    """Feeds and armed triggers of a node.

    Args:
        feeds: Feeds.
        node: Name of the node.
        on_firing: Called with an armed trigger, the window's end [ms since 1970] and its values.
        scavenger: Scavenger mode; None: the node yields to nobody.
        router: Counters of the router, and the interval of readings [s]; None: there are none.
    """

    def __init__(
        self,
        feeds: list[Feed],
        node: str,
        on_firing: Callable[[ArmedTrigger, int, dict[str, float]], object],
        scavenger: ScavengerMode | None = None,
        router: tuple[CounterReader, float] | None = None,
    ) -> None:
        """Begin without triggers."""
        self._on_firing, self._scavenger, self._router = on_firing, scavenger, router
        self._armed: dict[str, ArmedTrigger] = {}
        self._samples: asyncio.Queue[Mapping[str, float]] = asyncio.Queue(maxsize=100)
        self.board = SignalBoard(feeds, node, self._fired, on_sample=self._sampled)
        self.refused: dict[str, str] = {}

    def follow(self, wanted: Desired) -> None:
        """Arm what is wanted, disarm the rest. A trigger that this node cannot watch is noted in `refused`."""
        armed = {each.trigger: each for each in wanted.triggers}
        for trigger in self._armed.keys() - armed.keys():
            self.board.disarm(trigger)
        self.refused = {}
        for each in armed.values():
            try:
                trigger_ = Trigger(
                    each.expression,
                    self.board.signals,
                    window_s=each.window_s,
                    for_windows=each.for_windows,
                    cooldown_s=each.cooldown_s,
                )
            except UserError as error:
                self.refused[each.trigger] = str(error)
                continue
            self.board.arm(each.trigger, trigger_)
        self._armed = armed

    async def run(self) -> None:
        """Follow all feeds until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.board.run())
            if self._scavenger is not None:
                group.create_task(self._scavenger.run())
                group.create_task(self._give_samples(self._scavenger))
                if self._router is not None:
                    group.create_task(self._read_router(self._scavenger, *self._router))

    def _fired(self, firing: NodeFiring) -> None:
        armed = self._armed.get(firing.trigger_id)
        if armed is not None:
            self._on_firing(armed, firing.window_end_at_ms, dict(firing.values))

    def _sampled(self, feed: str, _: float, values: Mapping[str, float]) -> None:
        if feed == "dish" and not self._samples.full():
            self._samples.put_nowait(values)

    async def _give_samples(self, scavenger: ScavengerMode) -> None:
        while True:
            await scavenger.dish_sample(await self._samples.get())

    async def _read_router(self, scavenger: ScavengerMode, reader: CounterReader, every_s: float) -> None:
        before = None
        while True:
            try:
                counts = await reader.read()
            except UserError:
                before = None
                await asyncio.sleep(10 * every_s)
                continue
            between = None if before is None else rates(before, counts)
            if between is not None:
                await scavenger.scavenger.router_sample(between)
            before = counts
            await asyncio.sleep(every_s)
