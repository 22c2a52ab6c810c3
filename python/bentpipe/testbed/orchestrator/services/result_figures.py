"""Figures of results for pages: read once in a process with limits, kept in the store, and small ones for a grid."""

from __future__ import annotations

import asyncio
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError
from bentpipe.testbed.orchestrator.services.figure_reader import LONGEST_S
from bentpipe.testbed.orchestrator.services.limited import run_limited
from bentpipe.testbed.orchestrator.services.result_checks import lay_files
from bentpipe.testbed.schemas.figures import (
    SPARK_POINTS,
    EndFigures,
    ExperimentFigures,
    FigureMark,
    RunFigures,
    SmallFigure,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.schemas.experiment_views import RunDetail, RunView

READER = "bentpipe.testbed.orchestrator.services.figure_reader"
LARGEST_TABLES = 64 * 1024 * 1024
"""Bytes of the tables of an end from which there are no figures."""
KEPT = 2000
"""Small figures in memory."""
AT_ONCE = 16
"""Small figures that are fetched from the store at the same time."""
MOST_RUNS = 100
"""Runs of an experiment with small figures: the newest."""
MARKS = {"running": "it began", "preempted": "preempted", "failed": "failed", "done": "done", "canceled": "canceled"}
"""States that are marks, in words."""


class ResultFigures:
    """The figures of a testbed's results."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        """Read nothing yet."""
        self._orchestrator = orchestrator
        self._turn = asyncio.Semaphore(1)  # pages never take the turn of commits
        self._small: OrderedDict[str, SmallFigure | None] = OrderedDict()
        self._running: dict[str, asyncio.Task[EndFigures]] = {}

    async def of_run(self, run: RunDetail, wait_s: float | None = None) -> RunFigures | None:
        """Return the figures of a run; None: they are not read within `wait_s`, and will be there later."""
        ends = {}
        for end in run.ends:
            if run.location is None or not any(path.endswith("run.json") for path in end.files):
                continue
            figures = await self._stored(run.id, end.end)
            if figures is None:
                task = self._task(run, end.end, tuple(end.files))
                done, _ = await asyncio.wait({task}, timeout=wait_s)
                if not done:
                    return None
                figures = task.result()
            ends[end.end] = figures
        return RunFigures(run=run.id, start_at_ms=run.start_at_ms, ends=ends, marks=tuple(_marks(run)))

    async def of_experiment(self, runs: Sequence[RunView]) -> ExperimentFigures:
        """Return the small figures of the newest of these runs, as far as they are read."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def small(run: RunView) -> SmallFigure | None:
            async with gate:
                return await self._small_of(run.id)

        with_result = [run for run in runs if run.location is not None][-MOST_RUNS:]
        return ExperimentFigures(runs=tuple(each for each in await asyncio.gather(*map(small, with_result)) if each))

    def begin(self, run: str, location: str, end: str, files: Sequence[str]) -> None:
        """Read the figures of a result that has just arrived, in the background."""
        if any(path.endswith("run.json") for path in files):
            self._start(run, location, end, tuple(files))

    async def close(self) -> None:
        """End what is being read."""
        for task in list(self._running.values()):
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _task(self, run: RunDetail, end: str, files: tuple[str, ...]) -> asyncio.Task[EndFigures]:
        location = str(run.location) if end == "client" else f"{run.location}/server"
        return self._start(run.id, location, end, files)

    def _start(self, run: str, location: str, end: str, files: tuple[str, ...]) -> asyncio.Task[EndFigures]:
        key = f"{run}/{end}"
        if (task := self._running.get(key)) is None:
            task = self._running[key] = asyncio.create_task(self._read(run, location, end, files))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return task

    async def _stored(self, run: str, end: str) -> EndFigures | None:
        content = await self._orchestrator.storage.get(_place(run, end))
        return None if content is None else EndFigures.model_validate_json(content)

    async def _small_of(self, run: str) -> SmallFigure | None:
        if run not in self._small:
            figures = await self._stored(run, "client")
            if figures is None:
                return None
            self._small[run] = _small(run, figures)
            if len(self._small) > KEPT:
                self._small.popitem(last=False)
        return self._small[run]

    async def _read(self, run: str, location: str, end: str, files: tuple[str, ...]) -> EndFigures:
        wanted = [path for path in files if path.rpartition("/")[0] in ("", "terminal")]
        wanted = [path for path in wanted if path.endswith(("run.json", ".parquet"))]
        async with self._turn:
            try:
                figures = await self._read_apart(location, wanted)
            except FileNotFoundError:
                figures = EndFigures(problem="the tables do not read: a file is not in the store")
        await self._orchestrator.storage.put(_place(run, end), figures.model_dump_json().encode())
        return figures

    async def _read_apart(self, location: str, paths: Sequence[str]) -> EndFigures:
        with tempfile.TemporaryDirectory(prefix="bentpipe-figures-") as name:
            files, size = {}, 0
            for number, path in enumerate(paths):
                files[path] = Path(name) / str(number)
                with files[path].open("wb") as file:
                    async for part in self._orchestrator.storage.stream(f"{location}/{path}"):
                        size += len(part)
                        if size > LARGEST_TABLES:
                            return EndFigures(problem=f"the tables have more than {LARGEST_TABLES >> 20} MiB")
                        await asyncio.to_thread(file.write, part)
            folder = Path(name) / "result"
            folder.mkdir()
            await asyncio.to_thread(lay_files, folder, files)
            code, text = await run_limited(READER, str(folder), seconds=LONGEST_S)
        if code is None:
            return EndFigures(problem=f"the tables do not read within {LONGEST_S:.0f} s")
        if code != 0:
            return EndFigures(problem=f"the tables do not read: {' '.join(text.split()) or code}"[:300])
        try:
            return EndFigures.model_validate_json(text)
        except (ValueError, BentpipeError):
            return EndFigures(problem="the tables do not read: the program that reads them gave another answer")


def _place(run: str, end: str) -> str:
    """Return the place in the store; its number is that of the record's form."""
    return f"figures/1/{run}/{end}.json"


def _marks(run: RunDetail) -> list[FigureMark]:
    marks = []
    for event in run.events:
        state, end = str(event.body.get("state", "")), str(event.body.get("end", "client"))
        if event.kind == "firing":
            marks.append(FigureMark(at_ms=event.at_ms, text="trigger fired"))
        elif event.kind == "state" and end == "client" and state in MARKS:
            marks.append(FigureMark(at_ms=event.at_ms, text=MARKS[state]))
        elif event.kind == "state" and end == "server" and state in ("running", "done", "failed"):
            marks.append(FigureMark(at_ms=event.at_ms, text=f"server: {MARKS[state]}"))
        elif event.kind == "note" and event.body.get("topic") == "scavenger":
            marks.append(FigureMark(at_ms=event.at_ms, text="yielded"))
    return marks[:50]


def _small(run: str, figures: EndFigures) -> SmallFigure | None:
    figure = next(iter(figures.figures), None)
    if figure is None or not figure.lines:
        return None
    line = figure.lines[0]
    length = len(line.values)
    parts = min(SPARK_POINTS, length)
    spark = []
    for number in range(parts):
        known = [
            each for each in line.values[number * length // parts : (number + 1) * length // parts] if each is not None
        ]
        spark.append(sum(known) / len(known) if known else None)
    return SmallFigure(
        run=run,
        key=figure.key,
        title=f"{figure.title} {line.name}".strip(),
        unit=figure.unit,
        count=line.count,
        lost=line.lost if figure.marks_lost else 0,
        median=line.median,
        p95=line.p95,
        spark=tuple(spark),
    )
