"""Standbys: the run of an armed trigger, prepared in advance and waiting at its gate.

A firing then opens the gate, instead of making a namespace and starting a program first. A standby sends nothing, is no
run, takes no lane, and asks nothing of a server: its program learns server and ports at the gate.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError
from bentpipe.testbed.agent.admission import refusal, runner_for
from bentpipe.testbed.agent.program import make_request
from bentpipe.testbed.agent.surroundings import RunPlan
from bentpipe.testbed.agent.waiting import wait_at_most
from bentpipe.testbed.schemas.identifiers import derived_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.testbed.agent.surroundings import Surroundings
    from bentpipe.testbed.runners.base import PreparedRun
    from bentpipe.testbed.schemas.desired import ArmedTrigger, Desired, Work
    from bentpipe.testbed.schemas.policy import HostPolicy

LOG = logging.getLogger("bentpipe.agent")
LOOK_S = 2.0
"""Longest time between two looks at the standbys [s]."""
RETRY_S = 60.0
"""Time after which a standby that could not be prepared is tried again [s]."""


@dataclass(frozen=True)
class Purpose:
    """What a standby is prepared for; one with another purpose is of no use."""

    plan: RunPlan
    """The run, with the trigger's id and without times."""
    policy: HostPolicy
    runner: str


class Standby:
    """One prepared run. Who takes it removes it."""

    def __init__(self, purpose: Purpose, around: Surroundings) -> None:
        """Begin to prepare it."""
        self.id = derived_id("standby", purpose.plan.run, secrets.token_hex(16))
        self.purpose = purpose
        self.folder = around.folder / "work" / f"standby-{self.id}"
        self._around = around
        self._task = asyncio.create_task(self._prepare())
        self._end: asyncio.Task[object] | None = None
        self.trouble: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it waits at its gate."""
        return self._end is not None and not self._end.done() and self.trouble is None

    @property
    def has_failed(self) -> bool:
        """Whether it could not be prepared, or its program has ended."""
        return self.trouble is not None or (self._end is not None and self._end.done())

    async def _prepare(self) -> PreparedRun | None:
        purpose, around = self.purpose, self._around
        try:
            self.folder.mkdir(parents=True, mode=0o700)
            request = make_request(
                purpose.plan, around, purpose.policy, self.folder, run_id=self.id, ports={}, profile=None
            )
            prepared = await around.runners[purpose.runner].prepare(request)
        except (BentpipeError, OSError) as error:
            self.trouble = str(error)
            return None
        self._end = asyncio.create_task(_until_end(prepared))
        return prepared

    async def get(self) -> PreparedRun | None:
        """Return the prepared run, once it is; None: there is none, prepare another."""
        prepared = await asyncio.shield(self._task)
        if self._end is not None:
            await asyncio.sleep(0)  # an end that came meanwhile is seen
        return None if self.has_failed else prepared

    async def remove(self) -> None:
        """Remove everything. May be called repeatedly."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if self._end is not None:
            self._end.cancel()
        if not self._task.cancelled() and self._task.exception() is None:
            prepared = self._task.result()
            if prepared is not None:
                with contextlib.suppress(BentpipeError, OSError):
                    await prepared.remove()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


async def _until_end(prepared: PreparedRun) -> None:
    await prepared.wait()


class Standbys:
    """The standbys of a node: at most as many as runs may be parallel, those of the triggers armed last.

    Args:
        around: The node.
        is_held: Whether none is prepared now for this run, as one that it would disturb is under way.
    """

    def __init__(self, around: Surroundings, is_held: Callable[[RunPlan], bool] = lambda _: False) -> None:
        """Begin without standbys."""
        self._around, self._is_held = around, is_held
        self._wanted: Desired | None = None
        self._armed: dict[str, ArmedTrigger] = {}
        self._standbys: dict[str, Standby] = {}
        self._not_before_s: dict[str, float] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_stopped = False

    @property
    def standbys(self) -> list[Standby]:
        """The standbys."""
        return list(self._standbys.values())

    def follow(self, wanted: Desired | None) -> None:
        """Follow a wanted state; a trigger that is new or has changed counts as armed last."""
        self._wanted = wanted
        armed = {} if wanted is None else {each.trigger: each for each in wanted.triggers}
        for name, before in list(self._armed.items()):
            now = armed.get(name)
            if now is None or now.replace(started_runs=0) != before.replace(started_runs=0):
                del self._armed[name]
                self._not_before_s.pop(name, None)
        self._armed.update(armed)
        self._changed.set()

    def look(self) -> None:
        """Look again soon: something has changed."""
        self._changed.set()

    def take(self, trigger: ArmedTrigger) -> Standby | None:
        """Take the standby of a trigger, perhaps one that is still being prepared; None: there is none."""
        standby = self._standbys.get(trigger.trigger)
        if standby is None or standby.has_failed or standby.purpose != self._purpose(trigger):
            return None
        del self._standbys[trigger.trigger]
        self._changed.set()
        return standby

    async def run(self) -> None:
        """Prepare, renew and remove for ever."""
        while True:
            self._changed.clear()
            self.step()
            await wait_at_most(self._changed, LOOK_S)

    def step(self) -> None:
        """Begin to prepare the standbys that are missing, and to remove those that are not wanted."""
        purposes = self._purposes()
        now_s = asyncio.get_running_loop().time()
        for name, standby in list(self._standbys.items()):
            if standby.has_failed:
                LOG.warning("the standby of trigger %s: %s", name[:12], standby.trouble or "its program ended")
                self._not_before_s[name] = now_s + RETRY_S
            if standby.has_failed or purposes.get(name) != standby.purpose:
                del self._standbys[name]
                self._remove(standby)
        for name, purpose in purposes.items():
            is_due = now_s >= self._not_before_s.get(name, 0.0)
            if name not in self._standbys and is_due and not self._is_held(purpose.plan):
                self._standbys[name] = Standby(purpose, self._around)

    def _remove(self, standby: Standby) -> None:
        task = asyncio.create_task(standby.remove())
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    def _purposes(self) -> dict[str, Purpose]:
        """Return the standbys that there should be, by trigger."""
        wanted = self._wanted
        if wanted is None or self._is_stopped or wanted.settings.paused or wanted.settings.draining:
            return {}
        most = self._around.policy().max_parallel
        firing = [each for each in self._armed.values() if self._may_fire(each)]
        fitting = [(each.trigger, purpose) for each in firing if (purpose := self._purpose(each)) is not None]
        return dict(fitting[-most:])

    def _may_fire(self, trigger: ArmedTrigger) -> bool:
        around = self._around
        is_over = around.clock.now_ms() > trigger.until_at_ms
        return not is_over and max(around.store.firings(trigger.plan), trigger.started_runs) < trigger.most_runs

    def _purpose(self, trigger: ArmedTrigger) -> Purpose | None:
        """Return what a standby of this trigger is for; None: there can be none, or the host does not want the run."""
        wanted, around = self._wanted, self._around
        work = None if wanted is None else wanted.works.get(trigger.work)
        if work is None or not can_wait(work):
            return None
        policy, host = around.policy(), around.host()
        if not policy.triggers or refusal(work, policy, host) is not None:
            return None
        runner = runner_for(work, policy, host)
        if runner is None:
            return None
        plan = RunPlan(
            run=trigger.trigger,
            plan=trigger.plan,
            end="client",
            fence=trigger.fence,
            attempt=1,
            work=work,
            due_at_ms=0,
            start_at_ms=0,
            latest_start_at_ms=0,
            peer=trigger.peer,
            cause="trigger",
        )
        return Purpose(plan, policy, runner)

    async def stop(self) -> None:
        """Remove all."""
        self._is_stopped = True
        for standby in self._standbys.values():
            self._remove(standby)
        self._standbys.clear()
        if self._removals:
            await asyncio.wait(set(self._removals))


def can_wait(work: Work) -> bool:
    """Return whether work can be prepared long before it starts.

    An emulated path cannot: its time would run. A container with a server cannot: its environment has the ports.
    """
    return work.profile_sha256 is None and (work.program.image is None or not work.program.server_command)
