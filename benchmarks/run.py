"""`make bench`: every benchmark as a ratio to its peer (its time ÷ ours, or our speed ÷ its), into out/bench.json."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCHMARKS = ["dumbbell", "network", "queues", "constellation", "sky", "emulator", "logs", "sweep"]


def main() -> None:
    sys.path.insert(0, str(HERE))
    chosen = sys.argv[1:] or BENCHMARKS
    out = HERE.parent / "out" / "bench.json"
    out.parent.mkdir(exist_ok=True)
    results: dict[str, float] = json.loads(out.read_text()) if out.exists() and sys.argv[1:] else {}
    for name in chosen:
        print(f"{name}:")
        results |= importlib.import_module(name).main()
    out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written: {out.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
