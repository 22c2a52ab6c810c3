"""The server's end of a run: starts its programs when a client says hello, and ends them with its beats."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from typing import TYPE_CHECKING, Literal

from bentpipe.errors import BentpipeError
from bentpipe.testbed.agent.admission import refusal, runner_for
from bentpipe.testbed.agent.capture import Capture, is_wanted
from bentpipe.testbed.agent.listening import listening_ports
from bentpipe.testbed.agent.program import make_server_request, server_port_names
from bentpipe.testbed.agent.results import gather, record_of
from bentpipe.testbed.agent.session import RefusedError
from bentpipe.testbed.agent.store import StoredRun
from bentpipe.testbed.builtins.gate import GATE_OPEN
from bentpipe.testbed.schemas.agent_protocol import StateEvent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bentpipe.testbed.agent.ports import Ports
    from bentpipe.testbed.agent.server_standbys import ServerStandbys
    from bentpipe.testbed.agent.standby import Standby
    from bentpipe.testbed.agent.surroundings import RunPlan, Surroundings
    from bentpipe.testbed.runners.base import PreparedRun
    from bentpipe.testbed.schemas.policy import HostPolicy
    from bentpipe.testbed.schemas.states import RunState

LISTEN_S = 5.0
"""How long a server's program has to listen [s]."""
LOOK_S = 0.002
"""Pause between two looks whether it does [s]; a look takes as long."""
GRACE_S = 1.0
"""Time between SIGTERM and SIGKILL [s]."""


class ServerEnd:
    """One server's end (`bentpipe.testbed.agent.session_server.ServerRun`).

    Args:
        plan: The run.
        around: The node.
        ports: Its ports.
        on_end: Called with the run at the end.
        standbys: Where it may take a standby.
    """

    def __init__(
        self,
        plan: RunPlan,
        around: Surroundings,
        ports: Ports,
        on_end: Callable[[str], object],
        standbys: ServerStandbys | None = None,
    ) -> None:
        """Nothing happens before `prepare`."""
        self.plan, self._around, self._pool, self._on_end = plan, around, ports, on_end
        self._standbys = standbys
        self._standby: Standby | None = None
        self.state: RunState = "assigned"
        self._folder = around.folder / "work" / f"{plan.run}-{plan.end}"
        self._prepared: PreparedRun | None = None
        self._capture: Capture | None = None
        self._ports: dict[str, int] = {}
        self._runner: str | None = None
        self._began_at_ms: float | None = None
        self._watch: asyncio.Task[None] | None = None
        self._early = ""

    def _enter(self, state: RunState, reason: str = "") -> None:
        self.state = state
        plan, around = self.plan, self._around
        stored = StoredRun(plan.run, plan.plan, plan.end, plan.fence, state, plan.due_at_ms)
        event = StateEvent(run=plan.run, end=plan.end, fence=plan.fence, state=state, reason=reason[:500])
        with around.store.together():
            around.store.set_run(stored, around.clock.now_ms())
            if state != "done":  # the commit says that, with the result
                around.report(event)

    async def prepare(self) -> dict[str, int]:
        """Start the programs; return their ports. Raises `RefusedError`."""
        plan, around = self.plan, self._around
        policy, host = around.policy(), around.host()
        reason = refusal(plan.work, policy, host, end="server", has_peer=plan.peer is not None)
        if reason is not None:
            raise RefusedError(reason)
        self._runner = runner_for(plan.work, policy, host)
        try:
            self._prepared = await self._from_standby(policy)
            if self._prepared is None:
                self._enter("preparing")
                self._prepared = await self._make_ready()
            rule, interface = plan.work.capture, self._prepared.interface
            if rule is not None and is_wanted(rule, "server") and interface is not None:
                self._capture = await Capture.begin(interface, self._folder / "capture", rule.snap_bytes)
            await self._prepared.start(GATE_OPEN)
            if self.state == "assigned":  # while the program of a standby starts
                self._enter("preparing")
            self._watch = asyncio.create_task(self._until_exit(self._prepared))
            await self._until_listening(self._prepared)
        except (BentpipeError, OSError) as error:
            raise RefusedError(f"the server's program could not start: {error}") from None
        return self._ports

    def answered(self) -> None:
        """The client knows the ports."""
        self._enter("ready")

    async def _from_standby(self, policy: HostPolicy) -> PreparedRun | None:
        """Return the prepared run of a standby; None: there is none."""
        if self._standbys is None or self._runner is None:
            return None
        standby = self._standby = self._standbys.take(self.plan.work, policy, self._runner)
        if standby is None:
            return None
        self._ports = standby.ports
        prepared = await standby.get()
        if prepared is None:
            await standby.remove()
            self._pool.give_back(self._ports)
        else:
            self._folder = standby.folder
        return prepared

    async def _make_ready(self) -> PreparedRun:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, mode=0o700)
        self._ports = self._pool.take(server_port_names(self.plan))
        request = make_server_request(self.plan, self._around, self._folder, self._ports)
        return await self._around.runners[self._runner or ""].prepare(request)

    async def _until_exit(self, prepared: PreparedRun) -> None:
        report = await prepared.wait()
        self._early = f"the server's program ended: {report.reason} ({report.code})"

    async def _until_listening(self, prepared: PreparedRun) -> None:
        """Wait until all ports listen, as the kernel says of the run's network namespace."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + LISTEN_S
        wanted = set(self._ports.values())
        while not wanted <= await asyncio.to_thread(listening_ports, prepared.pid):
            if self._early or loop.time() > end_s:
                raise BentpipeError(self._early or f"no program listens on ports {sorted(wanted)}")
            await asyncio.sleep(LOOK_S)

    def began(self) -> None:
        """The client's traffic starts."""
        self._began_at_ms = self._around.clock.now_ms()
        self._enter("running")

    async def end(self, reason: str) -> None:
        """End the programs, and put the result into the spool."""
        try:
            await self._end(reason)
        finally:
            if self._standby is not None:
                await self._standby.remove()
            self._pool.give_back(self._ports)
            self._on_end(self.plan.run)

    async def _end(self, reason: str) -> None:
        state: Literal["done", "failed", "preempted", "canceled", "missed"] = "done"
        if self._began_at_ms is None:
            state = "missed"
        elif reason.startswith(("no beat", "preempted")):
            state = "preempted"
        elif reason.startswith("canceled"):
            state = "canceled"
        elif reason:
            state = "failed"
        traffic = None
        if self._prepared is not None:
            with contextlib.suppress(BentpipeError, OSError):
                if reason:  # the client is gone: nothing more is sent, however long the program takes to end
                    await self._prepared.link_down()
                await self._prepared.stop(GRACE_S)
            if self._capture is not None:
                await self._capture.end()
            with contextlib.suppress(BentpipeError, OSError):
                traffic = self._prepared.traffic()
                await self._prepared.remove()
        if self._watch is not None:
            self._watch.cancel()
        results = None
        try:
            if self._began_at_ms is not None:
                self._enter("uploading")
                used = (0, 0) if traffic is None else (traffic.up_bytes, traffic.down_bytes)
                results = await asyncio.to_thread(self._results, state, reason, used)
            await self._around.spool.add(self.plan.run, "server", self.plan.fence, state, reason, results)
        except (BentpipeError, OSError) as error:
            state, reason = "failed", f"the result could not be kept: {error}"
            await self._around.spool.add(self.plan.run, "server", self.plan.fence, state, reason, None)
        self._enter(state, reason)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _results(self, state: str, reason: str, used: tuple[int, int]) -> Path:
        record = record_of(
            self.plan,
            self._around,
            began_at_ms=self._began_at_ms,
            state=state,
            reason=reason,
            runner=self._runner,
            prepared=self._prepared,
            used_bytes=used,
        )
        return gather(self._folder, record)
