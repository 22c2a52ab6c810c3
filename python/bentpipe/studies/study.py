"""A study, its request and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OnProgress = Callable[[float], object]

#: Meaning of a published value: the value itself, or a limit ("more than 100 Mbit/s").
Relation = Literal["=", ">", "<"]


@dataclass(frozen=True)
class Request:
    """Options of a study run.

    Attributes:
        out: Folder for figures and Runs; Runs that are there already are reused.
        quick: Use fewer paths and shorter Runs; the rows say how many.
        data: Folder or file with measurements; None: everything is simulated.
        on_progress: Called with the share done, 0 to 1.
        on: Address of a Dask scheduler whose workers execute the sweep; None: this machine.
        trials: Number of trials in real time; None: the study's own.
    """

    out: Path
    quick: bool = False
    data: Path | None = None
    on_progress: OnProgress = lambda _: None
    on: str | None = None
    trials: int | None = None


@dataclass(frozen=True)
class Row:
    """One published value beside ours.

    Attributes:
        quantity: Name of the quantity, with its place or controller.
        unit: As ``ms``; empty for a share or a ratio.
        published: The published value; None: the publication has none.
        ours: Our value; None: not available, for the reason in the study's notes.
        source: Figure, table or section of the publication.
        basis: Origin of our value: ``simulated: …`` or ``measured: FILE``.
        relation: Whether `published` is a value or a limit.
    """

    quantity: str
    unit: str
    published: float | None
    ours: float | None
    source: str
    basis: str
    relation: Relation = "="

    @property
    def ratio(self) -> float | None:
        """Our value over the published one; None where either is missing or the published one is 0."""
        return self.ours / self.published if self.published and self.ours is not None else None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as ``study run --json`` prints it."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True)
class Verdict:
    """A published statement, and whether it holds here.

    Attributes:
        statement: The publication's statement.
        holds: Whether it holds; None: undecided with these tests.
        source: Figure, table or section of the publication.
        basis: As in `Row`.
        why: The values that decide it, and the reason where it does not hold, if known.
    """

    statement: str
    holds: bool | None
    source: str
    basis: str
    why: str = ""


@dataclass(frozen=True)
class LevelOrder:
    """Order of the controllers on a path at one level of loss (`bentpipe.studies.orders`).

    Attributes:
        path: Part of the study.
        loss: Name of the loss environment, or of the static path; empty for the published order.
        lost: Share of packets lost in the flows' direction, 0 to 1; None: the publication has none.
        order: The order, as text.
        values: Goodput by controller, in `unit`, in this order; empty for the published order.
        unit: Unit of the values; empty for a share.
        holds: Whether the published order holds here; None: undecided, or the published order itself.
        published: Source of the published order; empty for ours.
    """

    path: str
    loss: str
    lost: float | None
    order: str
    values: Mapping[str, float]
    unit: str
    holds: bool | None
    published: str = ""


@dataclass(frozen=True)
class Result:
    """The result of a study.

    Attributes:
        rows: Published values beside ours.
        verdicts: Published statements with their verdicts.
        basis: Lines that name the measured files and the simulated paths, with durations and seeds.
        figures: Plots like the published ones; name (``figure-2a``) → figure.
        notes: Lines about omissions and about reasons for differences.
        counterfactuals: The same statements over paths with one published change
            (`bentpipe.studies.counterfactual`). They are no verdicts on the study's own paths.
        orders: Order of the controllers by level of loss, path by path, with the published one at its level.
        by_profile: Quantity → scheme → Profile → value, for readers who want other statistics; None: not known.
    """

    rows: Sequence[Row]
    verdicts: Sequence[Verdict]
    basis: Sequence[str]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    counterfactuals: Sequence[Verdict] = ()
    orders: Sequence[LevelOrder] = ()
    by_profile: Mapping[str, Mapping[str, Mapping[str, float | None]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A published experiment that bentpipe repeats.

    Attributes:
        name: Name on the command line.
        title: One-line title.
        source: The publication and its figures.
        takes: Duration as text: in full, and with ``--quick``.
        run: The function that runs it.
        measured: Kind of measurement that ``--data`` may hold, as text; empty: all is simulated and data is refused.
        sweeps: Whether its Runs are a sweep that ``--on`` can send to a cluster.
        trials: Whether ``--trials`` sets the number of its trials.
    """

    name: str
    title: str
    source: str
    takes: str
    run: Callable[[Request], Result]
    measured: str = ""
    sweeps: bool = False
    trials: bool = False
