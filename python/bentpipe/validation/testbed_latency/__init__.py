"""Claim: a node starts a triggered run, and silences a preempted one, within a second, with the orchestrator down."""

from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.validation import Outcome, Row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_MS = 1000.0
"""Longest 99th percentile, for a start and for silence [ms] (issue 20)."""

SERVER_LIMIT_MS = 600.0
"""Longest 99th percentile of a server's data after its client's last beat [ms]: 500, and a tenth for two processors."""

COUNTS = {"bubblewrap": 200, "process": 50}
"""Repetitions for each runner."""

WORLDS = 2
"""Worlds in which a case is measured at once."""

PROGRAMS = ("alone", "with a server")

LONGEST_S = 1800.0
"""Time after which a measurement is given up [s]."""

Case = tuple[str, str]


def check(data: Path | None, on_progress: Callable[[float], None]) -> Outcome:
    """Measure firings and preemptions in namespaces of this machine; twelve minutes."""
    missing = [name for name in ("unshare", "nft", "bwrap", "setpriv", "iperf3") if _path(name) is None]
    if missing or os.geteuid() != 0:
        return Outcome("testbed-latency", skipped=f"needs root and {', '.join(missing) or 'nothing more'}")
    rows: list[Row] = []
    cells: list[dict[str, Any]] = []
    for number, (runner, count) in enumerate(COUNTS.items()):
        results = measure_cases([(runner, program) for program in PROGRAMS], count // WORLDS, WORLDS)
        for (_, program), worlds in results.items():
            rows += rows_of(f"{runner}, {program}", worlds)
            cells += [{"runner": runner, "program": program, **cycle} for each in worlds for cycle in each["cycles"]]
        on_progress((number + 1) / len(COUNTS))
    return Outcome("testbed-latency", rows, cells=cells)


def measure_cases(cases: list[Case], count: int, worlds: int = 1) -> dict[Case, list[dict[str, Any]]]:
    """Measure cases at once, each in some worlds.

    Raises:
        RuntimeError: A measurement failed.
    """
    with concurrent.futures.ThreadPoolExecutor(len(cases) * worlds) as pool:
        futures = {case: [pool.submit(_measure, *case, count) for _ in range(worlds)] for case in cases}
        return {case: [future.result() for future in each] for case, each in futures.items()}


def _path(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _measure(runner: str, program: str, count: int) -> dict[str, Any]:
    line = ["unshare", "-n", sys.executable, "-P", "-m", f"{__name__}.measure", runner, program, str(count)]
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=LONGEST_S, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{runner}, {program}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def rows_of(name: str, worlds: list[dict[str, Any]]) -> list[Row]:
    """Return the rows of a case."""
    cycles = [cycle for each in worlds for cycle in each["cycles"]]
    limits = {
        "packet_ms": ("condition in the feed → first packet", LIMIT_MS),
        "fired_ms": ("condition in the feed → firing (a window of 0.1 s)", None),
        "silent_ms": ("decision → last packet of the run, both ways", LIMIT_MS),
        "node_silent_ms": ("decision → last packet that the node sends", LIMIT_MS),
        "after_bye_ms": ("last message of the client → last packet of the server", None),
        "after_beat_ms": ("last beat → last packet of the server, bye lost", SERVER_LIMIT_MS),
    }
    rows = []
    for key, (quantity, limit_ms) in limits.items():
        times_ms = np.sort([cycle[key] for cycle in cycles if key in cycle])
        if not len(times_ms):
            continue
        p99_ms = float(np.quantile(times_ms, 0.99))
        within = None if limit_ms is None else p99_ms < limit_ms
        tolerance = "reported, no limit" if limit_ms is None else f"p99 < {limit_ms:g} ms"
        rows.append(Row(f"{name}: {quantity}", times_text(times_ms), "", tolerance, within))
    ends = [each["twice"]["states"] for each in worlds]
    is_done = all(each == ["preempted", "preempted", "done"] for each in ends)
    text = "; ".join(", ".join(each) for each in ends)
    rows.append(Row(f"{name}: two preemptions in a row", text, "", "preempted, preempted, done", is_done))
    return rows


def times_text(times_ms: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    """Return a distribution in words; the interval of the 99th percentile is that of 95 % of resampled ones."""
    rng = np.random.default_rng(20)
    p50_ms, p99_ms = np.quantile(times_ms, (0.5, 0.99))
    drawn = rng.choice(times_ms, (2000, len(times_ms)))
    low_ms, high_ms = np.quantile(np.quantile(drawn, 0.99, axis=1), (0.025, 0.975))
    most_ms = float(times_ms[-1])
    return (
        f"p50 {p50_ms:.0f} ms, p99 {p99_ms:.0f} ms ({low_ms:.0f} to {high_ms:.0f}), most {most_ms:.0f} ms,"
        f" n = {len(times_ms)}"
    )
