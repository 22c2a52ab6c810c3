"""`report.html`: one self-contained page, with its figures also as files beside it."""

from __future__ import annotations

import base64
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from bentpipe.errors import StoppedError
from bentpipe.experiments.flow_names import is_command
from bentpipe.files import atomic_write, replace_file
from bentpipe.plots import style
from bentpipe.plots.distributions import plot_cdfs, plot_destinations
from bentpipe.plots.overview import plot_overview
from bentpipe.plots.timeline import plot_sharing, plot_timeline
from bentpipe.report import content, world
from bentpipe.runs import text
from bentpipe.runs.commands import by_command
from bentpipe.runs.record import results_table
from bentpipe.runs.store import find_runs, safe_name, storing
from bentpipe.runs.summary import left_out, total_goodput_bps

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from bentpipe.runs.store import Run


MOST_DRAWN = 12
"""Largest number of Profiles, or of a program's commands, with figures on a page. Chosen here: their figures take about
4 MB, and half a minute on one slow core."""


class ReportInterruptedError(StoppedError):
    """Ctrl-C while the page was being written."""


def write_report(out: str | os.PathLike[str], on_progress: Callable[[float], None] | None = None) -> Path:
    """Write report.html, figures/*.png and results.csv from the Runs in `out`, into it; return the page's path.

    The same Runs give the same page: it has no timestamp. `on_progress` receives the share done (0 … 1).

    Raises:
        UserError: There is no Run, or one is damaged.
        StoreError: The disk cannot be written.
        ReportInterruptedError: Ctrl-C. An earlier page, if there was one, is unchanged.
    """
    out = Path(out)
    runs = content.sorted_runs(by_command(find_runs(out)))
    try:
        return _write(out, runs, on_progress)
    except KeyboardInterrupt as stop:
        raise ReportInterruptedError(
            f"interrupted: the page is not written; {text.plural(len(runs), 'Run')} stored in {out}; "
            f"bentpipe report {shlex.quote(str(out))} writes it"
        ) from stop


def _write(out: Path, runs: list[Run], on_progress: Callable[[float], None] | None) -> Path:
    page = content.parts(out, runs)
    artist = _Artist(out)
    with storing(out):
        artist.folder.mkdir(exist_ok=True)
        replace_file(out / "results.csv", results_table(runs).write_csv().encode())
        sections = thin(page)
        for done, (part, section) in enumerate(sections):
            labels = {other.title for owner, other in sections if owner is part}
            part_runs = [run for run in runs if run.experiment == part.experiment and run.label in labels]
            if not part.figures:
                artist.draw_part(part, part_runs)
            commands = max(1, MOST_DRAWN // len(sections))
            artist.draw_section(section, [run for run in part_runs if run.label == section.title], commands)
            if on_progress is not None:
                on_progress((done + 1) / len(sections))
    html = (
        environment("bentpipe.report", "pages")
        .get_template("report.html")
        .render(
            parts=page,
            start_up_heads=content.START_UP_HEADS,
            versions=sorted({str(run.record.versions.get("bentpipe")) for run in runs}),
            builds=_builds(runs),
            commands=content.repeat_commands(out, runs),
            runs=len(runs),
            on_kernel=any(run.world == "emulated" for run in runs),
            kernels=world.kernels(runs),
        )
    )
    with atomic_write(out / "report.html") as file:
        file.write(html.encode())
    return out / "report.html"


def thin(page: Sequence[content.Part]) -> list[tuple[content.Part, content.Section]]:
    """Return the sections to draw, each with its part: all, or `MOST_DRAWN` evenly spread.

    The parts and the other sections then state this, and the other sections lose the recipe of their path.
    """
    every = [(part, section) for part in page for section in part.sections]
    selected = [every[i] for i in spread(len(every), MOST_DRAWN)]
    if len(selected) == len(every):
        return selected
    for part, section in every:
        titles = [other.title for owner, other in selected if owner is part]
        part.thinned = (
            f"Figures show {len(titles)} of {text.plural(len(part.sections), 'Profile')}, so that the page stays small"
            f"{': ' + ', '.join(titles) if titles else ''}. Tables and results.csv cover all Profiles."
        )
        if not any(section is other for _, other in selected):
            section.thinned = "Figures and the recipe of this path are left out: the page covers many Profiles."
            section.recipe = []
    return selected


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` (2 or more) of the indices below `count`, evenly spread, including the first and last."""
    if count <= most:
        return list(range(count))
    return [i * (count - 1) // (most - 1) for i in range(most)]


def _builds(runs: Sequence[Run]) -> list[str]:
    """Return the builds of a world's Runs if there are several. Two worlds never share a build."""
    by_world: dict[str, set[str]] = {}
    for run in runs:
        by_world.setdefault(run.world, set()).add(str(run.record.versions.get("build")))
    return sorted(build for builds in by_world.values() if len(builds) > 1 for build in builds)


def _to_draw(every: Sequence[Run]) -> tuple[list[Run], list[str], bool]:
    """Select the Runs to draw.

    Runs without goodput are excluded: their axes would be empty.

    Returns:
        The Runs, the single-flow schemes without a drawable Run, and whether no Run is valid.
    """
    void = not any(run.record.valid for run in every)
    runs = [
        run
        for run in content.drawable_runs(every)
        if run.record.valid and any(flow["whole_run_bps"] > 0 for flow in run.flows)
    ]
    schemes = {run.scheme for run in runs}
    absent = [run for run in every if not run.record.valid and len(run.flows) == 1 and run.scheme not in schemes]
    return runs, list(dict.fromkeys(run.scheme for run in absent)), void


def environment(package: str, folder: str) -> Environment:
    """Return the templates of a package's folder. All inserted text is escaped."""
    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _queue(runs: Sequence[Run]) -> str:
    """Describe the values in the figure's queue panel."""
    if all("backlog_max_bytes" in run.links().columns for run in runs):
        return "Queue: peak backlog of each second; of several queues, the sum of their peaks."
    return "Queue: backlog at the end of each second; shorter peaks do not show."


class _Artist:
    """Draws figures into a folder and adds them to the page's data."""

    def __init__(self, out: Path) -> None:
        self.folder = out / "figures"

    def draw_part(self, part: content.Part, every: Sequence[Run]) -> None:
        runs, absent, void = _to_draw(every)
        if not runs:
            return
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

    def draw_section(self, section: content.Section, every: Sequence[Run], commands: int) -> None:
        """Draw the figures of a section; of programs, of at most `commands` commands."""
        runs, absent, void = _to_draw(every)
        if not runs:
            return
        if is_command(runs[0].scheme):
            self._draw_commands(section, runs, commands, void=void)
            return
        seed, why = content.shown_seed(runs)
        single = [run for run in runs if len(run.flows) == 1]
        first = [run for run in single if run.seed == seed]
        shared = [run for run in runs if len(run.flows) > 1 and run.seed == seed]
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
            section.figures.append(self._add(figure, section.anchor, "timeline", caption, void=void))
            caption = (
                "All seeds after the warm-up: goodput in short and in longer bins, and the latest RTT (the smoothed "
                "RTT of a kernel, which keeps no other)."
            )
            section.figures.append(
                self._add(plot_cdfs(single, absent=absent), section.anchor, "cdf", caption, void=void)
            )
        if shared:
            caption = f"Flows that share the path, {why}."
            section.figures.append(self._add(plot_sharing(shared), section.anchor, "sharing", caption, void=void))

    def _draw_commands(self, section: content.Section, runs: Sequence[Run], most: int, *, void: bool) -> None:
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
            figure = plot_timeline([shown]) if len(shown.flows) == 1 else plot_sharing([shown])
            section.figures.append(self._add(figure, section.anchor, f"command{i}", caption, void=void))

    def _add(self, figure: Figure, subject: str, kind: str, caption: str, *, void: bool) -> content.Figure:
        if void:
            style.stamp(figure, "not valid")
            caption = f"Runs that are not valid. {caption}"
        file = self.folder / f"{safe_name(subject)}-{kind}.png"
        style.save(figure, file)
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        return content.Figure(f"figures/{file.name}", f"data:image/png;base64,{data}", caption)
