"""The agent on a full disk, and with a wall clock that is off by an hour."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from test_testbed_agent import make, running, scenario, shell_work, soon, wanted

from bentpipe.testbed.agent import client_end, results, spool
from bentpipe.testbed.agent import clock as clocks
from bentpipe.testbed.agent.clock import OrchestratorClock
from bentpipe.testbed.schemas.identifiers import derived_id

if TYPE_CHECKING:
    from pathlib import Path

    from testbed_orchestrator import Orchestrator


@pytest.mark.parametrize("full", [results, spool], ids=["the record", "the spool"])
def test_a_result_waits_for_room_on_the_disk(full: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, tries = full.write_private, []

    def write_later(path: Path, content: bytes) -> None:
        tries.append(path)
        if len(tries) < 3:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(full, "write_private", write_later)
    monkeypatch.setattr(client_end, "ROOM_S", 0.02)

    @scenario
    async def act(orchestrator: Orchestrator, folder: Path) -> None:
        run = derived_id("a")
        orchestrator.want(wanted([soon("a", 0.2)], shell_work("echo hello > $BENTPIPE_OUTPUT/greeting")))
        async with running(orchestrator, folder / "n"):
            await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
        commit = orchestrator.commits[f"{run}-client"]
        assert commit.state == "done"
        assert [file.path for file in commit.files] == ["greeting", "testbed.json"]
        assert len(tries) >= 3

    act(tmp_path)


def test_an_agent_starts_though_what_a_kill_left_cannot_be_removed(tmp_path: Path) -> None:
    async def busy(*_: Any) -> list[str]:
        raise OSError(16, "Device or resource busy")

    @scenario
    async def act(orchestrator: Orchestrator, folder: Path) -> None:
        run = derived_id("a")
        orchestrator.want(wanted([soon("a", 0.2)], shell_work("true")))
        agent, runner = make(orchestrator, folder / "n")
        runner.sweep = busy  # type: ignore[method-assign]
        stopped = asyncio.Event()
        task = asyncio.create_task(agent.run(stopped))
        await orchestrator.until(lambda: f"{run}-client" in orchestrator.commits)
        stopped.set()
        await task

    act(tmp_path)


@pytest.mark.parametrize("error_s", [3600.0, -3600.0])
def test_a_node_that_starts_alone_knows_the_time_though_its_clock_is_wrong(
    error_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @scenario
    async def act(orchestrator: Orchestrator, folder: Path) -> None:
        orchestrator.want(wanted([soon("later", 2.0)], shell_work("true")))
        async with running(orchestrator, folder / "n") as (agent, _):
            await orchestrator.until(lambda: agent.store.clock() is not None and agent.executor.wanted is not None)
            orchestrator.want(wanted([soon("a", 1.5)], shell_work("true"), version=3))
            await orchestrator.until(lambda: agent.executor.wanted.version == 3)
        await orchestrator.stop()
        now_ns = clocks.time.time_ns
        monkeypatch.setattr(clocks.time, "time_ns", lambda: now_ns() + round(error_s * 1e9))
        agent, _ = make(orchestrator, folder / "n")
        assert agent.clock.is_known
        assert abs(agent.clock.now_ms() - now_ns() / 1e6) < 100
        agent.store.close()

    act(tmp_path)


def test_another_start_of_the_machine_has_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = OrchestratorClock(), OrchestratorClock()
    assert old.kept() is None
    old.add(sent_steady_s=0.0, received_at_ms=9000.0, answered_at_ms=9000.0, got_steady_s=0.02)
    kept = old.kept()
    assert kept is not None
    new.go_on_with((f"not {kept[0]}", *kept[1:]))
    assert not new.is_known
    new.go_on_with(kept)
    assert new.kept() == kept
