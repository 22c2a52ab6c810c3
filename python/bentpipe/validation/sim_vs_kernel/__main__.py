"""Run further looks on the kernel: ``python -m bentpipe.validation.sim_vs_kernel OUT CELL ... [--data FOLDER]``.

For each cell (``leo-computed/cubic+bbr``) this machine's kernel runs the seeds up to the next look. The results are
appended to the stored ones (`reference`). So looks can be days apart, on a machine that is idle for an hour and not for
nine. Disturbed Runs are repeated, as in a whole comparison. At the first Run that stays invalid a cell ends; the same
command continues it. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bentpipe.errors import BentpipeError, UserError
from bentpipe.validation.sim_vs_kernel.cells import CELLS, FULL, Cell
from bentpipe.validation.sim_vs_kernel.paths import make_paths
from bentpipe.validation.sim_vs_kernel.reference import HERE, extend, name_of, read
from bentpipe.validation.sim_vs_kernel.worlds import calm, kernel_host, why_invalid


def run_next_look(cell: Cell, out: Path, data: Path | None, reference: Path = HERE) -> str:
    """Run a cell's next look, store it, and describe the result in one line.

    Raises:
        UserError: The machine cannot run it, or its kernel has other constants than that of the stored Runs.
    """
    file = reference / name_of(cell)
    there = len(read(file).met) if file.exists() else 0
    until = next((n for n in FULL.seeds(cell) if n > there), None)
    name = f"{cell.profile}/{cell.flows}"
    if until is None:
        return f"{name}: {there} seeds; no further look is planned"
    duration_s = FULL.duration_s(cell)
    path = make_paths(duration_s, data, out / f"trace-{duration_s:g}")[0][cell.profile]
    runs = []
    for seed in range(there, until):
        (run,) = calm(cell, path, FULL, [seed], out / name_of(cell).removesuffix(".json"), lambda _: None)
        if (why := why_invalid(run)) is not None:
            return f"{name}: seed {seed} is invalid: {why}; the same command continues there"
        runs.append(run)
        print(f"{name}: {there + len(runs)} of {until}", file=sys.stderr, flush=True)
    return f"{name}: {extend(file, cell, runs, kernel_host())} seeds stored"


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bentpipe.validation.sim_vs_kernel", description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the Runs")
    parser.add_argument("cells", nargs="+", help="as leo-computed/cubic+bbr")
    parser.add_argument("--data", type=Path, help="folder with the measurement for leo-measured")
    args = parser.parse_args()
    known = {f"{cell.profile}/{cell.flows}": cell for cell in CELLS}
    try:
        for name in args.cells:
            if name not in known:
                raise UserError(f"{name}: unknown cell; expected one of {', '.join(known)}")
        for name in args.cells:
            print(run_next_look(known[name], args.out, args.data))
    except BentpipeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
