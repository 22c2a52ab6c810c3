"""What becomes of experiments: planned, displaced, reported, preempted, lost, uploaded."""

import hashlib
import json

import pytest
from testbed_orchestrators import NOW_MS, Clock, join, orchestrator, plan_all, runs_of, user, yaml_of

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.services import experiments, listings
from bentpipe.testbed.orchestrator.services.boots import Boots
from bentpipe.testbed.orchestrator.services.desired_states import desired_state
from bentpipe.testbed.orchestrator.services.dry_runs import dry_run
from bentpipe.testbed.orchestrator.services.events import take_events
from bentpipe.testbed.orchestrator.services.heartbeats import Heartbeats
from bentpipe.testbed.orchestrator.services.listings import show_experiment, show_run
from bentpipe.testbed.orchestrator.services.refusals import ConflictError, ForbiddenError, StaleFenceError
from bentpipe.testbed.orchestrator.services.silence import silence_turn
from bentpipe.testbed.orchestrator.services.uploads import Uploads
from bentpipe.testbed.schemas.agent_protocol import (
    CommitRequest,
    CommittedFile,
    Event,
    EventBatch,
    FiringEvent,
    Heartbeat,
    NoteEvent,
    RunEvent,
    StateEvent,
)
from bentpipe.testbed.schemas.experiment_views import Extension
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.node import NodeStatus

pytestmark = pytest.mark.anyio
BOOT = "b" * 32


class Agent:
    """Speaks for a node."""

    def __init__(self, testbed, node, boot=BOOT):
        self.testbed, self.node, self.boot, self.seq = testbed, node, boot, 0

    async def say(self, *bodies):
        events = []
        for body in bodies:
            self.seq += 1
            events.append(Event(seq=self.seq, at_ms=float(self.testbed.clock()), body=body))
        return await take_events(
            self.testbed, Boots(self.testbed), self.node, EventBatch(boot_id=self.boot, events=tuple(events))
        )

    async def state(self, assignment, *states, reason="because"):
        return await self.say(
            *(
                StateEvent(run=assignment.run, end=assignment.end, fence=assignment.fence, state=state, reason=reason)
                for state in states
            )
        )

    async def desired(self):
        return await desired_state(self.testbed, self.node.node)


async def submitted(testbed, caller, **fields):
    key = await experiments.submit(testbed, caller, yaml_of(**fields))
    await plan_all(testbed)
    return key


async def test_a_run_goes_from_submission_to_its_result(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        caller = await user(testbed)
        before = agent.node.version
        key = await submitted(testbed, caller)
        assert testbed.nodes.get(agent.node.node).version > before
        desired = await agent.desired()
        (assignment,) = desired.assignments
        assert assignment.start_at_ms == NOW_MS + 15_000
        assert desired.works[assignment.work].experiment == "ping-home"
        assert [run.state for run in await runs_of(testbed)] == ["assigned"]
        await agent.state(assignment, "preparing", "ready", "running", reason="")
        assert [run.state for run in await runs_of(testbed)] == ["running"]
        location = await deliver(testbed, agent, assignment)
        (run,) = await runs_of(testbed)
        assert (run.state, run.location) == ("done", location)
        assert location.startswith("ping-home/attic/2026")
        assert await testbed.storage.get(f"{location}/testbed.json") == b"{}"
        assert (await agent.desired()).assignments == ()
        assert await experiments.end_those_done(testbed) == 1
        assert (await show_experiment(testbed, key)).state == "ended"


async def deliver(testbed, agent, assignment, state="done", files=None, reason=""):
    files = {"testbed.json": b"{}"} if files is None else files
    uploads = Uploads(testbed)
    node = agent.node.node
    for path, content in files.items():
        await uploads.put(node, assignment.run, assignment.end, path, 0, content)
    request = CommitRequest(
        fence=assignment.fence, state=state, reason=reason, files=tuple(committed(*each) for each in files.items())
    )
    answer = await uploads.commit(node, assignment.run, assignment.end, request)
    assert answer == await uploads.commit(node, assignment.run, assignment.end, request)  # delivered twice
    return answer.location


def committed(path, content):
    return CommittedFile(path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


async def test_done_is_believed_when_the_result_is_readable(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        await submitted(testbed, await user(testbed))
        (assignment,) = (await agent.desired()).assignments
        await agent.state(assignment, "running", "done", reason="")
        assert (await runs_of(testbed))[0].state == "uploading"
        await deliver(testbed, agent, assignment, files={"run.json": b'{"format": 2, "world": "measured"}'})
        (run,) = await runs_of(testbed)
        assert run.state == "failed"
        assert run.reason.startswith("the result is damaged: ")


async def test_uploads_resume_and_refuse_what_does_not_fit(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent, other = Agent(testbed, await join(testbed, "attic")), await join(testbed, "cellar")
        await submitted(testbed, await user(testbed))
        (assignment,) = (await agent.desired()).assignments
        uploads, place = Uploads(testbed), (agent.node.node, assignment.run, "client")
        assert await uploads.offset(*place, "a.txt") == 0
        assert await uploads.put(*place, "a.txt", 0, b"one") == 3
        with pytest.raises(ConflictError, match="expected 3") as wrong:
            await uploads.put(*place, "a.txt", 0, b"one")
        assert (wrong.value.code, wrong.value.extra) == ("wrong_offset", {"offset": 3})
        assert await uploads.put(*place, "a.txt", 3, b"two") == 6
        assert await uploads.offset(*place, "a.txt") == 6
        with pytest.raises(Exception, match="this node has no 'client' end"):
            await uploads.put(other.node, assignment.run, "client", "a.txt", 6, b"x")
        request = CommitRequest(fence=assignment.fence, state="done", files=(committed("a.txt", b"onetwx"),))
        with pytest.raises(UserError, match="another hash here"):
            await uploads.commit(*place, request)
        assert await uploads.offset(*place, "a.txt") == 0  # it comes anew
        with pytest.raises(StaleFenceError):
            await uploads.commit(*place, request.replace(fence=assignment.fence + 1))
        with pytest.raises(UserError, match="has 0 bytes here"):
            await uploads.commit(*place, request)
        doubled = (committed("a", b"1"), committed("a/b", b"2"))
        with pytest.raises(UserError, match="a file and a folder"):
            await uploads.commit(*place, request.replace(files=doubled))
        stored = [path.name for path in (tmp_path / "uploads").rglob("*") if path.is_file()]
        assert all(len(name) == 64 for name in stored)


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a//b", ".", "a/./b", "a/../b", "a/b/c/d/e/f/g/h/i", "x\0", ""]
)
def test_paths_that_lead_elsewhere_are_no_paths(path):
    with pytest.raises(UserError):
        CommittedFile(path=path, bytes=1, sha256="0" * 64)


async def test_events_that_are_late_doubled_or_stale(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        await submitted(testbed, await user(testbed))
        (assignment,) = (await agent.desired()).assignments
        running = StateEvent(run=assignment.run, end="client", fence=assignment.fence, state="running")
        events = [
            Event(seq=2, at_ms=2.0, body=NoteEvent(topic="disk", text="full")),
            Event(seq=1, at_ms=1.0, body=running),
        ]
        batch = EventBatch(boot_id=BOOT, events=tuple(events))
        assert (await take_events(testbed, Boots(testbed), agent.node, batch)).next_seq == 3
        assert (await take_events(testbed, Boots(testbed), agent.node, batch)).next_seq == 3
        gap = EventBatch(boot_id=BOOT, events=(Event(seq=5, at_ms=1.0, body=running),))
        assert (await take_events(testbed, Boots(testbed), agent.node, gap)).next_seq == 3
        agent.seq = 2
        stale = StateEvent(run=assignment.run, end="client", fence=assignment.fence - 1, state="failed", reason="x")
        assert (await agent.say(stale)).stale == (assignment.run,)
        assert (await runs_of(testbed))[0].state == "running"
        back = StateEvent(run=assignment.run, end="client", fence=assignment.fence, state="preparing")
        assert (await agent.say(back)).stale == ()
        assert (await runs_of(testbed))[0].state == "running"
        detail = await show_run(testbed, assignment.run)
        assert [event.body["state"] for event in detail.events] == ["running", "failed", "preparing"]


async def test_events_of_a_killed_agent_count_beside_those_of_the_next(tmp_path, database_url):
    from bentpipe.testbed.schemas.agent_protocol import Event, Heartbeat, NoteEvent

    async with orchestrator(tmp_path, database_url) as testbed:
        node = await join(testbed, "attic")
        boots = Boots(testbed)
        beats = Heartbeats(testbed, boots)

        async def send(boot):
            event = Event(seq=1, at_ms=1.0, body=NoteEvent(kind="note", topic="agent", text=boot))
            return await take_events(testbed, boots, node, EventBatch(boot_id=boot, events=(event,)))

        def beat(boot):
            return beats.beat(node, Heartbeat(boot_id=boot, sent_at_ms=0.0, status=NodeStatus()), 0.0)

        first, silent, third, fourth = ("1" * 32, "2" * 32, "3" * 32, "4" * 32)
        await beat(first)
        await beat(third)
        for boot in (first, silent, third, fourth):  # the second was killed before it could say anything
            assert (await send(boot)).next_seq == 2
            assert (await send(boot)).next_seq == 2
        await beat(third)
        await beat(fourth)
        with pytest.raises(ConflictError, match="newer agent"):
            await beat(third)


async def test_a_canceled_run_is_stopped_and_may_still_deliver(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent, caller = Agent(testbed, await join(testbed, "attic")), await user(testbed)
        key = await submitted(testbed, caller)
        (assignment,) = (await agent.desired()).assignments
        await agent.state(assignment, "running", reason="")
        with pytest.raises(ForbiddenError):
            await experiments.cancel(testbed, await user(testbed, "eve"), key)
        await experiments.cancel(testbed, caller, "ping-home")
        assert (await agent.desired()).assignments == ()
        assert (await agent.state(assignment, "uploading", reason="")).stale == (assignment.run,)
        location = await deliver(testbed, agent, assignment, "canceled")
        (run,) = await runs_of(testbed)
        assert (run.state, run.reason, run.location) == ("canceled", "canceled by ada", location)
        with pytest.raises(ConflictError, match="is over"):
            await experiments.extend(testbed, caller, key, Extension(runs=3))


async def test_a_run_whose_result_is_on_its_way_is_not_canceled(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent, caller = Agent(testbed, await join(testbed, "attic")), await user(testbed)
        await submitted(testbed, caller)
        (assignment,) = (await agent.desired()).assignments
        await agent.state(assignment, "running", "uploading", reason="")
        await experiments.cancel(testbed, caller, "ping-home")
        location = await deliver(testbed, agent, assignment, "done")
        (run,) = await runs_of(testbed)
        assert (run.state, run.location) == ("done", location)


async def test_a_preempted_run_is_tried_again_when_the_node_is_quiet(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        await submitted(testbed, await user(testbed), scavenger="{max_preemptions: 2}")
        beats = Heartbeats(testbed, Boots(testbed))

        async def beat(scavenger):
            status = NodeStatus(scavenger=scavenger)
            await beats.beat(agent.node, Heartbeat(boot_id=BOOT, sent_at_ms=1.0, status=status), clock())
            await beats.flush()

        for attempt in (1, 2):
            await plan_all(testbed)
            (assignment,) = (await agent.desired()).assignments
            assert assignment.attempt == attempt
            clock.now_ms += 20_000
            await agent.state(assignment, "running", "preempted")
            await beat("yielding")
            await plan_all(testbed)
            assert (await agent.desired()).assignments == ()
            await beat("clear")
        await plan_all(testbed)
        assert (await agent.desired()).assignments == ()
        runs = await runs_of(testbed)
        assert [run.state for run in runs] == ["preempted"] * 2
        assert runs[-1].reason == "because; not tried again: preempted 2 times (max_preemptions 2)"


async def test_an_agent_makes_runs_itself_and_both_agree(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent = Agent(testbed, await join(testbed, "attic", signals=("latency_ms",)))
        await submitted(
            testbed, await user(testbed), when="{trigger: latency_ms > 100, cooldown: 5m}", limits="{runs: 2}"
        )
        (armed,) = (await agent.desired()).triggers
        assert (armed.most_runs, armed.started_runs) == (2, 0)
        window = NOW_MS + 1000
        firing = derived_id("firing", armed.trigger, agent.node.name, window)
        run = derived_id("run", armed.plan, firing)
        made = RunEvent(
            run=run,
            plan=armed.plan,
            fence=armed.fence,
            cause="trigger",
            firing=firing,
            due_at_ms=window,
            start_at_ms=window + 100,
        )
        fired = FiringEvent(
            firing=firing, trigger=armed.trigger, window_end_at_ms=window, values={"latency_ms": 101.0}, run=run
        )
        running = StateEvent(run=run, end="client", fence=armed.fence, state="running")
        await agent.say(running, fired, made)  # out of order: the run is known last
        await agent.say(made, fired)
        (trigger,) = (await listings.list_triggers(testbed, "", 10)).items
        assert (trigger.firings, (await listings.list_firings(testbed, trigger.id, 0, 10)).items[0].run) == (1, run)
        (row,) = await runs_of(testbed)
        assert (row.state, row.cause, row.due_at_ms) == ("running", "trigger", window)
        assert (await agent.desired()).triggers[0].started_runs == 1
        forged = made.replace(run="0" * 32)
        assert (await agent.say(forged)).stale == ("0" * 32,)
        await agent.say(StateEvent(run=run, end="client", fence=armed.fence, state="preempted", reason="x"))
        retried = RunEvent(
            run=derived_id("retry", run),
            plan=armed.plan,
            fence=armed.fence,
            cause="retry",
            attempt=2,
            due_at_ms=window,
            start_at_ms=window + 200_000,
        )
        await plan_all(testbed)  # the orchestrator makes the same run
        await agent.say(retried)
        assert [each.attempt for each in await runs_of(testbed)] == [1, 2]
        assert (await runs_of(testbed))[1].start_at_ms == window + 200_000
        later = window + 400_000
        last = derived_id("firing", armed.trigger, agent.node.name, later)
        second = made.replace(run=derived_id("run", armed.plan, last), firing=last, due_at_ms=later, start_at_ms=later)
        await agent.say(second)
        (still,) = (await agent.desired()).triggers  # its last run is under way: disarmed, it would be ended
        assert (still.started_runs, still.most_runs) == (2, 2)


async def test_runs_of_a_silent_node_are_lost_and_may_come_back(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        await submitted(testbed, await user(testbed), when="{every: 10m}", limits="{runs: 2}")
        beats = Heartbeats(testbed, Boots(testbed))
        await beats.beat(agent.node, Heartbeat(boot_id=BOOT, sent_at_ms=1.0, status=NodeStatus()), clock())
        await beats.flush()
        first, second = (await agent.desired()).assignments
        clock.now_ms += 200_000
        assert await silence_turn(testbed) == 2
        assert [(run.state, run.reason) for run in await runs_of(testbed)] == [
            ("lost", "the node is silent"),
            ("assigned", ""),
        ]
        await agent.state(first, "running", reason="")
        await deliver(testbed, agent, first)
        assert [run.state for run in await runs_of(testbed)] == ["done", "assigned"]
        assert second.start_at_ms == NOW_MS + 600_000


async def test_a_lost_run_may_still_deliver_after_the_end_of_its_experiment(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        await submitted(testbed, await user(testbed), when="{every: 10m}", limits="{runs: 1}")
        beats = Heartbeats(testbed, Boots(testbed))
        await beats.beat(agent.node, Heartbeat(boot_id=BOOT, sent_at_ms=1.0, status=NodeStatus()), clock())
        await beats.flush()
        (run,) = (await agent.desired()).assignments
        clock.now_ms += 3_600_000  # out of reach for an hour
        await silence_turn(testbed)
        assert await experiments.end_those_done(testbed) == 1
        assert [(run.state, run.reason) for run in await runs_of(testbed)] == [("lost", "the node is silent")]
        await agent.state(run, "running", reason="")
        await deliver(testbed, agent, run)
        assert [run.state for run in await runs_of(testbed)] == ["done"]


async def test_a_higher_priority_displaces_what_has_not_begun(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        agent, caller = Agent(testbed, await join(testbed, "attic")), await user(testbed)
        at = "2026-09-21T15:00:00Z"
        await submitted(testbed, caller, name="low", class_="exclusive", when=f"{{at: '{at}'}}")
        (before,) = (await agent.desired()).assignments
        await submitted(testbed, caller, name="same", class_="exclusive", when=f"{{at: '{at}'}}")
        await submitted(testbed, caller, name="high", class_="exclusive", when=f"{{at: '{at}'}}", priority="5")
        by_name = {run.experiment_name: run for run in await runs_of(testbed)}
        due = before.start_at_ms
        assert by_name["high"].start_at_ms == due
        assert by_name["same"].start_at_ms == due + 70_000  # equal never displaces: it slips behind
        assert by_name["low"].start_at_ms == due + 140_000
        assert by_name["low"].reason == "moved: displaced by high (priority 5)"
        after = {each.run: each for each in (await agent.desired()).assignments}
        assert after[before.run].fence > before.fence
        assert (await agent.state(before, "running", reason="")).stale == (before.run,)
        clock.now_ms = due - 50_000  # nothing in the start margin is displaced
        await submitted(testbed, caller, name="higher", class_="exclusive", when=f"{{at: '{at}'}}", priority="9")
        by_name = {run.experiment_name: run for run in await runs_of(testbed)}
        assert by_name["high"].start_at_ms == due
        assert by_name["higher"].start_at_ms > due


async def test_what_no_node_has_is_explained(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic")
        caller = await user(testbed)
        for fields, text in (
            ({"kernel": "{congestion_control: bbr}"}, "attic: its kernel has no bbr"),
            ({"when": "{trigger: snr > 1}"}, "attic: it has no signal snr"),
            ({"nodes": "{tags: [spain]}"}, "no client node has the tags spain"),
            ({"nodes": "{names: [atic]}"}, "did you mean 'attic'"),
            ({"run": "{builtin: irtt, args: {}}", "server": "{near: node}"}, "no server node fits"),
            ({"path": "{profile: leo}"}, "no Profile 'leo'"),
            ({"limits": "{bytes: 1MB/day}"}, "less than one run may use"),
            ({"limits": "{until: 2020-01-01}"}, "expected a time in the future"),
        ):
            with pytest.raises(UserError, match=text.replace("'", ".")):
                await experiments.submit(testbed, caller, yaml_of(**fields))


async def test_both_ends_are_booked_and_know_each_other(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        client, server = (
            Agent(testbed, await join(testbed, "attic")),
            Agent(testbed, await join(testbed, "pop", "server")),
        )
        fields = {"run": "{builtin: iperf3, args: {seconds: 10}}", "server": "{near: node}", "class_": "exclusive"}
        await submitted(testbed, await user(testbed), **fields)
        (mine,), (theirs,) = (await client.desired()).assignments, (await server.desired()).assignments
        assert (mine.run, mine.end, theirs.end) == (theirs.run, "client", "server")
        assert mine.peer.address == "192.0.2.7:8793"
        assert (theirs.peer.node, theirs.peer.key) == ("attic", mine.peer.key)
        grant = (await server.desired()).grants[0]
        assert (grant.plan, grant.is_armed) == (mine.plan, False)
        await server.state(theirs, "failed", reason="no port is free")
        assert (await runs_of(testbed))[0].reason == "at the server: no port is free"


async def test_a_server_knows_whose_trigger_is_armed(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url, Clock()) as testbed:
        client = Agent(testbed, await join(testbed, "attic", signals=("latency_ms",)))
        server = Agent(testbed, await join(testbed, "pop", "server"))
        fields = {"run": "{builtin: iperf3, args: {seconds: 10}}", "server": "{near: node}"}
        await submitted(testbed, await user(testbed), when="{trigger: latency_ms > 100, cooldown: 5m}", **fields)
        (armed,), (grant,) = (await client.desired()).triggers, (await server.desired()).grants
        assert (grant.plan, grant.work, grant.is_armed) == (armed.plan, armed.work, True)


PING_OF_37_MB = "{builtin: ping, args: {target: 192.0.2.1, seconds: 1000, every: 0.005}}"


async def test_light_runs_hold_what_they_are_expected_to_use(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic")
        await submitted(testbed, await user(testbed), when="{every: 5m}", limits="{bytes: 10MB/day, runs: 3}")
        assert [run.state for run in await runs_of(testbed)] == ["planned"] * 3


async def test_budgets_hold_and_are_named(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic")
        limits = "{bytes: 100MB/day, bytes_per_run: 80MB, until: '2026-09-23T00:00:00Z'}"
        fields = {"when": "{every: 6h}", "limits": limits, "run": PING_OF_37_MB}
        starts = (await dry_run(testbed, await user(testbed), yaml_of(**fields))).starts
        assert [start.reason for start in starts[:4]] == ["", "", *["the budget of 100MB/day is used up"] * 2]
        await submitted(testbed, await user(testbed), **fields)
        runs = await runs_of(testbed)
        assert [run.state for run in runs] == ["planned", "planned", "missed", "missed", "planned", "planned"]
        assert runs[2].reason == "the budget of 100MB/day is used up"


async def test_json_of_a_state_is_what_agents_get(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        await submitted(testbed, await user(testbed), limits="{bytes: 100MB/day, bytes_per_run: 40MB}")
        desired = await agent.desired()
        assert type(desired).check(json.loads(desired.model_dump_json(by_alias=True)), "desired") == desired
