"""The report on measured Runs: what their tables have over time, and its quantiles, on one self-contained page."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.errors import printable
from bentpipe.files import atomic_write, replace_file
from bentpipe.measurements.runs.figures import LEVELS, TimeFigure, TimeSeries, figures_of
from bentpipe.plots.measured import COLOURS, plot_measured
from bentpipe.report import charts
from bentpipe.report.drawing import save_figure
from bentpipe.report.render import environment
from bentpipe.report.rows import Figure
from bentpipe.report.selection import spread
from bentpipe.runs import text
from bentpipe.runs.store import safe_name, storing
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bentpipe.measurements.runs.store import MeasuredRun
    from bentpipe.report.place import Place

MOST_DRAWN = 12
"""Largest number of measurements with figures on a page, as on a page about races."""
TERMINAL = "terminal"
"""Folder in a result of the testbed with the measured Run of the terminal, beside that of the experiment."""
EMULATION = "emulation"
"""Folder in such a result with the emulator's Run, of a run on an emulated path."""
RECORD = "testbed.json"
"""File in such a result: what the testbed knows of the run."""
START = re.compile(r"\d{8}T\d{6}Z")
"""Name of the folder of its start."""
OUTCOME = "builtin.json"
"""File in a result of the testbed: what its built-in experiment did, with figures that no table has."""
LONGEST = 160
"""Characters of a fact."""


@dataclass(frozen=True)
class Measurement:
    """A section: a measured Run, with the terminal's Run beside it.

    Attributes:
        runs: The Runs.
        figures: Of all their tables.
        facts: Name and value of what else is known.
        title: Site, start and, of a result of the testbed, experiment; no other measurement of the page has it.
        emulated: Runs of the emulator on whose paths it was measured; empty: on real ones.
        drawn: Its figures as pictures and charts.
    """

    runs: tuple[MeasuredRun, ...]
    figures: tuple[TimeFigure, ...]
    facts: tuple[tuple[str, str], ...]
    title: str
    emulated: tuple[Path, ...] = ()
    drawn: list[Figure] = field(default_factory=list)

    @property
    def why_invalid(self) -> str:
        """Why it is not to be trusted; empty: it is valid."""
        return "; ".join(run.record.why_invalid or "no reason" for run in self.runs if not run.record.valid)


def write_measured_report(
    place: Place, runs: Sequence[MeasuredRun], on_progress: Callable[[float], None] | None = None
) -> Path:
    """Write the page, its figures and ``results.csv``; return the page's path.

    Raises:
        UserError: A table is missing or damaged.
        StoreError: The disk cannot be written.
    """
    measurements = _with_own_titles([_measurement(group) for group in _grouped(runs)])
    overview = _overview(measurements)
    with storing(place.page.parent):
        place.figures.mkdir(parents=True, exist_ok=True)
        replace_file(place.results, _results(measurements).write_csv().encode())
        pictures = [_draw(place, overview, "overview", measurements[0])] if overview else []
        shown = spread(len(measurements), MOST_DRAWN)
        for done, number in enumerate(shown, 1):
            measured = measurements[number]
            if measured.figures:
                name = f"{number:04d}-{safe_name(measured.title)}"
                measured.drawn.append(_draw(place, measured.figures, name, measured))
            if on_progress is not None:
                on_progress(done / len(shown))
    html = (
        environment("bentpipe.report", "pages")
        .get_template("measured.html")
        .render(
            measurements=measurements,
            overview=pictures,
            left_out=len(measurements) - len(shown),
            levels=list(LEVELS),
            is_interactive=bool(pictures) or any(measured.drawn for measured in measurements),
            versions=sorted({str(run.record.versions.get("bentpipe")) for run in runs}),
            results=place.link(place.results),
            link=place.link,
            scaled=_scaled,
        )
    )
    with atomic_write(place.page) as file:
        file.write(html.encode())
    return place.page


def _grouped(runs: Sequence[MeasuredRun]) -> list[tuple[MeasuredRun, ...]]:
    """Put the terminal's Run of a result of the testbed to the experiment's."""
    by_folder = {run.path: run for run in runs}
    groups: list[tuple[MeasuredRun, ...]] = []
    for folder, run in by_folder.items():
        if folder.name == TERMINAL and folder.parent in by_folder:
            continue
        beside = by_folder.get(folder / TERMINAL)
        groups.append((run,) if beside is None else (run, beside))
    return groups


def _measurement(runs: tuple[MeasuredRun, ...]) -> Measurement:
    first = runs[0]
    sources = [source for run in runs for source in run.record.sources]
    facts = [("Site", first.site), ("Begins", format_utc(first.start_unix_ns // 10**6 * 10**6))]
    facts += [("Source", f"{source.name} ({source.format})") for source in sources[:4]]
    facts += [("Note", note) for note in dict.fromkeys(note for source in sources for note in source.notes)]
    if not all(source.clock == "utc" for source in sources):
        facts.append(("Clock", "only differences of its times have a meaning"))
    experiment = _experiment(first.path)
    if experiment:
        facts.append(("Experiment", experiment))
    facts += _outcome(first.path / OUTCOME)
    emulated = tuple(sorted(file.parent for file in (first.path / EMULATION).glob("**/run.json")))
    facts += [("Emulated path", str(path.relative_to(first.path))) for path in emulated]
    start = format_utc(first.start_unix_ns // 10**9 * 10**9)
    return Measurement(
        runs,
        tuple(figure for run in runs for figure in figures_of(run)),
        tuple((name, printable(value)[:LONGEST]) for name, value in facts),
        title=", ".join(filter(None, [printable(first.site), start, experiment])),
        emulated=emulated,
    )


def _experiment(folder: Path) -> str:
    """Return the name of the experiment of a result of the testbed, EXPERIMENT/NODE/START/RUN; empty: none."""
    start = folder.absolute().parent
    if not (folder / RECORD).is_file() or not START.fullmatch(start.name):
        return ""
    return printable(start.parent.parent.name)


def _with_own_titles(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Number those that have one title: they began in the same second."""
    counts: Counter[str] = Counter()
    own = []
    for measured in measurements:
        counts[measured.title] += 1
        count = counts[measured.title]
        own.append(measured if count == 1 else replace(measured, title=f"{measured.title} ({count})"))
    return own


def _outcome(file: Path) -> list[tuple[str, str]]:
    """Return the facts of a built-in experiment; its file is a stranger's, and whatever does not fit is left out."""
    try:
        outcome: Any = json.loads(file.read_bytes())
        figures = dict(outcome["figures"])
        facts = [("Program", str(outcome["builtin"]))]
        if outcome["error"] is not None:
            facts.append(("Failure", str(outcome["error"])))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    return facts + [(str(name), line) for name, value in figures.items() if (line := _plain(value))][:20]


def _plain(value: object) -> str:
    """Return a scalar, or an object of scalars, in a line; empty: something else."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {line}" for name, each in value.items() if (line := _plain(each)))
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if isinstance(value, (str, int)) else ""


def _overview(measurements: Sequence[Measurement]) -> tuple[TimeFigure, ...]:
    """Return the medians of several measurements over time, by site; nothing for one."""
    points: dict[str, tuple[TimeFigure, dict[str, list[tuple[int, float]]]]] = {}
    for measured in measurements:
        for figure in measured.figures:
            _, by_name = points.setdefault(figure.key, (figure, {}))
            for series in figure.series[:2] if len(figure.series) <= 2 else ():
                median = series.numbers()["median"]
                name = " ".join(filter(None, [measured.runs[0].site, series.name]))
                by_name.setdefault(name, []).append(
                    (measured.runs[0].start_unix_ns, np.nan if median is None else float(median))
                )
    drawn = []
    for figure, by_name in points.values():
        lines = [
            TimeSeries(name, np.array([at for at, _ in rows]), np.array([value for _, value in rows]))
            for name, unsorted in sorted(by_name.items())
            if len(rows := sorted(unsorted)) > 1
        ]
        if lines:
            title = f"{figure.title}, median of each measurement"
            drawn.append(replace(figure, title=title, series=tuple(lines[: len(COLOURS)]), marks_lost=False))
    return tuple(drawn)


def _draw(place: Place, figures: Sequence[TimeFigure], name: str, measured: Measurement) -> Figure:
    times = [int(each.unix_ns.min()) for figure in figures for each in figure.series if each.unix_ns.size]
    start = min(times)
    caption = f"Zero of the time is {format_utc(start // 10**6 * 10**6)}."
    if any(figure.marks_lost for figure in figures):
        caption += " Ticks: lost probes."
    file = place.figures / f"{name}.png"
    uri = save_figure(plot_measured(figures, start), file, stamp="not valid" if measured.why_invalid else "")
    return Figure(place.link(file), uri, caption, (_chart(figures, start, measured.runs[0].site),))


def _chart(figures: Sequence[TimeFigure], start_unix_ns: int, site: str) -> charts.Chart:
    """Return the interactive chart: a legend of all names, a panel for each figure."""
    names = list(dict.fromkeys(each.name or site for figure in figures for each in figure.series))
    entries = [charts.Entry(printable(name), COLOURS[i % len(COLOURS)]) for i, name in enumerate(names)]
    most = charts.points_per_line(sum(len(figure.series) for figure in figures))
    panels, end = [], 0.0
    for figure in figures:
        scale, unit = (1e-6, "Mbit/s") if figure.unit == "bit/s" else (1.0, figure.unit)
        lines, ticks = [], []
        for series in figure.series:
            entry = names.index(series.name or site)
            t_s = (series.unix_ns - start_unix_ns) / 1e9
            end = max(end, float(t_s.max(initial=0.0)))
            lines.append(charts.line(entry, t_s, series.values * scale, most))
            if figure.marks_lost and (lost := charts.times(t_s[np.isnan(series.values)])[:most]):
                ticks.append((entry, lost))
        panels.append(charts.Panel(figure.title, figure.title.partition(",")[0], unit, lines, ticks=ticks))
    return charts.Chart("time", "Over time", entries, panels, end or 1.0)


def _scaled(value: float | None, unit: str) -> str:
    return text.NONE if value is None else text.number(value * (text.MBIT if unit == "bit/s" else 1.0))


def _results(measurements: Sequence[Measurement]) -> pl.DataFrame:
    """Return one row for each line of each figure."""
    rows = []
    for measured in measurements:
        run = measured.runs[0]
        for figure in measured.figures:
            for series in figure.series:
                row = {"site": printable(run.site), "start_unix_ns": run.start_unix_ns, "figure": figure.key}
                row |= {"series": printable(series.name), "unit": figure.unit, **series.numbers()}
                rows.append({**row, "valid": not measured.why_invalid})
    return pl.DataFrame(rows, infer_schema_length=None)
