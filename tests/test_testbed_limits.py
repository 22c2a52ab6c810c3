"""Limits that hold for a node or a user who keeps none."""

import hashlib

import pytest
from sqlalchemy import select
from test_testbed_hostile import both_ends
from test_testbed_runs import Agent, submitted
from testbed_orchestrators import NOW_MS, join, orchestrator, plan_all, runs_of, user

from bentpipe.testbed.orchestrator.database.tables import NodeRow, RunEventRow
from bentpipe.testbed.orchestrator.routers.answers import problem_of
from bentpipe.testbed.orchestrator.services import experiments, planner, uploads
from bentpipe.testbed.orchestrator.services.agent_limits import RESTARTS
from bentpipe.testbed.orchestrator.services.nodes import show_node
from bentpipe.testbed.orchestrator.services.refusals import BusyError, QuotaError
from bentpipe.testbed.schemas.agent_protocol import CommitRequest, CommittedFile, RunEvent, StateEvent
from bentpipe.testbed.schemas.identifiers import derived_id

pytestmark = pytest.mark.anyio
TRIGGER = "{trigger: latency_ms > 100, cooldown: 1m}"


async def armed(testbed, **fields):
    """A node with an armed trigger, and the trigger."""
    agent = Agent(testbed, await join(testbed, "attic", signals=("latency_ms",)))
    await submitted(testbed, await user(testbed), **({"when": TRIGGER} | fields))
    (trigger,) = (await agent.desired()).triggers
    return agent, trigger


def made(trigger, number):
    """The run of a firing that the node made up."""
    firing = derived_id("firing", number)
    at_ms = NOW_MS + 60_000 * number
    return RunEvent(
        run=derived_id("run", trigger.plan, firing),
        plan=trigger.plan,
        fence=trigger.fence,
        cause="trigger",
        firing=firing,
        due_at_ms=at_ms,
        start_at_ms=at_ms,
    )


async def test_a_node_makes_no_more_runs_than_the_limit(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent, trigger = await armed(testbed, limits="{runs: 2}")
        events = [made(trigger, number) for number in range(10)]
        answer = await agent.say(*events)
        assert set(answer.stale) == {event.run for event in events[2:]}
        assert len(await runs_of(testbed)) == 2
        assert (await agent.say(events[0])).stale == ()  # delivered twice: it is one of the two


async def test_a_node_fires_no_more_often_than_the_cooldown(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent, trigger = await armed(testbed)
        events = [made(trigger, number) for number in range(RESTARTS + 10)]
        await agent.say(*events)
        assert len(await runs_of(testbed)) == RESTARTS
        testbed.clock.now_ms += 120_000
        await agent.say(*events)
        assert len(await runs_of(testbed)) == RESTARTS + 2


async def test_runs_of_a_node_stay_within_the_budget(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent, trigger = await armed(
            testbed,
            limits="{bytes: 10MB/day, bytes_per_run: 4MB}",
            run="{builtin: ping, args: {target: 192.0.2.1, seconds: 50, every: 0.005}}",
        )
        first, *others = (made(trigger, number) for number in range(6))
        ended = StateEvent(
            run=first.run, end="client", fence=first.fence, state="done", up_bytes=1_000_000, down_bytes=0
        )
        answer = await agent.say(first, ended, *others)
        assert set(answer.stale) == {event.run for event in others[4:]}  # 1 MB used, 4 x 1.84 MB expected


async def test_a_node_tries_a_run_no_more_often_than_the_experiment_says(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent, trigger = await armed(testbed, scavenger="{max_preemptions: 2}")
        event = made(trigger, 0)
        stale = []
        for attempt in range(2, 5):
            preempted = StateEvent(
                run=event.run, end="client", fence=event.fence, state="preempted", reason="the household"
            )
            stale += (await agent.say(event, preempted)).stale
            event = event.replace(
                run=derived_id("retry", event.run), cause="retry", attempt=attempt, start_at_ms=event.start_at_ms + 1
            )
        assert sorted(run.attempt for run in await runs_of(testbed)) == [1, 2]
        assert len(stale) == 1


async def test_parts_of_a_node_are_limited(tmp_path, database_url, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_PARTIAL_BYTES", 100)
    async with orchestrator(tmp_path, database_url) as testbed:
        client, server = await both_ends(testbed, when="{every: 1h}")
        all_parts = uploads.Uploads(testbed)
        first, second, third, *_ = (await client.desired()).assignments
        for assignment in (first, second):
            await all_parts.put(client.node.node, assignment.run, "client", "a.txt", 0, bytes(50))
        with pytest.raises(BusyError, match="try again later"):
            await all_parts.put(client.node.node, third.run, "client", "a.txt", 0, b"x")
        assert await all_parts.put(server.node.node, third.run, "server", "a.txt", 0, bytes(50)) == 50


async def test_results_of_a_node_have_a_quota_and_wait_for_room(tmp_path, database_url):
    """What is refused stays at the node, which says why; it is taken once the quota is raised."""
    async with orchestrator(tmp_path, database_url) as testbed:
        testbed.node_bytes = 150
        client, server = await both_ends(testbed, when="{every: 1h}")
        parts = uploads.Uploads(testbed)
        first, second, *_ = (await client.desired()).assignments
        node = client.node.node

        def request(assignment, size):
            file = CommittedFile(path="a.txt", bytes=size, sha256=hashlib.sha256(bytes(size)).hexdigest())
            return CommitRequest(fence=assignment.fence, state="failed", reason="r", files=(file,) if size else ())

        await parts.put(node, first.run, "client", "a.txt", 0, bytes(100))
        with pytest.raises(QuotaError, match="the quota of this node's results is full: 0 bytes are stored"):
            await parts.put(node, second.run, "client", "a.txt", 0, bytes(60))  # parts that wait count
        await parts.commit(node, first.run, "client", request(first, 100))
        await parts.commit(node, first.run, "client", request(first, 100))  # the same again counts once
        await parts.put(node, second.run, "client", "a.txt", 0, bytes(50))
        testbed.node_bytes = 120
        with pytest.raises(QuotaError, match="100 bytes are stored and 50 more came; expected at most 120"):
            await parts.commit(node, second.run, "client", request(second, 50))
        assert await parts.offset(node, second.run, "client", "a.txt") == 50  # nothing was moved
        assert problem_of(QuotaError("full")).status_code == 507
        await parts.put(server.node.node, second.run, "server", "a.txt", 0, bytes(120))  # another node's quota
        testbed.node_bytes = 150
        await parts.commit(node, second.run, "client", request(second, 50))
        async with testbed.read() as transaction:
            stored = await transaction.scalar(select(NodeRow.stored_bytes).where(NodeRow.id == node))
        assert stored == 150


async def test_plans_with_enough_runs_ahead_leave_their_place_to_others(tmp_path, database_url, monkeypatch):
    monkeypatch.setattr(planner, "PLANS_PER_TURN", 2)
    monkeypatch.setattr(planner, "MOST_AHEAD", 10)
    async with orchestrator(tmp_path, database_url) as testbed:
        for name in ("attic", "cellar", "barn"):
            await join(testbed, name)
        often = "{builtin: ping, args: {target: 192.0.2.1, seconds: 5}}"
        nodes = "{names: [cellar, barn]}"
        await submitted(testbed, await user(testbed, "eve"), nodes=nodes, run=often, when="{every: 10s}")
        await submitted(testbed, await user(testbed), when="{every: 30m}")
        assert len(await runs_of(testbed, node="barn")) >= 10
        assert len(await runs_of(testbed, node="attic")) >= 10


async def test_a_plan_that_fails_does_not_keep_others_from_theirs(tmp_path, database_url, monkeypatch):
    monkeypatch.setattr(planner, "PLANS_PER_TURN", 1)
    async with orchestrator(tmp_path, database_url) as testbed:
        for name in ("attic", "cellar"):
            await join(testbed, name)
        load = planner.load_calendars

        async def fail(transaction, nodes, *times):
            if next(iter(nodes)) == cellar:
                raise ValueError("a row that nobody expected")
            return await load(transaction, nodes, *times)

        cellar = (await show_node(testbed, "cellar")).id
        monkeypatch.setattr(planner, "load_calendars", fail)
        await submitted(testbed, await user(testbed, "eve"), nodes="{names: [cellar]}", when="{every: 1h}")
        testbed.clock.now_ms += 1
        await submitted(testbed, await user(testbed), when="{every: 1h}")
        assert {run.node for run in await runs_of(testbed)} == {"attic"}
        async with testbed.read() as transaction:
            (text,) = [row.body["text"] for row in await transaction.rows(select(RunEventRow.body))]
        assert "could not be planned (ValueError)" in text
        await submitted(
            testbed, await user(testbed, "bob"), name="short", nodes="{names: [cellar]}", when="{every: 1h}"
        )
        assert len(testbed.unplannable) == 2
        await experiments.cancel(testbed, await user(testbed, "root", "admin"), "short")
        await plan_all(testbed)
        assert len(testbed.unplannable) == 1  # that of a plan which has ended is gone
        monkeypatch.setattr(planner, "load_calendars", load)
        testbed.clock.now_ms += 61_000
        await plan_all(testbed)
        assert {run.node for run in await runs_of(testbed)} == {"attic", "cellar"}
