"""``python -m bentpipe.validation.testbed_faults.world FOLDER KILLS SEED QUIET_S``: kill a testbed's programs.

In a network namespace of its own: an orchestrator, an agent with the process runner, and a far end that answers pings.
Prints what became of all runs as one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bentpipe.errors import BentpipeError
from bentpipe.testbed.client import TestbedClient
from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.namespaces.network import in_network, new_network
from bentpipe.testbed.schemas.states import ENDED

FAR, NEAR = "203.0.113.10", "203.0.113.1"
POLICY = "schema: bentpipe.policy/1\nrunners: [process]\nscavenger: {enabled: false}\n"
EXPERIMENTS = {
    "pings": ("normal", 20, 2),
    "more-pings": ("normal", 30, 3),
    "alone": ("exclusive", 60, 2),
}
"""Name → class, time between starts [s], length [s]."""
FILE = """
schema: bentpipe.experiment/1
name: {name}
nodes: {{names: [attic]}}
run: {{builtin: ping, args: {{target: {far}, seconds: {seconds}, every: 200ms}}}}
class: {kind}
when: {{every: {every}s}}
limits: {{slip: 20s, runs: 100000, bytes_per_run: 1MB}}
catch_up: none
"""
SETTLED_S = 180.0
"""How long runs may take to end after the last kill [s]."""


def connect() -> int:
    """Make the far end; return its namespace."""
    from pyroute2 import IPRoute

    far = new_network()
    with IPRoute() as ip:
        ip.link("set", index=1, state="up")
        ip.link("add", ifname="up0", kind="veth", peer={"ifname": "far0", "net_ns_fd": far})
        (index,) = ip.link_lookup(ifname="up0")
        ip.addr("add", index=index, address=NEAR, prefixlen=24)
        ip.link("set", index=index, state="up")
        ip.route("add", dst="default", gateway=FAR)

    def configure() -> None:
        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname="far0")
            ip.link("set", index=1, state="up")
            ip.addr("add", index=index, address=FAR, prefixlen=24)
            ip.link("set", index=index, state="up")

    in_network(far, configure)
    return far


class Program:
    """A program that is killed and started again."""

    def __init__(self, command: list[str], log: Path) -> None:
        """Start it."""
        self._command, self._log, self.kills = command, log, 0
        self.start()

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as file:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def kill(self) -> None:
        """Send SIGKILL, and start it again."""
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.start()

    def end(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def until(condition: Any, limit_s: float, name: str) -> None:  # noqa: ANN401 - a function
    """Wait for a condition. Raises `SystemExit`: it did not come."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        with contextlib.suppress(BentpipeError):
            if condition():
                return
        time.sleep(0.2)
    raise SystemExit(f"{name} within {limit_s:g} s did not come")


def run_world(folder: Path, kills: int, seed: int, quiet_s: float) -> dict[str, Any]:
    """Kill each program `kills` times at times drawn from `seed`, then none for `quiet_s` [s]; return the counts."""
    connect()
    python = [sys.executable, "-P", "-m", "bentpipe"]
    users, agents, home = free_port(), free_port(), folder / "home"
    up = [*python, "testbed", "up", "--home", str(home), "--listen", f"127.0.0.1:{users}"]
    orchestrator = Program([*up, "--agents", f"127.0.0.1:{agents}"], folder / "orchestrator.log")
    until((home / "admin.json").exists, 60, "the orchestrator's start")
    client = TestbedClient(f"http://127.0.0.1:{users}", credentials=home / "admin.json")
    token = client.make_join_token(name="attic").token
    (folder / "policy.yml").write_text(POLICY)
    node = ["--folder", str(folder / "node")]
    join = [*python, "node", "join", f"https://127.0.0.1:{agents}", token, "--name", "attic", "--dish", "none"]
    subprocess.run([*join, "--policy", str(folder / "policy.yml"), "--only", *node], check=True, capture_output=True)
    agent = Program([*python, "node", "run", *node], folder / "agent.log")
    try:
        until(lambda: client.node("attic").online and client.node("attic").report.runners, 60, "the node's report")
        for name, (kind, every, seconds) in EXPERIMENTS.items():
            client.submit(FILE.format(name=name, kind=kind, every=every, seconds=seconds, far=FAR))
        draw = random.Random(seed)
        for number in range(2 * kills):
            time.sleep(draw.uniform(0.5, 6.0))
            (agent, orchestrator)[number % 2].kill()
        until(lambda: client.node("attic").online, 120, "the node after the last kill")
        time.sleep(quiet_s)
        for name in EXPERIMENTS:
            client.cancel(name)
        begun_ms = time.time() * 1e3
        until(
            lambda: not [run for run in client.runs() if not _is_over(run, begun_ms)], SETTLED_S, "the end of all runs"
        )
        time.sleep(3)
        return judge(client, home / "store", begun_ms) | {"kills": [agent.kills, orchestrator.kills]}
    finally:
        agent.end()
        orchestrator.end()


def _is_over(run: Any, now_ms: float) -> bool:  # noqa: ANN401 - a view
    return run.state in ENDED or run.start_at_ms > now_ms


def judge(client: TestbedClient, store: Path, now_ms: float) -> dict[str, Any]:
    """Count what must not be, among runs that were due by `now_ms` [ms since 1970]."""
    runs = [run for run in client.runs() if run.state in ENDED and run.due_at_ms < now_ms]
    results = {path.parent.name: path.parent for path in store.glob("*/*/*/*/testbed.json")}
    done = [run for run in runs if run.state == "done"]
    by_due = Counter((run.plan, run.due_at_ms) for run in done)
    lost = [run.id for run in done if not (results.get(run.id, store / "none") / "run.json").exists()]
    spans = []
    for run in runs:
        path = results.get(run.id)
        record = json.loads((path / "testbed.json").read_text()) if path is not None else None
        if record is not None and record["began_at_ms"] is not None:
            spans.append((record["began_at_ms"], record["ended_at_ms"], record["work"]["booking_class"], run.id))
    overlaps = [
        (first[3], second[3])
        for number, first in enumerate(spans)
        for second in spans[:number]
        if "exclusive" in (first[2], second[2]) and first[0] < second[1] and second[0] < first[1]
    ]
    known = {run.id for run in client.runs()}
    return {
        "runs": len(runs),
        "states": dict(Counter(run.state for run in runs)),
        "lost": lost,
        "doubled": [due for due, count in by_due.items() if count > 1],
        "overlaps": overlaps,
        "without_reason": [run.id for run in runs if run.state != "done" and not run.reason],
        "unknown_results": [name for name in results if name not in known],
        "reasons": dict(Counter(f"{run.state}: {run.reason}" for run in runs if run.state != "done").most_common(12)),
    }


def main() -> int:
    """Run in a namespace of its own."""
    folder, kills, seed, quiet_s = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    linux.die_with_parent(os.getppid())
    linux.unshare(linux.CLONE_NEWNET)
    print(json.dumps(run_world(folder, kills, seed, quiet_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
