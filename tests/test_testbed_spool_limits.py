"""What uploads of results may use: the host's budget, the household's link, the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from test_testbed_agent import make
from test_testbed_agent_parts import Uploads
from testbed_orchestrator import Orchestrator

from bentpipe.testbed.agent.connection import UnreachableError, _refused
from bentpipe.testbed.agent.spool import Spool
from bentpipe.testbed.schemas.agent_protocol import CommitAnswer, CommitRequest


def add(spool: Spool, folder: Path, run: str, size: int) -> None:
    results = folder / "result"
    results.mkdir()
    (results / "a").write_bytes(bytes(size))
    asyncio.run(spool.add(run * 32, "client", 1, "done", "", results))


def test_results_beyond_the_disk_limit_are_given_up_with_a_reason_oldest_first(tmp_path: Path) -> None:
    notes: list[str] = []
    spool = Spool(tmp_path / "spool", notes.append, limit_bytes=lambda: 250_000)
    for run in "123":
        add(spool, tmp_path, run, 100_000)
    waiting = {each.run[0]: each for each in spool.waiting()}
    oldest, others = waiting.pop("1"), waiting.values()
    assert (oldest.request.state, oldest.request.files) == ("failed", ())
    assert "given up" in oldest.request.reason
    assert "given up" in notes[0]
    assert [len(each.request.files) for each in others] == [1, 1]
    assert spool.size_bytes() < 250_000


def test_a_result_beyond_the_quota_waits_here_and_the_reason_is_said(tmp_path: Path) -> None:
    """The orchestrator refuses it with 507: it stays, smaller ones without files go, and the heartbeat says why."""
    problem = b'{"detail": "the quota of this node is full", "code": "quota"}'
    error = _refused("https://testbed", 507, problem)
    assert isinstance(error, UnreachableError)

    class Full:
        has_room = False

        async def offset(self, run: str, end: str, path: str) -> int:
            return 0

        async def put(self, run: str, end: str, path: str, offset: int, part: bytes) -> int:
            if not self.has_room:
                raise error
            return offset + len(part)

        async def commit(self, run: str, end: str, request: CommitRequest) -> CommitAnswer:
            return CommitAnswer(location="stored")

    async def scenario() -> None:
        orchestrator = Full()
        spool = Spool(tmp_path / "spool")
        results = tmp_path / "result"
        results.mkdir()
        (results / "a.txt").write_text("figures")
        await spool.add("a" * 32, "client", 1, "done", "", results)
        (result,) = spool.waiting()
        for _ in range(3):
            with pytest.raises(UnreachableError, match="the quota of this node is full"):
                await spool.send(orchestrator, result)  # type: ignore[arg-type]
        assert spool.waiting() == [result]
        assert (tmp_path / "spool" / f"{'a' * 32}-client" / "files" / "a.txt").read_text() == "figures"
        orchestrator.has_room = True
        assert await spool.send(orchestrator, result)  # type: ignore[arg-type] == "stored"
        assert spool.waiting() == []

    asyncio.run(scenario())


def test_uploads_are_counted_and_wait_for_the_budget_and_the_household(tmp_path: Path) -> None:
    agent, _ = make(Orchestrator(), tmp_path)
    policy = tmp_path / "policy.yml"
    policy.write_text(policy.read_text() + "bytes: [1MB/day]\n")
    agent.policy_file._stamp = None
    agent.policy_file.look()
    add(agent.spool, tmp_path, "1", 3_000_000)
    (result,) = agent.spool.waiting()

    def send(message: str) -> None:
        with pytest.raises(UnreachableError, match=message):
            asyncio.run(agent.spool.send(Uploads(), result))  # type: ignore[arg-type]

    used: Any = agent.store.used_bytes
    agent.around.household.why_not = lambda: "the household uses its link"  # type: ignore[method-assign]
    send("the household uses its link")
    assert used(0) == 0
    agent.around.household.why_not = lambda: None  # type: ignore[method-assign]
    send("1MB/day is used up")
    assert 800_000 < used(0) <= 1_000_000
    assert agent.spool.sent_bytes == used(0)
    assert agent.spool.waiting()
    agent.store.close()


def test_a_result_whose_move_a_kill_interrupted_is_sent_at_the_next_start(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for run in "12":
        add(spool, tmp_path, run, 10)
    for run, left in (("1", ""), ("2", "~sent")):  # killed before the last move; killed while it was removed
        whole = tmp_path / "spool" / f"{run * 32}-client"
        whole.rename(whole.with_name(f".{whole.name}{left}"))
    assert [each.run[0] for each in Spool(tmp_path / "spool").waiting()] == ["1"]
    assert [each.name for each in (tmp_path / "spool").iterdir()] == ["1" * 32 + "-client"]


def test_a_result_is_put_into_the_spool_once_though_what_comes_after_it_fails(tmp_path: Path) -> None:
    """On a full disk the state cannot be written, and all is tried again: the folder is not there any more."""
    spool = Spool(tmp_path / "spool")
    add(spool, tmp_path, "1", 10)
    asyncio.run(spool.add("1" * 32, "client", 1, "done", "", tmp_path / "result"))
    (waiting,) = spool.waiting()
    assert [file.path for file in waiting.request.files] == ["a"]
