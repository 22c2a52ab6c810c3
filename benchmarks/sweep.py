"""Sweeps: a 5 × 4 grid of BBRv2 over 20 static dumbbells of 60 s at 100 Mbit/s, and the speed-up by two workers.

The grid has a limit in seconds (180 on two idle cores). The ratios of two threads to one, and of two Dask workers (a
process each, on this machine) to one, are measured on part of it. Computed paths cost more than dumbbells.
"""

from __future__ import annotations

import importlib
import itertools
import os
import tempfile
import time
from pathlib import Path

from bentpipe.execution.job import race_jobs
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.profiles.presets import preset_profile
from bentpipe.tuning.scores import by_second

WINDOWS_MS = (1000, 2000, 3000, 4000, 5000)
THRESHOLDS = (0.02, 0.04, 0.08, 0.16)
PATHS, SECONDS = 20, 60


def jobs(paths: int) -> list:
    profiles = [
        preset_profile(f"dumbbell:rate=100mbit,rtt={30 + 2 * i}ms,queue=1bdp,loss=0.0001", duration_s=SECONDS)
        for i in range(paths)
    ]
    grid = itertools.product(WINDOWS_MS, THRESHOLDS)
    schemes = [f"bbr2:loss_thresh={loss},probe_rtt_win_ms={window}" for window, loss in grid]
    return race_jobs(profiles, schemes, measure=by_second)


def wall_s(work: list, threads: int | None = None, on: str | None = None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run_sweep(work, out=Path(folder), threads=threads, on=on)
        return time.perf_counter() - began


def wall_on_workers_s(work: list, workers: int) -> float:
    """Measure on started workers that have loaded their modules, as a cluster's have."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(workers)
        client.run(importlib.import_module, "bentpipe.tuning")
        client.run(importlib.import_module, "bentpipe.execution.remote")
        return min(wall_s(work, on=cluster.scheduler_address) for _ in range(2))


def main() -> dict[str, float]:
    part = jobs(2)
    one, two = min(wall_s(part, 1) for _ in range(2)), min(wall_s(part, 2) for _ in range(2))
    print(f"sweep_two_threads: {one / two:.2f} times one ({len(part)} Runs: {one:.1f} s and {two:.1f} s)")
    alone, both = (wall_on_workers_s(part, workers) for workers in (1, 2))
    print(
        f"sweep_two_workers: {alone / both:.2f} times one ({len(part)} Runs: {alone:.1f} s and {both:.1f} s; one "
        f"worker takes {alone / one:.2f} times as long as one thread, two take {both / two:.2f} times two threads)"
    )
    work = jobs(PATHS)
    whole = wall_s(work, None)
    cores = len(os.sched_getaffinity(0))
    print(f"sweep_grid: {len(work)} Runs of {SECONDS} s at 100 Mbit/s in {whole:.0f} s on {cores} cores")
    return {"sweep_two_threads": one / two, "sweep_two_workers": alone / both, "sweep_grid_s": whole}


if __name__ == "__main__":
    main()
