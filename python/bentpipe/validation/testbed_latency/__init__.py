"""Claim: a node starts a triggered run, and silences a preempted one, within a second, with the orchestrator down."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bentpipe.runs.made_on import made_on
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.measured import measured

LIMIT_MS = 1000.0
"""Longest 99th percentile, for a start and for silence [ms] (issue 20)."""

SERVER_LIMIT_MS = 600.0
"""Longest 99th percentile of a server's data after its client's last beat [ms]: 500, and a tenth for two processors."""

RUNNERS = ("bubblewrap", "process")
PROGRAMS = ("alone", "with a server")

COUNT, COUNT_QUICK = 200, 10
"""Repetitions of each program with each runner (issue 20)."""

PART = 50
"""Repetitions that are measured and stored together, in a world of their own."""

CYCLE_S, WORLD_S = 4.0, 20.0
"""About how long a repetition takes, and making a world and preempting a run twice [s]."""

LONGEST_S = 1800.0
"""Time after which a part is given up [s]."""

OUT = Path("out") / "testbed-latency"
"""Default folder for what was measured; ``--quick`` has its own beside it."""


def real_time_s(*, quick: bool) -> float:
    """Return about how long the measurement takes [s]."""
    count = COUNT_QUICK if quick else COUNT
    return len(RUNNERS) * len(PROGRAMS) * (count * CYCLE_S + -(-count // PART) * WORLD_S)


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Measure firings and preemptions in namespaces of this machine, one world at a time; needs no data."""
    del data
    missing = [name for name in ("unshare", "nft", "bwrap", "setpriv", "iperf3") if _path(name) is None]
    if missing or os.geteuid() != 0:
        return Outcome("testbed-latency", skipped=f"needs root and {', '.join(missing) or 'nothing more'}")
    folder = out or (OUT.with_name(f"{OUT.name}-quick") if quick else OUT)
    count = COUNT_QUICK if quick else COUNT
    parts = [(runner, program, first) for runner in RUNNERS for program in PROGRAMS for first in range(0, count, PART)]
    commit = made_on()["commit"]
    worlds: dict[str, list[dict[str, Any]]] = {}
    cells: list[dict[str, Any]] = []
    for number, (runner, program, first) in enumerate(parts):
        least = min(PART, count - first)
        settings = {"runner": runner, "program": program, "count": least, "commit": commit}
        file = folder / f"{runner}-{program.replace(' ', '-')}-{first}.json"
        progress = partial(_part_done, on_progress, number, len(parts))
        (world,) = measured(file, settings, partial(_one, runner, program, least, progress))
        worlds.setdefault(f"{runner}, {program}", []).append(world)
        cells += [{"runner": runner, "program": program, **cycle} for cycle in world["cycles"]]
        progress(1.0)
    rows = [row for name, each in worlds.items() for row in rows_of(name, each)]
    loads = [load for each in worlds.values() for world in each for load in world["load"]]
    notes = [f"load average of a minute at start and end of each world: {min(loads):.1f} to {max(loads):.1f}"]
    return Outcome("testbed-latency", rows, notes, cells=cells)


def _part_done(on_progress: OnProgress, number: int, parts: int, share: float) -> None:
    on_progress((number + share) / parts)


def _one(runner: str, program: str, count: int, on_progress: OnProgress) -> list[dict[str, Any]]:
    return [measure_part(runner, program, count, on_progress)]


def _path(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def measure_part(runner: str, program: str, count: int, on_progress: OnProgress = lambda _: None) -> dict[str, Any]:
    """Measure in one world, a process of its own; return its repetitions, its end, and the machine's load.

    Raises:
        RuntimeError: It failed: its last line.
    """
    line = ["unshare", "-n", sys.executable, "-P", "-m", f"{__name__}.measure", runner, program, str(count)]
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    before = os.getloadavg()[0]
    last = "no message"
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        limit = threading.Timer(LONGEST_S, process.kill)
        limit.start()
        try:
            for text in process.stderr:
                last = text.strip() or last
                if (words := text.split(maxsplit=1)) and words[0].isdigit():
                    on_progress((int(words[0]) + 1) / count)
            output = process.stdout.read()
        except BaseException:
            process.terminate()
            raise
        finally:
            limit.cancel()
    if process.returncode != 0:
        raise RuntimeError(f"{runner}, {program}: {last}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return {**result, "load": [before, os.getloadavg()[0]]}


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
