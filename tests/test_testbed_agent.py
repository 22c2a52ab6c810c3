"""The agent against an orchestrator in memory: calendar, triggers, kills, partitions, preemption, two ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from testbed_orchestrator import Orchestrator, PlainRunner
from testbed_records import assignment, desired, peer, policy, work

from bentpipe.testbed.agent.agent import Agent
from bentpipe.testbed.agent.settings import AgentSettings
from bentpipe.testbed.agent.starting import _run_until_mended, find_runners
from bentpipe.testbed.agent.store import StoredRun
from bentpipe.testbed.schemas.desired import ArmedTrigger, SessionGrant
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.node import NodeReport

IMAGE = f"busybox@sha256:{'1' * 64}"


def shell_work(script: str, seconds: float = 10.0, **fields: Any) -> Any:
    """Work of a script: the plain runner takes the command of an image."""
    program = {"image": IMAGE, "command": ["sh", "-c", script], "duration": seconds}
    return work(seconds, program=program, **fields)


POLICY = "schema: bentpipe.policy/1\nrunners: [process, docker]\nimages: reviewed\nscavenger: {enabled: false}\n"


@contextlib.asynccontextmanager
async def running(orchestrator: Orchestrator, folder: Path, **fields: Any) -> AsyncIterator[tuple[Agent, PlainRunner]]:
    """An agent that runs; at the end it is stopped as by SIGTERM."""
    agent, runner = make(orchestrator, folder, **fields)
    stopped = asyncio.Event()
    task = asyncio.create_task(agent.run(stopped))
    try:
        yield agent, runner
    finally:
        stopped.set()
        await asyncio.wait_for(task, 20)


def make(orchestrator: Orchestrator, folder: Path, **fields: Any) -> tuple[Agent, PlainRunner]:
    folder.mkdir(exist_ok=True)
    the_policy = folder / "policy.yml"
    if not the_policy.exists():
        the_policy.write_text(POLICY)
    settings = AgentSettings(
        url=f"http://127.0.0.1:{orchestrator.port}", name="attic", policy=str(the_policy), **fields
    )
    report = NodeReport(agent_version="1", platform="x", role=settings.role, policy=policy())
    runner = PlainRunner()
    agent = Agent(folder, settings, {"process": runner, "docker": runner}, report)
    return agent, runner


def soon(name: str, in_s: float, **fields: Any) -> Any:
    """An assignment in some seconds from now."""
    start_ms = round(time.time() * 1e3 + in_s * 1e3)
    times = {"due_at_ms": start_ms, "start_at_ms": start_ms, "latest_start_at_ms": start_ms + 5000}
    return assignment(name, 0, **{**times, **fields})


def wanted(assignments: Any, the_work: Any, version: int = 2, **fields: Any) -> Any:
    return desired(assignments, {"0" * 64: the_work}, version=version, images=(IMAGE,), **fields).replace(
        until_at_ms=round(time.time() * 1e3) + 48 * 3_600_000
    )


def scenario(test: Any) -> Any:
    """Run a test's coroutine with an orchestrator."""

    async def run(tmp_path: Path) -> None:
        orchestrator = Orchestrator()
        await orchestrator.start()
        try:
            await test(orchestrator, tmp_path)
        finally:
            await orchestrator.stop()

    def wrapper(tmp_path: Path) -> None:
        asyncio.run(run(tmp_path))

    wrapper.__name__, wrapper.__doc__ = test.__name__, test.__doc__
    return wrapper


@scenario
async def test_a_run_goes_through_its_states_and_its_result_arrives(orchestrator: Orchestrator, folder: Path) -> None:
    run = derived_id("a")
    orchestrator.want(wanted([soon("a", 0.3)], shell_work("echo hello > $BENTPIPE_OUTPUT/greeting")))
    async with running(orchestrator, folder / "n") as (agent, _):
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
        assert orchestrator.states(run) == ["preparing", "ready", "running", "uploading"]
        assert orchestrator.reports == 1
        commit = orchestrator.commits[f"{run}-client"]
        assert commit.state == "done"
        assert [file.path for file in commit.files] == ["greeting", "testbed.json"]
        assert orchestrator.files[f"/agent/v1/runs/{run}/client/files/greeting"] == b"hello\n"
        missing = "no terminal/: the node has no terminal"
        assert json.loads(orchestrator.files[f"/agent/v1/runs/{run}/client/files/testbed.json"])["notes"] == [missing]
        notes = [each.body for each in orchestrator.events[agent.boot_id] if each.body.kind == "note"]
        assert [(each.run, each.text) for each in notes if each.topic == "dish"] == [(run, missing)]
        await orchestrator.until(lambda: not [*(folder / "n" / "spool").iterdir(), *(folder / "n" / "work").iterdir()])


@scenario
async def test_events_that_a_former_start_left_are_sent_by_the_next_one(
    orchestrator: Orchestrator, folder: Path
) -> None:
    former, _ = make(orchestrator, folder / "n")
    former.note("agent", "nobody heard this")
    former.store.close()
    async with running(orchestrator, folder / "n") as (agent, _):
        await orchestrator.until(lambda: orchestrator.events[former.boot_id])
        assert orchestrator.events[former.boot_id][0].body.text == "nobody heard this"
        await orchestrator.until(lambda: agent.store.events(9) is None)


@scenario
async def test_events_arrive_at_an_orchestrator_that_was_restored_from_a_backup(
    orchestrator: Orchestrator, folder: Path
) -> None:
    async with running(orchestrator, folder / "n") as (agent, _):
        agent.note("agent", "before the backup")
        await orchestrator.until(lambda: orchestrator.events[agent.boot_id])
        orchestrator.events.clear()
        agent.note("agent", "after it")
        await orchestrator.until(lambda: orchestrator.events[agent.boot_id])
        assert [each.body.text for each in orchestrator.events[agent.boot_id]] == [
            "after it",
            "the orchestrator has forgotten events 1 to 1",
        ]


@scenario
async def test_it_starts_at_its_time_by_the_orchestrators_clock(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.ahead_ms = 3_600_000.0
    async with running(orchestrator, folder / "n") as (agent, _):
        await orchestrator.until(lambda: agent.clock.is_known)
        due_ms = round(agent.clock.now_ms()) + 700
        times = {"due_at_ms": due_ms, "start_at_ms": due_ms, "latest_start_at_ms": due_ms + 5000}
        state = wanted([assignment("a", 0, **times)], shell_work("true"))
        orchestrator.want(state.replace(until_at_ms=due_ms + 10**8))
        await orchestrator.until(lambda: f"{derived_id('a')}-client" in orchestrator.commits)
        events = [each for batch in orchestrator.events.values() for each in batch]
        began = next(each.at_ms for each in events if each.body.kind == "state" and each.body.state == "running")
        assert 0 <= began - due_ms < 500


@scenario
async def test_a_program_that_fails_is_a_result_with_a_reason(orchestrator: Orchestrator, folder: Path) -> None:
    run = derived_id("a")
    orchestrator.want(wanted([soon("a", 0)], shell_work("exit 3")))
    async with running(orchestrator, folder / "n"):
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
    commit = orchestrator.commits[f"{run}-client"]
    assert (commit.state, commit.reason) == ("failed", "the program ended with 3")


@scenario
async def test_the_policy_wins_and_is_read_again(orchestrator: Orchestrator, folder: Path) -> None:
    (folder / "n").mkdir()
    (folder / "n" / "policy.yml").write_text(POLICY.replace("reviewed", "none"))
    orchestrator.want(wanted([soon("a", 0)], shell_work("true")))
    async with running(orchestrator, folder / "n") as (agent, _):
        await orchestrator.until(lambda: f"{derived_id('a')}-client" in orchestrator.commits)
        commit = orchestrator.commits[f"{derived_id('a')}-client"]
        assert (commit.state, commit.files) == ("missed", ())
        assert "no containers" in commit.reason
        (folder / "n" / "policy.yml").write_text("schema: bentpipe.policy/9")
        await asyncio.sleep(0)
        assert agent.policy_file.look()
        assert agent.policy_file.policy.paused
        assert "bentpipe.policy/1" in agent.status().notes[-1]


@scenario
async def test_a_policy_that_does_not_read_at_the_start_pauses_the_node(
    orchestrator: Orchestrator, folder: Path
) -> None:
    (folder / "n").mkdir()
    the_policy = folder / "n" / "policy.yml"
    the_policy.write_text("schema: bentpipe.policy/9")
    agent, _ = make(orchestrator, folder / "n")
    stopped = asyncio.Event()
    task = asyncio.create_task(_run_until_mended(agent, stopped))
    await orchestrator.until(lambda: orchestrator.events[agent.boot_id])
    assert "bentpipe.policy/1" in orchestrator.events[agent.boot_id][0].body.text
    assert agent.status().paused
    assert "bentpipe.policy/1" in agent.status().notes[-1]
    assert not agent.policy_file.policy.share.telemetry
    the_policy.write_text(POLICY)
    assert agent.policy_file.look()
    await asyncio.wait_for(task, 20)  # it is to start anew with what the policy says
    assert not stopped.is_set()
    assert not agent.policy_file.policy.paused


def test_containers_are_no_matter_where_no_image_is_configured(tmp_path: Path) -> None:
    notes: list[str] = []
    runners = asyncio.run(find_runners(tmp_path, None, notes.append))
    assert "docker" not in runners
    assert not any("docker" in note for note in notes)


@scenario
async def test_what_is_canceled_ends(orchestrator: Orchestrator, folder: Path) -> None:
    run = derived_id("a")
    the_work = shell_work("sleep 30")
    orchestrator.want(wanted([soon("a", 0)], the_work))
    async with running(orchestrator, folder / "n"):
        await orchestrator.until(lambda: "running" in orchestrator.states(run))
        orchestrator.want(wanted([], the_work, version=3))
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
        assert orchestrator.commits[f"{run}-client"].state == "canceled"


@scenario
async def test_a_stale_fence_ends_the_run(orchestrator: Orchestrator, folder: Path) -> None:
    run = derived_id("a")
    orchestrator.stale = (run,)
    orchestrator.want(wanted([soon("a", 0)], shell_work("sleep 30")))
    async with running(orchestrator, folder / "n"):
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
        assert orchestrator.commits[f"{run}-client"].reason == "it was assigned anew"


@scenario
async def test_it_acts_alone_and_sends_later(orchestrator: Orchestrator, folder: Path) -> None:
    run = derived_id("b")
    the_work = shell_work("true")
    orchestrator.want(wanted([soon("b", 1.0)], the_work))
    async with running(orchestrator, folder / "n") as (agent, _):
        await orchestrator.until(lambda: agent.executor.wanted is not None and agent.executor.wanted.version == 2)
        await orchestrator.stop()
        while (stored := agent.store.run(run, "client")) is None or not stored.has_ended:
            await asyncio.sleep(0.05)
        assert stored.state == "done"
        await orchestrator.start()
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
        await orchestrator.until(lambda: orchestrator.states(run)[-1:] == ["uploading"])


@scenario
async def test_the_calendar_is_followed_after_a_kill_without_the_orchestrator(
    orchestrator: Orchestrator, folder: Path
) -> None:
    agent, _ = make(orchestrator, folder / "n")
    the_wanted = wanted([soon("a", 0.5)], shell_work("true"))
    agent.store.set_wanted(the_wanted)
    agent.store.set_run(StoredRun(derived_id("x"), "p" * 32, "client", 4, "running", 1), 1.0)
    agent.store.close()
    await orchestrator.stop()
    async with running(orchestrator, folder / "n") as (again, _):
        while (stored := again.store.run(derived_id("a"), "client")) is None or not stored.has_ended:
            await asyncio.sleep(0.05)
        assert stored.state == "done"
        killed = again.store.run(derived_id("x"), "client")
        assert killed is not None
        assert killed.state == "failed"


@scenario
async def test_a_full_disk_starts_nothing_and_says_so(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.want(wanted([soon("a", 0)], shell_work("true")))
    agent, _ = make(orchestrator, folder / "n")
    agent.host = lambda: __import__("dataclasses").replace(Agent.host(agent), free_bytes=10)  # type: ignore[method-assign]
    agent.around.host = agent.host
    stopped = asyncio.Event()
    task = asyncio.create_task(agent.run(stopped))
    await orchestrator.until(lambda: f"{derived_id('a')}-client" in orchestrator.commits)
    assert "disk full" in orchestrator.commits[f"{derived_id('a')}-client"].reason
    stopped.set()
    await task


@scenario
async def test_a_run_that_uses_too_many_bytes_is_ended(orchestrator: Orchestrator, folder: Path) -> None:
    run = derived_id("a")
    orchestrator.want(wanted([soon("a", 0)], shell_work("sleep 30")))
    async with running(orchestrator, folder / "n") as (agent, runner):
        await orchestrator.until(lambda: "running" in orchestrator.states(run))
        runner.runs[run].used = 2_000_000
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
        assert "byte limit" in orchestrator.commits[f"{run}-client"].reason
        assert agent.store.used_bytes(0, derived_id("plan")) == 2_000_000
        assert agent.store.used_bytes(0) > 2_000_000  # the upload too


def _armed(**fields: Any) -> ArmedTrigger:
    values = {
        "trigger": derived_id("t"),
        "plan": derived_id("p"),
        "fence": 3,
        "expression": "latency_ms > 100",
        "window_s": 1.0,
        "for_windows": 1,
        "cooldown_s": 0.0,
        "work": "0" * 64,
        "most_runs": 2,
        "until_at_ms": round(time.time() * 1e3) + 10**7,
    }
    return ArmedTrigger.check({**values, **fields}, "trigger")


@scenario
async def test_a_firing_starts_its_run_without_the_orchestrator(orchestrator: Orchestrator, folder: Path) -> None:
    armed = _armed()
    orchestrator.want(wanted([], shell_work("true"), triggers=(armed,)))
    async with running(orchestrator, folder / "n") as (agent, _):
        await orchestrator.until(lambda: agent.executor.wanted is not None and agent.executor.wanted.triggers)
        await orchestrator.stop()
        at_ms = round(time.time() * 1e3)
        run = agent.executor.fire(armed, at_ms, {"latency_ms": 130.0})
        assert run == derived_id("run", derived_id("p"), derived_id("firing", derived_id("t"), "attic", at_ms))
        assert agent.executor.fire(armed, at_ms, {"latency_ms": 130.0}) is None  # delivered twice
        assert agent.executor.fire(armed, at_ms + 1000, {"latency_ms": 130.0}) is not None
        assert agent.executor.fire(armed, at_ms + 2000, {"latency_ms": 130.0}) is None  # all its runs are used up
        await orchestrator.start()
        await orchestrator.until(
            lambda: len(orchestrator.commits) == 2 and len(orchestrator.events[agent.boot_id]) > 11
        )
        bodies = [event.body for events in orchestrator.events.values() for event in events]
        assert [body.reason for body in bodies if body.kind == "firing"] == [
            "",
            "the window fired already",
            "",
            "all its runs are used up",
        ]
        assert [body.cause for body in bodies if body.kind == "run"] == ["trigger", "trigger"]


@scenario
async def test_exclusive_bookings_hold_against_triggers(orchestrator: Orchestrator, folder: Path) -> None:
    armed = _armed()
    booked = soon("x", 3, work="1" * 64)
    state = desired(
        [booked],
        {"0" * 64: shell_work("true"), "1" * 64: shell_work("true", booking_class="exclusive")},
        version=2,
        images=(IMAGE,),
        triggers=(armed,),
    )
    orchestrator.want(state.replace(until_at_ms=round(time.time() * 1e3) + 10**8))
    async with running(orchestrator, folder / "n") as (agent, _):
        await orchestrator.until(lambda: agent.executor.wanted is not None and agent.executor.wanted.version == 2)
        assert agent.executor.fire(armed, 5, {}) is None


@scenario
async def test_two_ends_of_a_run_meet(orchestrator: Orchestrator, folder: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server_orchestrator = Orchestrator()
    await server_orchestrator.start()
    listen = (
        "import os, socket, time; s = socket.create_server(('127.0.0.1', int(os.environ['BENTPIPE_PORT_SERVER'])));"
        " c, _ = s.accept(); c.sendall(b'hello'); time.sleep(30)"
    )
    connect = (
        "import os, socket, pathlib; s = socket.create_connection((os.environ['BENTPIPE_SERVER'],"
        " int(os.environ['BENTPIPE_PORT_SERVER'])), 5);"
        " pathlib.Path(os.environ['BENTPIPE_OUTPUT'], 'heard').write_bytes(s.recv(10))"
    )
    program = {"image": IMAGE, "command": ["python3", "-c", connect], "duration": 10.0}
    program["server_command"] = ["python3", "-c", listen]
    the_work = work(10, program=program)
    run, plan = derived_id("a"), derived_id("plan")
    grant = SessionGrant(plan=plan, fence=1, work="0" * 64, peer=peer(), until_at_ms=round(time.time() * 1e3) + 10**7)
    server_orchestrator.want(wanted([], the_work, grants=(grant,)))
    with socket.socket() as free_port:
        free_port.bind(("127.0.0.1", 0))
        port = free_port.getsockname()[1]
    server = running(
        server_orchestrator,
        folder / "server",
        role="server",
        control=address,
        control_listen="127.0.0.1",
        ports=(port, port + 1),
    )
    async with server as (server_agent, _), running(orchestrator, folder / "n") as (agent, _):
        for each in (server_orchestrator, orchestrator):
            await each.until(lambda each=each: each.heartbeats)
        await server_orchestrator.until(
            lambda: server_agent.executor.wanted is not None and server_agent.clock.is_known
        )
        orchestrator.want(wanted([soon("a", 1, peer=peer(address).to_dict())], the_work))
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
        await server_orchestrator.until(lambda: f"{run}-server" in server_orchestrator.commits)
        assert agent.executor.clients == []
    await server_orchestrator.stop()
    commit = orchestrator.commits[f"{run}-client"]
    assert (commit.state, commit.reason) == ("done", "")
    assert orchestrator.files[f"/agent/v1/runs/{run}/client/files/heard"] == b"hello"
    assert server_orchestrator.commits[f"{run}-server"].state == "done"
    assert server_orchestrator.states(run, "server") == ["preparing", "ready", "running", "uploading"]


@scenario
async def test_a_server_that_does_not_answer_is_a_missed_run(orchestrator: Orchestrator, folder: Path) -> None:
    run = derived_id("a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bentpipe.testbed.agent.client_end.HELLO_S", 0.5)
        program = {"image": IMAGE, "command": ["true"], "server_command": ["true"], "duration": 5.0}
        orchestrator.want(wanted([soon("a", 0.2, peer=peer("127.0.0.1:9").to_dict())], work(5, program=program)))
        async with running(orchestrator, folder / "n"):
            await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
    commit = orchestrator.commits[f"{run}-client"]
    assert commit.state == "missed"
    assert "did not answer" in commit.reason


@scenario
async def test_links_of_a_hostile_program_lead_nowhere(orchestrator: Orchestrator, folder: Path) -> None:
    secret, victim = folder / "secret", folder / "victim"
    secret.write_text("the host's secret")
    victim.write_text("as it was")
    run = derived_id("a")
    script = (
        f"cd $BENTPIPE_OUTPUT; ln -s {secret} stderr.txt; ln -s {victim} .testbed.json.tmp;"
        f" ln -s {victim} testbed.json; exit 3"
    )
    orchestrator.want(wanted([soon("a", 0)], shell_work(script)))
    async with running(orchestrator, folder / "n"):
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
    commit = orchestrator.commits[f"{run}-client"]
    assert commit.state == "failed"
    assert "secret" not in commit.reason + orchestrator.reason(run)
    assert {file.path for file in commit.files} == {"left-out.txt", "testbed.json"}
    assert not any(b"the host's secret" in content for content in orchestrator.files.values())
    assert victim.read_text() == "as it was"
