"""Further looks of the kernel's: ``python -m bentpipe.validation.sim_vs_kernel OUT CELL ... [--data FOLDER]``.

Of each cell (``leo-computed/cubic+bbr``) the seeds up to the next look are run on this machine's kernel and put behind
those that are kept beside this file (`kept`): so that looks can be made days apart, on a machine that is calm for an
hour and not for nine. Runs that something disturbed are tried again, as in a whole comparison; at the first that stays
not valid a cell ends, and goes on when the command is given again. With nothing else running.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bentpipe.errors import BentpipeError, UserError
from bentpipe.validation.sim_vs_kernel.cells import CELLS, FULL, Cell
from bentpipe.validation.sim_vs_kernel.kept import HERE, extend, name_of, read
from bentpipe.validation.sim_vs_kernel.paths import make_paths
from bentpipe.validation.sim_vs_kernel.worlds import calm, kernel_host, why_invalid


def look_again(cell: Cell, out: Path, data: Path | None, kept: Path = HERE) -> str:
    """Run a cell's next look and keep it; what came of it, in one line.

    Raises:
        UserError: What this machine cannot run, or a kernel that is built otherwise.
    """
    file = kept / name_of(cell)
    there = len(read(file).met) if file.exists() else 0
    until = next((n for n in FULL.seeds(cell) if n > there), None)
    name = f"{cell.profile}/{cell.flows}"
    if until is None:
        return f"{name}: {there} seeds, and no further look"
    duration_s = FULL.duration_s(cell)
    path = make_paths(duration_s, data, out / f"trace-{duration_s:g}")[0][cell.profile]
    runs = []
    for seed in range(there, until):
        (run,) = calm(cell, path, FULL, [seed], out / name_of(cell).removesuffix(".json"), lambda _: None)
        if (why := why_invalid(run)) is not None:
            return f"{name}: seed {seed} is not valid: {why}; the same command goes on from there"
        runs.append(run)
        print(f"{name}: {there + len(runs)} of {until}", file=sys.stderr, flush=True)
    return f"{name}: {extend(file, cell, runs, kernel_host())} seeds kept"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bentpipe.validation.sim_vs_kernel", description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the Runs")
    parser.add_argument("cells", nargs="+", help="as leo-computed/cubic+bbr")
    parser.add_argument("--data", type=Path, help="folder with the measurement for leo-measured")
    args = parser.parse_args()
    known = {f"{cell.profile}/{cell.flows}": cell for cell in CELLS}
    try:
        for name in args.cells:
            if name not in known:
                raise UserError(f"{name}: no such cell; there are: {', '.join(known)}")
        for name in args.cells:
            print(look_again(known[name], args.out, args.data))
    except BentpipeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
