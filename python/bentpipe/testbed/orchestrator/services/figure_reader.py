"""Print the figures of a result's tables as JSON: runs in a process with limits, and writes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.services.limited import limit_process
from bentpipe.testbed.schemas.figures import MOST_FIGURES, MOST_POINTS, EndFigures, FigureLine, ResultFigure

if TYPE_CHECKING:
    from bentpipe.measurements.runs.figures import TimeFigure, TimeSeries

LONGEST_S = 60.0
"""Longest time to read the tables of an end [s]."""


def read_figures(folder: Path) -> EndFigures:
    """Return the figures of a result: of its own Run, then of the terminal's. Raises any error: it is damaged."""
    from bentpipe.measurements.runs import read_measured
    from bentpipe.measurements.runs.figures import figures_of

    figures = [
        _thinned(figure)
        for place in (folder, folder / "terminal")
        if (place / "run.json").exists()
        for figure in figures_of(read_measured(place))
    ]
    return EndFigures(figures=tuple(figures[:MOST_FIGURES]))


def _thinned(figure: TimeFigure) -> ResultFigure:
    lines = tuple(_line(series) for series in figure.series)
    return ResultFigure(key=figure.key, title=figure.title, unit=figure.unit, marks_lost=figure.marks_lost, lines=lines)


def _line(series: TimeSeries) -> FigureLine:
    """Return a line with at most `MOST_POINTS` points that keeps extremes; lost values stay as far as they fit."""
    import numpy as np

    from bentpipe.errors import printable
    from bentpipe.report.charts import thin

    start = int(series.unix_ns[0]) if series.unix_ns.size else 0
    t_s, values = thin((series.unix_ns - start) / 1e9, series.values, MOST_POINTS)
    return FigureLine.check(
        {
            "name": printable(series.name)[:200],
            "at_ms": tuple(round(start / 1e6 + 1e3 * each) for each in t_s.tolist()),
            "values": tuple(float(f"{each:.5g}") if np.isfinite(each) else None for each in values.tolist()),
            **series.numbers(),
        },
        "line",
    )


def main() -> int:
    """Print the figures of the folder of the first argument, or the problem."""
    limit_process(LONGEST_S, Path(sys.argv[1]))
    try:
        text = read_figures(Path(sys.argv[1])).model_dump_json()
    except Exception as error:  # noqa: BLE001 - whatever a damaged file raises is its problem
        sys.stdout.write(f"{type(error).__name__}: {' '.join(str(error).split())[:250]}\n".replace(sys.argv[1], ""))
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
