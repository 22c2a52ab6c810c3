"""Agents whose orchestrator is down: their wanted state is on the disk, as after its last answer."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.agent.agent import Agent
from bentpipe.testbed.agent.program import python_folders
from bentpipe.testbed.agent.settings import AgentSettings
from bentpipe.testbed.runners.bubblewrap import BubblewrapRunner
from bentpipe.testbed.runners.process import ProcessRunner
from bentpipe.testbed.schemas.desired import ArmedTrigger, Desired, NodeSettings, Peer, SessionGrant, Work
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.node import NodeReport
from bentpipe.validation.testbed_latency.world import CONTROL, SERVER

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.testbed.schemas.node import NodeRole

NOWHERE = "http://127.0.0.1:9"
WINDOW_S = 0.1
DAY_MS = 86_400_000
HASH, PLAN, TRIGGER, KEY = "0" * 64, derived_id("plan"), derived_id("trigger"), "ab" * 32
PROGRAMS: dict[str, dict[str, Any]] = {
    "alone": {"builtin": "ping", "args": {"target": SERVER, "every": 0.02, "seconds": 5.0}},
    "with a server": {"builtin": "iperf3", "args": {"seconds": 5, "direction": "down", "udp": 2_000_000}},
}
"""Experiments: pings, and a download over UDP."""


def make_work(program: str, mode: str = "end", seconds: float = 5.0) -> Work:
    """Return the work of one of the programs; what becomes of it after a preemption is `mode`."""
    values = PROGRAMS[program]
    fields = {
        "experiment": "latency",
        "owner": "validation",
        "program": {**values, "args": {**values["args"], "seconds": seconds}},
        "booking_class": "normal",
        "duration_s": seconds + 10.0,
        "bytes_per_run": 20_000_000,
        "scavenger": {"mode": mode},
    }
    return Work.check(fields, "work")


def wanted_state(work: Work, role: NodeRole) -> Desired:
    """Return the wanted state of an end."""
    now_ms = round(time.time() * 1e3)
    has_server = work.program.builtin == "iperf3"
    peer = Peer(node="other", address=f"{SERVER}:{CONTROL}", key=KEY)
    trigger = ArmedTrigger(
        trigger=TRIGGER,
        plan=PLAN,
        fence=1,
        expression="ping_ms > 100.0",
        window_s=WINDOW_S,
        for_windows=1,
        cooldown_s=0.0,
        work=HASH,
        peer=peer if has_server else None,
        most_runs=10**6,
        until_at_ms=now_ms + DAY_MS,
    )
    grant = SessionGrant(
        plan=PLAN, fence=1, work=HASH, peer=Peer(node="other", key=KEY), until_at_ms=now_ms + DAY_MS, is_armed=True
    )
    return Desired(
        version=1,
        node=derived_id("node"),
        issued_at_ms=now_ms,
        until_at_ms=now_ms + DAY_MS,
        settings=NodeSettings(name=role),
        works={HASH: work},
        triggers=(trigger,) if role == "client" else (),
        grants=(grant,) if role == "server" else (),
    )


def make_agent(folder: Path, runner: str, work: Work, role: NodeRole) -> Agent:
    """Return an agent that has its wanted state, knows the time, and reaches no orchestrator."""
    folder.mkdir(mode=0o700)
    (folder / "policy.yml").write_text(
        f"schema: bentpipe.policy/1\nrunners: [{runner}]\nscavenger: {{enabled: true, quiet: 500ms}}\n"
    )
    settings = AgentSettings(
        url=NOWHERE,
        name=f"{role}-{os.getpid()}",  # agents of one name would sweep each other's cgroups
        role=role,
        policy=str(folder / "policy.yml"),
        control=f"{SERVER}:{CONTROL}" if role == "server" else None,
    )
    make = {"process": ProcessRunner, "bubblewrap": BubblewrapRunner}[runner]
    runners = {runner: make(folder / "runs", hidden=[folder], readable=list(python_folders()))}
    report = NodeReport(agent_version="1", platform="linux", role=role, policy=settings.read_policy())
    agent = Agent(folder, settings, runners, report)
    agent.store.set_wanted(wanted_state(work, role))
    agent.executor.follow(wanted_state(work, role))
    now_s, now_ms = agent.clock.steady_s(), time.time() * 1e3
    agent.clock.add(sent_steady_s=now_s, received_at_ms=now_ms, answered_at_ms=now_ms, got_steady_s=now_s + 0.001)
    return agent
