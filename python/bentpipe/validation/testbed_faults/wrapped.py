"""``python -m bentpipe.validation.testbed_faults.wrapped PROGRAM FOLDER ARGS…``: run ``bentpipe ARGS…``, and kill it.

PROGRAM is ``agent`` or ``orchestrator``. Its named points (`points`) are wrapped before it begins. An order in the file
``FOLDER/PROGRAM.order`` says at which of them the next kill comes; the file goes when it comes. Its clocks are shifted
by ``FOLDER/PROGRAM.clock`` if there is one (`clocks`).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import random
import runpy
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bentpipe.validation.testbed_faults import clocks
from bentpipe.validation.testbed_faults.points import COMMIT, POINTS, Point

PART_BYTES = 1024
"""Bytes of one part of an upload here, so that a result has several."""

LONGEST_PAUSE_S = 2.0
"""Longest pause of the agent between two tries [s]: after a minute of kills it would be a minute."""


class Order:
    """The order in the file: kill at a call of a point."""

    def __init__(self, file: Path) -> None:
        """Read it when a point is reached."""
        self._file = file
        self._stamp = 0
        self._point: tuple[str, str] | None = None
        self._calls = 0
        self._postmaster: Path | None = None
        self._lock = threading.Lock()

    def reach(self, point: Point) -> bool:
        """Count a call of a point; return whether the kill comes now."""
        with self._lock:
            try:
                stamp = self._file.stat().st_mtime_ns
            except OSError:
                self._point = None
                return False
            if stamp != self._stamp:
                order = json.loads(self._file.read_text())
                self._stamp, self._point, self._calls = stamp, (order["kind"], order["name"]), order["calls"]
                self._postmaster = Path(order["postmaster"]) if order["postmaster"] else None
            if self._point != (point.kind, point.name):
                return False
            self._calls -= 1
            return self._calls == 0

    def carry_out(self, point: Point, arguments: tuple[Any, ...]) -> None:
        """Kill the point's victim. Without effect if it is gone already: the order stays."""
        victim = os.getpid()
        if point.victim in ("first process", "process 1", "its program"):
            victim = _process_of(arguments[-1].pid, point.victim)
        elif point.victim != "itself":
            assert self._postmaster is not None
            victim = _server_process(self._postmaster, point.victim)
        if victim == 0:
            self._calls = 1
            return
        self._file.unlink(missing_ok=True)
        os.kill(victim, signal.SIGKILL)


def _process_of(pid: int, victim: str) -> int:
    """Return the PID of a process of a run; 0: it is gone."""
    for _ in range({"first process": 0, "process 1": 1, "its program": 2}[victim]):
        if pid:
            pid = next(iter(_children(pid)), 0)
    return pid


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _server_process(pid_file: Path, victim: str) -> int:
    """Return the PID of a process of PostgreSQL; 0: there is none now."""
    try:
        postmaster = int(pid_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return 0
    if victim == "postmaster":
        return postmaster
    backends: list[int] = []
    helpers: list[int] = []
    for child in _children(postmaster):
        try:
            title = Path(f"/proc/{child}/cmdline").read_text()
        except OSError:
            continue
        words = title.replace("\0", " ").split()
        # "postgres: test t0 [local] idle in transaction" is a session, "postgres: checkpointer" a helper.
        (backends if len(words) > 3 and "[local]" in words else helpers).append(child)
    chosen: int = random.choice((backends if victim == "backend" else helpers) or [0])
    return chosen


def wrap(order: Order, point: Point) -> None:
    """Wrap the function of a point."""
    if point.place == COMMIT:
        _wrap_commit(order, point)
        return
    module, _, path = point.place.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    function = getattr(owner, name)

    def before(arguments: tuple[Any, ...]) -> None:
        if point.moment == "before" and order.reach(point):
            order.carry_out(point, arguments)
        if point.moment == "half" and order.reach(point):
            *others, part = arguments
            function(*others, part[: len(part) // 2])
            order.carry_out(point, arguments)

    def after(arguments: tuple[Any, ...], result: object) -> None:
        if point.moment == "after" and (result or not point.needs_result) and order.reach(point):
            order.carry_out(point, arguments)

    @functools.wraps(function)
    async def call_later(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any function
        before(arguments)
        result = await function(*arguments, **named)
        after(arguments, result)
        return result

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any function
        before(arguments)
        result = function(*arguments, **named)
        after(arguments, result)
        return result

    setattr(owner, name, call_later if inspect.iscoroutinefunction(function) else call)


def _wrap_commit(order: Order, point: Point) -> None:
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def kill_soon() -> None:
        time.sleep(random.uniform(0, 0.002))
        order.carry_out(point, ())

    @event.listens_for(Engine, "commit")
    def commit(_: object) -> None:
        if order.reach(point):
            threading.Thread(target=kill_soon, daemon=True).start()


def _end_with(parent: int) -> None:
    """End when the test has ended: its threads end before, so the kernel's signal for that is of no use."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    """Wrap, and run."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    program, folder = sys.argv[1], Path(sys.argv[2])
    clocks.shift(folder / f"{program}.clock")
    order = Order(folder / f"{program}.order")
    for point in POINTS:
        if point.program == program:
            wrap(order, point)
    if program == "agent":
        from bentpipe.testbed.agent import spool, supervision

        setattr(spool, "PART_BYTES", PART_BYTES)  # noqa: B010 - it is imported there
        supervision.Backoff.__init__.__defaults__ = (None, LONGEST_PAUSE_S)
    sys.argv[1:] = sys.argv[3:]
    runpy.run_module("bentpipe", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
