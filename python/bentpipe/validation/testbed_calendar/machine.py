"""Steps that Hypothesis chooses, and what a sound calendar is. This module needs hypothesis."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sqlalchemy import select

from bentpipe.testbed.orchestrator.database.tables import BookingRow, RunRow
from bentpipe.testbed.orchestrator.services import dry_runs, experiments
from bentpipe.testbed.orchestrator.services.desired_states import desired_state
from bentpipe.testbed.orchestrator.services.listings import list_experiments
from bentpipe.testbed.orchestrator.services.refusals import ConflictError, ForbiddenError
from bentpipe.testbed.orchestrator.services.silence import silence_turn
from bentpipe.testbed.schemas.experiment_views import Extension
from bentpipe.testbed.schemas.quantities import at_text
from bentpipe.validation.testbed_calendar.world import Clock, join, orchestrator, plan_all, user, yaml_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from bentpipe.testbed.orchestrator.context import Orchestrator


async def check_calendar(testbed: Orchestrator) -> None:
    """Check that a calendar is sound. Raises `AssertionError` with the first problem.

    No two live bookings of a node overlap; every run that waits has one for each end, every other one a reason.
    """
    async with testbed.read() as transaction:
        bookings = await transaction.rows(select(*BookingRow.__table__.c).where(BookingRow.live))
        runs = await transaction.rows(select(*RunRow.__table__.c))
    problem = _overlap(bookings) or _run_problem(runs, Counter(row.run_id for row in bookings))
    if problem:
        raise AssertionError(problem)


def _overlap(bookings: Sequence[Any]) -> str:
    """Return two bookings of a node that overlap in time and lanes; empty: none do."""
    by_node: dict[str, list[Any]] = {}
    for row in bookings:
        by_node.setdefault(row.node_id, []).append(row)
    for node_rows in by_node.values():
        node_rows.sort(key=lambda row: row.from_at_ms)
        for index, row in enumerate(node_rows):
            for other in node_rows[index + 1 :]:
                if other.from_at_ms >= row.to_at_ms:
                    break
                if max(row.first_lane, other.first_lane) < min(row.end_lane, other.end_lane):
                    return f"bookings overlap: {row} and {other}"
    return ""


def _run_problem(runs: Sequence[Any], booked: Counter[str]) -> str:
    """Return a run that lacks a booking, a time within its slip or a reason; empty: none does."""
    for run in runs:
        if run.state in ("planned", "assigned"):
            if booked[run.id] != (2 if run.server_id else 1):
                return f"a run that waits has {booked[run.id]} bookings: {run}"
            if not run.due_at_ms <= run.start_at_ms <= run.latest_start_at_ms:
                return f"a run starts outside its slip: {run}"
        elif run.state in ("missed", "canceled"):
            if booked[run.id]:
                return f"a run that is over has a booking: {run}"
            if not run.reason:
                return f"a run is over without a reason: {run}"
    return ""


class CalendarMachine(RuleBasedStateMachine):
    """Steps of users, nodes and time that Hypothesis chooses; the calendar is checked after each."""

    def __init__(self, url: str, folder: Path, on_step: Callable[[], None] = lambda: None) -> None:
        """Open an empty database; `on_step` is called after each step whose calendar is sound."""
        super().__init__()
        self.clock, self.count = Clock(), 0
        self._on_step, self._is_new = on_step, True
        self.runner, self.stack = asyncio.Runner(), contextlib.AsyncExitStack()
        self.testbed = self.runner.run(self.stack.enter_async_context(orchestrator(folder, url, self.clock)))
        self.runner.run(self.begin())

    async def begin(self) -> None:
        """Add nodes and users."""
        self.nodes = [(await join(self.testbed, name)).node for name in ("a", "b")]
        self.nodes.append((await join(self.testbed, "s", "server")).node)
        self.callers = [await user(self.testbed, name) for name in ("ada", "bob")]

    def teardown(self) -> None:
        """Close the database."""
        self.runner.run(self.stack.aclose())
        self.runner.close()

    @rule(
        booking_class=st.sampled_from(["normal", "exclusive", "background"]),
        priority=st.sampled_from([0, 1, 5]),
        seconds=st.sampled_from([17, 290, 3000]),
        two_ends=st.booleans(),
        when=st.sampled_from(
            ["now", "{at: 'SOON'}", "{every: 30m}", "{every: 2h}", "{cron: '*/20 * * * *'}", "{cron: '7 3 * * *'}"]
        ),
        limits=st.sampled_from(
            ["{slip: 5m}", "{slip: 2h, runs: 3}", "{slip: 0s}", "{bytes: 1GB/day, bytes_per_run: 100MB}"]
        ),
        nodes=st.sampled_from(["{names: [a]}", "{names: [b]}", "{names: [a, b]}"]),
        caller=st.integers(0, 1),
    )
    def submit(
        self,
        booking_class: str,
        priority: int,
        seconds: int,
        two_ends: bool,
        when: str,
        limits: str,
        nodes: str,
        caller: int,
    ) -> None:
        """Ask for a dry run of an experiment, and submit it."""
        self.count += 1
        fields = {"run": f"{{builtin: ping, args: {{target: x, seconds: {seconds}}}}}"}
        if booking_class != "background" and two_ends:
            fields = {"run": f"{{builtin: irtt, args: {{seconds: {seconds}}}}}", "server": "{near: node}"}
        soon = at_text((self.clock() // 1000 + 600) * 1000)
        text = yaml_of(
            name=f"e{self.count}",
            nodes=nodes,
            class_=booking_class,
            priority=str(priority),
            when=when.replace("SOON", soon),
            limits=limits,
            **fields,
        )
        self.act(dry_runs.dry_run(self.testbed, self.callers[caller], text))
        self.act(experiments.submit(self.testbed, self.callers[caller], text))

    @rule(number=st.integers(0, 9))
    def cancel(self, number: int) -> None:
        """Cancel an experiment."""
        if keys := self.active():
            self.act(experiments.cancel(self.testbed, self.callers[0], keys[number % len(keys)]))

    @rule(number=st.integers(0, 9), runs=st.integers(1, 9))
    def extend(self, number: int, runs: int) -> None:
        """Extend an experiment."""
        if keys := self.active():
            extension = Extension(runs=runs)
            self.act(experiments.extend(self.testbed, self.callers[0], keys[number % len(keys)], extension))

    @rule(seconds=st.sampled_from([1, 50, 700, 4000]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.clock.now_ms += seconds * 1000

    @rule(node=st.integers(0, 2))
    def fetch(self, node: int) -> None:
        """Fetch the wanted state of a node."""
        self.act(desired_state(self.testbed, self.nodes[node]))

    def active(self) -> list[str]:
        """Return the ids of active experiments."""
        page = self.runner.run(list_experiments(self.testbed, "", 100, "active"))
        return [each.id for each in page.items]

    def act(self, action: Coroutine[Any, Any, object]) -> None:
        """Act; a refusal is fine."""
        with contextlib.suppress(ConflictError, ForbiddenError):
            self.runner.run(action)

    @invariant()
    def is_sound(self) -> None:
        """Let the workers act, and check the calendar."""

        async def check() -> None:
            await plan_all(self.testbed)
            await silence_turn(self.testbed)
            await experiments.end_those_done(self.testbed)
            await check_calendar(self.testbed)

        self.runner.run(check())
        if not self._is_new:
            self._on_step()
        self._is_new = False
