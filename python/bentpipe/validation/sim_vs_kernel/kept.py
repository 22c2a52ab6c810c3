"""The kernel's side of the comparison, kept as figures: they judge the simulator in minutes, and anywhere.

``validate sim-vs-kernel`` writes a file a cell into ``kernel/`` below its folder, look by look; those in ``kernel/``
beside this file are from whole comparisons. A cell's figures count only for the same realised Profile, phase and seed.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.files import atomic_write, read_text
from bentpipe.runs.figures import Figures, Side
from bentpipe.times import format_utc
from bentpipe.validation import OnProgress, Outcome
from bentpipe.validation.sim_vs_kernel.cells import CELLS, FULL, Cell, Effort
from bentpipe.validation.sim_vs_kernel.judge import Verdict, judge, known
from bentpipe.validation.sim_vs_kernel.paths import make_paths
from bentpipe.validation.sim_vs_kernel.rows import cell_of, rows_of
from bentpipe.validation.sim_vs_kernel.worlds import met, side, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.runs.store import Run
    from bentpipe.validation.sim_vs_kernel.worlds import Worlds

CLAIM = "kernel-kept"

FOLDER = "kernel"

HERE = Path(__file__).parent / FOLDER
"""Those that the package has."""


@dataclass(frozen=True)
class Kept:
    """A cell's kernel Runs, seed by seed from 0.

    Attributes:
        met: What each met, as `worlds.met` has it.
        figures: Of each.
        repeated: Of the first seeds once more.
        host: What is built into their kernel (`worlds.kernel_host`).
        made_on: Versions (emulator's build, kernel, machine) of each Run's world, without repetition.
        days: On which they ran (UTC), without repetition.
        why_invalid: Why not all of them count.
    """

    cell: Cell
    met: tuple[str, ...]
    figures: Side
    repeated: Side | None
    host: dict[str, int]
    made_on: tuple[dict[str, str], ...]
    days: tuple[str, ...]
    why_invalid: str | None


def keep(out: Path, worlds: Worlds) -> None:
    """Write the kernel's figures of a cell into `out`/kernel."""
    head = {**asdict(worlds.cell), "host": worlds.host, "why_invalid": worlds.why_invalid}
    _write(out / FOLDER / name_of(worlds.cell), head, _records(worlds.kernel), _records(worlds.repeated))


def extend(file: Path, cell: Cell, runs: Sequence[Run], host: Mapping[str, int]) -> int:
    """Put further Runs of the kernel, with the seeds that follow, behind those that a file has; how many it has then.

    Args:
        file: Of the cell; it need not be there.
        cell: Which.
        runs: In order of their seeds, all valid.
        host: What is built into their kernel (`worlds.kernel_host`).

    Raises:
        UserError: The file is none of these, or its kernel's is built otherwise.
    """
    old, there = [], 0
    if file.exists():
        there, before = len(read(file).met), json.loads(read_text(file))
        if before["host"] != dict(host):
            raise UserError(f"{file}: its kernel has {before['host']}, this one {dict(host)}; expected the same")
        old, again = before["runs"], before["repeated"]
    else:
        again = []
    if [run.seed for run in runs] != list(range(there, there + len(runs))):
        raise ValueError(f"seeds {[run.seed for run in runs]} do not follow the {there} that there are")
    _write(file, {**asdict(cell), "host": dict(host), "why_invalid": None}, [*old, *_records(runs)], again)
    return there + len(runs)


def _write(file: Path, head: dict[str, Any], runs: Sequence[dict[str, Any]], again: Sequence[dict[str, Any]]) -> None:
    lines, more = (",\n".join(json.dumps(one, allow_nan=False) for one in of) for of in (runs, again))
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as out:
        begin = json.dumps(head)[1:-1]
        out.write(f'{{{begin}, "runs": [\n{lines}\n], "repeated": [\n{more}\n]}}\n'.encode())


def name_of(cell: Cell) -> str:
    """The name of a cell's file."""
    return f"{cell.profile}.{cell.flows}.json"


def _records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the stored records of the kernel's Runs."""
    return [_record(run, figures) for run, figures in zip(runs, side(runs).runs, strict=True)]


def _record(run: Run, figures: Figures) -> dict[str, Any]:
    clock_ns = run.record.summary["emulator"]["clock_unix_ns"]
    return {
        "met": met(run),
        "day": format_utc(clock_ns)[:10],
        "versions": run.record.versions,
        "figures": {
            "goodput_bps": round(figures.goodput_bps),
            "shares": [round(share, 6) for share in figures.shares],
            "delay_ms": known(round(figures.delay_ms, 4)),
            "retransmit_rate": round(figures.retransmit_rate, 8),
            "lateness_ms": figures.lateness_ms,
            "seconds": {second: [round(ms, 1), count] for second, (ms, count) in figures.seconds.items()},
            "stolen": sorted(figures.stolen),
        },
    }


def read(file: Path) -> Kept:
    """Raises `UserError` for a file that is none of these."""
    try:
        data = json.loads(read_text(file))
        cell = Cell(data["profile"], data["flows"])
        runs, again = data["runs"], data["repeated"]
        if cell not in CELLS or not runs:
            raise ValueError("no such cell" if runs else "no Run")
        why = data["why_invalid"]
        return Kept(
            cell=cell,
            met=tuple(str(one["met"]) for one in runs),
            figures=_side(cell, runs),
            repeated=_side(cell, again) if again else None,
            host={str(name): int(value) for name, value in data["host"].items()},
            made_on=tuple(json.loads(one) for one in sorted({_versions(run) for run in (*runs, *again)})),
            days=tuple(sorted({str(run["day"]) for run in (*runs, *again)})),
            why_invalid=None if why is None else str(why),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UserError(
            f"{file}: no stored kernel results ({error!r}); expected a file that sim-vs-kernel writes"
        ) from error


def _versions(run: dict[str, Any]) -> str:
    versions = run["versions"]
    return json.dumps({name: str(versions[name]) for name in ("bentpipe", "build", "kernel", "machine")})


def _side(cell: Cell, runs: Sequence[dict[str, Any]]) -> Side:
    def number(value: Any) -> float:  # noqa: ANN401 - what a file has
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"{value!r} is no figure")
        return float(value)

    def one(kept: dict[str, Any]) -> Figures:
        late, shares = kept["lateness_ms"], tuple(number(share) for share in kept["shares"])
        if len(shares) != 1 + cell.flows.count("+"):
            raise ValueError(f"{len(shares)} shares of {cell.flows}")
        return Figures(
            goodput_bps=number(kept["goodput_bps"]),
            shares=shares,
            delay_ms=math.nan if kept["delay_ms"] is None else number(kept["delay_ms"]),
            retransmit_rate=number(kept["retransmit_rate"]),
            lateness_ms=None if late is None else (number(late[0]), number(late[1])),
            seconds={int(second): (number(ms), int(count)) for second, (ms, count) in kept["seconds"].items()},
            stolen=frozenset(int(second) for second in kept["stolen"]),
        )

    return Side(tuple(one(run["figures"]) for run in runs))


def hold(
    kept: Kept,
    path: Profile,
    out: Path,
    *,
    effort: Effort = FULL,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Verdict | str:
    """Simulate a cell and hold it against what is kept; or why that cannot be: the path is another.

    Args:
        kept: The kernel's side.
        path: What this version makes of the cell's Profile.
        out: Folder for the simulated Runs; what is there already is not run again.
        effort: How long the Runs are, and how many seeds of a pair the simulator has.
        on_progress: Called with the share done, 0 to 1.
    """
    n = len(kept.met)
    simulated = simulate(kept.cell, path, effort, n, out, kept.host, on_progress)
    if [met(run) for run in simulated[:n]] != list(kept.met):
        return "the figures are of another path than this version makes of it"
    more = side(simulated[n:]) if len(simulated) > n else None
    return judge(kept.cell, side(simulated[:n]), kept.figures, kept.why_invalid, more, kept.repeated)


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Hold the simulator against all that is kept, as a claim; skipped where nothing of it could be judged."""
    cells = [read(HERE / name_of(cell)) for cell in CELLS if (HERE / name_of(cell)).exists()]
    rows, judged, notes, done = [], [], [], 0.0
    work = [len(kept.met) if kept.cell.alone else FULL.simulated for kept in cells]
    with TemporaryDirectory() as scratch:
        lengths = {FULL.duration_s(kept.cell) for kept in cells}
        paths = {length: make_paths(length, data, Path(scratch) / f"trace-{length:g}")[0] for length in lengths}
        for kept, runs in zip(cells, work, strict=True):

            def on_cell_progress(part: float, done: float = done, runs: int = runs) -> None:
                on_progress((done + part * runs) / sum(work))

            path = paths[FULL.duration_s(kept.cell)][kept.cell.profile]
            with TemporaryDirectory() as out:
                verdict = hold(kept, path, Path(out), on_progress=on_cell_progress)
            if isinstance(verdict, str):
                notes.append(f"{kept.cell.profile}, {kept.cell.flows}: not judged, {verdict}")
            else:
                rows += rows_of(verdict)
                judged.append(cell_of(verdict))
            done += runs
    if missing := [f"{cell.profile} {cell.flows}" for cell in CELLS if cell not in {kept.cell for kept in cells}]:
        notes.append(f"nothing is kept of {', '.join(missing)}")
    kernels = sorted({versions["kernel"] for kept in cells for versions in kept.made_on})
    days = sorted({day for kept in cells for day in kept.days})
    notes.append(f"the kernel's side is kept: {', '.join(kernels)}; from {', '.join(days)}")
    return Outcome(CLAIM, rows, notes, skipped=None if judged else "none of what is kept could be judged", cells=judged)
