"""Measure in a namespace of its own: ``unshare -n python -m bentpipe.validation.testbed_latency.measure``.

Arguments: RUNNER PROGRAM COUNT; prints JSON. Each repetition is one firing and one preemption: samples of a ping feed
make the condition hold, and simulated counters of a terminal show a household beside the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.agent.household import ScavengerMode
from bentpipe.testbed.agent.live import NodeSignals
from bentpipe.testbed.agent.signals.feed import Feed, Values
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.validation.testbed_latency.nodes import make_agent, make_work, wanted_state
from bentpipe.validation.testbed_latency.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bentpipe.testbed.agent.client_end import ClientEnd
    from bentpipe.testbed.schemas.desired import ArmedTrigger
    from bentpipe.validation.testbed_latency.world import Packet

SAMPLE_S, DISH_S = 0.1, 0.25
"""Time between two samples of the ping, and of the terminal [s]."""
QUICK_MS, SLOW_MS = 20.0, 300.0
HOUSEHOLD_BPS = 20e6
RUN_S = 0.4
"""Time between the first packet of a run and the household [s]."""
TAIL_S = {"alone": 0.1, "with a server": 0.7}
"""Time after the end of a run in which its packets are still counted [s]."""


class QuietFeed(Feed):
    """A ping feed whose samples the measurement gives to the board."""

    name, hold_s, stale_s = "ping", 1.0, 5.0

    async def samples(self) -> AsyncIterator[Values]:
        """Wait for ever."""
        await asyncio.Event().wait()
        yield {}


class Node:
    """The node under measurement."""

    def __init__(self, world: World, folder: Path, runner: str, program: str) -> None:
        """Make its agent; `run` starts it."""
        self.world, self.program = world, program
        self.agent = make_agent(folder, runner, make_work(program), "client")
        policy = self.agent.policy_file.policy
        self.mode = ScavengerMode(policy.scavenger, lambda: self.agent.executor, lambda _: None)
        self.agent.around.household = self.mode
        self._feed = QuietFeed()
        self.agent.signals = self.signals = NodeSignals([self._feed], "client", self._fire, self.mode)
        self.latency_ms, self.household_bps = QUICK_MS, 0.0
        self.fired_s = self.decided_s = 0.0
        self.run_id: str | None = None

    def _fire(self, trigger: ArmedTrigger, window_end_at_ms: int, values: dict[str, float]) -> None:
        self.fired_s = time.time()
        self.run_id = self.agent.executor.fire(trigger, window_end_at_ms, values) or self.run_id

    def sample(self) -> None:
        """Give the board the present latency."""
        self.signals.board.take(self._feed, {"ping_ms": self.latency_ms})

    async def sample_ping(self) -> None:
        """Give it for ever."""
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_S)

    async def sample_terminal(self) -> None:
        """Give the rates that a terminal would show: the runs' own and the household's."""
        while True:
            down_bps, up_bps = self.mode.scavenger.own.rates_bps(asyncio.get_running_loop().time(), 1.0)
            began_s, before = time.time(), self.mode.state
            await self.mode.dish_sample({"downlink_bps": down_bps + self.household_bps, "uplink_bps": up_bps})
            if self.household_bps and before == "clear" and self.mode.state != "clear":
                self.decided_s = began_s
            await asyncio.sleep(DISH_S)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the agent."""
        stopped = asyncio.Event()
        tasks = [
            asyncio.create_task(step) for step in (self.agent.run(stopped), self.sample_ping(), self.sample_terminal())
        ]
        try:
            yield
        finally:
            stopped.set()
            await asyncio.wait_for(tasks[0], 30)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_ready(self) -> bool:
        """Whether a firing finds a standby and a quiet link."""
        executor = self.agent.executor
        has_standby = any(each.is_ready for each in executor.standbys.standbys)
        return has_standby and not executor.clients and self.mode.why_not() is None

    def has_ended(self, run: str) -> bool:
        """Whether a run has ended, with its result kept."""
        stored = self.agent.store.run(run, "client")
        return stored is not None and stored.has_ended and self.agent.executor.client(run) is None

    def of_run(self, after_s: float) -> list[Packet]:
        """Return the run's packets after a time."""
        return [each for each in self.world.packets if each.is_of_run and each.t_s >= after_s]

    async def fire(self) -> dict[str, float]:
        """Let the condition hold; return the times until firing and first packet [ms]."""
        await until(lambda: self.is_ready, "a standby and a quiet link")
        await asyncio.sleep(random.uniform(0.2, 0.3))
        self.world.packets.clear()
        self.latency_ms, held_s, self.run_id, self.fired_s = SLOW_MS, time.time(), None, 0.0
        self.sample()
        # After the firing: no late packet of the run before is taken for it.
        await until(lambda: self.fired_s > 0 and bool(self.of_run(self.fired_s)), "the run's first packet")
        self.latency_ms = QUICK_MS
        first_s = self.of_run(self.fired_s)[0].t_s
        return {"fired_ms": 1e3 * (self.fired_s - held_s), "packet_ms": 1e3 * (first_s - held_s)}

    async def preempt(self, *, loses_bye: bool = False) -> dict[str, float]:
        """Let the household use its link; return the times until the run's last packets [ms].

        Args:
            loses_bye: Whether the client's last message does not arrive: only the beats end.
        """
        (end,) = self.agent.executor.clients
        run = end.plan.run
        if loses_bye:
            _lose_bye(end)
        self.household_bps, self.decided_s = HOUSEHOLD_BPS, 0.0
        await until(lambda: self.decided_s > 0, "the detector's decision")
        self.household_bps = 0.0
        await until(lambda: self.has_ended(run), "the end of the run")
        await asyncio.sleep(TAIL_S[self.program])
        packets = self.of_run(0.0)
        from_node = max((each.t_s for each in packets if each.is_from_node), default=self.decided_s)
        last_s = max((each.t_s for each in packets), default=self.decided_s)
        result = {
            "node_silent_ms": max(0.0, 1e3 * (from_node - self.decided_s)),
            "silent_ms": max(0.0, 1e3 * (last_s - self.decided_s)),
        }
        messages = [each.t_s for each in self.world.packets if each.is_message and each.t_s < self.decided_s + 0.05]
        if messages:
            name = "after_beat_ms" if loses_bye else "after_bye_ms"
            result[name] = 1e3 * (last_s - max(messages))
        return result

    async def preempted_twice(self) -> dict[str, Any]:
        """Let one run be preempted twice, and finish at its third attempt, the orchestrator down all the while."""
        work = make_work(self.program, "reschedule", 6.0)
        self.agent.around.is_alone = lambda: True
        self.agent.executor.follow(wanted_state(work, "client"))
        await asyncio.sleep(0.1)
        await self.fire()
        runs = [str(self.run_id)]
        trouble = ""
        try:
            for _ in range(2):
                await asyncio.sleep(RUN_S)
                await self.preempt()
                self.world.packets.clear()
                await until(lambda: bool(self.of_run(0.0)), "the next attempt", 20.0)
            await until(lambda: not self.agent.executor.clients, "the end", 20.0)
        except TimeoutError as error:
            trouble = str(error)
        for _ in range(2):
            runs.append(derived_id("retry", runs[-1]))
        stored = [self.agent.store.run(run, "client") for run in runs]
        reasons = [result.request.reason for result in self.agent.spool.waiting() if result.run in runs]
        states = ["" if each is None else each.state for each in stored]
        return {"states": states, "reasons": reasons, "trouble": trouble}


def _lose_bye(end: ClientEnd) -> None:
    session = end._session
    if session is not None:
        send = session._send
        session._send = lambda kind, reason="": None if kind == "bye" else send(kind, reason)  # type: ignore[method-assign]


async def until(condition: Callable[[], bool], event: str, seconds: float = 15.0) -> None:
    """Wait until a condition holds. Raises `TimeoutError`."""
    end_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(f"no {event} within {seconds:g} s")
        await asyncio.sleep(0.005)


async def measure(runner: str, program: str, count: int) -> dict[str, Any]:
    """Return the times of each repetition."""
    world = await asyncio.to_thread(World)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        folder.chmod(0o755)
        has_server = program == "with a server"
        async with contextlib.AsyncExitStack() as stack:
            if has_server:
                await stack.enter_async_context(world.server_node(folder / "server", runner))
            node = Node(world, folder / "node", runner, program)
            await stack.enter_async_context(node.running())
            cycles = []
            for number in range(count):
                times = await node.fire()
                await asyncio.sleep(RUN_S)
                cycles.append({**times, **await node.preempt(loses_bye=has_server and number % 2 == 1)})
                print(number, cycles[-1], file=sys.stderr, flush=True)
            twice = await node.preempted_twice()
    return {"cycles": cycles, "twice": twice}


def main() -> None:
    """Measure, and print."""
    print(json.dumps(asyncio.run(measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))))


if __name__ == "__main__":
    main()
