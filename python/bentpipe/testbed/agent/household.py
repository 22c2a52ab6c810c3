"""Scavenger mode of a node: the household's traffic, the runs that yield, and what becomes of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from bentpipe.testbed.agent.counters import ByteCounts
from bentpipe.testbed.agent.scavenger.loop import Scavenger
from bentpipe.testbed.agent.scavenger.yielding import USED, ScavengedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe.testbed.agent.client_end import ClientEnd
    from bentpipe.testbed.agent.executor import Executor
    from bentpipe.testbed.agent.surroundings import RunPlan
    from bentpipe.testbed.schemas.policy import ScavengerLevels

COUNT_S = 0.1
"""Time between two readings of the runs' own counters [s]."""


class ScavengerMode:
    """Yields to the household (`bentpipe.testbed.agent.surroundings.Household`).

    Args:
        levels: The host's levels.
        executor: Whose runs yield.
        on_change: Called when the state changes, and with a line that people should see.
        sent_bytes: Returns the bytes of results sent so far: they are no household's traffic.
    """

    def __init__(
        self,
        levels: ScavengerLevels,
        executor: Callable[[], Executor],
        on_change: Callable[[str], object],
        sent_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """Begin without runs."""
        self.scavenger = Scavenger(levels, self, clock=lambda: asyncio.get_running_loop().time())
        self._executor, self._on_change, self._sent_bytes = executor, on_change, sent_bytes
        self._is_on = levels.enabled
        self._plans: dict[str, RunPlan] = {}
        self._own: dict[str, tuple[int, int]] = {}
        self._ended_bytes = (0, 0)
        self._announced: str = ""

    async def set_levels(self, levels: ScavengerLevels) -> None:
        """Go on with the levels of a changed policy, which may also turn it on or off."""
        self.scavenger.set_levels(levels)
        was_on, self._is_on = self._is_on, levels.enabled
        for end in self._executor().clients:
            plan = self._plans.get(end.plan.run)
            if plan is not None and levels.enabled and not was_on:
                self._follow(plan)
            elif plan is not None and was_on and not levels.enabled:
                await self.scavenger.ended(plan.run)

    @property
    def state(self) -> Literal["off", "clear", "yielding", "quiet"]:
        """State, as heartbeats say it."""
        return self.scavenger.yielding.state if self._is_on else "off"

    def why_not(self) -> str | None:
        """Return why no run may start now; None: one may."""
        return None if not self._is_on or self.scavenger.may_start() else f"{USED}, or it is not known that it does not"

    def begin(self, plan: RunPlan) -> None:
        """A run starts."""
        self._plans[plan.run] = plan
        if self._is_on:
            self._follow(plan)

    def _follow(self, plan: RunPlan) -> None:
        rule = plan.work.scavenger
        self.scavenger.begin(
            ScavengedRun(
                id=plan.run,
                first_id=f"{plan.plan}/{plan.due_at_ms}",
                max_preemptions=rule.max_preemptions,
                is_rescheduled=rule.mode == "reschedule",
                preemptions=plan.attempt - 1,
            )
        )

    async def ended(self, plan: RunPlan) -> None:
        """A run has ended."""
        up, down = self._own.pop(plan.run, (0, 0))
        self._ended_bytes = (self._ended_bytes[0] + up, self._ended_bytes[1] + down)
        await self.scavenger.ended(plan.run)
        if any(run.id == plan.run for run in self.scavenger.yielding.waiting):
            self._executor().retry(plan)
        else:
            self._plans.pop(plan.run, None)

    async def dish_sample(self, values: Mapping[str, float]) -> None:
        """Take a reading of the terminal: a fresh one of both rates."""
        if "downlink_bps" in values and "uplink_bps" in values:
            await self.scavenger.dish_sample(values["downlink_bps"], values["uplink_bps"])

    async def run(self) -> None:
        """Follow counters and time until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.scavenger.run())
            group.create_task(self._count())

    async def _count(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for end in self._executor().clients:
                self._own[end.plan.run] = end.rates_bytes
            up = self._sent_bytes() + self._ended_bytes[0] + sum(each[0] for each in self._own.values())
            down = self._ended_bytes[1] + sum(each[1] for each in self._own.values())
            self.scavenger.add_own(ByteCounts(loop.time(), down, up))
            if self.state != self._announced:
                self._announced = self.state
                self._on_change("")
            await asyncio.sleep(COUNT_S)

    # RunActions.

    def _end_of(self, run: ScavengedRun) -> ClientEnd | None:
        return self._executor().client(run.id)

    async def link_down(self, run: ScavengedRun) -> None:
        """Take the run's link down."""
        if (end := self._end_of(run)) is not None:
            await end.link_down(USED)

    async def tell_server(self, run: ScavengedRun, reason: str) -> None:
        """Tell the server's end."""
        if (end := self._end_of(run)) is not None:
            end.silence()
        self._on_change(f"run {run.id[:12]} yields: {reason}")

    async def freeze(self, run: ScavengedRun) -> None:
        """Freeze its processes."""
        if (end := self._end_of(run)) is not None:
            await end.freeze()

    async def terminate(self, run: ScavengedRun) -> None:
        """Thaw them and send SIGTERM."""
        if (end := self._end_of(run)) is not None:
            await end.terminate()

    async def kill(self, run: ScavengedRun) -> None:
        """Kill them."""
        if (end := self._end_of(run)) is not None:
            await end.kill()

    async def reschedule(self, run: ScavengedRun) -> None:
        """Let it run once more: the orchestrator books it, or the node does without the orchestrator."""
        plan = self._plans.pop(run.id, None)
        if plan is not None:  # one that ended after the quiet never waited
            self._executor().retry(plan)
        self._on_change(f"run {run.id[:12]} may run again: the link is quiet")

    async def report(self, run: ScavengedRun, reason: str) -> None:
        """Report that it is not tried again."""
        self._plans.pop(run.id, None)
        self._on_change(f"run {run.id[:12]} is not tried again: {reason}")
