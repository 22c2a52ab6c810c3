"""What a submission would do, without doing it."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.services.budgets import Usage
from bentpipe.testbed.orchestrator.services.calendars import conflicts_of, load_calendars, load_lanes
from bentpipe.testbed.orchestrator.services.due_times import next_due
from bentpipe.testbed.orchestrator.services.experiments import checked, until_of
from bentpipe.testbed.orchestrator.services.host_rules import Hours, pause_of
from bentpipe.testbed.orchestrator.services.placing import LEAD_MS, find_place, first_start
from bentpipe.testbed.orchestrator.services.planner import HORIZON_MS, MOST_AHEAD
from bentpipe.testbed.orchestrator.services.selection import select_nodes
from bentpipe.testbed.orchestrator.services.slots import PREPARE_MS, NodeCalendar, book
from bentpipe.testbed.orchestrator.services.works import expected_bytes, make_work, reserved_bytes
from bentpipe.testbed.schemas.experiment_views import DryRun, PlannedStart
from bentpipe.testbed.schemas.quantities import budget_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction
    from bentpipe.testbed.orchestrator.security.roles import Caller
    from bentpipe.testbed.orchestrator.services.placing import Place
    from bentpipe.testbed.orchestrator.services.selection import Candidate, Selection
    from bentpipe.testbed.schemas.experiment import TestbedExperiment

FIRST_STARTS = 10
WEEK_MS = 7 * 86_400_000
"""How far ahead a free slot is looked for [ms]."""


async def dry_run(orchestrator: Orchestrator, caller: Caller, text: str) -> DryRun:
    """Return what a submission would do. Raises `UserError`, as a submission does."""
    experiment = checked(text, orchestrator.clock())
    async with orchestrator.read() as transaction:
        selection = await select_nodes(transaction, experiment)
        work, _ = await make_work(transaction, experiment, caller.name)
        starts = await _starts(transaction, experiment, selection)
        runs = _runs_ahead(experiment, transaction.now_ms) * len(selection.clients)
    return DryRun(
        name=experiment.name,
        nodes=tuple(client.name for client in selection.clients),
        servers={client.name: selection.servers[client.node].name for client in selection.clients if selection.servers},
        not_fitting=selection.verdicts,
        starts=tuple(starts),
        bytes_per_run=work.bytes_per_run,
        expected_bytes_per_run=expected_bytes(experiment),
        runs_in_48_h=runs,
        bytes_in_48_h=runs * expected_bytes(experiment),
        trigger=experiment.when.trigger,
    )


def _dues(experiment: TestbedExperiment, now_ms: int) -> Iterator[int]:
    due = next_due(experiment.when, now_ms, None)
    until, count = until_of(experiment, now_ms), 0
    while due is not None and due < until and count < (experiment.limits.runs or MOST_AHEAD):
        yield due
        count += 1
        due = next_due(experiment.when, now_ms, due)


def _runs_ahead(experiment: TestbedExperiment, now_ms: int) -> int:
    count = 0
    for due in _dues(experiment, now_ms):
        if due >= now_ms + HORIZON_MS or count >= MOST_AHEAD:
            break
        count += 1
    return count


async def _starts(transaction: Transaction, experiment: TestbedExperiment, selection: Selection) -> list[PlannedStart]:
    """Return the first starts of all nodes."""
    now_ms = transaction.now_ms
    series = [
        [(due, number) for due, _ in zip(_dues(experiment, now_ms), range(FIRST_STARTS), strict=False)]
        for number in range(len(selection.clients))
    ]
    first = list(heapq.merge(*series))[:FIRST_STARTS]
    if not first:
        return []
    nodes = [client.node for client in selection.clients] + [server.node for server in selection.servers.values()]
    longest_ms = round(experiment.run.longest_s * 1000)
    begin, end = first[0][0] - PREPARE_MS, first[-1][0] + round(experiment.limits.slip * 1000) + longest_ms
    near = await load_calendars(transaction, nodes, begin, end)
    far = await load_lanes(transaction, nodes, begin, max(end, first[-1][0] + WEEK_MS + longest_ms))
    usages = [Usage(experiment.limits.bytes) for _ in selection.clients]
    return [
        await _start(transaction, experiment, selection.clients[number], selection, (near, far), due, usages[number])
        for due, number in first
    ]


async def _start(
    transaction: Transaction,
    experiment: TestbedExperiment,
    client: Candidate,
    selection: Selection,
    calendars: tuple[dict[str, NodeCalendar], dict[str, NodeCalendar]],
    due: int,
    usage: Usage,
) -> PlannedStart:
    """Return a start; `calendars`: near ones with runs, and those of a week with what is free."""
    near, far = calendars
    server = selection.servers.get(client.node)
    pair = [(client.name, near[client.node])]
    week = [far[client.node]]
    if server is not None:
        pair.append((server.name, near[server.node]))
        week.append(far[server.node])
    used = [calendar for _, calendar in pair]
    now_ms, duration_ms = transaction.now_ms, round(experiment.run.longest_s * 1000)
    latest = due + round(experiment.limits.slip * 1000)
    reserved, hours = reserved_bytes(experiment), Hours.of([client, server])
    earliest = usage.first_allowed(max(due, now_ms), latest, reserved)
    place = None
    if earliest is not None:
        place = find_place(
            used, experiment.booking_class, duration_ms, earliest, latest, experiment.priority, now_ms, hours
        )
    held = pause_of(client) or ("" if server is None else pause_of(server))
    if not held and place is None and earliest is not None:
        held = hours.refusal(max(earliest, now_ms + LEAD_MS), latest, duration_ms)
    times = due - PREPARE_MS, due + duration_ms
    known = [
        (name, booking)
        for name, calendar in pair
        for booking in calendar.blocking(experiment.booking_class, *times)
        if booking.run
    ]
    conflicts = await conflicts_of(transaction, known)
    displaced = frozenset() if place is None else place.displaced
    windows = hours.starts(max(due, now_ms + LEAD_MS), due + WEEK_MS, duration_ms)
    free = first_start(week, experiment.booking_class, duration_ms, windows)
    if place is not None:
        usage.add(place.start_at_ms, reserved)
        for calendar in (*used, *week):
            book(calendar, experiment.booking_class, "", place.start_at_ms, duration_ms, experiment.priority)
    return PlannedStart(
        node=client.name,
        server=None if server is None else server.name,
        due_at_ms=due,
        start_at_ms=None if place is None or held else place.start_at_ms,
        conflicts=conflicts,
        displaces=tuple(conflict for conflict in conflicts if conflict.run in displaced),
        next_free_at_ms=free,
        reason=held or _why_none(experiment, place, has_budget=earliest is not None),
    )


def _why_none(experiment: TestbedExperiment, place: Place | None, *, has_budget: bool) -> str:
    """Return why a run has no start; empty: it has one."""
    if place is not None:
        return ""
    if experiment.limits.bytes is not None and not has_budget:
        return f"the budget of {budget_text(experiment.limits.bytes)} is used up"
    return f"no slot is free within the slip of {experiment.limits.slip:g} s"
