"""Standbys: an end of an armed trigger's run, prepared in advance and waiting at its gate.

A firing then opens the gates of both ends, instead of making namespaces and starting programs first. A standby sends
nothing, is no run, and takes no lane. A client's asks nothing of its server: its program learns server and ports at
the gate. Which standbys there are: `client_standbys`, `server_standbys`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError
from bentpipe.testbed.agent.program import make_request, make_server_request
from bentpipe.testbed.agent.waiting import wait_at_most
from bentpipe.testbed.schemas.identifiers import derived_id

if TYPE_CHECKING:
    from bentpipe.testbed.agent.surroundings import RunPlan, Surroundings
    from bentpipe.testbed.runners.base import PreparedRun
    from bentpipe.testbed.runners.request import RunRequest
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
    """The end, with an id of its own and without times."""
    policy: HostPolicy
    runner: str


class Standby:
    """One prepared end. Who takes it removes it.

    Args:
        purpose: Its purpose.
        around: The node.
        ports: Ports of a server's programs.
    """

    def __init__(self, purpose: Purpose, around: Surroundings, ports: dict[str, int] | None = None) -> None:
        """Begin to prepare it."""
        self.ports = ports or {}
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
            prepared = await around.runners[purpose.runner].prepare(self._request())
        except (BentpipeError, OSError) as error:
            self.trouble = str(error)
            return None
        self._end = asyncio.create_task(_until_end(prepared))
        return prepared

    def _request(self) -> RunRequest:
        purpose, around = self.purpose, self._around
        if purpose.plan.end == "server":
            return make_server_request(purpose.plan, around, self.folder, self.ports, run_id=self.id)
        return make_request(purpose.plan, around, purpose.policy, self.folder, run_id=self.id, ports={}, profile=None)

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


class StandbySet(ABC):
    """The standbys of one kind at a node, by name."""

    def __init__(self, around: Surroundings) -> None:
        """Begin without standbys."""
        self._around = around
        self._standbys: dict[str, Standby] = {}
        self._not_before_s: dict[str, float] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_stopped = False

    @property
    def standbys(self) -> list[Standby]:
        """The standbys."""
        return list(self._standbys.values())

    def look(self) -> None:
        """Look again soon: something has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Prepare, renew and remove for ever."""
        while True:
            self._changed.clear()
            await wait_at_most(self._changed, self.step())

    def step(self) -> float:
        """Begin to prepare the standbys that are missing, and to remove those that are not wanted.

        Returns:
            The time until there may be more to do [s].
        """
        purposes = {} if self._is_stopped else self._purposes()
        now_s = asyncio.get_running_loop().time()
        for name, standby in list(self._standbys.items()):
            if standby.has_failed:
                LOG.warning("the standby %s: %s", name[:12], standby.trouble or "its program ended")
                self._not_before_s[name] = now_s + RETRY_S
            if standby.has_failed or purposes.get(name) != standby.purpose:
                del self._standbys[name]
                self._remove(standby)
        wait_s = LOOK_S
        for name, purpose in purposes.items():
            if name in self._standbys:
                continue
            left_s = self._not_before_s.get(name, 0.0) - now_s
            if left_s > 0:
                wait_s = min(wait_s, left_s)
            elif (begun := self._begin(purpose)) is not None:
                self._standbys[name] = begun
        return wait_s

    @abstractmethod
    def _purposes(self) -> dict[str, Purpose]:
        """Return the standbys that there should be, by name."""

    @abstractmethod
    def _begin(self, purpose: Purpose) -> Standby | None:
        """Begin to prepare a standby; None: not now."""

    def _take(self, name: str, purpose: Purpose | None) -> Standby | None:
        """Take a standby, perhaps one that is still being prepared; None: there is none for this purpose."""
        standby = self._standbys.get(name)
        if standby is None or standby.has_failed or standby.purpose != purpose:
            return None
        del self._standbys[name]
        self._changed.set()
        return standby

    def _remove(self, standby: Standby) -> None:
        task = asyncio.create_task(self._discard(standby))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _discard(self, standby: Standby) -> None:
        await standby.remove()

    async def stop(self) -> None:
        """Remove all."""
        self._is_stopped = True
        for standby in self._standbys.values():
            self._remove(standby)
        self._standbys.clear()
        if self._removals:
            await asyncio.wait(set(self._removals))
