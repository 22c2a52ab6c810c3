"""A report: one self-contained page, with its figures also as files beside it."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import StoppedError
from bentpipe.files import atomic_write, replace_file
from bentpipe.measurements.runs.store import find_measured
from bentpipe.report import charts, content, latency, world
from bentpipe.report.drawing import Artist
from bentpipe.report.measured import write_measured_report
from bentpipe.report.place import Place
from bentpipe.report.render import environment
from bentpipe.report.repeat import repeat_commands
from bentpipe.report.selection import sorted_runs, spread
from bentpipe.report.tables import START_UP_COLUMNS
from bentpipe.runs import text
from bentpipe.runs.apart import distinguish
from bentpipe.runs.commands import by_command
from bentpipe.runs.failed import read_failed
from bentpipe.runs.memory import MemoryRun
from bentpipe.runs.record import results_table
from bentpipe.runs.store import MeasuredOnlyError, find_runs, run_folders, storing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from bentpipe.report.rows import Part, Section
    from bentpipe.runs.failed import FailedRun
    from bentpipe.runs.store import Run


MOST_DRAWN = 12
"""Largest number of Profiles, or of a program's commands, with figures on a page. Chosen here: their figures take about
4 MB, and half a minute on one slow core."""


class ReportInterruptedError(StoppedError):
    """Ctrl-C while the page was being written."""


def write_report(out: str | os.PathLike[str], on_progress: Callable[[float], None] | None = None) -> Path:
    """Write report.html, figures/*.png and results.csv from the Runs in `out`, into it; return the page's path.

    A folder with measured Runs only gets the page of `bentpipe.report.measured`.

    The same Runs give the same page: it has no timestamp. `on_progress` receives the share done (0 … 1).

    Raises:
        UserError: There is no Run, or one is damaged.
        StoreError: The disk cannot be written.
        ReportInterruptedError: Ctrl-C. An earlier page, if there was one, is unchanged.
    """
    out = Path(out)
    runs: list[Run] = []
    try:
        runs = sorted_runs(distinguish(by_command(find_runs(out))))
    except MeasuredOnlyError:
        measured = find_measured(out)
    try:
        if not runs:
            return write_measured_report(Place.in_folder(out), measured, on_progress)
        return _write(Place.in_folder(out), runs, partial(content.parts, failed=read_failed(out)), on_progress)
    except KeyboardInterrupt as stop:
        count = len(runs) or len(measured)
        raise ReportInterruptedError(
            f"interrupted: the page is not written; {text.plural(count, 'Run')} stored in {out}; "
            f"bentpipe report {shlex.quote(str(out))} writes it"
        ) from stop


def write_page(
    runs: Sequence[Run],
    page: Path,
    *,
    failed: Sequence[FailedRun] = (),
    unfinished: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Path:
    """Write a page about these Runs, with figures and a table beside it, named after it; return the page's path.

    Runs of one folder, all on disk, have links to their files, and commands that repeat them. `failed` are Runs that
    failed, which the page lists, and `unfinished` is the number of missing Runs.

    Raises:
        StoreError: The disk cannot be written.
    """
    folders = {None if isinstance(run, MemoryRun) else run.path.parents[3] for run in runs}
    place = Place(page, folders.pop() if len(folders) == 1 else None)
    is_selection = place.folder is not None and bool(run_folders(place.folder) - {run.path for run in runs})
    page_content = partial(content.parts, failed=failed, unfinished=unfinished, is_selection=is_selection)
    return _write(place, sorted_runs(distinguish(by_command(runs))), page_content, on_progress)


def _write(
    place: Place,
    runs: list[Run],
    page_content: Callable[[Place, list[Run]], list[Part]],
    on_progress: Callable[[float], None] | None,
) -> Path:
    page = page_content(place, runs)
    sections = thin(page)
    # Two lines of each scheme are long: cwnd and RTT.
    artist = Artist(place.figures, charts.points_per_line(2 * sum(_schemes(section) for _, section in sections)))
    with storing(place.page.parent):
        artist.folder.mkdir(parents=True, exist_ok=True)
        replace_file(place.results, results_table(runs).write_csv().encode())
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
        environment("bentpipe.report", "pages", [run.scheme for run in runs])
        .get_template("report.html")
        .render(
            parts=page,
            is_interactive=any(figure.charts for _, section in sections for figure in section.figures),
            start_up_columns=START_UP_COLUMNS,
            latency_columns=latency.COLUMNS,
            versions=sorted({str(run.record.versions.get("bentpipe")) for run in runs}),
            builds=_builds(runs),
            commands=repeat_commands(place, runs),
            results=place.link(place.results),
            runs=len(runs),
            on_kernel=any(run.world == "emulated" for run in runs),
            kernels=world.kernels(runs),
        )
    )
    with atomic_write(place.page) as file:
        file.write(html.encode())
    return place.page


def thin(page: Sequence[Part]) -> list[tuple[Part, Section]]:
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


def _schemes(section: Section) -> int:
    return len({run.scheme for run in section.runs})


def _builds(runs: Sequence[Run]) -> list[str]:
    """Return the builds of a world's Runs if there are several. Two worlds never share a build."""
    by_world: dict[str, set[str]] = {}
    for run in runs:
        by_world.setdefault(run.world, set()).add(str(run.record.versions.get("build")))
    return sorted(build for builds in by_world.values() if len(builds) > 1 for build in builds)
