"""A partition of an hour, clocks that are off by an hour, full disks. The hours pass at once (`clocks`)."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.schemas.states import ENDED
from bentpipe.validation.testbed_faults.clocks import ClockFile
from bentpipe.validation.testbed_faults.kills import settle
from bentpipe.validation.testbed_faults.world import World, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOUR_S = 3600.0
LEAD_S = 3.0
"""How long before a start an hour's jump ends [s]."""
STARTED = "Ctrl-C ends it"
"""What the agent says when it has started."""
SLOWEST_S = 60.0
"""How long a run may take until its result waits at the node, on a machine that is busy [s]."""


class Forwarder:
    """Passes the connections of the agent on; while it is cut, nothing passes, and nothing is told."""

    def __init__(self, port: int) -> None:
        """Listen."""
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.is_cut = False
        self._lock = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            ready = self._selector.select(0.1)
            if self.is_cut:
                time.sleep(0.05)
                continue
            with self._lock:
                for key, _ in ready:
                    with contextlib.suppress(KeyError):
                        self._pass(key.fileobj)

    def _pass(self, ready: Any) -> None:  # noqa: ANN401 - a socket
        if ready is self._listener:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                near.close()
                return
            self._pairs[near], self._pairs[far] = far, near
            for each in (near, far):
                self._selector.register(each, selectors.EVENT_READ)
            return
        try:
            data = ready.recv(65536)
            if data:
                self._pairs[ready].sendall(data)
                return
        except OSError:
            pass
        self._drop(ready)

    def _drop(self, one: socket.socket) -> None:
        other = self._pairs.pop(one)
        self._pairs.pop(other, None)
        for each in (one, other):
            self._selector.unregister(each)
            each.close()

    def heal(self) -> None:
        """Pass new connections; those of before are gone."""
        with self._lock:
            for each in list(self._pairs):
                if each in self._pairs:
                    self._drop(each)
            self.is_cut = False


def partition(folder: Path, every_s: int) -> dict[str, Any]:
    """Cut a node off for an hour, in which it runs what is booked, and is killed once."""
    clocks = [ClockFile(folder / f"{name}.clock") for name in ("agent", "orchestrator")]
    ways: list[Forwarder] = []

    def through(port: int) -> int:
        ways.append(Forwarder(port))
        return ways[0].port

    with World(folder, agents_through=through, now_s=lambda: time.time() + clocks[0].passed_s) as world:
        (way,) = ways
        count = round(HOUR_S / every_s)
        world.submit("pings", every_s, count, after_s=30, slip_s=60)
        world.submit("alone", every_s, count, kind="exclusive", after_s=45, slip_s=60)
        until(lambda: len(world.client.runs(state="assigned")) == 2 * count, 60, "the calendar at the node")
        booked = sorted(world.client.runs(), key=lambda run: run.start_at_ms)
        begun_s = world.now_s()
        way.is_cut = True
        spool = world.folder / "node" / "spool"
        for number, run in enumerate(booked):
            _pass_until(clocks, world, run.start_at_ms / 1e3 - LEAD_S)
            until(lambda number=number: len(list(spool.glob("[!.]*"))) > number, SLOWEST_S, f"result {number + 1}")  # type: ignore[misc]
            if number == count:
                log = world.folder / "agent.log"
                starts = log.read_text().count(STARTED)
                world.agent.kill()
                until(lambda: log.read_text().count(STARTED) > starts, SLOWEST_S, "the agent's start")  # noqa: B023
        _pass_until(clocks, world, begun_s + HOUR_S)
        until(lambda: not world.client.node(world.node).online, 60, "the orchestrator notices")
        lost = len(world.client.runs(state="lost"))
        way.heal()
        until(lambda: len(world.client.runs(state="done")) == 2 * count, 120, "all results")
        return settle(world, 0.0) | {"booked": len(booked), "lost_meanwhile": lost}


def _pass_until(clocks: list[ClockFile], world: World, time_s: float) -> None:
    """Let time pass on all clocks until a time, if it has not come."""
    more_s = time_s - world.now_s()
    if more_s > 0:
        for clock in clocks:
            clock.set(passed_s=clock.passed_s + more_s)


def wrong_clock(folder: Path) -> dict[str, Any]:
    """Set the node's clock wrong by an hour, in both directions, while it runs, at a start, and while it is alone."""
    clock = ClockFile(folder / "agent.clock")
    ways: list[Forwarder] = []

    def through(port: int) -> int:
        ways.append(Forwarder(port))
        return ways[0].port

    with World(folder, agents_through=through) as world:
        (way,) = ways
        world.submit("pings", 10, 60, after_s=8)
        world.submit("alone", 30, 20, kind="exclusive", after_s=13)
        begun_s = time.time()
        is_tried = 0
        for error_s in (HOUR_S, -HOUR_S):
            for is_alone in (False, True):
                _await_done(world, is_alone=False)
                way.is_cut = is_alone
                clock.set(wall_error_s=error_s)
                _await_done(world, is_alone=is_alone)
                world.agent.kill()
                _await_done(world, is_alone=is_alone)
                way.heal()
                is_tried += 1
        counts = settle(world, 0.0)
        runs = [run for run in world.client.runs() if run.state == "done"]
        early = [run.id for run in runs if run.start_at_ms < begun_s * 1e3]
        off = [run.id for run in runs if (start := _began(world, run.id)) and not -100 < start - run.start_at_ms < 25e3]
        missed = [run.id for run in world.client.runs(state="missed") if "was not running" in run.reason]
        return counts | {"steps": is_tried, "off": early + off, "missed_by_clock": missed}


def _await_done(world: World, *, is_alone: bool) -> None:
    """Wait until a further run is done; at a node that is alone: until its result waits there."""
    if is_alone:
        spool = world.folder / "node" / "spool"
        before = {path.name for path in spool.glob("[!.]*")}
        until(lambda: {path.name for path in spool.glob("[!.]*")} - before, SLOWEST_S, "a result at the node")
        return
    done = len(world.client.runs(state="done"))
    until(lambda: len(world.client.runs(state="done")) > done, SLOWEST_S, "a run that is done")


def _began(world: World, run: str) -> float | None:
    for path in (world.folder / "home" / "store").glob(f"*/*/*/{run}/testbed.json"):
        began = json.loads(path.read_text())["began_at_ms"]
        return None if began is None else float(began)
    return None


@contextlib.contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a disk of this size on a folder: in this process's mount namespace alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    linux.mount("tmpfs", str(folder), "tmpfs", linux.MS_NOSUID, f"size={size_bytes},mode=755")
    yield folder


def fill(folder: Path, left_bytes: int) -> Path:
    """Fill a folder's disk but for some bytes; return the file that does."""
    import shutil

    file = folder / "filling"
    with file.open("wb") as opened, contextlib.suppress(OSError):
        while shutil.disk_usage(folder).free > left_bytes:
            opened.write(bytes(min(1 << 20, max(4096, shutil.disk_usage(folder).free - left_bytes))))
            opened.flush()
    return file


def full_disk_of_node(folder: Path) -> dict[str, Any]:
    """Fill the node's disk, between runs and during one; then make room."""
    with small_disk(folder / "node", 240_000_000) as disk, World(folder) as world:
        world.submit("pings", 10, 60, after_s=8, seconds=3)
        world.submit("more", 10, 60, after_s=13, seconds=3)
        runs = world.client.runs
        until(lambda: runs(state="done"), SLOWEST_S, "a run that is done")
        filling = fill(disk, 100_000_000)
        until(lambda: _reasons(world, "disk full"), SLOWEST_S, "a run that is refused")
        filling.unlink()
        for left_bytes in (0, 20_000):
            before = len(runs(state="done"))
            until(lambda: len(runs(state="done")) > before, SLOWEST_S, "runs after room")  # noqa: B023
            until(lambda: runs(state="running"), SLOWEST_S, "a run under way")
            filling = fill(disk, left_bytes)
            time.sleep(12)
            filling.unlink()
        before = len(runs(state="done"))
        until(lambda: len(runs(state="done")) > before, SLOWEST_S, "runs after room")
        return settle(world, 5.0)


def _reasons(world: World, text: str) -> list[str]:
    return [run.reason for run in world.client.runs() if run.state in ENDED and text in run.reason]


def full_disk_of_orchestrator(folder: Path) -> dict[str, Any]:
    """Fill the orchestrator's disk, database and store; start it anew meanwhile; then make room."""
    with small_disk(folder / "home", 40_000_000) as disk, World(folder) as world:
        world.submit("pings", 10, 60, after_s=8)
        runs = world.client.runs
        until(lambda: runs(state="done"), SLOWEST_S, "a run that is done")
        spool = world.folder / "node" / "spool"
        for left_bytes in (0, 20_000):
            filling = fill(disk, left_bytes)
            until(lambda: len(list(spool.glob("[!.]*"))) >= 2, SLOWEST_S, "results that wait at the node")
            world.orchestrator.kill()
            time.sleep(4)
            filling.unlink()
            until(lambda: world.orchestrator.is_kept_up() and not any(spool.glob("[!.]*")), 120, "all results")
        return settle(world, 0.0)


CONDITIONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "partition of 1 h": lambda folder: partition(folder, 300),
    "clock off by 1 h": wrong_clock,
    "node's disk full": full_disk_of_node,
    "orchestrator's disk full": full_disk_of_orchestrator,
}
"""Conditions by name."""
