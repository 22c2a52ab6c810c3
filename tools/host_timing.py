"""Effect of the timing model of simulated hosts on CUBIC and BBR: the table in docs/concepts/transport.md.

    python tools/host_timing.py

Goodput after the warm-up, and RTT samples of the whole Run: means over the seeds. The difference (ideal − linux-vm) is
paired by seed, with the 95 % interval of Student's t.
"""

from __future__ import annotations

from statistics import mean, stdev

from scipy.stats import t as student

import bentpipe as bp

SEEDS = 8
MODELS = ("linux-vm", "ideal")


def figures(path: bp.Profile, scheme: str, host_timing: str) -> list[tuple[float, float, float]]:
    """Return goodput [Mbit/s], median and 99th percentile of the RTT [ms] of each seed."""
    runs = bp.Experiment(path, scheme, seeds=SEEDS, host_timing=host_timing).simulate()
    rows = []
    for run in runs:
        rtts = run.samples()["rtt_latest_ms"].drop_nans().drop_nulls()
        goodput = run.summary()["goodput_bps"].sum() / 1e6
        rows.append((goodput, rtts.quantile(0.5, "linear"), rtts.quantile(0.99, "linear")))
    return rows


def main() -> None:
    """Print the table."""
    paths = {
        "100 Mbit/s, 40 ms": bp.Profile.preset("dumbbell:rate=100mbit,rtt=40ms,loss=1e-5", duration=30),
        "Louvain → London": bp.Profile.make(site="louvain", to="london", start="2026-05-10T09:00Z", duration=45),
    }
    print("| path | flow | figure | `linux-vm` | `ideal` | difference, 95 % interval |\n|---|---|---|---|---|---|")
    for label, path in paths.items():
        for scheme in ("cubic", "bbr"):
            linux, ideal = (figures(path, scheme, model) for model in MODELS)
            for i, name in enumerate(("goodput [Mbit/s]", "RTT p50 [ms]", "RTT p99 [ms]")):
                first, second = [row[i] for row in linux], [row[i] for row in ideal]
                gaps = [b - a for a, b in zip(first, second, strict=True)]
                half = student.ppf(0.975, SEEDS - 1) * stdev(gaps) / SEEDS**0.5
                interval = f"{mean(gaps) - half:+.2f} to {mean(gaps) + half:+.2f}"
                cells = f"{mean(first):.2f} | {mean(second):.2f} | {mean(gaps):+.2f} ({interval})"
                print(f"| {label} | {scheme} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
