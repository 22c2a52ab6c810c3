"""Standbys of a server node: who has one, who takes it, and what a server's program does at its gate."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_testbed_agent import IMAGE, make, running, scenario, wanted
from test_testbed_standby import until
from testbed_orchestrator import Orchestrator, PlainRun
from testbed_records import peer, work

from bentpipe.testbed.agent import server_standbys, session_client
from bentpipe.testbed.agent.agent import Agent
from bentpipe.testbed.agent.session import Message
from bentpipe.testbed.builtins.gate import GATE, GATE_OPEN, wait_at_gate
from bentpipe.testbed.builtins.registry import BUILTINS
from bentpipe.testbed.schemas.desired import Desired, NodeSettings, SessionGrant
from bentpipe.testbed.schemas.identifiers import derived_id

LISTEN = (
    "import os, socket, time; s = socket.create_server(('127.0.0.1', int(os.environ['BENTPIPE_PORT_SERVER'])));"
    " time.sleep(30)"
)
POLICY = "schema: bentpipe.policy/1\nrunners: [process, docker]\nimages: reviewed\nmax_parallel: 2\n"


def free_ports() -> tuple[int, int]:
    """A few ports in sequence, of which the first is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return port, port + 6


def server_work(seconds: float = 10.0, **fields: Any) -> Any:
    program = {
        "image": IMAGE,
        "command": ["true"],
        "duration": seconds,
        "server_command": [sys.executable, "-c", LISTEN],
    }
    return work(seconds, program=program, **fields)


def granted(the_work: Any, *plans: str, version: int = 2, is_armed: bool = True, **fields: Any) -> Desired:
    until_ms = round(time.time() * 1e3) + 10**7
    grants = tuple(
        SessionGrant(
            plan=derived_id(each), fence=1, work="0" * 64, peer=peer(), until_at_ms=until_ms, is_armed=is_armed
        )
        for each in plans
    )
    return wanted([], the_work, version=version, grants=grants, **fields)


def server(orchestrator: Orchestrator, folder: Path, **fields: Any) -> Any:
    (folder / "n").mkdir()
    (folder / "n" / "policy.yml").write_text(POLICY)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        control = f"127.0.0.1:{free.getsockname()[1]}"
    places = {"role": "server", "control": control, "control_listen": "127.0.0.1", "ports": free_ports()}
    return running(orchestrator, folder / "n", **{**places, **fields})


def ready(agent: Agent) -> int:
    return sum(each.is_ready for each in agent.executor.server_standbys.standbys)


def hello(agent: Agent, name: str = "a", plan: str = "p") -> Any:
    message = Message(kind="hello", run=derived_id(name), plan=derived_id(plan), number=1, due_at_ms=5)
    return agent.executor.admit(message)


@scenario
async def test_a_hello_opens_the_gate_of_a_standby_and_it_is_renewed(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.want(granted(server_work(), "p"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_standbys, "RENEW_S", 0.0)
        async with server(orchestrator, folder) as (agent, runner):
            await until(lambda: ready(agent) == 1)
            (standby,) = runner.runs.values()
            assert standby.log == []  # its program does not run
            assert agent.store.runs() == []
            end = hello(agent)
            ports = await end.prepare()
            assert standby.log == ["start"]
            assert standby.request.environment["BENTPIPE_PORT_SERVER"] == str(ports["server"])
            await until(lambda: ready(agent) == 1 and len(runner.runs) == 2)
            second = list(runner.runs.values())[1]
            assert second.request.environment != standby.request.environment  # another port
            end.began()
            await end.end("")
            assert "remove" in standby.log
            assert agent.executor._ports.free == 5
            orchestrator.want(granted(server_work(), version=3))
            await until(lambda: "remove" in second.log and agent.executor._ports.free == 6)
            await until(lambda: f"{derived_id('a')}-server" in orchestrator.commits)
            commit = orchestrator.commits[f"{derived_id('a')}-server"]
            assert (commit.state, [file.path for file in commit.files]) == ("done", ["testbed.json"])
    assert not list((folder / "n" / "work").iterdir())


@scenario
async def test_works_share_the_places_of_parallel_runs(orchestrator: Orchestrator, folder: Path) -> None:
    orchestrator.want(granted(server_work(), "p", is_armed=False))
    async with server(orchestrator, folder) as (agent, runner):
        await until(lambda: agent.executor.wanted is not None and agent.executor.wanted.version == 2)
        await asyncio.sleep(0.02)
        assert runner.runs == {}  # the calendar says when the client comes
        orchestrator.want(granted(server_work(), "p", "q", "r", version=3))
        await until(lambda: ready(agent) == 2)
        both = list(runner.runs.values())
        paused = granted(server_work(), "p", version=4).replace(settings=NodeSettings(name="attic", paused=True))
        orchestrator.want(paused)
        await until(lambda: all("remove" in each.log for each in both))
        assert agent.executor.server_standbys.standbys == []


@scenario
async def test_ports_of_runs_come_first(orchestrator: Orchestrator, folder: Path) -> None:
    port, _ = free_ports()
    orchestrator.want(granted(server_work(), "p"))
    async with server(orchestrator, folder, ports=(port, port + 2)) as (agent, runner):
        await until(lambda: agent.executor.wanted is not None and agent.executor.wanted.version == 2)
        await asyncio.sleep(0.02)
        assert runner.runs == {}
        end = hello(agent)
        assert await end.prepare() == {"server": port}
        await end.end("")


class DyingRun(PlainRun):
    """One whose program ends at its gate."""

    async def wait(self) -> Any:
        return None


@scenario
async def test_a_standby_that_died_is_not_used(orchestrator: Orchestrator, folder: Path) -> None:
    agent, runner = make(orchestrator, folder / "n", role="server", ports=free_ports())
    now_s, now_ms = agent.clock.steady_s(), time.time() * 1e3
    agent.clock.add(sent_steady_s=now_s, received_at_ms=now_ms, answered_at_ms=now_ms, got_steady_s=now_s)
    agent.executor.follow(granted(server_work(), "p"))
    prepare = runner.prepare

    async def dying(request: Any) -> PlainRun:
        return DyingRun(request) if request.output.parent.name.startswith("standby") else await prepare(request)

    runner.prepare = dying  # type: ignore[method-assign]
    agent.executor.server_standbys.step()
    await until(lambda: agent.executor.server_standbys.standbys)
    end = hello(agent)  # while it is being prepared
    ports = await end.prepare()
    assert list(runner.runs) == [f"{derived_id('a')}-server"]
    assert ports == {"server": agent.settings.ports[0] + 1}
    await end.end("")
    assert agent.executor._ports.free == 6
    await agent.executor.stop("the end")


def test_a_program_waits_at_its_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENTPIPE_INPUTS", raising=False)
    wait_at_gate()
    monkeypatch.setenv("BENTPIPE_INPUTS", str(tmp_path))
    wait_at_gate()
    (tmp_path / GATE).write_bytes(GATE_OPEN)
    wait_at_gate()
    (tmp_path / GATE).write_bytes(b"")
    with pytest.raises(SystemExit, match="gate: closed"):
        wait_at_gate()


@pytest.mark.parametrize("name", [name for name, each in BUILTINS.items() if each.server_has_gate])
def test_a_builtin_server_listens_when_its_gate_opens(name: str, tmp_path: Path) -> None:
    builtin = BUILTINS[name]
    assert builtin.server is not None
    if builtin.missing:
        pytest.skip(", ".join(builtin.missing))
    port = free_ports()[0]
    gate = tmp_path / GATE
    os.mkfifo(gate)
    kind = socket.SOCK_STREAM if builtin.protocols == ("tcp",) else socket.SOCK_DGRAM
    command = builtin.server(None, dict.fromkeys(builtin.ports, port))
    with subprocess.Popen(command, env={**os.environ, "BENTPIPE_INPUTS": str(tmp_path)}) as process:
        try:
            writer = os.open(gate, os.O_WRONLY)  # returns when the program is at its gate
            assert _is_free(port, kind)
            os.write(writer, GATE_OPEN)
            os.close(writer)
            end_s = time.monotonic() + 10
            while _is_free(port, kind):
                assert time.monotonic() < end_s
                time.sleep(0.01)
        finally:
            process.kill()


def _is_free(port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_session_that_falls_silent_says_so_at_once() -> None:
    async def test() -> list[tuple[str, str]]:
        sent: list[tuple[str, str]] = []
        session = session_client.ClientSession(
            None,  # type: ignore[arg-type]
            run="r", plan="p", fence=1, attempt=1, due_at_ms=5,
        )  # fmt: skip
        session._send = lambda kind, reason="": sent.append((kind, reason))  # type: ignore[method-assign,misc]
        session.silence("preempted: the household uses its link")
        return sent

    assert asyncio.run(test()) == [("bye", "preempted: the household uses its link")]
