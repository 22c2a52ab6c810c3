"""The agent: its parts, and the loops that keep them going."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import secrets
import shutil
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.agent.admission import Host, left
from bentpipe.testbed.agent.clock import OrchestratorClock
from bentpipe.testbed.agent.connection import Orchestrator, RefusedRequestError
from bentpipe.testbed.agent.dish import COLUMNS
from bentpipe.testbed.agent.executor import Executor
from bentpipe.testbed.agent.identity import Identity
from bentpipe.testbed.agent.policy_changes import PolicyFollower
from bentpipe.testbed.agent.profiles import ProfileFiles
from bentpipe.testbed.agent.session_server import SessionServer
from bentpipe.testbed.agent.settings import AgentSettings, PolicyFile
from bentpipe.testbed.agent.spool import Spool
from bentpipe.testbed.agent.store import AgentStore, Body
from bentpipe.testbed.agent.supervision import keep_going
from bentpipe.testbed.agent.surroundings import Surroundings
from bentpipe.testbed.agent.waiting import wait_at_most
from bentpipe.testbed.schemas.agent_protocol import (
    HEARTBEAT_S,
    MOST_EVENTS,
    EventBatch,
    Heartbeat,
    NoteEvent,
    TelemetryBatch,
)
from bentpipe.testbed.schemas.node import NodeReport, NodeStatus, RunProgress
from bentpipe.testbed.schemas.quantities import budget_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bentpipe.testbed.agent.dish import DishRecording
    from bentpipe.testbed.agent.live import NodeSignals
    from bentpipe.testbed.runners.base import Runner

LOG = logging.getLogger("bentpipe.agent")
RENEW_EVERY_S = 3600.0
"""Time between two looks at the certificate [s]."""
TROUBLE_S = 600.0
"""How long a trouble is reported [s]."""
KEPT_WITHIN_MS = 10.0
"""Change of the orchestrator's time that is written down [ms]."""
RESULTS = "results"
"""Under which uploads are counted, in place of a plan."""
RESULTS_TOGETHER = 4
"""Results that are sent beside each other: a small one takes RTTs, not bytes."""
POLICY_EVERY_S = 2.0
"""Time between two looks at the policy's file [s]."""


class Agent:
    """An agent in its folder.

    Args:
        folder: Folder of its files.
        settings: Settings.
        runners: Runners that work here, by name.
        report: What the node is; the policy is added.
    """

    def __init__(
        self, folder: Path, settings: AgentSettings, runners: Mapping[str, Runner], report: NodeReport
    ) -> None:
        """Open the agent's files. Raises `UserError`."""
        self.settings, self._report = settings, report
        self.boot_id = secrets.token_hex(16)
        self.identity = Identity(folder)
        self.orchestrator = Orchestrator(
            settings.url, self.identity.tls if settings.url.startswith("https://") else None
        )
        self.clock = OrchestratorClock()
        self.store = AgentStore(folder / "agent.sqlite")
        self.clock.go_on_with(self.store.clock())
        self.policy_file = PolicyFile(settings)
        self._most_events = MOST_EVENTS
        self._troubles: dict[str, tuple[float, str]] = {}
        self._events_changed = asyncio.Event()
        self._version_seen = asyncio.Event()
        self._is_reported = False
        self.spool = Spool(
            folder / "spool",
            lambda text: self.note("disk", text),
            limit_bytes=lambda: self.policy_file.policy.disk_bytes * 3 // 4,  # the rest is the telemetry's
            why_wait=self._why_results_wait,
            on_sent=lambda sent: self.store.add_bytes(RESULTS, self.clock.now_ms(), sent),
        )
        self.profiles = ProfileFiles(folder / "profiles", self.orchestrator)
        self._runners = dict(runners)
        self.around = Surroundings(
            node=settings.name,
            label=f"node-{settings.name}",
            folder=folder,
            clock=self.clock,
            store=self.store,
            spool=self.spool,
            policy=lambda: self.policy_file.policy,
            host=self.host,
            runners=self._runners,
            report=self.add_event,
            profile=self.profiles.get,
            ports=range(settings.ports[0], settings.ports[1]),
            nameservers=settings.nameservers,
            extra_networks=settings.extra_networks,
            is_alone=lambda: self.is_alone,
        )
        self.executor = Executor(self.around)
        self.signals: NodeSignals | None = None
        self.policy_follower = PolicyFollower()
        self.recording: DishRecording | None = None
        self._beat_now = asyncio.Event()
        self._heard_s = self.clock.steady_s()
        self._sent_row_ms = 0.0
        self.sessions = SessionServer(self.executor.key_of, self.executor.admit)

    # Events.

    def add_event(self, body: Body) -> None:
        """Keep an event, and send it when the orchestrator can be reached."""
        self.store.add_event(self.boot_id, self.clock.now_ms(), body)
        self._events_changed.set()

    def note(self, topic: str, text: str) -> None:
        """Tell people something."""
        LOG.info("%s: %s", topic, text)
        self.add_event(NoteEvent.check({"kind": "note", "topic": topic, "text": text[:500]}, "note"))

    @property
    def is_alone(self) -> bool:
        """Whether the orchestrator has not answered for three heartbeats."""
        return self.clock.steady_s() - self._heard_s > 3 * HEARTBEAT_S

    def household_changed(self, line: str) -> None:
        """Tell the orchestrator at once what scavenger mode does."""
        if line:
            self.note("scavenger", line)
        self._beat_now.set()

    # The node's condition.

    def host(self) -> Host:
        """Return the present condition."""
        now = datetime.datetime.now().astimezone()
        offset = self.clock.offset()
        return Host(
            minute_of_day=now.hour * 60 + now.minute,
            free_bytes=shutil.disk_usage(self.around.folder).free,
            clock_error_ms=None if offset is None else offset.error_ms,
            used_bytes=lambda period_s, plan: self.store.used_bytes(self.clock.now_ms() - period_s * 1e3, plan),
            runners=tuple(self._runners),
            reviewed=self.executor.wanted.images if self.executor.wanted is not None else (),
        )

    def _why_results_wait(self, part_bytes: int) -> str | None:
        """Return why so many bytes of results may not be sent now: the household comes first, then its budgets."""
        held = self.around.household.why_not()
        if held is not None:
            return held
        host = self.host()
        for budget in self.policy_file.policy.bytes:
            if left(budget, host, None) < part_bytes:
                return f"the host's budget of {budget_text(budget)} is used up"
        return None

    def status(self) -> NodeStatus:
        """Return what a heartbeat says."""
        wanted, offset = self.executor.wanted, self.clock.offset()
        now_ms = self.clock.now_ms()
        policy = self.policy_file.policy
        since_s = self.clock.steady_s() - TROUBLE_S
        notes = [line for at_s, line in self._troubles.values() if at_s > since_s]
        if self.policy_file.trouble is not None:
            notes.append(f"policy: {self.policy_file.trouble}")
        return NodeStatus(
            applied_version=0 if wanted is None else wanted.version,
            scavenger=self.around.household.state,
            paused=policy.paused,
            dish="none" if self.recording is None else self.recording.state,
            clock_offset_ms=None if offset is None else offset.offset_ms,
            clock_error_ms=None if offset is None else offset.error_ms,
            spool_bytes=self.spool.size_bytes(),
            disk_free_bytes=shutil.disk_usage(self.around.folder).free,
            used_bytes={
                budget_text(each): self.store.used_bytes(now_ms - each.period_s * 1e3) for each in policy.bytes
            },
            runs=tuple(RunProgress(run=end.plan.run, state=end.state) for end in self.executor.clients),
            notes=tuple(note[:300] for note in notes[:20]),
        )

    # Loops.

    async def run(self, stopped: asyncio.Event) -> None:
        """Run until `stopped` is set; then end all runs, with their results kept."""
        for name, runner in self._runners.items():
            try:
                swept = await runner.sweep(self.around.label)
            except (BentpipeError, OSError) as error:  # a group whose processes have not ended yet: the next start
                LOG.warning("%s: what runs left behind was not removed: %s", name, error)
                continue
            if swept:
                LOG.info("%s: removed what %d runs left behind", name, len(swept))
        if not self.clock.is_known:  # the machine has started anew, and its wall clock may be wrong
            with contextlib.suppress(BentpipeError):
                await self._beat()
        self.executor.recover()
        if self.settings.role == "server":
            await self._listen()
        if self.policy_file.trouble is not None:
            self.note("policy", self.policy_file.trouble)
        loops = {
            "heartbeat": self._heartbeat,
            "wanted state": self._follow,
            "stream": self._stream,
            "events": self._send_events,
            "results": self._send_results,
            "calendar": self.executor.run,
            "standbys": self.executor.standbys.run,
            "server standbys": self.executor.server_standbys.run,
            "certificate": self._renew,
            "policy": self._watch_policy,
            "signals": self._watch_signals,
            "telemetry": self._send_telemetry,
        }
        tasks = [
            asyncio.create_task(keep_going(name, loop, lambda line, name=name: self._trouble(name, line)))  # type: ignore[misc]
            for name, loop in loops.items()
        ]
        try:
            await stopped.wait()
        finally:
            await self.executor.stop("the agent was stopped")
            await self.sessions.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.orchestrator.close()
            self.store.close()

    def _trouble(self, name: str, line: str) -> None:
        self._troubles[name] = (self.clock.steady_s(), line)

    async def _listen(self) -> None:
        address = self.settings.control or ""
        port = address.rpartition(":")[2]
        if not port.isdigit():
            raise UserError(repr(address), where="control", expected="HOST:PORT at which clients reach this server")
        await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: self.sessions, local_addr=(self.settings.control_listen, int(port))
        )

    async def _beat(self) -> None:
        sent_s = self.clock.steady_s()
        heartbeat = Heartbeat(boot_id=self.boot_id, sent_at_ms=self.clock.now_ms(), status=self.status())
        answer = await self.orchestrator.heartbeat(heartbeat)
        self.clock.add(
            sent_steady_s=sent_s,
            received_at_ms=answer.received_at_ms,
            answered_at_ms=answer.sent_at_ms,
            got_steady_s=self.clock.steady_s(),
        )
        self._heard_s = self.clock.steady_s()
        self._keep_clock()
        self._see(answer.version)

    def _keep_clock(self) -> None:
        """Write the orchestrator's time down, if it is new, or another by more than a hundredth of a second."""
        old, new = self.store.clock(), self.clock.kept()
        if new is not None and (old is None or old[0] != new[0] or abs(old[2] - new[2]) > KEPT_WITHIN_MS):
            self.store.set_clock(new)

    async def _heartbeat(self) -> None:
        await self._beat()
        self._troubles.pop("heartbeat", None)
        self._beat_now.clear()
        # A quarter of the pause is random, so that nodes that lost power together do not stay together.
        await wait_at_most(self._beat_now, HEARTBEAT_S * (0.875 + secrets.randbelow(1000) / 4000))

    def _see(self, version: int) -> None:
        wanted = self.executor.wanted
        if wanted is None or wanted.version != version:
            self._version_seen.set()

    async def _stream(self) -> None:
        async for version in self.orchestrator.versions():
            self._troubles.pop("stream", None)
            self._see(version)

    async def _follow(self) -> None:
        await self._version_seen.wait()
        self._version_seen.clear()  # before the request: a change during it is seen again
        wanted = self.executor.wanted
        since = -1 if wanted is None else wanted.version
        try:
            desired = await self.orchestrator.desired(since)
        except BentpipeError:
            self._version_seen.set()  # ask again
            raise
        if desired is not None:
            self.executor.follow(desired)
            self._arm()
        self._troubles.pop("wanted state", None)

    def _arm(self) -> None:
        wanted = self.executor.wanted
        if self.signals is None or wanted is None:
            return
        self.signals.follow(wanted)
        for trigger, reason in self.signals.refused.items():
            self.note("agent", f"trigger {trigger[:12]}: {reason}")

    async def _watch_signals(self) -> None:
        if self.signals is None:
            await asyncio.Event().wait()
            return
        self._arm()
        await self.signals.run()

    async def _send_telemetry(self) -> None:
        """Send rows of the terminal: every 15 s, or every second while somebody looks."""
        wanted = self.executor.wanted
        is_live = wanted is not None and wanted.settings.live
        await asyncio.sleep(1.0 if is_live else HEARTBEAT_S)
        if self.recording is None or not self.policy_file.policy.share.telemetry:
            return
        rows = self.recording.rows_after(self._sent_row_ms)[-1000:]
        if rows:
            await self.orchestrator.telemetry(TelemetryBatch(columns=COLUMNS, rows=tuple(rows)))
            self._sent_row_ms = rows[-1][0] or 0.0

    async def _send_events(self) -> None:
        self._events_changed.clear()
        batch = self.store.events(self._most_events)
        if batch is None:
            await self._events_changed.wait()
            return
        boot_id, events = batch
        try:
            answer = await self.orchestrator.events(EventBatch(boot_id=boot_id, events=tuple(events)))
        except RefusedRequestError as error:
            if error.status not in (400, 422):
                raise
            if len(events) > 1:  # one of them is bad: it is found by halves
                self._most_events = len(events) // 2
                return
            LOG.exception("the orchestrator refused an event")
            self.store.drop_events(boot_id, events[-1].seq + 1)
            return
        if answer.next_seq < events[0].seq:  # the orchestrator forgot what arrived: its database was restored
            self.boot_id = secrets.token_hex(16)
            self.store.take_over_events(self.boot_id)
            self.note("agent", f"the orchestrator has forgotten events {answer.next_seq} to {events[0].seq - 1}")
            return
        self._most_events = min(2 * self._most_events, MOST_EVENTS)
        self.store.drop_events(boot_id, answer.next_seq)
        self.executor.cancel_stale(answer.stale)
        self._troubles.pop("events", None)

    async def _send_results(self) -> None:
        self.spool.changed.clear()
        waiting = self.spool.waiting()
        if not waiting:
            await self.spool.changed.wait()
            return
        waiting.sort(key=lambda each: bool(each.request.files))  # short ones do not wait for long ones
        sent = (self.spool.send(self.orchestrator, result) for result in waiting[:RESULTS_TOGETHER])
        for outcome in await asyncio.gather(*sent, return_exceptions=True):  # one's trouble does not end the others
            if isinstance(outcome, BaseException):
                raise outcome
        self._troubles.pop("results", None)

    async def _renew(self) -> None:
        if self.settings.url.startswith("https://") and self.identity.is_due():
            answer = await self.orchestrator.renew(self.identity.make_request(self.settings.name, is_renewal=True))
            self.identity.keep(answer.certificate_pem)
            await self.orchestrator.reconnect()
            LOG.info("the certificate is renewed")
        self.store.tidy(self.clock.now_ms())
        await asyncio.sleep(RENEW_EVERY_S)

    async def _watch_policy(self) -> None:
        if self.policy_file.look():
            self._is_reported = False
            if (trouble := self.policy_file.trouble) is None:
                await self.policy_follower.follow(self.policy_file.policy)
            else:  # the former one stays in force
                LOG.error("policy: %s; the node is paused until it is mended", trouble)
            self.note("policy", trouble or "the host's policy changed")
            if self.policy_file.policy.paused:
                for end in self.executor.clients:
                    end.cancel("the host has paused the node")
        if not self._is_reported:
            await self.orchestrator.report(self._report.replace(policy=self.policy_file.policy.to_report()))
            self._is_reported = True
        await asyncio.sleep(POLICY_EVERY_S)
