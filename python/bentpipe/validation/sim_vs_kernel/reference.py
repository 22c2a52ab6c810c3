"""The kernel's side of the comparison as stored reference results: they judge the simulator in minutes, on any machine.

``validate sim-vs-kernel`` writes one file per cell into ``kernel/`` below its folder, look by look. Those in
``kernel/`` beside this file are from whole comparisons. A cell's results count only for the same realised Profile,
phase and seed.
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

CLAIM = "kernel-reference"

FOLDER = "kernel"

HERE = Path(__file__).parent / FOLDER
"""The stored results of the package."""


@dataclass(frozen=True)
class KernelReference:
    """The kernel's stored Runs of a cell, by seed from 0.

    Attributes:
        met: Identity of each Run's path (`worlds.met`).
        figures: Results of each Run.
        repeated: Results of the second Runs of the first seeds.
        host: Constants of their kernel (`worlds.kernel_host`).
        made_on: Distinct versions of the Runs' worlds (emulator's build, kernel, machine).
        days: Distinct days of the Runs (UTC).
        why_invalid: Why not all Runs count; None: all do.
    """

    cell: Cell
    met: tuple[str, ...]
    figures: Side
    repeated: Side | None
    host: dict[str, int]
    made_on: tuple[dict[str, str], ...]
    days: tuple[str, ...]
    why_invalid: str | None


def store_reference(out: Path, worlds: Worlds) -> None:
    """Write the kernel's results of a cell into `out`/kernel."""
    head = {**asdict(worlds.cell), "host": worlds.host, "why_invalid": worlds.why_invalid}
    _write(out / FOLDER / name_of(worlds.cell), head, _records(worlds.kernel), _records(worlds.repeated))


def extend(file: Path, cell: Cell, runs: Sequence[Run], host: Mapping[str, int]) -> int:
    """Append the kernel's Runs with the next seeds to a file; return the number of seeds that it has then.

    Args:
        file: The cell's file; it may be absent.
        cell: The cell.
        runs: Valid Runs, in order of their seeds.
        host: Constants of their kernel (`worlds.kernel_host`).

    Raises:
        UserError: The file has another content, or results of a kernel with other constants.
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
    """Return the name of a cell's file."""
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


def read(file: Path) -> KernelReference:
    """Read a cell's file.

    Raises:
        UserError: The file has another content.
    """
    try:
        data = json.loads(read_text(file))
        cell = Cell(data["profile"], data["flows"])
        runs, again = data["runs"], data["repeated"]
        if cell not in CELLS or not runs:
            raise ValueError("unknown cell" if runs else "no Run")
        why = data["why_invalid"]
        return KernelReference(
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
            f"{file}: no stored kernel results ({error!r}); expected a file written by sim-vs-kernel"
        ) from error


def _versions(run: dict[str, Any]) -> str:
    versions = run["versions"]
    return json.dumps({name: str(versions[name]) for name in ("bentpipe", "build", "kernel", "machine")})


def _side(cell: Cell, runs: Sequence[dict[str, Any]]) -> Side:
    def number(value: Any) -> float:  # noqa: ANN401 - JSON
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"{value!r} is not a number from 0")
        return float(value)

    def one(reference: dict[str, Any]) -> Figures:
        late, shares = reference["lateness_ms"], tuple(number(share) for share in reference["shares"])
        if len(shares) != 1 + cell.flows.count("+"):
            raise ValueError(f"{len(shares)} shares of {cell.flows}")
        return Figures(
            goodput_bps=number(reference["goodput_bps"]),
            shares=shares,
            delay_ms=math.nan if reference["delay_ms"] is None else number(reference["delay_ms"]),
            retransmit_rate=number(reference["retransmit_rate"]),
            lateness_ms=None if late is None else (number(late[0]), number(late[1])),
            seconds={int(second): (number(ms), int(count)) for second, (ms, count) in reference["seconds"].items()},
            stolen=frozenset(int(second) for second in reference["stolen"]),
        )

    return Side(tuple(one(run["figures"]) for run in runs))


def judge_reference(
    reference: KernelReference,
    path: Profile,
    out: Path,
    *,
    effort: Effort = FULL,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Verdict | str:
    """Simulate a cell and judge it against the stored results, or say why that is impossible: the path differs.

    Args:
        reference: The kernel's side.
        path: This version's Profile of the cell.
        out: Folder for the simulated Runs; Runs that it already has are not repeated.
        effort: Duration of the Runs, and seeds of a pair in the simulator.
        on_progress: Called with the part done, 0 to 1.
    """
    n = len(reference.met)
    simulated = simulate(reference.cell, path, effort, n, out, reference.host, on_progress)
    if [met(run) for run in simulated[:n]] != list(reference.met):
        return "its stored results have another path than this version makes"
    more = side(simulated[n:]) if len(simulated) > n else None
    return judge(
        reference.cell, side(simulated[:n]), reference.figures, reference.why_invalid, more, reference.repeated
    )


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Check the claim: judge the simulator against all stored results; skipped if no cell could be judged."""
    cells = [read(HERE / name_of(cell)) for cell in CELLS if (HERE / name_of(cell)).exists()]
    rows, judged, notes, done = [], [], [], 0.0
    work = [len(reference.met) if reference.cell.alone else FULL.simulated for reference in cells]
    with TemporaryDirectory() as scratch:
        lengths = {FULL.duration_s(reference.cell) for reference in cells}
        paths = {length: make_paths(length, data, Path(scratch) / f"trace-{length:g}")[0] for length in lengths}
        for reference, runs in zip(cells, work, strict=True):

            def on_cell_progress(part: float, done: float = done, runs: int = runs) -> None:
                on_progress((done + part * runs) / sum(work))

            path = paths[FULL.duration_s(reference.cell)][reference.cell.profile]
            with TemporaryDirectory() as out:
                verdict = judge_reference(reference, path, Path(out), on_progress=on_cell_progress)
            if isinstance(verdict, str):
                notes.append(f"{reference.cell.profile}, {reference.cell.flows}: not judged, {verdict}")
            else:
                rows += rows_of(verdict)
                judged.append(cell_of(verdict))
            done += runs
    if missing := [
        f"{cell.profile} {cell.flows}" for cell in CELLS if cell not in {reference.cell for reference in cells}
    ]:
        notes.append(f"no stored results of {', '.join(missing)}")
    kernels = sorted({versions["kernel"] for reference in cells for versions in reference.made_on})
    days = sorted({day for reference in cells for day in reference.days})
    notes.append(f"stored results of the kernel: {', '.join(kernels)}; of {', '.join(days)}")
    return Outcome(CLAIM, rows, notes, skipped=None if judged else "no stored result could be judged", cells=judged)
