"""An agent with the bubblewrap runner in a network namespace of its own.

``python testbed_rehearsal.py emulated|capture FOLDER WORKS`` prints the folder of each result.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from testbed_orchestrator import Orchestrator
from testbed_records import assignment, desired, policy, work
from testbed_world import World

from bentpipe.testbed.agent.agent import Agent
from bentpipe.testbed.agent.program import python_folders
from bentpipe.testbed.agent.settings import AgentSettings
from bentpipe.testbed.runners.bubblewrap import BubblewrapRunner
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.node import NodeReport

POLICY = "schema: bentpipe.policy/1\nrunners: [bubblewrap]\nscavenger: {enabled: false}\n"


def make_work(mode: str, name: str, args: dict[str, Any], sha256: str | None) -> Any:
    """Work of a built-in experiment; ``lost`` is a ping whose address does not answer."""
    fields: dict[str, Any] = {"program": {"builtin": "ping" if name == "lost" else name, "args": args}}
    if mode == "emulated":
        fields |= {"path": {"profile": "dumbbell"}, "profile_sha256": sha256}
    else:
        fields |= {"capture": {"ends": "both", "snap_bytes": 96}}
    return work(30.0, bytes_per_run=50_000_000, **fields)


def loopback_up() -> None:
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        ip.link("set", index=1, state="up")


async def run(mode: str, folder: Path, works: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Run the works, all at once; write their files as the orchestrator would."""
    orchestrator = Orchestrator()
    sha256 = None
    for file in folder.iterdir():
        sha256 = file.name
        orchestrator.profiles[sha256] = file.read_bytes()
    await orchestrator.start()
    node = folder / "node"
    node.mkdir()
    (node / "policy.yml").write_text(POLICY)
    settings = AgentSettings(url=f"http://127.0.0.1:{orchestrator.port}", name="attic", policy=str(node / "policy.yml"))
    runner = BubblewrapRunner(node / "runs", hidden=[node], readable=list(python_folders()))
    report = NodeReport(agent_version="1", platform="x", role="client", policy=policy())
    agent, stopped = Agent(node, settings, {"bubblewrap": runner}, report), asyncio.Event()
    start_ms = round(time.time() * 1e3)
    times = {"due_at_ms": start_ms, "start_at_ms": start_ms, "latest_start_at_ms": start_ms + 60_000}
    hashes = {name: f"{number:064x}" for number, name in enumerate(works)}
    assignments = [assignment(name, 0, **times, work=hashes[name]) for name in works]
    wanted = {hashes[name]: make_work(mode, name, args, sha256) for name, args in works.items()}
    orchestrator.want(desired(assignments, wanted, version=2).replace(until_at_ms=start_ms + 48 * 3_600_000))
    task = asyncio.create_task(agent.run(stopped))
    try:
        ids = {name: derived_id(name) for name in works}
        await orchestrator.until(lambda: all(f"{each}-client" in orchestrator.commits for each in ids.values()), 40)
    finally:
        stopped.set()
        await asyncio.wait_for(task, 20)
        await orchestrator.stop()
    results = {}
    for name, run_id in ids.items():
        commit = orchestrator.commits[f"{run_id}-client"]
        assert commit.state == "done", (name, commit.reason)
        target = folder / "results" / "e" / "attic" / name / run_id
        for file in commit.files:
            path = target / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(orchestrator.files.get(f"/agent/v1/runs/{run_id}/client/files/{file.path}", b""))
        results[name] = str(target)
    return results


if __name__ == "__main__":
    if sys.argv[1] == "capture":
        World("bubblewrap", use_cgroups=True)
    else:
        loopback_up()
    print(json.dumps(asyncio.run(run(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])))))
