"""Draws the report's figures: as files, as embedded pictures, and as data of interactive charts."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import quote

from bentpipe.experiments.flow_names import is_command
from bentpipe.plots import style
from bentpipe.plots.distributions import plot_cdfs, plot_destinations
from bentpipe.plots.load_test import plot_load_test
from bentpipe.plots.overview import plot_overview
from bentpipe.plots.timeline import plot_sharing, plot_timeline
from bentpipe.report import charts, latency, rows
from bentpipe.report.place import SAFE
from bentpipe.report.selection import drawable_runs, shown_seed, spread
from bentpipe.runs.memory import MemoryRun
from bentpipe.runs.store import Run, safe_name
from bentpipe.runs.summary import left_out, total_goodput_bps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl
    from matplotlib.figure import Figure

    from bentpipe.report.charts import Chart

COLOURS = 128
"""Colours of an embedded picture: a quarter of the bytes, and no visible difference. The file beside it has all."""


def _to_draw(every: Sequence[Run]) -> tuple[list[Run], list[str], bool]:
    """Select the Runs to draw.

    Runs without goodput are excluded: their axes would be empty.

    Returns:
        The Runs, the single-flow schemes without a drawable Run, and whether no Run is valid.
    """
    void = not any(run.record.valid for run in every)
    runs = [
        run
        for run in drawable_runs(every)
        if run.record.valid and any((flow["whole_run_bps"] or 0.0) > 0 for flow in run.flows)
    ]
    schemes = {run.scheme for run in runs}
    absent = [run for run in every if not run.record.valid and len(run.flows) == 1 and run.scheme not in schemes]
    return runs, list(dict.fromkeys(run.scheme for run in absent)), void


def _is_of_test(run: Run) -> bool:
    return run.record.experiment.test is not None


def _queue(runs: Sequence[Run]) -> str:
    """Describe the values in the figure's queue panel."""
    if all("backlog_max_bytes" in run.links().columns for run in runs):
        return "Queue: peak backlog of each second; of several queues, the sum of their peaks."
    return "Queue: backlog at the end of each second; shorter peaks do not show."


MOST_HELD = 200
"""Largest number of Runs whose tables stay in memory at a time: 100 MB at 300 s each. Chosen here."""


@dataclass(frozen=True)
class HeldRun(Run):
    """A Run whose tables stay in memory once read: pictures and charts of a section read each several times."""

    tables: dict[str, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def _table(self, name: str) -> pl.DataFrame:
        if name not in self.tables:
            self.tables[name] = super()._table(name)
        return self.tables[name]


def _held(runs: list[Run]) -> list[Run]:
    """Return the Runs with tables that stay in memory, unless there are too many."""
    if len(runs) > MOST_HELD:
        return runs
    return [run if isinstance(run, MemoryRun) else HeldRun(run.path, run.record, settings=run.settings) for run in runs]


class Artist:
    """Draws figures into a folder and adds them to the page's data."""

    def __init__(self, folder: Path, most: int) -> None:
        """Draw into `folder`; a line of a chart has at most `most` points."""
        self.folder = folder
        self.most = most

    def draw_part(self, part: rows.Part, every: Sequence[Run]) -> None:
        """Draw the figures over all Profiles of an Experiment."""
        runs, absent, void = _to_draw(every)
        if not runs or _is_of_test(runs[0]):  # the flows of a test differ in direction and time
            return
        runs = runs if is_command(runs[0].scheme) else _held(runs)
        caption = (
            "Goodput of every scheme after the warm-up: mean over the runs, 95 % confidence interval, and a tick "
            "for every run."
        )
        part.figures.append(
            self._add(plot_overview(runs, left=left_out(every)), part.experiment, "overview", caption, void=void)
        )
        if any(len(run.flows) == 1 for run in runs):
            caption = (
                "After the warm-up. Boxes: one-second values of all runs, quartiles and median; whiskers to the last "
                "value within 1.5 × the box. Bars: share of segments retransmitted, mean of the runs; "
                "dots: each run."
            )
            if shared := dict.fromkeys(run.scheme for run in runs if len(run.flows) > 1):
                caption += f" Flows that share the path ({', '.join(shared)}) are excluded."
            part.figures.append(
                self._add(plot_destinations(runs, absent=absent), part.experiment, "destinations", caption, void=void)
            )

    def draw_section(self, section: rows.Section, every: Sequence[Run], commands: int) -> None:
        """Draw the figures of a section; of programs, of at most `commands` commands."""
        runs, absent, void = _to_draw(every)
        if not runs:
            return
        if is_command(runs[0].scheme):
            self._draw_commands(section, runs, commands, void=void)
            return
        runs = _held(runs)
        seed, why = shown_seed(runs)
        single = [run for run in runs if len(run.flows) == 1]
        first = [run for run in single if run.seed == seed]
        shared = [run for run in runs if len(run.flows) > 1 and run.seed == seed and not _is_of_test(run)]
        if pinged := [run for run in runs if run.seed == seed and run.pings and len(set(run.names)) == 1]:
            caption = (
                f"Latency under load, {why}: goodput of all flows down and up, and the RTT of pings. Ticks: lost. "
                "Grey: capacity of the path in each second."
            )
            drawn = [latency.chart(pinged, self.most)]
            figure = plot_load_test(pinged)
            section.figures.append(self._add(figure, section.anchor, "latency", caption, drawn, void=void))
        if first:
            caption = (
                f"Each controller alone, {why}: all on the same path at the same time. Top: serving satellite (and "
                "gateway or PoP, if that changes) and random loss. Triangles: handovers; thin lines: edges of the "
                "15 s slots. Grey: capacity of the path in each second. Goodput counts data when they arrive in "
                "order, so a filled gap can lift a second above the capacity. "
                f"{_queue(first)} Ticks above: tail drops in that second."
            )
            schemes = {run.scheme for run in first}
            missing = list(
                dict.fromkeys(run.scheme for run in every if len(run.flows) == 1 and run.scheme not in schemes)
            )
            figure = plot_timeline(first, absent=missing)
            chart = charts.timeline(first, self.most, missing)
            section.figures.append(self._add(figure, section.anchor, "timeline", caption, [chart], void=void))
            caption = (
                "All seeds after the warm-up: goodput in short and in longer bins, and the latest RTT (the smoothed "
                "RTT of a kernel, which keeps no other)."
            )
            figure, chart = plot_cdfs(single, absent=absent), charts.cdfs(single, self.most, absent)
            section.figures.append(self._add(figure, section.anchor, "cdf", caption, [chart], void=void))
        if shared:
            caption = f"Flows that share the path, {why}."
            drawn = [charts.sharing(run, self.most) for run in shared]
            section.figures.append(
                self._add(plot_sharing(shared), section.anchor, "sharing", caption, drawn, void=void)
            )

    def _draw_commands(self, section: rows.Section, runs: Sequence[Run], most: int, *, void: bool) -> None:
        """Draw each command's Run of median goodput, one figure each: Runs begin at different times of the path."""
        schemes = list(dict.fromkeys(run.scheme for run in runs))
        selected = spread(len(schemes), max(most, 2))
        if len(selected) < len(schemes):
            section.thinned = f"Figures show {len(selected)} of {len(schemes)} commands, so that the page stays small."
        for i in selected:
            scheme = schemes[i]
            group = sorted((run for run in runs if run.scheme == scheme), key=total_goodput_bps)
            shown = group[(len(group) - 1) // 2]
            which = f", the median by goodput of its {len(group)} Runs" if len(group) > 1 else ""
            caption = f"{style.scheme_name(scheme)}{which}. Grey: capacity of the path in each second."
            if len(shown.flows) == 1:
                figure, chart = plot_timeline([shown]), charts.timeline([shown], self.most)
            else:
                figure, chart = plot_sharing([shown]), charts.sharing(shown, self.most)
            section.figures.append(self._add(figure, section.anchor, f"command{i}", caption, [chart], void=void))

    def _add(
        self, figure: Figure, subject: str, kind: str, caption: str, drawn: Sequence[Chart] = (), *, void: bool
    ) -> rows.Figure:
        if void:
            caption = f"Runs that are not valid. {caption}"
        file = self.folder / f"{safe_name(subject)}-{kind}.png"
        uri = save_figure(figure, file, stamp="not valid" if void else "")
        link = quote(f"{self.folder.name}/{file.name}", safe=SAFE)
        return rows.Figure(link, uri, caption, tuple(drawn))


def save_figure(figure: Figure, file: Path, *, stamp: str = "") -> str:
    """Save a figure, with the text `stamp` across it if there is one; return it as a data URI for the page."""
    if stamp:
        style.stamp(figure, stamp)
    style.save(figure, file)
    return _embedded(file)


def _embedded(file: Path) -> str:
    """Return a picture as a data URI with `COLOURS` colours."""
    from PIL import Image  # part of Matplotlib

    small = BytesIO()
    with Image.open(file) as picture:
        few = picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.save(small, "png")
    return f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode('ascii')}"
