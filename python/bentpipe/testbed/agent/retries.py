"""Preempted runs that this node runs again by itself while the orchestrator cannot be asked: kept until a free slot.

With the orchestrator in reach it books the next attempt. Both attempts have the same id, so that there is only one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bentpipe.records import Record
from bentpipe.testbed.agent.surroundings import RunPlan
from bentpipe.testbed.schemas.agent_protocol import NoteEvent
from bentpipe.testbed.schemas.desired import Peer, Work
from bentpipe.testbed.schemas.identifiers import Id, derived_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from bentpipe.testbed.agent.surroundings import Surroundings


class StoredRetry(Record):
    """A further attempt that waits, as the agent's file has it."""

    run: Id
    """Its id."""
    preempted: Id
    """The attempt before."""
    plan: Id
    """Plan."""
    fence: int
    """Fence of the attempt before."""
    attempt: int
    """Its number."""
    work: Work
    """Work."""
    due_at_ms: int
    """When the first attempt was due."""
    latest_at_ms: int
    """When it is given up."""
    peer: Peer | None = None
    """Server."""


@dataclass(frozen=True)
class Retry:
    """A further attempt, and what it depends on."""

    plan: RunPlan
    preempted: str
    latest_at_ms: int


class Retries:
    """The attempts that wait, in the agent's file: they survive a kill."""

    def __init__(self, around: Surroundings) -> None:
        """Read them."""
        self._around = around
        self._waiting: dict[str, Retry] = {}
        for run, text in around.store.retries():
            try:
                stored = StoredRetry.model_validate_json(text)
            except ValidationError:  # of another version
                around.store.drop_retry(run)
                continue
            plan = RunPlan(
                run=stored.run,
                plan=stored.plan,
                end="client",
                fence=stored.fence,
                attempt=stored.attempt,
                work=stored.work,
                due_at_ms=stored.due_at_ms,
                start_at_ms=0,
                latest_start_at_ms=0,
                peer=stored.peer,
                cause="retry",
            )
            self._waiting[run] = Retry(plan, stored.preempted, stored.latest_at_ms)

    @property
    def waiting(self) -> list[Retry]:
        """The attempts that wait, the one that was preempted first at first."""
        return list(self._waiting.values())

    def keep(self, preempted: RunPlan, latest_at_ms: int) -> None:
        """Let the next attempt of a preempted run wait for a slot."""
        run = derived_id("retry", preempted.run)
        plan = replace(
            preempted,
            run=run,
            attempt=preempted.attempt + 1,
            start_at_ms=0,
            latest_start_at_ms=0,
            cause="retry",
        )
        stored = StoredRetry(
            run=run,
            preempted=preempted.run,
            plan=plan.plan,
            fence=plan.fence,
            attempt=plan.attempt,
            work=plan.work,
            due_at_ms=plan.due_at_ms,
            latest_at_ms=latest_at_ms,
            peer=plan.peer,
        )
        self._around.store.add_retry(run, stored.model_dump_json(by_alias=True))
        self._waiting[run] = Retry(plan, preempted.run, latest_at_ms)

    def drop(self, run: str) -> None:
        """Forget one: it has begun, or is not to begin."""
        self._around.store.drop_retry(run)
        self._waiting.pop(run, None)

    def tidy(self, known: Collection[str], under_way: Collection[str]) -> None:
        """Forget those that somebody else decides, or that are too late.

        Args:
            known: Runs of the calendar, and those that have begun or ended here.
            under_way: Runs that have not ended yet, with their result.
        """
        if not self._waiting:
            return
        around = self._around
        kept = {*under_way, *(result.run for result in around.spool.waiting())}
        for retry in self.waiting:
            run = retry.plan.run
            if run in known or retry.preempted not in kept:  # the orchestrator knows of the preemption, and decides
                self.drop(run)
            elif around.clock.now_ms() > retry.latest_at_ms:
                self.drop(run)
                text = f"run {retry.preempted[:12]} is not tried again: there was no free slot"
                around.report(NoteEvent(topic="scavenger", text=text))
