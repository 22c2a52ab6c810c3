"""The board: merges feeds and evaluates the armed triggers, without the orchestrator."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.agent.signals.catalogue import plausible
from bentpipe.testbed.agent.signals.clock import BoardClock
from bentpipe.testbed.agent.signals.live_trigger import Held, LiveTrigger
from bentpipe.testbed.agent.signals.status import FeedStatus, NodeFiring, TriggerStatus
from bentpipe.testbed.schemas.identifiers import derived_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe.testbed.agent.signals.feed import Feed
    from bentpipe.triggers.trigger import Firing, Trigger

    OnSample = Callable[[str, float, Mapping[str, float]], object]
    OnFiring = Callable[[NodeFiring], object]

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""First and longest pause before a feed that failed is tried again [s]."""

LONGEST_TICK_S = 0.25
"""Longest time between two looks at the clock [s]."""

REMEMBERED = 1000
"""Firings that are remembered, so that each is delivered once."""

LINE = 200
"""Longest line about an error [characters]."""


class SignalBoard:
    """Merges feeds and evaluates triggers. All calls are in one event loop.

    A feed that fails is noted, and tried again after a pause that doubles; the others go on. Values that are not
    plausible reach nothing. Where the machine's clock is set, all windows begin anew, and nothing fires from that.

    Attributes:
        node_id: The node.
        clock_jumps: How often the clock was set.
        troubles: Errors that the callbacks raised; 0 in an agent without faults.
    """

    def __init__(
        self,
        feeds: Sequence[Feed],
        node_id: str,
        on_firing: OnFiring,
        *,
        on_sample: OnSample | None = None,
        clock: BoardClock | None = None,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        """Begin without triggers.

        Args:
            feeds: The feeds; no two give the same signal.
            node_id: The node, for the ids of firings.
            on_firing: Called with each firing, once.
            on_sample: Called with the feed's name, the time and the plausible values of each sample.
            clock: The clock; None: the machine's.
            first_wait_s: First pause before a feed that failed is tried again [s].

        Raises:
            UserError: Two feeds give the same signal.
        """
        self.node_id = node_id
        self.clock_jumps = self.troubles = 0
        self._feeds = list(feeds)
        givers: dict[str, str] = {}
        for feed in self._feeds:
            for name in feed.signals:
                if name in givers:
                    expected = "one feed for each signal"
                    raise UserError(
                        f"{givers[name]} and {feed.name} both give {name}", where="feeds", expected=expected
                    )
                givers[name] = feed.name
        self.signals = frozenset(givers)
        self._on_firing, self._on_sample = on_firing, on_sample or (lambda *_: None)
        self._clock, self._first_wait_s = clock or BoardClock(), first_wait_s
        self._armed: dict[str, LiveTrigger] = {}
        self._fired_at_ms: dict[str, int] = {}
        self._delivered: OrderedDict[str, None] = OrderedDict()
        self._held: dict[str, Held] = {}
        self._status = {feed.name: FeedStatus(feed.name) for feed in self._feeds}
        self._sampled_s: dict[str, float] = {}

    def arm(self, trigger_id: str, trigger: Trigger) -> None:
        """Arm a trigger. One that is armed already with the same settings goes on as it is."""
        before = self._armed.get(trigger_id)
        if before is None or _settings(before.trigger) != _settings(trigger):
            self._armed[trigger_id] = LiveTrigger(trigger)

    def disarm(self, trigger_id: str) -> None:
        """Disarm a trigger, if it is armed."""
        self._armed.pop(trigger_id, None)
        self._fired_at_ms.pop(trigger_id, None)

    def take(self, feed: Feed, values: Mapping[str, object]) -> None:
        """Take a sample of a feed."""
        t_s = self._now()
        status = self._status[feed.name]
        good, refused = plausible(values)
        status.refused += refused
        if not good:
            return
        status.samples += 1
        status.state, status.trouble = "fresh", ""
        self._sampled_s[feed.name] = t_s
        for trigger_id, armed in tuple(self._armed.items()):
            self._fire(trigger_id, armed.push(t_s, good, self._held))
        self._held.update((name, Held(t_s, value, feed.hold_s)) for name, value in good.items())
        self._call(self._on_sample, feed.name, t_s, good)

    def pass_time(self) -> float:
        """End the windows that are over; return the time until the next one ends [s]."""
        t_s = self._now()
        for trigger_id, armed in tuple(self._armed.items()):
            self._fire(trigger_id, armed.pass_time(t_s, self._held))
        ends = [end_s for armed in self._armed.values() if (end_s := armed.next_end_s) is not None]
        return min(max(min(ends, default=t_s + LONGEST_TICK_S) - t_s, 0.001), LONGEST_TICK_S)

    async def run(self) -> None:
        """Follow all feeds until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tick())
                for feed in self._feeds:
                    group.create_task(self._follow(feed))
        finally:
            for feed in self._feeds:
                with contextlib.suppress(Exception):
                    await feed.close()

    def feeds(self) -> list[FeedStatus]:
        """Return the state of each feed."""
        t_s = self._now()
        for feed in self._feeds:
            status = self._status[feed.name]
            status.note = feed.note
            sampled_s = self._sampled_s.get(feed.name)
            status.age_s = None if sampled_s is None else max(0.0, t_s - sampled_s)
            if status.state == "fresh" and (status.age_s or 0.0) > feed.stale_s:
                status.state = "stale"
        return list(self._status.values())

    def triggers(self) -> list[TriggerStatus]:
        """Return the state of each armed trigger."""
        newest = self.newest()
        return [
            TriggerStatus(
                trigger_id,
                armed.trigger.expression.text,
                armed.trigger.evaluations,
                armed.trigger.missing,
                armed.trigger.firings,
                self._fired_at_ms.get(trigger_id),
                tuple(sorted(armed.signals - newest.keys())),
            )
            for trigger_id, armed in self._armed.items()
        ]

    def newest(self) -> dict[str, float]:
        """Return the newest value of each signal whose feed is not stale."""
        t_s = self._now()
        stale_s = {name: feed.stale_s for feed in self._feeds for name in feed.signals}
        return {
            name: held.value
            for name, held in self._held.items()
            if t_s - held.t_s <= max(held.hold_s, stale_s.get(name, 0.0))
        }

    def _now(self) -> float:
        t_s, shift_s = self._clock.now()
        if shift_s:
            self.clock_jumps += 1
            for armed in self._armed.values():
                armed.restart(shift_s)
            self._held = {name: Held(held.t_s + shift_s, held.value, held.hold_s) for name, held in self._held.items()}
            self._sampled_s = {name: at_s + shift_s for name, at_s in self._sampled_s.items()}
        return t_s

    def _fire(self, trigger_id: str, firings: list[Firing]) -> None:
        for firing in firings:
            end_ms = round(firing.t_s * 1000)
            number = derived_id("firing", trigger_id, self.node_id, end_ms)
            if number in self._delivered:
                continue
            self._delivered[number] = None
            if len(self._delivered) > REMEMBERED:
                self._delivered.popitem(last=False)
            self._fired_at_ms[trigger_id] = end_ms
            self._call(self._on_firing, NodeFiring(number, trigger_id, self.node_id, end_ms, firing.values))

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except Exception:  # noqa: BLE001 - a listener's fault stops neither feeds nor triggers
            self.troubles += 1

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.pass_time())

    async def _follow(self, feed: Feed) -> None:
        status, wait_s = self._status[feed.name], self._first_wait_s
        while True:
            try:
                async for values in feed.samples():
                    self.take(feed, values)
                    wait_s = self._first_wait_s
            except Exception as error:  # noqa: BLE001 - whatever a feed raises is a line in its status
                status.failures += 1
                status.state, status.trouble = "failed", line_of(error)
            else:
                status.state = "ended"
                return
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def line_of(error: BaseException) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split()) or "no reason given"
    text = text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"
    return text[:LINE]


def _settings(trigger: Trigger) -> tuple[object, ...]:
    return trigger.expression.text, trigger.window_s, trigger.for_windows, trigger.cooldown_s
