"""Claim: kills at named points, a partition, wrong clocks and full disks lose, double and overlap nothing."""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.runs.made_on import made_on
from bentpipe.validation import Outcome, Row
from bentpipe.validation.measured import measured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KILLS, KILLS_QUICK = 100, 10
"""Kills of each kind (issue 20)."""
PART = 25
"""Kills of each kind in one world, measured and stored together."""
SEED = 20
"""Seed of points and times."""
TOGETHER = 3
"""Worlds at a time."""
KILL_S, WORLD_S, CONDITION_S = 5.0, 60.0, 300.0
"""About how long a kill takes, the end of a world, and a condition [s]."""
OUT = Path("out") / "testbed-faults"
"""Default folder for what was measured; ``--quick`` has its own beside it."""


def real_time_s(*, quick: bool) -> float:
    """Return about how long the claim takes [s].

    Example:
        >>> real_time_s(quick=True) < real_time_s(quick=False)
        True
    """
    worlds = orders(KILLS_QUICK if quick else KILLS, SEED)
    all_s = [sum(order["kills"].values()) * KILL_S + WORLD_S if "kills" in order else CONDITION_S for order in worlds]
    return sum(all_s) / TOGETHER


def orders(kills: int, seed: int) -> list[dict[str, Any]]:
    """Return the orders of all worlds of the claim: kills with SQLite, with PostgreSQL, and the conditions.

    Args:
        kills: Kills of each kind, in worlds of at most `PART`.
        seed: Seed of the first world of each database.
    """
    from bentpipe.validation.testbed_faults.conditions import CONDITIONS

    sqlite_kinds = ("orchestrator", "agent", "runner", "upload")
    parts = [(seed + n, min(PART, kills - first)) for n, first in enumerate(range(0, kills, PART))]
    return [
        *({"kills": dict.fromkeys(sqlite_kinds, count), "seed": each} for each, count in parts),
        *({"kills": {"database": count}, "seed": each} for each, count in parts),
        *({"condition": name} for name in CONDITIONS),
    ]


def run_apart(order: Mapping[str, Any], on_kill: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """Return the counts of one world (`trial`), made in a process of its own. Raises `RuntimeError`: its last line."""
    # Not below /tmp or /var/tmp: those of a run are its own.
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=f".testbed-faults-{os.getpid()}-") as folder,
        tempfile.TemporaryFile("w+") as errors,
    ):
        command = [sys.executable, "-P", "-m", "bentpipe.validation.testbed_faults.trial", folder, json.dumps(order)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            assert process.stdout is not None
            last = ""
            for line in process.stdout:
                if line == "kill\n":
                    on_kill()
                last = line
        if process.returncode != 0:
            errors.seek(0)
            raise RuntimeError(f"{json.dumps(order)}: {(errors.read().strip().splitlines() or ['no message'])[-1]}")
    counts: dict[str, Any] = json.loads(last)
    return counts


def run_all(
    all_orders: Sequence[Mapping[str, Any]],
    on_progress: Callable[[float], None] = lambda _: None,
    folder: Path | None = None,
) -> list[dict[str, Any]]:
    """Return the counts of several worlds, some at a time; progress counts kills.

    Args:
        all_orders: What to do in each.
        on_progress: Gets the share that is done.
        folder: Where the counts of each world are stored once it ended, and read from at the next call.
    """
    total = sum(_size(order) for order in all_orders)
    done, lock = 0, threading.Lock()
    commit = made_on()["commit"]

    def step(number: int = 1) -> None:
        nonlocal done
        with lock:
            done += number
            on_progress(min(done / total, 1.0))

    def run(number: int, order: Mapping[str, Any]) -> dict[str, Any]:
        steps = 0

        def on_kill() -> None:
            nonlocal steps
            steps += 1
            step()

        if folder is None:
            counts = run_apart(order, on_kill)
        else:
            settings = {"order": dict(order), "commit": commit}
            (counts,) = measured(folder / f"{number}.json", settings, lambda: [run_apart(order, on_kill)])
        step(_size(order) - steps)
        return counts

    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(run, range(len(all_orders)), all_orders))


def _size(order: Mapping[str, Any]) -> int:
    return sum(order.get("kills", {}).values()) or 10


def check(
    _: Path | None, on_progress: Callable[[float], None], *, quick: bool = False, out: Path | None = None
) -> Outcome:
    """Kill each program a hundred times, then the conditions; each world is stored, the same command continues."""
    from bentpipe.testbed.namespaces import linux
    from bentpipe.validation import postgresql
    from bentpipe.validation.testbed_faults.judging import FAULTS

    if not linux.has_capability(linux.CAP_SYS_ADMIN):
        return Outcome("testbed-faults", skipped="needs root: namespaces of runs")
    if postgresql.programs() is None:
        return Outcome("testbed-faults", skipped="needs PostgreSQL (apt install postgresql)")
    on_progress(0.0)
    number = KILLS_QUICK if quick else KILLS
    worlds = orders(number, SEED)
    results = run_all(worlds, on_progress, out or (OUT.with_name(f"{OUT.name}-quick") if quick else OUT))
    rows = []
    for name, meaning in FAULTS.items():
        count = sum(len(result[name]) for result in results)
        rows.append(Row(meaning, str(count), "0", "none", count == 0))
    kills = [each for result in results for each in result.get("kills", ())]
    by_kind = Counter[str]()
    for each in kills:
        by_kind[each["kind"]] += each["kills"]
    for kind, count in by_kind.items():
        points = len({each["point"] for each in kills if each["kind"] == kind})
        rows.append(Row(f"kills: {kind}", f"{count} at {points} points", str(number), "all", count == number))
    notes = []
    for order, result in zip(worlds, results, strict=True):
        title = order.get("condition") or f"kills of {', '.join(order['kills'])}, seed {order['seed']}"
        states = ", ".join(f"{count} {state}" for state, count in sorted(result["states"].items()))
        rows.append(Row(f"{title}: runs", f"{result['runs']}: {states}", "", "reported", None))
        if "booked" in result:
            ours = f"{result['states'].get('done', 0)} of {result['booked']}, {result['lost_meanwhile']} lost meanwhile"
            rows.append(Row(f"{title}: results", ours, "all", "all", result["states"] == {"done": result["booked"]}))
        if "off" in result:
            wrong = len(result["off"]) + len(result["missed_by_clock"])
            rows.append(Row(f"{title}: runs at a wrong time, or missed", str(wrong), "0", "none", wrong == 0))
        notes += [f"{title}: {count} × {reason}" for reason, count in result["reasons"].items() if count > 1]
        notes += [f"not reached in time: {point}" for point in result.get("unreached", ())]
        notes += [f"{title}: {name}: {each}" for name in FAULTS for each in result[name][:5]]
    on_progress(1.0)
    return Outcome("testbed-faults", rows, notes, cells=kills)
