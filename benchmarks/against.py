"""The dumbbell of this tree against that of an older commit: the cost of a refactoring, which may be 2 % at most.

Usage: python benchmarks/run.py against COMMIT

It builds the example `dumbbell` of both in the same way and runs them in turn. With valgrind it counts instructions,
which other work on the machine hardly changes; without, it compares CPU times.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import statistics
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dumbbell import SECONDS, build_example, cpu_and_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "bench" / "against"
LIMIT = 1.02
"""Largest ratio of a refactoring (this tree ÷ the commit)."""
SIMULATED_S = {"instructions": 20, "seconds of CPU": SECONDS}
"""Simulated time by what is counted; valgrind takes 50 times as long."""
ROUNDS = {"instructions": 3, "seconds of CPU": 11}


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """Check a commit out into a worktree below `OUT`, and remove it afterwards."""
    tree = OUT / "tree"
    remove = ["git", "worktree", "remove", "--force", str(tree)]
    # A killed benchmark leaves its worktree registered, even if its folder was removed since.
    subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
    if tree.exists():
        subprocess.run(remove, cwd=ROOT, check=True)
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=ROOT, check=True)
    try:
        yield tree
    finally:
        subprocess.run(remove, cwd=ROOT, check=True)


def count(program: Path, unit: str) -> float:
    """Run a dumbbell once; return its instructions or its CPU time [s]."""
    simulated_s = str(SIMULATED_S[unit])
    if unit != "instructions":
        return cpu_and_memory([str(program), simulated_s])[0]
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), simulated_s]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if collected is None:
        raise SystemExit(f"valgrind printed no count: {done.stderr[-200:]}")
    return float(collected[1])


def results_of(program: Path) -> str:
    """Return what the program prints about its simulation."""
    return subprocess.run([str(program), str(SECONDS)], capture_output=True, text=True, check=True).stdout


def name_of(commit: str) -> str:
    """Return the first twelve digits of a commit. Raises `SystemExit` if there is none of that name."""
    command = ["git", "rev-parse", "--verify", "--quiet", "--short=12", f"{commit}^{{commit}}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"against: no commit {commit!r}; expected one of this clone, such as HEAD~10")
    return done.stdout.strip()


def dumbbell_of(name: str) -> Path:
    """Return the dumbbell of a commit, built once by each compiler with each `RUSTFLAGS`."""
    version = subprocess.run(["rustc", "-V"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    build = hashlib.sha256(f"{version}{os.environ.get('RUSTFLAGS', '')}".encode()).hexdigest()[:8]
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / f"dumbbell-{name}-{build}"
    if not program.exists():
        with tree_of(name) as tree:
            shutil.copy2(build_example(tree, OUT / "target"), program)
    return program


def main(commit: str) -> dict[str, float]:
    name = name_of(commit)
    old = dumbbell_of(name)
    new = build_example(ROOT, Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")))
    unit = "instructions" if shutil.which("valgrind") else "seconds of CPU"
    rounds = ROUNDS[unit]
    ratios, counts = [], []
    for i in range(rounds):
        counts.append((count(new, unit), count(old, unit)))
        ratios.append(counts[-1][0] / counts[-1][1])
        print(f"  round {i + 1}/{rounds}: ours {counts[-1][0]:.6g}, {name} {counts[-1][1]:.6g} {unit}", flush=True)
    ratio = statistics.median(ratios)
    ours, its = (statistics.median(column) for column in zip(*counts, strict=True))
    verdict = "over" if ratio > LIMIT else "within"
    print(
        f"dumbbell_against_{name}: {ratio:.4f} (median of n = {rounds}, {min(ratios):.4f} to {max(ratios):.4f}: ours "
        f"{ours:.4g}, its {its:.4g} {unit} for {SIMULATED_S[unit]} s simulated); {verdict} {LIMIT}"
    )
    if results_of(new) != results_of(old):
        print("  the two simulate differently: part of the ratio is the results' change")
    return {f"dumbbell_against_{name}": ratio}
