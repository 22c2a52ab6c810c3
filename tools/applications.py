"""The same applications in the simulator and on this kernel: the table in docs/design/010-applications.md.

    python tools/applications.py

Medians over the Runs of the figure of a Run; needs a machine that can emulate.
"""

from __future__ import annotations

from statistics import median

import polars as pl

import bentpipe as bp

RUNS = 5
TRIES = 4
PATH = "dumbbell:rate=20mbit,rtt=40ms,queue=1bdp"
APPS = (
    "transfers:50kb",
    "transfers:1mb",
    "transfers:100kb,poisson=500ms",
    "request:200bytes/10kb",
    "request:200bytes/100kb",
    "paced:2mbit",
)


def emulated(experiment: bp.Experiment) -> bp.Run:
    """Return a valid Run on this kernel."""
    for _ in range(TRIES):
        run = experiment.emulate(careful=False)[0]
        if run.valid:
            return run
    raise SystemExit(f"no valid Run in {TRIES}: {run.why_invalid}")


def figures(run: bp.Run) -> tuple[float, float, float]:
    """Return complete items, their median duration and their 95th percentile [ms]."""
    items = run.applications().filter(pl.col("completed_s").is_finite())
    spans = 1e3 * (items["completed_s"] - items["start_s"])
    return float(items.height), float(spans.quantile(0.5, "linear") or 0), float(spans.quantile(0.95, "linear") or 0)


def main() -> None:
    """Print the table."""
    path = bp.Profile.preset(PATH, duration=20)
    print("| application | figure | simulated | this kernel | ratio |\n|---|---|---|---|---|")
    for app in APPS:
        experiment = bp.Experiment(path, flows=[bp.Flow("cubic", app=app)], duration=10)
        simulated = figures(experiment.simulate()[0])
        real = [median(each) for each in zip(*(figures(emulated(experiment)) for _ in range(RUNS)), strict=True)]
        for name, a, b in zip(("items", "median [ms]", "p95 [ms]"), simulated, real, strict=True):
            print(f"| `{app}` | {name} | {a:.4g} | {b:.4g} | {b / a:.3f} |", flush=True)


if __name__ == "__main__":
    main()
