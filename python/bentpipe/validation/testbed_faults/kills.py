"""Kills at named points, one after another, while runs go on."""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.schemas.states import ENDED
from bentpipe.validation.testbed_faults.judging import judge, overlapping_bookings
from bentpipe.validation.testbed_faults.points import POINTS, Kind
from bentpipe.validation.testbed_faults.world import World, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bentpipe.validation.postgresql import Server
    from bentpipe.validation.testbed_faults.points import Point

EXPERIMENTS = {
    "alone": (60, 5.0, "exclusive"),
    **{f"pings-{number}": (10, 2.5 * number, "normal") for number in range(4)},
}
"""Name → time between starts [s], first start [s], class."""
BATCH_S = 60
"""Experiments are submitted anew after so long [s]: planners have work, and a node's calendar stays short."""
REACHED_S = 60.0
"""How long a point may take to be reached [s]."""
TRIES = 4
"""How often a point is tried that was not reached."""
PAUSE_S = (0.0, 1.0)
"""Pause between a restart and the next order [s]."""
SETTLED_S = 120.0
"""How long nothing may change after the last kill before all runs have ended and all results arrived [s]."""
QUIET_S = 4.0
"""How long nothing may be left: the node still stops runs that were canceled, and keeps their results [s]."""


def trials(kinds: Mapping[Kind, int], draw: random.Random) -> list[Point]:
    """Return so many points of each kind, all of a kind about as often as the others, shuffled."""
    chosen: list[Point] = []
    for kind, count in kinds.items():
        points = [point for point in POINTS if point.kind == kind]
        draw.shuffle(points)
        chosen += [points[number % len(points)] for number in range(count)]
    draw.shuffle(chosen)
    return chosen


class Kills:
    """The kills of one world.

    Attributes:
        done: Kills by point.
        unreached: Points that were not reached in time.
    """

    def __init__(self, world: World, seed: int, on_kill: Callable[[], object]) -> None:
        """Prepare."""
        self._world, self._seed, self._on_kill = world, seed, on_kill
        self.done: Counter[tuple[str, str]] = Counter()
        self.unreached: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self, points: Sequence[Point]) -> None:
        """Carry out all: those in the agent and those in the orchestrator beside each other."""
        feeder = threading.Thread(target=self._guarded, args=(self._feed,))
        killers = []
        for number, program in enumerate(("agent", "orchestrator")):
            own = [point for point in points if point.program == program]
            killers.append(threading.Thread(target=self._guarded, args=(self._kill_all, own, number)))
        for thread in (feeder, *killers):
            thread.start()
        for thread in killers:
            thread.join()
        self._over.set()
        feeder.join()
        if self._error is not None:
            raise self._error

    def _guarded(self, function: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401 - the function's
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised where all end
            self._error = error
            self._over.set()

    def _feed(self) -> None:
        batch = 0
        while not self._over.is_set():
            for name, (every_s, after_s, kind) in EXPERIMENTS.items():
                self._world.submit(f"{name}{batch}", every_s, BATCH_S // every_s, kind=kind, after_s=after_s + 6)
            batch += 1
            self._over.wait(BATCH_S)

    def _kill_all(self, points: Sequence[Point], number: int) -> None:
        draw = random.Random(f"{self._seed} {number}")
        for point in points:
            if self._over.is_set():
                return
            for _ in range(TRIES):
                if self._over.is_set() or self._kill(point, draw.randint(1, point.most_calls)):
                    break
            time.sleep(draw.uniform(*PAUSE_S))

    def _kill(self, point: Point, calls: int) -> bool:
        world = self._world
        program = world.agent if point.program == "agent" else world.orchestrator
        program.order(point, calls, None if world.server is None else world.server.pid_file)
        if point.at_agent_start:
            world.agent.kill()
        is_done = program.was_carried_out(REACHED_S)
        with self._lock:
            if is_done:
                self.done[point.kind, point.name] += 1
                self._on_kill()
            else:
                self.unreached.append(f"{point.kind}: {point.name}")
        if is_done and point.victim == "itself":
            with contextlib.suppress(subprocess.TimeoutExpired):  # it was started again meanwhile
                program.process.wait(2)
            program.is_kept_up()
        elif point.victim == "postmaster" and world.server is not None:
            server = world.server
            until(lambda: not server.is_up, 10, "the end of the database's server")
            server.start()
        return is_done


def run_kills(
    folder: Path,
    kinds: Mapping[Kind, int],
    seed: int,
    on_kill: Callable[[], object] = lambda: None,
    *,
    server: Server | None = None,
    quiet_s: float = 12.0,
) -> dict[str, Any]:
    """Kill so many of each kind, then none for `quiet_s` [s]; return the counts."""
    with World(folder, server) as world:
        kills = Kills(world, seed, on_kill)
        kills.run(trials(kinds, random.Random(seed)))
        counts = settle(world, quiet_s)
        done = [{"kind": kind, "point": name, "kills": count} for (kind, name), count in sorted(kills.done.items())]
        return counts | {"kills": done, "unreached": kills.unreached}


def settle(world: World, quiet_s: float) -> dict[str, Any]:
    """Let runs go on for `quiet_s` [s], end the experiments, wait for the end of all runs; return the counts."""
    until(lambda: world.is_kept_up() and world.client.node(world.node).online, 120, "the node after the last kill")
    time.sleep(quiet_s)
    before = len(world.client.runs(state="done"))
    until(lambda: quiet_s == 0 or len(world.client.runs(state="done")) > before, SETTLED_S, "a run after the last kill")
    bookings = overlapping_bookings(world)
    end_ms = world.cancel_all()
    left, changed_s = -1, time.monotonic()
    while time.monotonic() - changed_s < (SETTLED_S if left else QUIET_S):  # what is left then is a fault, and counted
        before_left, left = left, _unsettled(world, end_ms)
        changed_s = time.monotonic() if left != before_left else changed_s
        time.sleep(0.5)
    return judge(world, end_ms, bookings)


def _unsettled(world: World, end_ms: float) -> int:
    """Return how many runs have not ended, and results not arrived."""
    spool = world.folder / "node" / "spool"
    return sum(run.state not in ENDED for run in world.runs(end_ms)) + sum(1 for _ in spool.iterdir())
