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

from bentpipe.validation import Outcome, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KILLS = 100
"""Kills of each kind (issue 20)."""
SEED = 20
"""Seed of points and times."""
TOGETHER = 3
"""Worlds at a time."""


def orders(kills: int, seed: int) -> list[dict[str, Any]]:
    """Return the orders of all worlds of the claim: kills with SQLite, in two halves, with PostgreSQL, conditions."""
    from bentpipe.validation.testbed_faults.conditions import CONDITIONS

    kinds = ("orchestrator", "agent", "runner", "upload")
    halves = [{"kills": dict.fromkeys(kinds, count), "seed": seed + n} for n, count in enumerate(_halves(kills))]
    return [*halves, {"kills": {"database": kills}, "seed": seed}, *({"condition": name} for name in CONDITIONS)]


def _halves(number: int) -> tuple[int, int]:
    return number - number // 2, number // 2


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
    all_orders: Sequence[Mapping[str, Any]], on_progress: Callable[[float], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Return the counts of several worlds, some at a time; progress counts kills."""
    total = sum(sum(order.get("kills", {}).values()) or 10 for order in all_orders)
    done, lock = 0, threading.Lock()

    def step(number: int = 1) -> None:
        nonlocal done
        with lock:
            done += number
            on_progress(min(done / total, 1.0))

    def run(order: Mapping[str, Any]) -> dict[str, Any]:
        counts = run_apart(order, step)
        if "condition" in order:
            step(10)
        return counts

    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(run, all_orders))


def check(_: Path | None, on_progress: Callable[[float], None]) -> Outcome:
    """Kill each program a hundred times, then the conditions."""
    from bentpipe.testbed.namespaces import linux
    from bentpipe.validation import postgresql
    from bentpipe.validation.testbed_faults.judging import FAULTS

    if not linux.has_capability(linux.CAP_SYS_ADMIN):
        return Outcome("testbed-faults", skipped="needs root: namespaces of runs")
    if postgresql.programs() is None:
        return Outcome("testbed-faults", skipped="needs PostgreSQL (apt install postgresql)")
    on_progress(0.0)
    worlds = orders(KILLS, SEED)
    results = run_all(worlds, on_progress)
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
        rows.append(Row(f"kills: {kind}", f"{count} at {points} points", str(KILLS), "all", count == KILLS))
    notes = []
    for order, result in zip(worlds, results, strict=True):
        title = order.get("condition") or "kills of " + ", ".join(order["kills"])
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
