"""Race two controllers from your own location and print their goodput and RTT.

Usage: python own_race.py [FOLDER]
"""

import sys
from pathlib import Path

import bentpipe
from bentpipe.runs.path import raced_path

out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/own_race")
path = bentpipe.make_profile("47.61,-122.33", "ashburn", duration_s=40, seed=1)
runs = bentpipe.race([path], ["cubic", "bbr"], out=out, duration_s=20, seeds=2).runs
for run in runs:
    flow, met = run.flows[0], raced_path(run)
    mbps, rtt_ms = flow["goodput_bps"] / 1e6, flow["rtt_median_ms"]
    lossy_ms = 1e3 * sum(end - start for start, end in met.loss_episodes("down")) if met else float("nan")
    # The two differ by their response to random loss: CUBIC reduces its window, BBR does not.
    print(
        f"{run.scheme:6} seed {run.seed}: {mbps:6.1f} Mbit/s, median RTT {rtt_ms:.0f} ms; "
        f"the path lost packets at random for {lossy_ms:.0f} ms of {run.duration_s:.0f} s"
    )
