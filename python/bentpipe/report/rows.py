"""The report's content as typed rows: numbers with their units, which `bentpipe.report.render` formats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from bentpipe.report.charts import Chart
    from bentpipe.report.provenance import Block
    from bentpipe.runs.estimates import Estimate
    from bentpipe.runs.summary import ItemSummary


@dataclass(frozen=True)
class Value:
    """A mean over Runs and its spread: a 95 % confidence interval, or the smallest and largest value.

    None: there is no value. `scale` converts the estimate to the unit of its column.
    """

    estimate: Estimate | None
    scale: float = 1.0
    spread: Literal["interval", "extremes"] = "interval"


@dataclass(frozen=True)
class Count:
    """Number of results, of the valid Runs behind them, and of all Runs."""

    n: int
    valid: int
    runs: int


@dataclass(frozen=True)
class Reached:
    """Number of results that reached something, of all."""

    reached: int
    of: int


@dataclass(frozen=True)
class ItemCount:
    """Number of items of one kind, and of those completed."""

    of: ItemSummary


Cell: TypeAlias = Value | Count | Reached | ItemCount | None
"""A cell of a table; None: its column does not apply to the row."""


@dataclass(frozen=True)
class Column:
    """Name and unit of a column."""

    name: str
    unit: str


@dataclass(frozen=True)
class Figure:
    """A figure: its file relative to the page (empty: none), its embedded picture (a data URI), and its caption.

    `charts` are the same data for interaction: they replace the picture where scripts run.
    """

    file: str
    uri: str
    caption: str
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class Row:
    """One line of a table of results: one flow of a scheme. `first` is set on a scheme's first flow.

    `counts` is false where no Run of the scheme is valid.
    """

    scheme: str
    flows: int
    first: bool
    flow: str
    colour: str
    cells: tuple[Cell, ...]
    counts: bool = True


@dataclass(frozen=True)
class Losses:
    """Packets dropped in the directions of a scheme's data, mean per run, by cause; and packets marked.

    None: no Run of the scheme is valid.
    """

    scheme: str
    tail_drop: float | None = None
    random_loss: float | None = None
    handover_drop: float | None = None
    aqm_drop: float | None = None
    no_route: float | None = None
    marked: float | None = None


@dataclass(frozen=True)
class Limits:
    """A flow's limiting factors as shares of its time [%], mean over the runs; `cwnd` as in `world.cwnd_column`.

    None: no Run of the scheme is valid.
    """

    scheme: str
    flow: str
    colour: str
    cwnd: float | None = None
    rwnd: float | None = None
    sndbuf: float | None = None


@dataclass(frozen=True)
class Seed:
    """Goodput of each flow with one seed, by scheme in the order of `SeedTable.schemes` [bit/s]; None: no valid Run."""

    seed: int
    goodput_bps: tuple[tuple[float, ...] | None, ...]


@dataclass(frozen=True)
class SeedTable:
    """Goodput by seed and scheme; empty if there is only one seed."""

    schemes: tuple[str, ...] = ()
    rows: tuple[Seed, ...] = ()


@dataclass(frozen=True)
class RunLine:
    """One Run in the list at the end of a section. `folder` is an address relative to the report."""

    scheme: str
    seed: int
    begins_unix_ns: int
    valid: bool
    why_invalid: str
    content_hash: str
    folder: str


@dataclass
class Section:
    """One Profile in one Experiment.

    `alert` warns of Runs that are not valid. `not_valid`: no Run is valid, and the section shows invalid Runs.
    `thinned` states what the page leaves out of the section because the page covers many.
    """

    title: str
    anchor: str
    alert: str
    not_valid: bool
    facts: list[tuple[str, str]]
    recipe: list[Block]
    sentences: list[str]
    latency: list[Row]
    columns: list[Column]
    rows: list[Row]
    start_up: list[Row]
    limits: list[Limits]
    cwnd_column: Column
    losses: list[Losses]
    queues: str
    buffers: str
    seeds: SeedTable
    runs: list[RunLine]
    profile_file: str
    figures: list[Figure] = field(default_factory=list)
    thinned: str = ""


@dataclass
class Part:
    """One Experiment: its facts, figures over all its Profiles, and a section per Profile."""

    experiment: str
    title: str
    facts: list[tuple[str, str]]
    sections: list[Section]
    unfinished: str = ""
    failed: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    thinned: str = ""
