"""The runs under way: begins what the agenda says, ends what is not wanted any more, starts runs of triggers."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.agent.admission import expected_bytes
from bentpipe.testbed.agent.agenda import Occupant, blocker, decide, hold, next_change_ms
from bentpipe.testbed.agent.client_end import ClientEnd
from bentpipe.testbed.agent.client_standbys import ClientStandbys
from bentpipe.testbed.agent.ports import Ports
from bentpipe.testbed.agent.retries import Retries
from bentpipe.testbed.agent.server_end import ServerEnd
from bentpipe.testbed.agent.server_standbys import ServerStandbys
from bentpipe.testbed.agent.session import Message, RefusedError
from bentpipe.testbed.agent.store import StoredRun
from bentpipe.testbed.agent.surroundings import RunPlan
from bentpipe.testbed.agent.waiting import wait_at_most
from bentpipe.testbed.schemas.agent_protocol import FiringEvent, RunEvent, StateEvent
from bentpipe.testbed.schemas.desired import Desired
from bentpipe.testbed.schemas.identifiers import derived_id

if TYPE_CHECKING:
    from bentpipe.testbed.agent.surroundings import Surroundings
    from bentpipe.testbed.schemas.desired import ArmedTrigger, Assignment, Work

IDLE_S = 1.0
"""Longest time between two looks at the calendar [s]."""


class Executor:
    """Follows a wanted state."""

    def __init__(self, around: Surroundings) -> None:
        """Begin with the stored wanted state."""
        self._around = around
        self.wanted: Desired | None = around.store.wanted()
        self._began_at_ms = around.clock.now_ms()
        self._known = {(run.run, run.end) for run in around.store.runs()}
        self._clients: dict[str, ClientEnd] = {}
        self._servers: dict[str, ServerEnd] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ports = Ports(around.ports)
        self._changed = asyncio.Event()
        self._stopping = False
        self.retries = Retries(around)
        self.standbys = ClientStandbys(around, self._holds_standby)
        self.server_standbys = ServerStandbys(around, self._ports, self._holds_server_standby)
        for each in (self.standbys, self.server_standbys):
            each.follow(self.wanted)

    def recover(self) -> None:
        """Report runs that a kill interrupted: their programs are gone, and what they wrote with them."""
        around = self._around
        self._began_at_ms = around.clock.now_ms()  # an exchange may have come since
        shutil.rmtree(around.folder / "work", ignore_errors=True)
        waiting = {(result.run, result.end) for result in around.spool.waiting()}
        for run in around.store.runs():
            if run.has_ended:
                continue
            if (run.run, run.end) in waiting:  # the result was kept: only its state was not written any more
                around.store.set_run(_as(run, "done"), around.clock.now_ms())
                continue
            reason = "the agent was killed during the run"
            around.store.set_run(_as(run, "failed"), around.clock.now_ms())
            end: Any = run.end
            around.report(StateEvent(run=run.run, end=end, fence=run.fence, state="failed", reason=reason))

    def follow(self, wanted: Desired) -> None:
        """Follow a new wanted state: store it, end what is not in it any more."""
        self._around.store.set_wanted(wanted)
        self.wanted = wanted
        fences = {(each.run, each.end): each.fence for each in wanted.assignments}
        plans = {each.plan for each in wanted.triggers} | {each.plan for each in wanted.grants}
        for client in self._clients.values():
            plan = client.plan
            fence = fences.get((plan.run, plan.end))
            if plan.cause == "calendar" and fence != plan.fence:
                client.cancel("it was canceled" if fence is None else "it was assigned anew")
            elif plan.cause == "trigger" and plan.plan not in plans:
                client.cancel("its trigger was disarmed")
        for each in (self.standbys, self.server_standbys):
            each.follow(wanted)
        self._changed.set()

    def cancel_stale(self, runs: tuple[str, ...]) -> None:
        """End runs whose fence the orchestrator calls stale."""
        for run in runs:
            if run in self._clients:
                self._clients[run].cancel("it was assigned anew")

    @property
    def clients(self) -> list[ClientEnd]:
        """Clients' ends under way."""
        return list(self._clients.values())

    async def run(self) -> None:
        """Follow the calendar for ever."""
        while True:
            self._changed.clear()
            wait_s = self._step()
            await wait_at_most(self._changed, wait_s)

    def _busy(self) -> list[Occupant]:
        now_ms = self._around.clock.now_ms()
        ends: list[ClientEnd | ServerEnd] = [*self._clients.values(), *self._servers.values()]
        return [
            Occupant(end.plan.run, end.plan.work.booking_class, now_ms + end.plan.work.duration_s * 1e3) for end in ends
        ]

    def _blocker(self, work: Work) -> Occupant | None:
        """Return the run under way that keeps this work from starting; None: it may start."""
        policy = self._around.policy()
        return blocker(work.booking_class, self._busy(), policy.max_parallel, policy.max_background)

    def _step(self) -> float:
        wanted = self.wanted
        now_ms = self._around.clock.now_ms()
        if wanted is None or self._stopping or now_ms > wanted.until_at_ms:
            return IDLE_S
        policy = self._around.policy()
        if wanted.settings.paused or wanted.settings.draining:
            return IDLE_S
        decisions = decide(
            wanted,
            self._known,
            now_ms,
            began_at_ms=self._began_at_ms,
            busy=self._busy(),
            max_parallel=policy.max_parallel,
            max_background=policy.max_background,
        )
        for decision in decisions:
            if decision.action == "miss":
                self._miss(decision.assignment, decision.reason)
            elif decision.assignment.end == "client":
                assignment = decision.assignment
                is_late = now_ms > assignment.latest_start_at_ms
                plan = RunPlan.of(assignment, wanted.works[assignment.work], is_late=is_late)
                self._begin(ClientEnd(plan, self._around))
        self._retry(wanted, now_ms)
        change_ms = next_change_ms(wanted, self._known, now_ms)
        return IDLE_S if change_ms is None else min(IDLE_S, max(0.05, (change_ms - now_ms) / 1e3))

    def _miss(self, assignment: Assignment, reason: str) -> None:
        around = self._around
        stored = StoredRun(
            assignment.run, assignment.plan, assignment.end, assignment.fence, "missed", assignment.due_at_ms
        )
        around.store.set_run(stored, around.clock.now_ms())
        around.report(
            StateEvent(
                run=assignment.run, end=assignment.end, fence=assignment.fence, state="missed", reason=reason[:500]
            )
        )
        self._known.add((assignment.run, assignment.end))  # not before: on a full disk it is tried again

    def _begin(self, end: ClientEnd) -> None:
        plan = end.plan
        self._known.add((plan.run, plan.end))
        self._clients[plan.run] = end
        task = asyncio.create_task(self._client(end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _client(self, end: ClientEnd) -> None:
        try:
            await end.run()
        finally:
            self._clients.pop(end.plan.run, None)
            self._changed.set()
            self.standbys.look()

    def _holds_standby(self, plan: RunPlan) -> bool:
        """Return whether a run is under way that a standby is not prepared beside: one of its plan, or an exclusive."""
        ends = [each.plan for each in self._clients.values()]
        return any(each.plan == plan.plan or each.work.booking_class == "exclusive" for each in ends)

    def _holds_server_standby(self) -> bool:
        return any(each.plan.work.booking_class == "exclusive" for each in self._servers.values())

    # Triggers.

    def fire(self, trigger: ArmedTrigger, window_end_at_ms: int, values: dict[str, float]) -> str | None:
        """Start the run of a firing; return its id, or None: the firing says why not."""
        with self._around.store.together():
            plan = self._fire(trigger, window_end_at_ms, values)
            if plan is None:
                return None
            end = ClientEnd(plan, self._around)
            end.begin()
        if (standby := self.standbys.take(trigger)) is not None:
            end.use(standby)
        self._begin(end)
        return plan.run

    def _fire(self, trigger: ArmedTrigger, window_end_at_ms: int, values: dict[str, float]) -> RunPlan | None:
        around, wanted = self._around, self.wanted
        firing = derived_id("firing", trigger.trigger, around.node, window_end_at_ms)
        reason = self._why_not(trigger, window_end_at_ms)
        run = None if reason else derived_id("run", trigger.plan, firing)
        around.report(
            FiringEvent(
                firing=firing,
                trigger=trigger.trigger,
                window_end_at_ms=window_end_at_ms,
                values=values,
                run=run,
                reason=reason,
            )
        )
        if run is None or wanted is None:
            return None
        around.report(
            RunEvent(
                run=run,
                plan=trigger.plan,
                fence=trigger.fence,
                cause="trigger",
                firing=firing,
                due_at_ms=window_end_at_ms,
                start_at_ms=round(around.clock.now_ms()),
            )
        )
        return RunPlan(
            run=run,
            plan=trigger.plan,
            end="client",
            fence=trigger.fence,
            attempt=1,
            work=wanted.works[trigger.work],
            due_at_ms=window_end_at_ms,
            start_at_ms=0,
            latest_start_at_ms=0,
            peer=trigger.peer,
            cause="trigger",
        )

    def _why_not(self, trigger: ArmedTrigger, window_end_at_ms: int) -> str:
        around, wanted = self._around, self.wanted
        now_ms = around.clock.now_ms()
        if wanted is None or trigger.work not in wanted.works or self._stopping:
            return "the node is stopping"
        work = wanted.works[trigger.work]
        policy = around.policy()
        busy = self._blocker(work)
        budget = trigger.bytes_budget
        held = around.household.why_not()
        checks = (
            ("the host's policy allows no triggers", not policy.triggers),
            ("the node is paused", wanted.settings.paused or wanted.settings.draining),
            ("the trigger has ended", now_ms > trigger.until_at_ms),
            (held or "", held is not None),
            (f"run {'' if busy is None else busy.run} is under way", busy is not None),
            (
                "the experiment's budget is used up",
                budget is not None
                and around.store.used_bytes(now_ms - budget.period_s * 1e3, trigger.plan) + expected_bytes(work)
                > budget.size_bytes,
            ),
            (
                "all its runs are used up",
                max(around.store.firings(trigger.plan), trigger.started_runs) >= trigger.most_runs,
            ),
        )
        for reason, applies in checks:
            if applies:
                return reason
        booked = hold(wanted, work, now_ms, self._known)
        if booked is not None:
            return booked
        return "" if around.store.add_firing(trigger.plan, window_end_at_ms) else "the window fired already"

    def retry(self, preempted: RunPlan) -> None:
        """Keep the next attempt of a preempted run: the node starts it if it is alone, in the first free slot."""
        wanted = self.wanted
        is_known = (derived_id("retry", preempted.run), "client") in self._known
        if wanted is None or is_known or preempted.work.booking_class == "exclusive":
            return
        until = [each.until_at_ms for each in wanted.triggers if each.plan == preempted.plan]
        self.retries.keep(preempted, min([wanted.until_at_ms, *until]))
        self._changed.set()

    def _retry(self, wanted: Desired, now_ms: float) -> None:
        """Begin the attempts that wait, if the node is alone and has a free slot."""
        around = self._around
        known = {run for run, end in self._known if end == "client"}
        self.retries.tidy(known | {each.run for each in wanted.assignments}, list(self._clients))
        for retry in self.retries.waiting:
            plan = retry.plan
            busy = self._blocker(plan.work)
            is_free = busy is None and retry.preempted not in self._clients and around.household.why_not() is None
            if not around.is_alone() or not is_free or hold(wanted, plan.work, now_ms, self._known) is not None:
                continue
            event = RunEvent(
                run=plan.run,
                plan=plan.plan,
                fence=plan.fence,
                cause="retry",
                attempt=plan.attempt,
                due_at_ms=plan.due_at_ms,
                start_at_ms=round(now_ms),
            )
            with around.store.together():
                self.retries.drop(plan.run)
                around.report(event)
            self._begin(ClientEnd(plan, around))

    def client(self, run: str) -> ClientEnd | None:
        """Return a client's end that is under way."""
        return self._clients.get(run)

    # Servers.

    def key_of(self, plan: str) -> str | None:
        """Return the key of a plan whose client may come; None: none may."""
        if self.wanted is None:
            return None
        for grant in self.wanted.grants:
            if grant.plan == plan and self._around.clock.now_ms() < grant.until_at_ms:
                return grant.peer.key
        for each in self.wanted.assignments:
            if each.plan == plan and each.end == "server" and each.peer is not None:
                return each.peer.key
        return None

    def admit(self, hello: Message) -> ServerEnd:
        """Return the server's end for a client's hello. Raises `RefusedError`."""
        wanted, around = self.wanted, self._around
        if wanted is None or self._stopping or wanted.settings.paused:
            raise RefusedError("the server node is paused or stopping")
        stored = around.store.run(hello.run, "server")
        if stored is not None and stored.has_ended:
            raise RefusedError("the run has ended here")
        plan = self._server_plan(wanted, hello)
        busy = self._blocker(plan.work)
        if busy is not None:
            raise RefusedError("the server node is busy", round(busy.until_ms))
        self._known.add((plan.run, plan.end))
        end = ServerEnd(plan, around, self._ports, self._server_ended, self.server_standbys)
        self._servers[plan.run] = end
        return end

    def _server_ended(self, run: str) -> None:
        self._servers.pop(run, None)
        self._changed.set()
        self.server_standbys.look()

    def _server_plan(self, wanted: Desired, hello: Message) -> RunPlan:
        for each in wanted.assignments:
            if each.run == hello.run and each.end == "server":
                return RunPlan.of(each, wanted.works[each.work])
        for grant in wanted.grants:
            if grant.plan == hello.plan:
                return RunPlan(
                    run=hello.run,
                    plan=hello.plan,
                    end="server",
                    fence=grant.fence,
                    attempt=hello.attempt,
                    work=wanted.works[grant.work],
                    due_at_ms=hello.due_at_ms,
                    start_at_ms=0,
                    latest_start_at_ms=0,
                    peer=grant.peer,
                    cause="client",
                )
        raise RefusedError("the run is not in the server's calendar")

    async def stop(self, reason: str) -> None:
        """End all runs, with their results in the spool."""
        self._stopping = True
        for client in self._clients.values():
            client.cancel(reason)
        await self.standbys.stop()
        await self.server_standbys.stop()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=15)


def _as(run: StoredRun, state: str) -> StoredRun:
    return StoredRun(run.run, run.plan, run.end, run.fence, state, run.due_at_ms)
