"""Figures of results: values over time in the tables of a run's ends, thinned, and their quantiles."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError
from bentpipe.records import Items, Record
from bentpipe.testbed.schemas.desired import End
from bentpipe.testbed.schemas.identifiers import Id

MOST_POINTS = 400
"""Most points of a line: an extreme in every second dot of a page. Chosen here."""
MOST_FIGURES = 12
"""Most figures of an end."""
SPARK_POINTS = 40
"""Points of the small figure of a run."""

Text = Annotated[str, Field(max_length=200)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class FigureLine(Record):
    """A line of a figure, and the quantiles of all its values before they were thinned; null: no value."""

    name: Text
    """Its name; empty: the only one."""
    at_ms: Annotated[Items[int], Field(max_length=MOST_POINTS)]
    """Times [ms since 1970]."""
    values: Annotated[Items[Finite | None], Field(max_length=MOST_POINTS)]
    """Values in the figure's unit; null: none, of probes a lost one."""
    count: int
    """Number of values."""
    lost: int
    """Number of absent values."""
    min: Finite | None
    """Smallest value."""
    median: Finite | None
    """Median."""
    p95: Finite | None
    """95th percentile."""
    p99: Finite | None
    """99th percentile."""
    max: Finite | None
    """Largest value."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if len(self.at_ms) != len(self.values):
            raise UserError(f"{len(self.at_ms)} times", where="at_ms", expected=f"{len(self.values)}, as values")
        return self


class ResultFigure(Record):
    """A figure."""

    key: Text
    """What it shows: ``rtt``, ``throughput``, ``dish_latency``, …"""
    title: Text
    """Title."""
    unit: Annotated[str, Field(max_length=20)]
    """Unit of its values."""
    marks_lost: bool
    """Whether absent values are lost probes."""
    lines: Annotated[Items[FigureLine], Field(max_length=8)]
    """Lines."""


class EndFigures(Record):
    """Figures of an end of a run."""

    figures: Annotated[Items[ResultFigure], Field(max_length=MOST_FIGURES)] = ()
    """Figures."""
    problem: Annotated[str, Field(max_length=300)] = ""
    """Why there are none; empty: there are, or no table has values over time."""


class FigureMark(Record):
    """A point in time of a run."""

    at_ms: int
    """When."""
    text: str
    """What happened."""


class RunFigures(Record):
    """Figures of a run: of each end, and what happened meanwhile."""

    run: Id
    """Run."""
    start_at_ms: int
    """When it was to start."""
    ends: dict[End, EndFigures]
    """Ends whose results are here."""
    marks: Items[FigureMark]
    """What happened: it began, a trigger fired, it was preempted, it ended."""


class SmallFigure(Record):
    """The small figure of a run: its first figure's first line."""

    run: Id
    """Run."""
    key: str
    """What it shows."""
    title: str
    """Title of the figure."""
    unit: str
    """Unit."""
    count: int
    """Number of values."""
    lost: int
    """Number of absent values."""
    median: Finite | None
    """Median."""
    p95: Finite | None
    """95th percentile."""
    spark: Annotated[Items[Finite | None], Field(max_length=SPARK_POINTS)]
    """Values over time, means of equal parts."""


class ExperimentFigures(Record):
    """Small figures of an experiment's newest runs."""

    runs: Items[SmallFigure]
    """Oldest first; runs without figures are left out."""
