"""Run a study and write its figures, JSON file and page."""

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
from bentpipe.runs.made_on import made_on
from bentpipe.runs.store import storing
from bentpipe.studies import find_study
from bentpipe.studies.study import LevelOrder, OnProgress, Request, Result, Row, Study

MOST_TRIALS = 1000
"""Most trials of a study in real time."""


@dataclass(frozen=True)
class Done:
    """A finished study and its files.

    Attributes:
        study: The study.
        result: Its result.
        figures: Name of a figure → its file.
        page: HTML page with all of it.
    """

    study: Study
    result: Result
    figures: Mapping[str, Path]
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``NAME.json``, which ``study run --json`` prints."""
        return {
            "study": self.study.name,
            "title": self.study.title,
            "source": self.study.source,
            "rows": [row.to_dict() for row in self.result.rows],
            "verdicts": [asdict(verdict) for verdict in self.result.verdicts],
            "counterfactuals": [asdict(verdict) for verdict in self.result.counterfactuals],
            "orders": [asdict(level) for level in self.result.orders],
            **({"by_profile": self.result.by_profile} if self.result.by_profile else {}),
            "basis": list(self.result.basis),
            "notes": list(self.result.notes),
            "figures": {name: file.name for name, file in self.figures.items()},
            "made_on": made_on(),
        }


def run_study(
    name: str,
    out: Path,
    *,
    quick: bool = False,
    data: Path | None = None,
    on_progress: OnProgress = lambda _: None,
    on: str | None = None,
    trials: int | None = None,
) -> Done:
    """Run a study and write ``NAME-FIGURE.png``, ``NAME.json`` and ``NAME.html`` into `out`.

    Args:
        name: One of `bentpipe.studies.STUDIES`.
        out: Folder; created if absent.
        quick: Use fewer paths and shorter Runs.
        data: Folder or file with measurements; None: simulate everything.
        on_progress: Called with the share done, 0 to 1.
        on: A Dask scheduler, for studies whose Runs are a sweep; None: this machine.
        trials: Number of trials, for studies in real time whose number it sets; None: the study's own.

    Raises:
        UserError: The study is unknown; `data` is absent, unreadable or not used by the study; `on` is given for a
            study that is no sweep, or `trials` for one without them; `out` is not a folder.
        StoreError: The files cannot be written.
    """
    study = find_study(name)
    if data is not None and not study.measured:
        raise UserError(f"given, but the study {name} is simulated", where="data", expected="none")
    if on is not None and not study.sweeps:
        raise UserError(f"given, but the study {name} is not a sweep", where="on", expected="none")
    if trials is not None and not study.trials:
        raise UserError(f"given, but the study {name} has no trials", where="trials", expected="none")
    if trials is not None and not 1 <= trials <= MOST_TRIALS:
        raise UserError(f"{trials}", where="trials", expected=f"1 to {MOST_TRIALS}")
    if data is not None and not data.exists():
        raise UserError(f"{data}: no such file or folder; expected {study.measured} (docs/guides/studies.md)")
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is not a folder; expected a folder for the study's files")
    with storing(out):
        out.mkdir(parents=True, exist_ok=True)
    result = study.run(Request(out, quick, data, on_progress, on, trials))
    check(study, result)
    if data is not None and not any(row.basis.startswith("measured") for row in result.rows):
        unused = (
            f"{data}: no {study.measured} that {name} can use, so everything is simulated; try `bentpipe read` to turn "
            "a folder of logs into a measured Run"
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
    """Refuse a result without rows or with a value that is not finite."""
    if not result.rows:
        raise BentpipeError(f"{study.name}: the study returned no row")
    for row in result.rows:
        for value in (row.published, row.ours):
            if value is not None and not math.isfinite(value):
                raise BentpipeError(
                    f"{study.name}: {row.quantity} is {value}; expected a finite value, or None if unknown"
                )


def figure_text(value: float | None, relation: str = "=") -> str:
    """Format a value with four digits, and with the sign of its limit."""
    if value is None:
        return "–"
    return f"{'' if relation == '=' else relation + ' '}{value:.4g}"


def cells(row: Row) -> list[str]:
    """Return a row's table cells: quantity, unit, published, ours, ratio, source, basis."""
    published = figure_text(row.published, row.relation)
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
    return [row.quantity, row.unit, published, figure_text(row.ours), ratio, row.source, row.basis]


ORDER_COLUMNS = ("path", "loss", "lost", "order", "goodput", "published order holds")
"""Columns of the table of orders."""


def order_cells(level: LevelOrder) -> list[str]:
    """Return a level's table cells, `ORDER_COLUMNS`."""
    lost = "–" if level.lost is None else f"{100 * level.lost:.3g} %"
    if level.published:
        return [level.path, "→ published", lost, level.order, "", level.published]
    goodput = ", ".join(f"{name} {value:.3g}" for name, value in level.values.items())
    holds = {True: "yes", False: "no", None: "undecided"}[level.holds]
    return [level.path, level.loss, lost, level.order, f"{goodput} {level.unit}".strip(), holds]


def _page(done: Done, *, quick: bool, data: Path | None) -> str:
    from bentpipe import __version__
    from bentpipe.report.render import environment

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
            order_columns=ORDER_COLUMNS,
            orders=[order_cells(level) for level in done.result.orders],
            basis=done.result.basis,
            notes=done.result.notes,
            figures=[(name, _data_uri(file)) for name, file in done.figures.items()],
            command=shlex.join([*command, "-o", str(done.page.parent)]),
        )
    )


def _data_uri(file: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode('ascii')}"
