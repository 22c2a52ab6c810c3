"""Latency under load and goodput of the example shaper over ten LEO paths, beside none and static caps.

    python tools/shaper_paths.py --for 30 -o out/shaper.json

Each upload is a Run of the emulator in real time; the whole takes the number of paths × 6 × the duration. The best
static cap is the one with the most goodput of those that halve the 95th percentile, else the one with the least. A
measurement that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import bentpipe as bp
from bentpipe.profiles.parquet import read_profile
from bentpipe.profiles.path import PathView

UPLOAD = Path(__file__).resolve().parents[1] / "examples" / "shaper" / "upload.py"
PATHS = (
    ("victoria", "seattle", "2026-05-10T09:00:00Z", 1),
    ("victoria", "seattle", "2026-05-12T19:00:00Z", 2),
    ("louvain", "london", "2026-05-10T09:00:00Z", 3),
    ("louvain", "london", "2026-05-12T20:00:00Z", 4),
    ("melbourne", "sydney", "2026-05-11T06:00:00Z", 5),
    ("canberra", "sydney", "2026-05-12T11:00:00Z", 6),
    ("tokyo", "tokyo", "2026-05-12T01:00:00Z", 7),
    ("oslo", "london", "2026-05-13T19:00:00Z", 8),
    ("dallas", "ashburn", "2026-05-13T01:00:00Z", 9),
    ("lisbon", "madrid", "2026-05-14T09:00:00Z", 10),
)
CAPS = (0.4, 0.6, 0.8)
"""Static caps, as shares of the path's mean capacity upwards."""


def main() -> None:
    """Run every shaper over every path, print a table, write JSON."""
    parser = argparse.ArgumentParser(description="Latency under load with and without the example shaper.")
    parser.add_argument("--for", dest="duration", type=float, default=30.0, help="duration of an upload [s]")
    parser.add_argument("-o", dest="out", type=Path, default=Path("out/shaper.json"))
    parser.add_argument("--paths", type=int, default=len(PATHS), help="number of paths")
    parser.add_argument("--tries", type=int, default=3, help="attempts at a valid Run")
    arguments = parser.parse_args()
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    results = known["paths"] if known.get("duration_s") == arguments.duration else []
    for site, to, start, seed in PATHS[len(results) : arguments.paths]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{site}-{to}-{seed}.parquet"
            bp.Profile.make(site=site, to=to, start=start, duration=60, seed=seed).write(file)
            mean_mbps = capacity_mbps(file)
            shapers = ["none", "adaptive", "blind", *(f"{share * mean_mbps:.2f}" for share in CAPS)]
            rows = [upload(file, shaper, arguments) for shaper in shapers]
        results.append({"path": file.stem, "mean_capacity_mbps": mean_mbps, "rows": rows})
        print(line(results[-1]), flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"duration_s": arguments.duration, "paths": results}, indent=1) + "\n")
    summarize(results)


def capacity_mbps(file: Path) -> float:
    """Return the mean capacity upwards [Mbit/s]."""
    view = PathView(read_profile(file))
    return float(view.capacity("up").means(np.array([0.0, view.duration_s]))[0]) / 1e6


def upload(file: Path, shaper: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one upload; the last attempt counts if none is valid, and says so."""
    command = [sys.executable, "-m", "bentpipe", "run", str(file), "--server", "iperf3 -s -1", "--"]
    command += [sys.executable, str(UPLOAD), "--for", str(arguments.duration), "--shaper", shaper]
    for _ in range(arguments.tries):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{file.stem}, {shaper}: {done.stderr.strip()[-500:]}")
        row: dict[str, Any] = json.loads(done.stdout) | {"valid": "not valid" not in done.stderr}
        if row["valid"]:
            break
    return row


def chosen(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of a path by shaper, with the best static cap."""
    rows = {row["shaper"]: row for row in result["rows"]}
    static = [row for row in result["rows"] if row["shaper"] not in ("none", "adaptive", "blind")]
    halved = [row for row in static if row["rtt_p95_ms"] <= rows["none"]["rtt_p95_ms"] / 2]
    best = max(halved, key=lambda row: row["goodput_mbps"]) if halved else min(static, key=lambda r: r["rtt_p95_ms"])
    return {name: rows[name] for name in ("none", "adaptive", "blind")} | {"best cap": best}


def line(result: dict[str, Any]) -> str:
    """Return a path's figures as text."""
    cells = [f"{name} {r['goodput_mbps']:.1f}/{r['rtt_p95_ms']:.0f}" for name, r in chosen(result).items()]
    return f"{result['path']:24} {result['mean_capacity_mbps']:5.1f} Mbit/s  {'  '.join(cells)}  [Mbit/s / p95 ms]"


def summarize(results: list[dict[str, Any]]) -> None:
    """Print the ratios that count."""
    for name in ("adaptive", "blind"):
        rows = [chosen(result) for result in results]
        delay = [row[name]["rtt_p95_ms"] / row["none"]["rtt_p95_ms"] for row in rows]
        goodput = [row[name]["goodput_mbps"] / row["best cap"]["goodput_mbps"] for row in rows]
        print(
            f"{name}: p95 over none's {np.median(delay):.2f} ({min(delay):.2f} to {max(delay):.2f}), goodput over the "
            f"best cap's {np.median(goodput):.2f} ({min(goodput):.2f} to {max(goodput):.2f}), n = {len(rows)}"
        )
    invalid = sum(not row["valid"] for result in results for row in result["rows"])
    print(f"{invalid} of {sum(len(result['rows']) for result in results)} Runs are not valid")


if __name__ == "__main__":
    main()
