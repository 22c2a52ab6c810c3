"""A network of 1,600 nodes against the dumbbell: CPU time per packet and link, in the same run.

1,000 flows of 1 Mbit/s for 10 s, each on a path of ten links that others use too. The dumbbell has one link. CPU time
of whole processes, interleaved, best of five each; packets are those that the simulator delivers to hosts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dumbbell import cpu_and_memory

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5
LINKS = 10
SECONDS = 10


def build(example: str) -> Path:
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "bentpipe-sim", "--example", example]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target" / "release" / "examples" / example


def delivered_packets(command: list[str]) -> int:
    """Packets that the program's last line reports."""
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return int(lines[-1].split(" packets")[0])


def main() -> dict[str, float]:
    network = [str(build("network")), str(SECONDS)]
    dumbbell = [str(build("dumbbell")), str(SECONDS)]
    crossings = delivered_packets(network) * LINKS
    packets = delivered_packets(dumbbell)
    wide, narrow, memory = [], [], 0
    for i in range(ROUNDS):
        cpu, peak = cpu_and_memory(network)
        wide.append(cpu / crossings)
        memory = max(memory, peak)
        narrow.append(cpu_and_memory(dumbbell)[0] / packets)
        costs = f"network {wide[-1] * 1e9:.0f} ns, dumbbell {narrow[-1] * 1e9:.0f} ns"
        print(f"  round {i + 1}/{ROUNDS}: {costs} per packet and link", file=sys.stderr)
    ratio = min(narrow) / min(wide)
    print(
        f"network_vs_dumbbell: {ratio:.2f} (best of {ROUNDS}: {min(wide) * 1e9:.0f} ns per packet and link in the "
        f"network, {min(narrow) * 1e9:.0f} ns in the dumbbell; {crossings / 1e6:.1f} million crossings; "
        f"peak memory {memory / 1e6:.0f} MB)"
    )
    return {"network_vs_dumbbell": ratio}


if __name__ == "__main__":
    main()
