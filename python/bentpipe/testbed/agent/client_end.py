"""The client's end of a run, from its preparation to its result."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import stat
from typing import TYPE_CHECKING, Literal

from bentpipe.errors import BentpipeError
from bentpipe.testbed.agent.admission import refusal, runner_for
from bentpipe.testbed.agent.capture import MOST_BYTES, Capture, is_wanted
from bentpipe.testbed.agent.program import make_request, start_message
from bentpipe.testbed.agent.results import gather, record_of
from bentpipe.testbed.agent.session import RefusedError
from bentpipe.testbed.agent.session_client import ClientSession
from bentpipe.testbed.agent.store import StoredRun
from bentpipe.testbed.agent.terminal import add_telemetry
from bentpipe.testbed.agent.waiting import wait_at_most
from bentpipe.testbed.runners.inside.usage import folder_bytes
from bentpipe.testbed.schemas.agent_protocol import NoteEvent, StateEvent

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from bentpipe.testbed.agent.spool import FinalState
    from bentpipe.testbed.agent.standby import Standby
    from bentpipe.testbed.agent.surroundings import RunPlan, Surroundings
    from bentpipe.testbed.runners.base import ExitReport, PreparedRun, Traffic
    from bentpipe.testbed.schemas.policy import HostPolicy
    from bentpipe.testbed.schemas.states import RunState

LOG = logging.getLogger("bentpipe.agent")
WATCH_S = 0.1
"""Time between two looks at a run's traffic [s]."""
LOOKS = 10
"""Looks after which the bytes are written down."""
HELLO_S = 15.0
"""How long a client waits for its server [s]."""
ROOM_S = 1.0
"""Time between two tries to write a result to a disk that is full [s]."""
GRACE_S = 2.0
"""Time between SIGTERM and SIGKILL [s]."""


class OverError(Exception):
    """The run is over.

    Attributes:
        state: Its final state.
        reason: Why.
    """

    def __init__(self, state: Literal["done", "failed", "missed", "canceled", "preempted"], reason: str = "") -> None:
        """Keep both."""
        super().__init__(reason)
        self.state, self.reason = state, reason


class ClientEnd:
    """One client's end of a run. `run` returns when its result is in the spool."""

    def __init__(self, plan: RunPlan, around: Surroundings) -> None:
        """Nothing happens before `run`."""
        self.plan, self._around = plan, around
        self.state: RunState = "assigned"
        self._canceled = asyncio.Event()
        self._why_canceled = ""
        self._why_preempted = ""
        self._stopping: asyncio.Task[None] | None = None
        self._prepared: PreparedRun | None = None
        self._runner: str | None = None
        self._session: ClientSession | None = None
        self._began_at_ms: float | None = None
        self._exit: ExitReport | None = None
        self._capture: Capture | None = None
        self._traffic: Traffic | None = None
        self._counted_bytes = 0
        self._began_wall_s: float | None = None
        self._notes: list[str] = []
        self._standby: Standby | None = None
        self._ports: dict[str, int] = {}
        self._folder = around.folder / "work" / f"{plan.run}-{plan.end}"

    def cancel(self, reason: str) -> None:
        """End it."""
        self._why_canceled = reason
        self._canceled.set()

    # What scavenger mode does to a run: `bentpipe.testbed.agent.scavenger.loop.RunActions`.

    async def link_down(self, reason: str) -> None:
        """Stop its packets: the first thing of a preemption."""
        self._why_preempted = reason
        if self._prepared is not None:
            await self._prepared.link_down()

    def silence(self) -> None:
        """Tell the server's end, which also notices by itself: the session has no more beats."""
        if self._session is not None:
            self._session.silence(f"preempted: {self._why_preempted}"[:300])

    async def freeze(self) -> None:
        """Freeze its processes."""
        if self._prepared is not None:
            await self._prepared.freeze()

    async def terminate(self) -> None:
        """Ask it to end."""
        if self._prepared is not None:
            await self._prepared.thaw()
            self._stopping = asyncio.create_task(self._prepared.stop(GRACE_S))

    async def kill(self) -> None:
        """End it."""
        if self._prepared is not None:
            await self._prepared.stop(0.0)

    @property
    def rates_bytes(self) -> tuple[int, int]:
        """Bytes sent and received so far."""
        return (0, 0) if self._traffic is None else (self._traffic.up_bytes, self._traffic.down_bytes)

    def begin(self) -> None:
        """Note that it is prepared from now on; `run` does, if nobody has."""
        if self.state == "assigned":
            self._enter("preparing")

    def use(self, standby: Standby) -> None:
        """Take a standby over; it is removed at the end."""
        self._standby, self._folder = standby, standby.folder

    def _enter(self, state: RunState, reason: str = "") -> None:
        self.state = state
        plan, around = self.plan, self._around
        up, down = self.rates_bytes
        stored = StoredRun(plan.run, plan.plan, plan.end, plan.fence, state, plan.due_at_ms)
        event = StateEvent(
            run=plan.run,
            end=plan.end,
            fence=plan.fence,
            state=state,
            reason=reason[:500],
            up_bytes=up or None,
            down_bytes=down or None,
        )
        with around.store.together():
            around.store.set_run(stored, around.clock.now_ms())
            if state != "done":  # the commit says that, with the result
                around.report(event)

    async def run(self) -> tuple[FinalState, str]:
        """Run it; return its final state and the reason."""
        try:
            await self._unless_canceled(self._prepare())
            await self._until_start()
            await self._run()
            over = self._verdict()
        except OverError as error:
            over = error
        except RefusedError as error:
            over = OverError("missed", error.reason)
        except BentpipeError as error:
            over = OverError("failed", str(error))
        except OSError as error:
            over = OverError("failed", f"the node: {error.strerror or error}")
        except asyncio.CancelledError:
            over = OverError("failed", "the agent was stopped")
            await self._finish(over)
            raise
        except Exception as error:  # a defect: the run still ends in a state with a reason
            LOG.exception("run %s failed", self.plan.run)
            over = OverError("failed", f"the agent: {type(error).__name__}: {error}")
        return await self._finish(over)

    async def _prepare(self) -> None:
        plan, around = self.plan, self._around
        self.begin()
        policy, host = around.policy(), around.host()
        has_peer = plan.peer is not None and plan.work.path.profile is None
        reason = refusal(plan.work, policy, host, has_peer=has_peer)
        if reason is not None:
            raise OverError("missed", reason)
        self._runner = runner_for(plan.work, policy, host)
        # A built-in experiment learns its server's ports at its gate, a container from its environment.
        learns_late = plan.work.program.builtin is not None
        if has_peer and not learns_late:
            await self._say_hello()
        if self._standby is not None:
            self._prepared = await self._standby.get()
        if self._prepared is None:
            await self._make_ready(policy)
        if has_peer and learns_late:
            await self._say_hello()
        if plan.start_at_ms:
            self._enter("ready")
        self.state = "ready"  # of one that starts at once it is noted after the start: the disk may take long

    async def _make_ready(self, policy: HostPolicy) -> None:
        plan, around = self.plan, self._around
        if self._standby is not None:
            await self._standby.remove()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, mode=0o700)
        profile = await around.profile(plan.work.profile_sha256) if plan.work.profile_sha256 else None
        request = make_request(plan, around, policy, self._folder, ports=self._ports, profile=profile)
        self._prepared = await around.runners[self._runner or ""].prepare(request)

    async def _say_hello(self) -> None:
        plan = self.plan
        assert plan.peer is not None
        self._session = ClientSession(
            plan.peer, run=plan.run, plan=plan.plan, fence=plan.fence, attempt=plan.attempt, due_at_ms=plan.due_at_ms
        )
        self._ports = await self._session.open(HELLO_S)

    async def _unless_canceled(self, step: Coroutine[None, None, None]) -> None:
        """Carry out a step; if the run is canceled meanwhile, end the step and raise `OverError`."""
        task, canceled = asyncio.create_task(step), asyncio.create_task(self._canceled.wait())
        try:
            await asyncio.wait({task, canceled}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            canceled.cancel()
            is_done = task.done()
            task.cancel()
            await asyncio.wait({task})
        if not is_done:
            raise OverError("canceled", self._why_canceled)
        task.result()

    async def _until_start(self) -> None:
        plan, around = self.plan, self._around
        while True:
            now_ms = around.clock.now_ms()
            if self._canceled.is_set():
                raise OverError("canceled", self._why_canceled)
            if self._session is not None:
                if self._session.ended.is_set():
                    raise OverError("missed", f"the server node ended the run: {self._session.why_ended}")
                self._session.hold()
            if plan.latest_start_at_ms and now_ms > plan.latest_start_at_ms:
                raise OverError("missed", around.household.why_not() or "could not start in time")
            wait_s = (plan.start_at_ms - now_ms) / 1e3
            if wait_s <= 0:
                held = around.household.why_not()
                if held is None:
                    return
                if plan.cause == "trigger":
                    raise OverError("missed", held)
                wait_s = 0.2
            await wait_at_most(self._canceled, min(wait_s, 0.5))

    async def _run(self) -> None:
        prepared = self._prepared
        assert prepared is not None
        ended = asyncio.create_task(prepared.wait())
        canceled = asyncio.create_task(self._canceled.wait())
        self._around.household.begin(self.plan)
        try:
            rule = self.plan.work.capture
            if rule is not None and is_wanted(rule, "client") and prepared.interface is not None:
                folder = self._folder / "capture"
                self._capture = await Capture.begin(prepared.interface, folder, rule.snap_bytes)
            self._began_wall_s = self._around.wall_s()
            await prepared.start(start_message(self.plan, self._ports))
            self._began_at_ms = self._around.clock.now_ms()
            if self._session is not None:
                await self._session.begin()
            with self._around.store.together():
                if not self.plan.start_at_ms:
                    self._enter("ready")
                self._enter("running")
            if self._why_preempted:  # before there was anything to stop
                await self.terminate()
            looks = 0
            while not ended.done():
                awaited = {ended} if self._canceled.is_set() else {ended, canceled}
                await asyncio.wait(awaited, timeout=WATCH_S, return_when=asyncio.FIRST_COMPLETED)
                self._traffic = prepared.traffic()
                looks += 1
                if looks % LOOKS == 0:
                    self._count()
                    await self._check_disk(prepared)
                await self._check(prepared)
        finally:
            canceled.cancel()
            if ended.done() and not ended.cancelled() and ended.exception() is None:
                self._exit = ended.result()
            else:
                ended.cancel()
            try:
                self._traffic = prepared.traffic()
                self._count()
            finally:
                await self._around.household.ended(self.plan)

    async def _check(self, prepared: PreparedRun) -> None:
        """End the run if somebody canceled it or it used its bytes."""
        if self._canceled.is_set() and not self._why_preempted:
            await prepared.stop(GRACE_S)
            raise OverError("canceled", self._why_canceled)
        if self._session is not None and self._session.ended.is_set() and not self._why_preempted:
            await prepared.stop(GRACE_S)
            raise OverError("failed", f"the server node ended the run: {self._session.why_ended}")
        used = sum(self.rates_bytes)
        if used > self.plan.work.bytes_per_run:
            await prepared.stop(GRACE_S)
            raise OverError("failed", f"byte limit: {used} bytes of {self.plan.work.bytes_per_run}")

    async def _check_disk(self, prepared: PreparedRun) -> None:
        """End the run if its output and its capture together are too large; the runner counts the output alone."""
        if self._capture is None:
            return
        captured = self._capture.size_bytes
        size = captured + await asyncio.to_thread(folder_bytes, str(self._folder / "out"), MOST_BYTES)
        if size > MOST_BYTES:
            await prepared.stop(GRACE_S)
            raise OverError("failed", f"disk limit: output and capture have more than {MOST_BYTES} bytes")

    def _count(self) -> None:
        if self._traffic is None:
            return
        used = self._traffic.up_bytes + self._traffic.down_bytes
        self._around.store.add_bytes(self.plan.plan, self._around.clock.now_ms(), used - self._counted_bytes)
        self._counted_bytes = used

    def _verdict(self) -> OverError:
        report = self._exit
        if self._why_preempted:
            return OverError("preempted", self._why_preempted)
        if report is None:
            return OverError("failed", "its end was not seen")
        if report.reason == "exited":
            if report.code == 0:
                return OverError("done")
            return OverError("failed", f"the program ended with {report.code}{self._last_line()}")
        return OverError("failed", report.reason)

    def _last_line(self) -> str:
        """Return the last line of the program's errors, as it may be shown."""
        try:
            # The program may have put a link in its place, and the agent may read more than the program.
            path = self._folder / "out" / "stderr.txt"
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return ""
                file.seek(max(0, file.seek(0, 2) - 400))
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        text = "".join(each if each.isprintable() else "?" for each in lines[-1]) if lines else ""
        return f": {text[-300:]}" if text else ""

    async def _finish(self, over: OverError) -> tuple[FinalState, str]:
        """Clean up, make the result, put it into the spool. Whatever fails, the run ends in a state with a reason."""
        if self._session is not None:
            await self._session.close("" if over.state == "done" else f"{over.state}: {over.reason}"[:300])
        if self._capture is not None:
            await self._capture.end()
        if self._prepared is not None:
            with contextlib.suppress(BentpipeError, OSError):
                await self._prepared.remove()
        elif self._standby is not None:
            await self._standby.remove()
        state, reason = await self._keep(over.state, over.reason)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        if self._standby is not None:
            await self._standby.remove()
        return state, reason

    async def _keep(self, state: FinalState, reason: str) -> tuple[FinalState, str]:
        """Put the result into the spool and write the state, also if the disk is full: when it has room again."""
        results, is_made = None, self._began_at_ms is None
        if not is_made:
            with contextlib.suppress(OSError):
                self._enter("uploading")
        while True:
            try:
                if not is_made:
                    results, is_made = await asyncio.to_thread(self._results, state, reason), True
                self._report_notes()
                await self._around.spool.add(self.plan.run, self.plan.end, self.plan.fence, state, reason, results)
                self._enter(state, reason)
            except (BentpipeError, OSError) as error:
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    LOG.warning("run %s waits for room on the disk: %s", self.plan.run, error)
                    await asyncio.sleep(ROOM_S)
                elif is_made and results is None:
                    raise
                else:
                    state, reason = "failed", f"the result could not be kept: {error}"
                    results, is_made = None, True
            else:
                return state, reason

    def _report_notes(self) -> None:
        """Tell people what the result lacks, each once: on a full disk it is tried again."""
        while self._notes:
            self._around.report(NoteEvent(topic="dish", text=self._notes[0][:500], run=self.plan.run))
            self._notes.pop(0)

    def _results(self, state: str, reason: str) -> Path:
        around, plan = self._around, self.plan
        notes: tuple[str, ...] = ()
        if self._began_wall_s is not None:
            span_s = self._began_wall_s - 15, around.wall_s() + 1
            notes = add_telemetry(around.terminal, *span_s, self._folder / "terminal")
        self._notes = list(notes)
        record = record_of(
            plan,
            around,
            began_at_ms=self._began_at_ms,
            state=state,
            reason=reason,
            runner=self._runner,
            prepared=self._prepared,
            used_bytes=self.rates_bytes,
            exit_code=None if self._exit is None else self._exit.code,
            notes=notes,
        )
        return gather(self._folder, record)
