"""Running a study, and what it leaves in its folder: figures, one JSON file, one page."""

from __future__ import annotations

import base64
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bentpipe.errors import BentpipeError, UserError
from bentpipe.files import atomic_write
from bentpipe.plots import style
from bentpipe.runs.store import storing
from bentpipe.studies import find_study
from bentpipe.studies.study import OnProgress, Request, Result, Row, Study


@dataclass(frozen=True)
class Done:
    """A study that was run, and where it lies.

    Attributes:
        study: Which.
        result: What it found.
        figures: Name of a figure → its file.
        page: One page with everything.
    """

    study: Study
    result: Result
    figures: Mapping[str, Path]
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """As ``study run --json`` prints it, and ``NAME.json`` has it."""
        return {
            "study": self.study.name,
            "title": self.study.title,
            "source": self.study.source,
            "rows": [row.to_dict() for row in self.result.rows],
            "verdicts": [asdict(verdict) for verdict in self.result.verdicts],
            "counterfactuals": [asdict(verdict) for verdict in self.result.counterfactuals],
            "basis": list(self.result.basis),
            "notes": list(self.result.notes),
            "figures": {name: file.name for name, file in self.figures.items()},
        }


def run_study(
    name: str,
    out: Path,
    *,
    quick: bool = False,
    data: Path | None = None,
    on_progress: OnProgress = lambda _: None,
    on: str | None = None,
) -> Done:
    """Run a study; write ``NAME-FIGURE.png``, ``NAME.json`` and ``NAME.html`` into `out`, which is made.

    Args:
        name: One of `bentpipe.studies.STUDIES`.
        out: Folder.
        quick: Less of everything.
        data: Folder or file with measurements; None: all is simulated.
        on_progress: Called with the share done, 0 to 1.
        on: A Dask scheduler, for studies whose Runs are a sweep; None: this machine.

    Raises:
        UserError: An unknown study, `data` that is not there, that cannot be read or that the study has no use for,
            `on` for one that has nothing to send there, `out` that is no folder.
        StoreError: The disk refuses.
    """
    study = find_study(name)
    if data is not None and not study.measured:
        raise UserError(f"{name} takes no measurements: everything in it is simulated; leave --data away")
    if on is not None and not study.sweeps:
        raise UserError(f"{name} is no sweep that a cluster could share; leave --on away")
    if data is not None and not data.exists():
        raise UserError(f"{data}: no such file or folder; wanted {study.measured} (docs/guides/studies.md)")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is not a folder; wanted one for the study's files")
    with storing(out):
        out.mkdir(parents=True, exist_ok=True)
    result = study.run(Request(out, quick, data, on_progress, on))
    check(study, result)
    if data is not None and not any(row.basis.startswith("measured") for row in result.rows):
        unused = (
            f"{data}: holds no {study.measured} that {name} can use, so all is simulated; a folder of logs becomes a "
            "measured Run with `bentpipe read`"
        )
        result = replace(result, notes=[unused, *result.notes])
    figures = {}
    for key, figure in result.figures.items():
        figures[key] = out / f"{name}-{key}.png"
        with storing(figures[key]):
            style.save(figure, figures[key])
    done = Done(study, result, figures, out / f"{name}.html")
    with atomic_write(out / f"{name}.json") as file:
        file.write(json.dumps(done.to_dict(), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    with atomic_write(done.page) as file:
        file.write(_page(done, quick=quick, data=data).encode())
    on_progress(1.0)
    return done


def check(study: Study, result: Result) -> None:
    """Refuses what no study may answer: no row, or a figure that is no number."""
    if not result.rows:
        raise BentpipeError(f"{study.name}: the study gave no row")
    for row in result.rows:
        for value in (row.published, row.ours):
            if value is not None and not math.isfinite(value):
                raise BentpipeError(f"{study.name}: {row.quantity} is {value}; a figure that is not known is None")


def figure_text(value: float | None, relation: str = "=") -> str:
    """A figure as people read it: four digits, with its limit's sign."""
    if value is None:
        return "–"
    return f"{'' if relation == '=' else relation + ' '}{value:.4g}"


def cells(row: Row) -> list[str]:
    """A row as the table shows it: quantity, unit, published, ours, ratio, source, basis."""
    published = figure_text(row.published, row.relation)
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
    return [row.quantity, row.unit, published, figure_text(row.ours), ratio, row.source, row.basis]


def _page(done: Done, *, quick: bool, data: Path | None) -> str:
    from bentpipe import __version__
    from bentpipe.report.build import environment

    command = ["bentpipe", "study", "run", done.study.name]
    command += ["--quick"] if quick else []
    command += ["--data", str(data)] if data is not None else []
    return (
        environment("bentpipe.report", "pages")
        .get_template("study.html")
        .render(
            study=done.study,
            version=__version__,
            rows=[cells(row) for row in done.result.rows],
            verdicts=done.result.verdicts,
            counterfactuals=done.result.counterfactuals,
            basis=done.result.basis,
            notes=done.result.notes,
            figures=[(name, _data_uri(file)) for name, file in done.figures.items()],
            command=shlex.join([*command, "-o", str(done.page.parent)]),
        )
    )


def _data_uri(file: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode('ascii')}"
