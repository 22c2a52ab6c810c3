"""Sweeps: a 5 × 4 grid of BBRv2 over 20 paths of 60 s at 100 Mbit/s, and two threads against one.

The grid has a limit in seconds (180 on two cores, calm); the ratio of two threads to one is measured on part of it.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from pathlib import Path

from bentpipe import preset_profile
from bentpipe.sweeps import race_jobs, run_sweep
from bentpipe.tuning import by_second

WINDOWS_MS = (1000, 2000, 3000, 4000, 5000)
THRESHOLDS = (0.02, 0.04, 0.08, 0.16)
PATHS, SECONDS = 20, 60


def jobs(paths: int) -> list:
    profiles = [
        preset_profile(f"dumbbell:rate=100mbit,rtt={30 + 2 * i}ms,queue=1bdp,loss=0.0001", duration_s=SECONDS)
        for i in range(paths)
    ]
    grid = itertools.product(WINDOWS_MS, THRESHOLDS)
    entrants = [f"bbr2:loss_thresh={loss},probe_rtt_win_ms={window}" for window, loss in grid]
    return race_jobs(profiles, entrants, measure=by_second)


def wall_s(work: list, threads: int | None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run_sweep(work, out=Path(folder), threads=threads)
        return time.perf_counter() - began


def main() -> dict[str, float]:
    part = jobs(2)
    one, two = min(wall_s(part, 1) for _ in range(2)), min(wall_s(part, 2) for _ in range(2))
    print(f"sweep_two_threads: {one / two:.2f} times one ({len(part)} Runs: {one:.1f} s and {two:.1f} s)")
    work = jobs(PATHS)
    whole = wall_s(work, None)
    cores = len(os.sched_getaffinity(0))
    print(f"sweep_grid: {len(work)} Runs of {SECONDS} s at 100 Mbit/s in {whole:.0f} s on {cores} cores")
    return {"sweep_two_threads": one / two, "sweep_grid_s": whole}


if __name__ == "__main__":
    main()
