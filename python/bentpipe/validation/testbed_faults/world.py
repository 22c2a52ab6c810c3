"""A testbed in a network namespace of its own: an orchestrator, an agent with the process runner, and a far end.

Its programs are wrapped (`wrapped`), so that they can be killed at named points, and get other clocks.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from bentpipe.errors import BentpipeError
from bentpipe.testbed.client import TestbedClient
from bentpipe.testbed.namespaces.network import in_network, new_network
from bentpipe.testbed.schemas.quantities import at_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bentpipe.validation.postgresql import Server
    from bentpipe.validation.testbed_faults.points import Point

FAR, NEAR, HOP = "198.51.100.10", "203.0.113.1", "203.0.113.2"
"""The far end, the node, and the next hop between them: a run reaches no network of its host."""
POLICY = "schema: bentpipe.policy/1\nrunners: [process]\nmax_parallel: 6\nscavenger: {enabled: false}\n"
FILE = """
schema: bentpipe.experiment/1
name: {name}
nodes: {{names: [{node}]}}
run: {{builtin: ping, args: {{target: {far}, seconds: {seconds}, every: 200ms}}}}
class: {kind}
when: {{at: "{at}", every: {every}s}}
limits: {{slip: {slip}s, runs: {runs}, bytes_per_run: 1MB}}
catch_up: {catch_up}
"""


def connect() -> None:
    """Make the far end, which answers pings."""
    from pyroute2 import IPRoute

    far = new_network()
    with IPRoute() as ip:
        ip.link("set", index=1, state="up")
        ip.link("add", ifname="up0", kind="veth", peer={"ifname": "far0", "net_ns_fd": far})
        (index,) = ip.link_lookup(ifname="up0")
        ip.addr("add", index=index, address=NEAR, prefixlen=24)
        ip.link("set", index=index, state="up")
        ip.route("add", dst="default", gateway=HOP)

    def configure() -> None:
        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname="far0")
            ip.link("set", index=1, state="up")
            ip.addr("add", index=1, address=FAR, prefixlen=32)
            ip.addr("add", index=index, address=HOP, prefixlen=24)
            ip.link("set", index=index, state="up")

    in_network(far, configure)


class Program:
    """A wrapped program, which is killed and started again."""

    def __init__(self, name: str, folder: Path, arguments: list[str]) -> None:
        """Start it."""
        self.name, self._folder = name, folder
        module = "bentpipe.validation.testbed_faults.wrapped"
        self._command = [sys.executable, "-P", "-m", module, name, str(folder), *arguments]
        self._order = folder / f"{name}.order"
        self._lock = threading.Lock()  # two threads may see that it has ended
        self._start()

    def _start(self) -> None:
        with (self._folder / f"{self.name}.log").open("ab") as file:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def order(self, point: Point, calls: int, postmaster: Path | None = None) -> None:
        """Order the next kill: with that call of a point."""
        order = {"kind": point.kind, "name": point.name, "calls": calls, "postmaster": str(postmaster or "")}
        half = self._order.with_suffix(".half")
        half.write_text(json.dumps(order))
        half.replace(self._order)

    def was_carried_out(self, limit_s: float) -> bool:
        """Wait until the order was carried out; after the limit take it back, and return False."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            if not self._order.exists():
                return True
            if self.process.poll() is not None:  # it ended by itself, as an orchestrator without its database
                if not self._order.exists():
                    return True
                self.is_kept_up()
            time.sleep(0.02)
        try:
            self._order.unlink()
        except FileNotFoundError:
            return True
        return False

    def kill(self) -> None:
        """Send SIGKILL, and start it again."""
        with self._lock:
            self.process.kill()
            self.process.wait()
            self._start()

    def is_kept_up(self) -> bool:
        """Start it again if it has ended, as a unit of systemd does; return whether it had not."""
        with self._lock:
            if self.process.poll() is None:
                return True
            self._start()
            return False

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


def until(condition: Callable[[], object], limit_s: float, name: str) -> None:
    """Wait for a condition. Raises `SystemExit`: it did not come."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        with contextlib.suppress(BentpipeError):
            if condition():
                return
        time.sleep(0.1)
    raise SystemExit(f"{name} did not come within {limit_s:g} s")


class World:
    """A testbed with one node. Use it as a context manager.

    Attributes:
        folder: Its folder: ``home`` of the orchestrator, ``node`` of the agent, logs and orders.
        client: Its interface for users.
        orchestrator: Its first program.
        agent: Its second.
        server: Its PostgreSQL; None: SQLite.
        node: Name of its node: of this process alone.
        now_s: Its time [s since 1970].
    """

    def __init__(
        self,
        folder: Path,
        server: Server | None = None,
        agents_through: Callable[[int], int] = lambda port: port,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Start both programs; `agents_through` returns the port that the agent dials for the orchestrator's."""
        self.folder, self.server, self.now_s = folder, server, now_s
        # Control groups are the machine's: an agent removes all that a killed one of its name left.
        self.node = f"attic-{os.getpid()}"
        self._lock = threading.Lock()
        self._names: list[str] = []
        users, agents, home = free_port(), free_port(), folder / "home"
        up = ["testbed", "up", "--home", str(home), "--listen", f"127.0.0.1:{users}", "--agents", f"127.0.0.1:{agents}"]
        self.orchestrator = Program("orchestrator", folder, up if server is None else [*up, "--db", server.url])
        try:
            until((home / "admin.json").exists, 60, "the orchestrator's start")
            self.client = TestbedClient(f"http://127.0.0.1:{users}", credentials=home / "admin.json")
            until(lambda: self.client.nodes() is not None, 30, "an answer of the orchestrator")
            self._join(agents_through(agents))
            self.agent = Program("agent", folder, ["node", "run", "--folder", str(folder / "node")])
        except BaseException:
            self.orchestrator.end()
            raise

    def _join(self, port: int) -> None:
        (self.folder / "policy.yml").write_text(POLICY)
        token = self.client.make_join_token(name=self.node).token
        join = [sys.executable, "-P", "-m", "bentpipe", "node", "join", f"https://127.0.0.1:{port}", token]
        join += ["--name", self.node, "--dish", "none", "--policy", str(self.folder / "policy.yml"), "--only"]
        subprocess.run([*join, "--folder", str(self.folder / "node")], check=True, capture_output=True)

    def __enter__(self) -> World:
        """Wait until the node has told what it is."""
        try:
            until(lambda: self.client.node(self.node).report.runners, 60, "the node's report")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End both programs."""
        self.agent.end()
        self.orchestrator.end()

    def is_kept_up(self) -> bool:
        """Start programs again that have ended; return whether none had."""
        return all([self.orchestrator.is_kept_up(), self.agent.is_kept_up()])

    def submit(
        self,
        name: str,
        every_s: int,
        runs: int,
        *,
        kind: str = "normal",
        after_s: float = 1.0,
        slip_s: int = 20,
        catch_up: str = "none",
        seconds: float = 1.0,
    ) -> None:
        """Submit an experiment that begins in `after_s`; until it is taken."""
        at = at_text(round((self.now_s() + after_s) * 1000))
        times = {"at": at, "every": every_s, "slip": slip_s, "seconds": seconds}
        text = FILE.format(node=self.node, name=name, kind=kind, runs=runs, far=FAR, catch_up=catch_up, **times)
        key = uuid.uuid4().hex
        until(lambda: self.client.submit(text, key=key), 180, f"{name} is submitted")
        with self._lock:
            self._names.append(name)

    def cancel_all(self) -> float:
        """Cancel all experiments, and return the time [ms since 1970]."""
        for name in self._names:
            until(lambda name=name: self._is_canceled(name), 60, f"{name} is canceled")  # type: ignore[misc]
        return self.now_s() * 1e3

    def _is_canceled(self, name: str) -> bool:
        if self.client.experiment(name).state == "active":  # else it has ended, or an answer was lost
            self.client.cancel(name)
        return True

    def runs(self, before_ms: float) -> list[Any]:
        """Return the runs that start before a time."""
        return [run for run in self.client.runs() if run.start_at_ms <= before_ms]
