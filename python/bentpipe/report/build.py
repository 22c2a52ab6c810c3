"""`report.html`: one page that holds everything it shows, with its figures as files beside it."""

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
"""Profiles, or a program's commands, that a page has figures of. Chosen here: their figures take about 4 MB, and half a
minute on one slow core."""


class ReportInterruptedError(StoppedError):
    """Ctrl-C while the page was being made."""


def write_report(out: str | os.PathLike[str], on_progress: Callable[[float], None] | None = None) -> Path:
    """Write report.html, figures/*.png and results.csv from the Runs in `out`, into it; return the page's path.

    The same Runs give the same page: there is no clock in it. `on_progress` is told the share done (0 … 1).

    Raises:
        UserError: there is no Run, or one is damaged.
        StoreError: the disk refuses.
        ReportInterruptedError: Ctrl-C; an earlier page, if there was one, is still there.
    """
    out = Path(out)
    runs = content.in_order(by_command(find_runs(out)))
    try:
        return _write(out, runs, on_progress)
    except KeyboardInterrupt as stop:
        raise ReportInterruptedError(
            f"interrupted: the page is not drawn; {text.plural(len(runs), 'Run')} kept in {out}; "
            f"bentpipe report {shlex.quote(str(out))} draws it"
        ) from stop


def _write(out: Path, runs: list[Run], on_progress: Callable[[float], None] | None) -> Path:
    page = content.parts(out, runs)
    artist = _Artist(out)
    with storing(out):
        artist.folder.mkdir(exist_ok=True)
        replace_file(out / "results.csv", results_table(runs).write_csv().encode())
        sections = thin(page)
        for done, (part, section) in enumerate(sections):
            drawn = {other.title for owner, other in sections if owner is part}
            mine = [run for run in runs if run.experiment == part.experiment and run.label in drawn]
            if not part.figures:
                artist.draw_part(part, mine)
            commands = max(1, MOST_DRAWN // len(sections))
            artist.draw_section(section, [run for run in mine if run.label == section.title], commands)
            if on_progress is not None:
                on_progress((done + 1) / len(sections))
    html = (
        environment("bentpipe.report", "pages")
        .get_template("report.html")
        .render(
            parts=page,
            start_up_heads=content.START_UP_HEADS,
            versions=sorted({str(run.record["versions"].get("bentpipe")) for run in runs}),
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

    The parts and the other sections then say so, and these lose the recipe of their path.
    """
    every = [(part, section) for part in page for section in part.sections]
    drawn = [every[i] for i in spread(len(every), MOST_DRAWN)]
    if len(drawn) == len(every):
        return drawn
    for part, section in every:
        mine = [other.title for owner, other in drawn if owner is part]
        part.thinned = (
            f"Figures show {len(mine)} of {text.plural(len(part.sections), 'Profile')}, so that the page stays small"
            f"{': ' + ', '.join(mine) if mine else ''}. Tables are of all, as is results.csv; a folder of fewer "
            "Profiles has figures of each."
        )
        if not any(section is other for _, other in drawn):
            section.thinned = "Figures and the recipe of this path are left out: the page is of many Profiles."
            section.recipe = []
    return drawn


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` (2 or more) of the indices below `count`, evenly spread, with the first and the last."""
    if count <= most:
        return list(range(count))
    return [i * (count - 1) // (most - 1) for i in range(most)]


def _builds(runs: Sequence[Run]) -> list[str]:
    """The builds that one world's Runs are of, where they are several: the worlds' own are never one."""
    of: dict[str, set[str]] = {}
    for run in runs:
        of.setdefault(run.world, set()).add(str(run.record["versions"].get("build")))
    return sorted(build for builds in of.values() if len(builds) > 1 for build in builds)


def _to_draw(every: Sequence[Run]) -> tuple[list[Run], list[str], bool]:
    """The Runs to draw, the lone schemes of which none is drawn, and whether what is drawn is not valid.

    A Run over an outage has nothing but empty axes to show.
    """
    void = not any(run.record["valid"] for run in every)
    runs = [
        run
        for run in content.to_show(every)
        if run.record["valid"] and any(flow["whole_run_bps"] > 0 for flow in run.flows)
    ]
    drawn = {run.scheme for run in runs}
    lost = [run for run in every if not run.record["valid"] and len(run.flows) == 1 and run.scheme not in drawn]
    return runs, list(dict.fromkeys(run.scheme for run in lost)), void


def environment(package: str, folder: str) -> Environment:
    """Templates of a package's folder. Everything that comes from a file is escaped."""
    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _queue(runs: Sequence[Run]) -> str:
    """What the panel of the queue shows."""
    if all("backlog_max_bytes" in run.links().columns for run in runs):
        return "The queue is the most that waited in each second; of several queues, the sum of each one's most."
    return "The queue is read at the end of each second: what comes and goes in between does not show."


class _Artist:
    """Draws figures into a folder and puts them into the page's data."""

    def __init__(self, out: Path) -> None:
        self.folder = out / "figures"

    def draw_part(self, part: content.Part, every: Sequence[Run]) -> None:
        runs, absent, void = _to_draw(every)
        if not runs:
            return
        caption = (
            "Goodput of every scheme after the warm-up: mean over the runs, its 95 % confidence interval, and a tick "
            "for every run."
        )
        part.figures.append(
            self._keep(plot_overview(runs, left_out(every)), part.experiment, "overview", caption, void=void)
        )
        if any(len(run.flows) == 1 for run in runs):
            caption = (
                "After the warm-up. Boxes: one-second values of all runs, quartiles and median; whiskers to the last "
                "value within 1.5 × the box. Bars: share of segments retransmitted, mean of the runs; "
                "dots: each run."
            )
            if shared := dict.fromkeys(run.scheme for run in runs if len(run.flows) > 1):
                caption += f" Flows that share the path ({', '.join(shared)}) are not among them."
            part.figures.append(
                self._keep(plot_destinations(runs, absent), part.experiment, "destinations", caption, void=void)
            )

    def draw_section(self, section: content.Section, every: Sequence[Run], commands: int) -> None:
        """Draw what a section shows; of programs at most so many `commands`."""
        runs, absent, void = _to_draw(every)
        if not runs:
            return
        if is_command(runs[0].scheme):
            self._draw_commands(section, runs, commands, void=void)
            return
        seed, why = content.shown_seed(runs)
        alone = [run for run in runs if len(run.flows) == 1]
        first = [run for run in alone if run.seed == seed]
        shared = [run for run in runs if len(run.flows) > 1 and run.seed == seed]
        if first:
            caption = (
                f"Each controller alone, {why}: all met the same path at the same moments. Above: the satellite (and "
                "what else changes) that serves, and when packets are lost at random (loss). Triangles: "
                "handovers; thin lines: edges of the 15 s slots. Grey: what the path could have carried in each "
                "second; goodput counts data when they arrive in order, so a repaired gap can lift a second above it. "
                f"{_queue(first)} Ticks above it: it overflowed in that second."
            )
            there = {run.scheme for run in first}
            missing = list(
                dict.fromkeys(run.scheme for run in every if len(run.flows) == 1 and run.scheme not in there)
            )
            figure = plot_timeline(first, missing)
            section.figures.append(self._keep(figure, section.anchor, "timeline", caption, void=void))
            caption = (
                "All seeds after the warm-up: goodput in short and in longer bins, and the latest RTT (of "
                "a kernel the smoothed one, as it keeps no other)."
            )
            section.figures.append(self._keep(plot_cdfs(alone, absent), section.anchor, "cdf", caption, void=void))
        if shared:
            caption = f"Flows that share the path, {why}."
            section.figures.append(self._keep(plot_sharing(shared), section.anchor, "sharing", caption, void=void))

    def _draw_commands(self, section: content.Section, runs: Sequence[Run], most: int, *, void: bool) -> None:
        """Draw each command's Run in the middle by goodput by itself: each began at another moment of the path."""
        schemes = list(dict.fromkeys(run.scheme for run in runs))
        drawn = spread(len(schemes), max(most, 2))
        if len(drawn) < len(schemes):
            section.thinned = f"Figures show {len(drawn)} of {len(schemes)} commands, so that the page stays small."
        for i in drawn:
            scheme = schemes[i]
            group = sorted((run for run in runs if run.scheme == scheme), key=total_goodput_bps)
            shown = group[(len(group) - 1) // 2]
            which = f", the median by goodput of its {len(group)} Runs" if len(group) > 1 else ""
            caption = f"{style.scheme_name(scheme)}{which}. Grey: what the path could have carried in each second."
            figure = plot_timeline([shown]) if len(shown.flows) == 1 else plot_sharing([shown])
            section.figures.append(self._keep(figure, section.anchor, f"command{i}", caption, void=void))

    def _keep(self, figure: Figure, of: str, what: str, caption: str, *, void: bool) -> content.Figure:
        if void:
            style.stamp(figure, "not valid")
            caption = f"Of Runs that are not valid. {caption}"
        file = self.folder / f"{safe_name(of)}-{what}.png"
        style.save(figure, file)
        data = base64.b64encode(file.read_bytes()).decode("ascii")
        return content.Figure(f"figures/{file.name}", f"data:image/png;base64,{data}", caption)
