"""Race two controllers from your own location and print their goodput and RTT.

Usage: python own_race.py [FOLDER]
"""

import sys

import polars as pl

import bentpipe as bp

path = bp.Profile.make(site=(47.61, -122.33), to="ashburn", duration=40, seed=1)
runs = bp.Experiment(path, schemes=["cubic", "bbr"], duration=20, seeds=2).simulate()
for run in runs:
    (flow,) = run.summary().to_dicts()
    lost = run.links().filter(pl.col("direction") == "down")["drops_loss"].sum()
    # The two differ by their response to random loss: CUBIC reduces its window, BBR does not.
    print(
        f"{run.scheme:6} seed {run.seed}: {flow['goodput_bps'] / 1e6:6.1f} Mbit/s, median RTT "
        f"{flow['rtt_median_ms']:.0f} ms; the path lost {lost} packets at random in {run.duration_s:.0f} s"
    )
runs.report(f"{sys.argv[1] if len(sys.argv) > 1 else 'out/own_race'}/report.html")
