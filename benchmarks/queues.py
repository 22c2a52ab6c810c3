"""Cost per packet of each queue discipline, relative to drop-tail.

Unlike the other benchmarks this compares ours with ours: 1.5 is one and a half times the cost of drop-tail.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKETS = 1_000_000


def main() -> dict[str, float]:
    """Build and run the example; print each discipline's cost per packet as a multiple of drop-tail's."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "bentpipe-link", "--example", "queues"]
    subprocess.run(command, cwd=ROOT, check=True)
    program = ROOT / "target" / "release" / "examples" / "queues"
    output = subprocess.run([program, str(PACKETS)], check=True, capture_output=True, text=True).stdout
    ns = {name: float(value) for name, value in (line.split() for line in output.splitlines())}
    base = ns["drop_tail"]
    for name, cost in ns.items():
        print(f"queue_{name}: {cost / base:.2f} of drop-tail's cost ({cost:.0f} ns a packet)")
    return {f"queue_{name}_vs_drop_tail": cost / base for name, cost in ns.items() if name != "drop_tail"}
