"""Simulator against ns-3: one CUBIC and one BBR flow, 100 Mbit/s, 40 ms, one BDP of drop-tail, 60 s.

CPU time of whole processes, interleaved, best of five each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "bench"
SECONDS = 60
ROUNDS = 5
NS3_MODULES = ["core", "network", "internet", "point-to-point", "applications", "traffic-control"]


def build_example(tree: Path, target: Path) -> Path:
    """Build the example of a checkout into a folder of Cargo's."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "bentpipe-sim", "--example", "dumbbell"]
    subprocess.run([*command, "--target-dir", str(target)], cwd=tree, check=True)
    return target / "release" / "examples" / "dumbbell"


def build_ns3() -> Path | None:
    """Build the peer; None: ns-3 (Debian: libns3-dev) or a C++ compiler is missing."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / "ns3_dumbbell"
    source = ROOT / "benchmarks" / "peers" / "ns3_dumbbell.cc"
    libraries = [f"-lns3-{module}" for module in NS3_MODULES]
    built = subprocess.run(
        [compiler, "-O2", "-std=c++17", str(source), "-o", str(program), *libraries], capture_output=True, check=False
    )
    return program if built.returncode == 0 else None


def cpu_and_memory(command: list[str]) -> tuple[float, int]:
    """Return CPU seconds and peak memory [bytes] of one run of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> dict[str, float]:
    ns3 = build_ns3()
    if ns3 is None:
        print("dumbbell_vs_ns3: skipped, ns-3 is not installed (Debian, Ubuntu: apt install libns3-dev g++)")
        return {}
    ours = build_example(ROOT, ROOT / "target")
    mine, theirs, memory = [], [], 0
    for i in range(ROUNDS):
        cpu, peak = cpu_and_memory([str(ours), str(SECONDS)])
        mine.append(cpu)
        memory = max(memory, peak)
        theirs.append(cpu_and_memory([str(ns3), f"--seconds={SECONDS}"])[0])
        print(f"  round {i + 1}/{ROUNDS}: ours {mine[-1]:.2f} s, ns-3 {theirs[-1]:.2f} s of CPU", file=sys.stderr)
    ratio = min(theirs) / min(mine)
    packets = SECONDS * 100e6 / 8 / 1500
    print(
        f"dumbbell_vs_ns3: {ratio:.1f} (best of {ROUNDS}: ours {min(mine):.3f} s, ns-3 {min(theirs):.2f} s of CPU; "
        f"{min(mine) / packets * 1e9:.0f} ns per data packet; peak memory {memory / 1e6:.0f} MB)"
    )
    return {"dumbbell_vs_ns3": ratio}


if __name__ == "__main__":
    main()
