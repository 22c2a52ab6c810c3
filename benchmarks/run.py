"""`make bench`: every benchmark as a ratio to its peer (its time ÷ ours, or our speed ÷ its), into out/bench.json.

Usage: python benchmarks/run.py [NAME]...
   or: python benchmarks/run.py against COMMIT    (this tree ÷ an older commit, see against.py)
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from bentpipe.runs.made_on import made_on

HERE = Path(__file__).resolve().parent
BENCHMARKS = [
    "dumbbell",
    "network",
    "queues",
    "constellation",
    "constellation_network",
    "sky",
    "emulator",
    "kernel_controllers",
    "logs",
    "sweep",
    "subscribers",
    "testbed_calendar",
]


def main() -> None:
    sys.path.insert(0, str(HERE))
    chosen = sys.argv[1:] or BENCHMARKS
    commit = []
    if chosen[0] == "against":
        chosen, commit = chosen[:1], chosen[1:]
        if len(commit) != 1:
            raise SystemExit("against: expected one commit, as in `python benchmarks/run.py against HEAD~10`")
    out = HERE.parent / "out" / "bench.json"
    out.parent.mkdir(exist_ok=True)
    results: dict[str, Any] = json.loads(out.read_text()) if out.exists() and sys.argv[1:] else {}
    # Ratios of one file may come from several runs: each says where it was made.
    places: dict[str, Any] = results.pop("made_on", {})
    here = made_on()
    for name in chosen:
        print(f"{name}:")
        ratios = importlib.import_module(name).main(*commit)
        results |= ratios
        places |= dict.fromkeys(ratios, here)
    out.write_text(json.dumps({**results, "made_on": places}, indent=2) + "\n")
    print(f"written: {out.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
