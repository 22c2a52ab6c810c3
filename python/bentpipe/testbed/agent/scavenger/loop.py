"""The scavenger of an agent: takes samples, decides, and carries out the actions that it is given."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
from bentpipe.testbed.agent.scavenger.router_traffic import RouterTraffic
from bentpipe.testbed.agent.scavenger.user_traffic import UserTraffic
from bentpipe.testbed.agent.scavenger.yielding import Yielding

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bentpipe.testbed.agent.counters import ByteCounts, Rates
    from bentpipe.testbed.agent.scavenger.user_traffic import Residual
    from bentpipe.testbed.agent.scavenger.yielding import Action, ScavengedRun
    from bentpipe.testbed.schemas.policy import ScavengerLevels

TICK_S = 0.25
"""Interval at which time passes [s]."""

ACTION_S = 0.5
"""Longest time of one action [s]: the next one does not wait for it."""

LONGEST_SPAN_S = 3.0
"""Longest span of a router's rates that counts [s]."""

MOST_BPS = 1e10
"""Readings above this are none."""


class RunActions(Protocol):
    """What the executor does to a run. Each may raise, and may be called for a run that is gone."""

    async def link_down(self, run: ScavengedRun) -> None:
        """Take the run's link down."""

    async def tell_server(self, run: ScavengedRun, reason: str) -> None:
        """Tell the server's end."""

    async def freeze(self, run: ScavengedRun) -> None:
        """Freeze its processes."""

    async def terminate(self, run: ScavengedRun) -> None:
        """Send SIGTERM and thaw them."""

    async def kill(self, run: ScavengedRun) -> None:
        """Kill them."""

    async def reschedule(self, run: ScavengedRun) -> None:
        """Run it once more, in the first free slot."""

    async def report(self, run: ScavengedRun, reason: str) -> None:
        """Report that it is not tried again."""


class Scavenger:
    """Detects the household's traffic and lets runs yield. All calls are in one event loop.

    Attributes:
        own: Traffic of the runs; the executor adds its counters.
        yielding: The state machine.
        troubles: Newest errors of actions, one line each.
        residuals: Newest residual by source.
    """

    def __init__(
        self, levels: ScavengerLevels, actions: RunActions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin without runs.

        Args:
            levels: The owner's levels.
            actions: What the executor does to a run.
            clock: Returns steady time [s].
        """
        self.own = OwnTraffic()
        self.yielding = Yielding(levels.quiet)
        self.troubles: deque[str] = deque(maxlen=20)
        self.residuals: dict[str, Residual] = {}
        self._actions, self._clock = actions, clock
        self._dish, self._router = UserTraffic(levels, self.own), RouterTraffic(levels, self.own)

    def set_levels(self, levels: ScavengerLevels) -> None:
        """Go on with other levels."""
        self._dish.set_levels(levels)
        self._router.set_levels(levels)
        self.yielding.set_quiet(levels.quiet)

    def add_own(self, counts: ByteCounts) -> None:
        """Take the counters of all runs together, towards them (down) and from them (up)."""
        self.own.add(counts)

    async def dish_sample(self, down_bps: float, up_bps: float) -> None:
        """Take a fresh reading of the terminal. One that is no plausible rate counts as none."""
        if _is_plausible(down_bps, up_bps):
            await self._observe("dish", self._dish.observe(self._clock(), down_bps, up_bps))

    async def router_sample(self, rates: Rates) -> None:
        """Take rates of a router's interface; those over more than `LONGEST_SPAN_S` tell nothing of the present."""
        if _is_plausible(rates.down_bps, rates.up_bps) and 0 < rates.duration_s <= LONGEST_SPAN_S:
            for residual in self._router.observe(rates):
                await self._observe("router", residual)

    def begin(self, run: ScavengedRun) -> None:
        """A run starts."""
        self.yielding.begin(self._clock(), run)

    def may_start(self) -> bool:
        """Return whether a run may start."""
        return self.yielding.may_start(self._clock())

    async def ended(self, run_id: str) -> None:
        """A run has ended."""
        await self.carry_out(self.yielding.ended(self._clock(), run_id))

    async def run(self) -> None:
        """Let time pass until cancelled."""
        while True:
            await self.carry_out(self.yielding.pass_time(self._clock()))
            await asyncio.sleep(TICK_S)

    async def carry_out(self, actions: Sequence[Action]) -> None:
        """Carry out actions: those of one kind for all runs at once, kind after kind."""
        kinds = list(dict.fromkeys(action.verb for action in actions))
        for kind in kinds:
            await asyncio.gather(*(self._one(action) for action in actions if action.verb == kind))

    async def _observe(self, source: str, residual: Residual) -> None:
        self.residuals[source] = residual
        await self.carry_out(self.yielding.observe(self._clock(), residual))

    async def _one(self, action: Action) -> None:
        try:
            async with asyncio.timeout(ACTION_S):
                await self._call(action)
        except Exception as error:  # noqa: BLE001 - the next action is the more urgent then
            text = " ".join(str(error).split()) or "too slow"
            self.troubles.append(f"{action.verb} of {action.run.id}: {text}"[:200])

    def _call(self, action: Action) -> Awaitable[None]:
        run, do = action.run, self._actions
        if action.verb == "tell_server":
            return do.tell_server(run, action.reason)
        if action.verb == "report":
            return do.report(run, action.reason)
        plain = {
            "link_down": do.link_down,
            "freeze": do.freeze,
            "terminate": do.terminate,
            "kill": do.kill,
            "reschedule": do.reschedule,
        }
        return plain[action.verb](run)


def _is_plausible(*rates_bps: float) -> bool:
    return all(math.isfinite(rate) and 0 <= rate <= MOST_BPS for rate in rates_bps)
