"""Standbys of armed triggers, attempts that wait for a slot, and what must not happen between two steps of a run."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from test_testbed_agent import _armed, make, running, scenario, shell_work, soon, wanted
from testbed_orchestrator import Orchestrator, PlainRun, PlainRunner
from testbed_records import desired

from bentpipe.testbed.agent import session_client
from bentpipe.testbed.agent.agent import Agent
from bentpipe.testbed.agent.client_end import ClientEnd
from bentpipe.testbed.agent.household import ScavengerMode
from bentpipe.testbed.agent.ports import Ports
from bentpipe.testbed.agent.server_end import ServerEnd
from bentpipe.testbed.agent.surroundings import RunPlan
from bentpipe.testbed.runners.request import RunRequest
from bentpipe.testbed.schemas.desired import Desired, NodeSettings
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.policy import ScavengerLevels


async def until(condition: Any, timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


def triggered(the_work: Any, *names: str, version: int = 2, **fields: Any) -> Desired:
    armed = [_armed(trigger=derived_id(name), plan=derived_id(f"p{name}"), **fields) for name in names]
    return wanted([], the_work, version=version, triggers=tuple(armed))


def ready(agent: Agent) -> list[str]:
    """Triggers with a standby at its gate."""
    return [each.purpose.plan.run for each in agent.executor.standbys.standbys if each.is_ready]


def fire(agent: Agent, name: str = "t", window_end_at_ms: int = 5) -> str | None:
    assert agent.executor.wanted is not None
    trigger = next(each for each in agent.executor.wanted.triggers if each.trigger == derived_id(name))
    return agent.executor.fire(trigger, window_end_at_ms, {"latency_ms": 130.0})


async def ended(agent: Agent, run: str | None, state: str = "done") -> None:
    assert run is not None
    await until(lambda: (stored := agent.store.run(run, "client")) is not None and stored.has_ended)
    stored = agent.store.run(run, "client")
    assert stored is not None
    assert stored.state == state


@scenario
async def test_a_firing_opens_the_gate_of_a_standby_and_it_is_renewed(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.want(triggered(shell_work("echo x > $BENTPIPE_OUTPUT/file"), "t"))
    async with running(orchestrator, folder / "n") as (agent, runner):
        await until(lambda: ready(agent))
        await orchestrator.stop()
        (standby,) = runner.runs.values()
        assert standby.log == []
        assert agent.executor.clients == []
        assert agent.executor._busy() == []
        assert agent.store.runs() == []
        run = fire(agent)
        assert run != standby.run_id
        await ended(agent, run)
        assert standby.log[0] == "start"
        assert [file.path for result in agent.spool.waiting() for file in result.request.files] == [
            "file", "testbed.json",
        ]  # fmt: skip
        await until(lambda: ready(agent))
        assert len(runner.runs) == 2
        await ended(agent, fire(agent, window_end_at_ms=6))
        await asyncio.sleep(0.05)
        assert ready(agent) == []  # all its runs are used up
        await orchestrator.start()
    assert not list((folder / "n" / "work").iterdir())


@scenario
async def test_a_standby_follows_its_work_and_goes_with_its_trigger(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.want(triggered(shell_work("true"), "t"))
    async with running(orchestrator, folder / "n") as (agent, runner):
        await until(lambda: ready(agent))
        (first,) = runner.runs.values()
        orchestrator.want(triggered(shell_work("true"), "t", version=3, started_runs=1))
        await until(lambda: agent.executor.wanted is not None and agent.executor.wanted.version == 3)
        await asyncio.sleep(0.02)
        assert list(runner.runs.values()) == [first]  # a counter is no other purpose
        orchestrator.want(triggered(shell_work("false"), "t", version=4))
        await until(lambda: "remove" in first.log and ready(agent) and len(runner.runs) == 2)
        second = list(runner.runs.values())[1]
        settings = NodeSettings(name="attic", paused=True)
        orchestrator.want(triggered(shell_work("false"), "t", version=5).replace(settings=settings))
        await until(lambda: "remove" in second.log)
        orchestrator.want(triggered(shell_work("false"), "t", version=6))
        await until(lambda: ready(agent))
        orchestrator.want(wanted([], shell_work("false"), version=7))
        await until(lambda: not agent.executor.standbys.standbys)


@scenario
async def test_there_are_no_more_standbys_than_parallel_runs(orchestrator: Orchestrator, folder: Path) -> None:
    (folder / "n").mkdir()
    policy = "schema: bentpipe.policy/1\nrunners: [process, docker]\nimages: reviewed\nmax_parallel: 2\n"
    (folder / "n" / "policy.yml").write_text(policy + "scavenger: {enabled: false}\n")
    orchestrator.want(triggered(shell_work("true"), "a", "b", "c"))
    async with running(orchestrator, folder / "n") as (agent, runner):
        await until(lambda: len(ready(agent)) == 2)
        assert set(ready(agent)) == {derived_id("b"), derived_id("c")}
        run = fire(agent, "a")  # prepared when it fires
        await ended(agent, run)
        assert run in runner.runs
        (folder / "n" / "policy.yml").write_text("schema: bentpipe.policy/1\ntriggers: false\n")
        agent.policy_file.look()
        agent.executor.standbys.look()
        await until(lambda: not agent.executor.standbys.standbys)


@scenario
async def test_a_firing_waits_for_a_standby_that_is_being_prepared(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.want(triggered(shell_work("true"), "t"))
    agent, runner = make(orchestrator, folder / "n")
    runner.prepare_s = 0.3
    stopped = asyncio.Event()
    task = asyncio.create_task(agent.run(stopped))
    await until(lambda: agent.executor.standbys.standbys)
    run = fire(agent)
    await ended(agent, run)
    assert run not in runner.runs
    stopped.set()
    await task


class DyingRun(PlainRun):
    """One whose program ends at its gate."""

    async def wait(self) -> Any:
        return None


@scenario
async def test_a_standby_whose_program_ends_is_not_used(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.want(triggered(shell_work("true"), "t"))
    agent, runner = make(orchestrator, folder / "n")
    prepare = runner.prepare

    async def dying(request: Any) -> PlainRun:
        return DyingRun(request) if request.output.parent.name.startswith("standby") else await prepare(request)

    runner.prepare = dying  # type: ignore[method-assign]
    stopped = asyncio.Event()
    task = asyncio.create_task(agent.run(stopped))
    await until(lambda: any(each.has_failed for each in agent.executor.standbys.standbys))
    run = fire(agent)
    await ended(agent, run)
    assert run in runner.runs
    stopped.set()
    await task


# Attempts that wait.


def preempted_plan(name: str = "a", **fields: Any) -> RunPlan:
    values: dict[str, Any] = {
        "run": derived_id(name), "plan": derived_id("plan"), "end": "client", "fence": 1, "attempt": 1,
        "work": shell_work("true"), "due_at_ms": 5, "start_at_ms": 0, "latest_start_at_ms": 0, "peer": None,
    }  # fmt: skip
    return RunPlan(**{**values, **fields})


@scenario
async def test_an_attempt_waits_until_the_node_is_free_and_survives_a_kill(
    orchestrator: Orchestrator, folder: Path
) -> None:
    agent, _ = make(orchestrator, folder / "n")
    retry = derived_id("retry", derived_id("a"))
    booked = soon("x", 0.3, work="1" * 64)
    works = {"0" * 64: shell_work("true"), "1" * 64: shell_work("sleep 0.4", 1.0, booking_class="exclusive")}
    state = desired([booked], works, version=2, images=(IMAGE_OF_WORK,))
    agent.store.set_wanted(state.replace(until_at_ms=round(time.time() * 1e3) + 10**8))
    agent.executor.wanted = agent.store.wanted()
    await agent.spool.add(derived_id("a"), "client", 1, "preempted", "the household", None)
    agent.executor.retry(preempted_plan())
    agent.store.close()  # a kill
    await orchestrator.stop()
    agent, _ = make(orchestrator, folder / "n")
    agent.around.is_alone = lambda: True
    assert [each.plan.attempt for each in agent.executor.retries.waiting] == [2]
    stopped = asyncio.Event()
    task = asyncio.create_task(agent.run(stopped))
    await ended(agent, retry)
    records = [json.loads(record)["body"] for (record,) in agent.store._db.execute("SELECT record FROM events")]
    states = [(body["run"], body["state"]) for body in records if body["kind"] == "state"]
    assert states.index((derived_id("x"), "uploading")) < states.index((retry, "preparing"))  # the booking came first
    assert agent.store.retries() == []
    stopped.set()
    await task


IMAGE_OF_WORK = f"busybox@sha256:{'1' * 64}"


@scenario
async def test_an_attempt_is_the_orchestrators_when_it_knows(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.want(wanted([], shell_work("true")))
    async with running(orchestrator, folder / "n") as (agent, _):
        await until(lambda: agent.executor.wanted is not None and agent.executor.wanted.version == 2)
        await agent.spool.add(derived_id("a"), "client", 1, "preempted", "the household", None)
        agent.executor.retry(preempted_plan())
        await orchestrator.until(lambda: f"{derived_id('a')}-client" in orchestrator.commits)
        await until(lambda: not agent.executor.retries.waiting)
        assert agent.store.run(derived_id("retry", derived_id("a")), "client") is None


@scenario
async def test_an_attempt_without_a_slot_is_given_up_at_its_latest_time(
    orchestrator: Orchestrator, folder: Path
) -> None:
    orchestrator.want(wanted([], shell_work("true")))
    async with running(orchestrator, folder / "n") as (agent, _):
        await until(lambda: agent.executor.wanted is not None and agent.executor.wanted.version == 2)
        agent.around.household.why_not = lambda: "the household uses its link"  # type: ignore[method-assign]
        await orchestrator.stop()
        await agent.spool.add(derived_id("a"), "client", 1, "preempted", "the household", None)
        agent.executor.retries.keep(preempted_plan(), round(time.time() * 1e3) + 100)
        await until(lambda: not agent.executor.retries.waiting)
        await orchestrator.start()
        await orchestrator.until(lambda: any("not tried again" in each for each in notes(orchestrator)))


def notes(orchestrator: Orchestrator) -> list[str]:
    bodies = [event.body for events in orchestrator.events.values() for event in events]
    return [body.text for body in bodies if body.kind == "note"]


# Between two steps of a run.


def client_end(orchestrator: Orchestrator, folder: Path, **fields: Any) -> tuple[Agent, PlainRunner, ClientEnd]:
    agent, runner = make(orchestrator, folder / "n")
    agent.executor.wanted = wanted([], shell_work("true"))
    return agent, runner, ClientEnd(preempted_plan(**fields), agent.around)


def is_clean(agent: Agent, runner: PlainRunner) -> bool:
    work = agent.around.folder / "work"
    return not (work.exists() and list(work.iterdir())) and all("remove" in run.log for run in runner.runs.values())


@scenario
async def test_a_run_that_is_canceled_while_it_is_prepared_does_not_start(
    orchestrator: Orchestrator, folder: Path
) -> None:
    agent, runner, end = client_end(orchestrator, folder)
    runner.prepare_s = 30.0
    task = asyncio.create_task(end.run())
    await until(lambda: end.state == "preparing")
    end.cancel("it was canceled")
    assert await asyncio.wait_for(task, 2) == ("canceled", "it was canceled")
    assert is_clean(agent, runner)


@scenario
async def test_a_run_that_is_prepared_when_the_household_comes_does_not_start(
    orchestrator: Orchestrator, folder: Path
) -> None:
    agent, runner, end = client_end(orchestrator, folder, cause="trigger")
    runner.prepare_s = 0.05
    task = asyncio.create_task(end.run())
    await until(lambda: end.state == "preparing")
    agent.around.household.why_not = lambda: "the household uses its link"  # type: ignore[method-assign]
    assert await asyncio.wait_for(task, 2) == ("missed", "the household uses its link")
    assert "start" not in runner.runs[end.plan.run].log
    assert is_clean(agent, runner)


class SlowRun(PlainRun):
    """One that takes time to start, as a container."""

    async def start(self, message: bytes = b"") -> None:
        await asyncio.sleep(0.1)
        await super().start(message)

    async def stop(self, grace_s: float) -> None:
        if self._process is not None:
            await super().stop(grace_s)


@scenario
async def test_a_preemption_while_a_run_starts_ends_it(orchestrator: Orchestrator, folder: Path) -> None:
    agent, runner, end = client_end(orchestrator, folder, work=shell_work("sleep 30"))

    async def prepare(request: Any) -> PlainRun:
        runner.runs[request.run_id] = SlowRun(request)
        return runner.runs[request.run_id]

    runner.prepare = prepare  # type: ignore[method-assign]
    task = asyncio.create_task(end.run())
    await until(lambda: end.state == "ready")
    await end.link_down("the household uses its link")
    end.silence()
    await end.terminate()
    assert await asyncio.wait_for(task, 3) == ("preempted", "the household uses its link")
    assert is_clean(agent, runner)


@scenario
async def test_a_defect_is_a_failed_run_with_a_reason(orchestrator: Orchestrator, folder: Path) -> None:
    agent, runner, end = client_end(orchestrator, folder)

    async def prepare(_: Any) -> PlainRun:
        raise ValueError("a defect")

    runner.prepare = prepare  # type: ignore[method-assign]
    assert await end.run() == ("failed", "the agent: ValueError: a defect")
    assert is_clean(agent, runner)


@scenario
async def test_a_disk_that_is_full_at_the_end_still_tells_the_household(
    orchestrator: Orchestrator, folder: Path
) -> None:
    agent, runner, end = client_end(orchestrator, folder)
    plans = []

    async def note(plan: RunPlan) -> None:
        plans.append(plan.run)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    agent.around.household.ended = note  # type: ignore[method-assign]
    agent.store.add_bytes = full  # type: ignore[method-assign]
    state, reason = await end.run()
    assert (state, plans) == ("failed", [end.plan.run])
    assert "No space left" in reason
    assert is_clean(agent, runner)


@scenario
async def test_the_end_of_the_agent_keeps_the_results_of_runs(orchestrator: Orchestrator, folder: Path) -> None:
    run = derived_id("a")
    orchestrator.want(wanted([soon("a", 0)], shell_work("echo x > $BENTPIPE_OUTPUT/file; sleep 30")))
    agent, _ = make(orchestrator, folder / "n")
    stopped = asyncio.Event()
    task = asyncio.create_task(agent.run(stopped))
    await until((folder / "n/work" / f"{run}-client/out/file").exists)
    await orchestrator.stop()
    stopped.set()
    await asyncio.wait_for(task, 10)
    agent, _ = make(orchestrator, folder / "n")
    (result,) = agent.spool.waiting()
    assert (result.request.state, result.request.reason) == ("canceled", "the agent was stopped")
    assert "file" in [file.path for file in result.request.files]
    await agent.executor.stop("the agent was stopped")
    assert agent.executor.fire(_armed(), 5, {}) is None


@scenario
async def test_a_server_end_with_a_defect_gives_ports_and_lane_back(orchestrator: Orchestrator, folder: Path) -> None:
    agent, _ = make(orchestrator, folder / "n")
    ports, gone = Ports(range(9000, 9001)), []
    program = {"image": IMAGE_OF_WORK, "command": ["true"], "server_command": ["true"], "duration": 5.0}
    plan = preempted_plan(end="server", work=shell_work("true").replace(program=program))
    end = ServerEnd(plan, agent.around, ports, gone.append)
    ports_before = ports.take(("server",))
    ports.give_back(ports_before)
    end._ports = ports.take(("server",))

    async def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    agent.spool.add = full  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space"):
        await end.end("")
    assert gone == [plan.run]
    assert ports.take(("server",)) == {"server": 9000}


def test_a_session_that_fell_silent_sends_no_start() -> None:
    async def test() -> list[str]:
        sent: list[str] = []
        session = session_client.ClientSession(
            None,  # type: ignore[arg-type]
            run="r", plan="p", fence=1, attempt=1, due_at_ms=5,
        )  # fmt: skip
        session._send = lambda kind, reason="": sent.append(kind)  # type: ignore[method-assign,misc]
        session.silence()
        await session.begin()
        return sent

    assert asyncio.run(test()) == []


class Calls:
    """An executor without runs that notes the attempts it is asked for."""

    def __init__(self) -> None:
        self.retried: list[str] = []
        self.clients: list[ClientEnd] = []

    def client(self, _: str) -> None:
        return None

    def retry(self, plan: RunPlan) -> None:
        self.retried.append(plan.run)


@pytest.mark.parametrize(("attempt", "quiet_s", "is_retried"), [(1, 60.0, True), (1, 0.0, True), (5, 0.0, False)])
def test_a_preempted_run_is_kept_whenever_the_quiet_comes_and_attempts_count(
    attempt: int, quiet_s: float, is_retried: bool
) -> None:
    async def test() -> list[str]:
        calls = Calls()
        mode = ScavengerMode(ScavengerLevels(quiet=quiet_s), lambda: calls, lambda _: None)  # type: ignore[arg-type,return-value]
        plan = preempted_plan(attempt=attempt)
        mode.begin(plan)
        for rate_bps in (9e6, 9e6, 0.0):
            await mode.dish_sample({"downlink_bps": rate_bps, "uplink_bps": 0.0})
        await mode.ended(plan)
        return calls.retried

    assert bool(asyncio.run(test())) == is_retried


@pytest.mark.parametrize(("reason", "log"), [("no beat", ["link_down", "stop 1"]), ("", ["stop 1"])])
def test_a_server_without_its_client_sends_nothing_while_its_program_ends(
    reason: str, log: list[str], tmp_path: Path
) -> None:
    @scenario
    async def test(orchestrator: Orchestrator, folder: Path) -> None:
        agent, _ = make(orchestrator, folder / "n")
        end = ServerEnd(preempted_plan(end="server"), agent.around, Ports(range(9000, 9001)), lambda _: None)
        request = RunRequest(run_id="r", label="n", command=("true",), output=folder / "out")
        run = end._prepared = PlainRun(request)
        await end.end(reason)
        assert run.log[: len(log)] == log

    test(tmp_path)
