"""What a study is, what it is asked for and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OnProgress = Callable[[float], object]

#: How a published figure is meant: as it stands, or as a limit ("more than 100 Mbit/s").
Relation = Literal["=", ">", "<"]


@dataclass(frozen=True)
class Request:
    """What a study is asked for.

    Attributes:
        out: Folder for its figures, and for the Runs it makes: what is there already need not be run again.
        quick: Less of everything (fewer paths, shorter runs), for a look and for tests; the rows say how much.
        data: Folder or file with measurements; None: everything is simulated.
        on_progress: Called with the share done, 0 to 1.
        on: A Dask scheduler whose workers do the Runs of those that make many; None: this machine.
    """

    out: Path
    quick: bool = False
    data: Path | None = None
    on_progress: OnProgress = lambda _: None
    on: str | None = None


@dataclass(frozen=True)
class Row:
    """One published figure beside ours.

    Attributes:
        quantity: What it is, with the place or controller it is of.
        unit: As ``ms``; empty for a share or a ratio.
        published: None: the paper has no figure; ours stands there for comparison.
        ours: None: it could not be had; the study's notes say why.
        source: Figure, table or section of the publication.
        basis: Where ours comes from: ``simulated: …`` or ``measured: FILE``.
        relation: Whether `published` is the value or a limit.
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
        """Ours over published; None where either is missing or published is 0."""
        return self.ours / self.published if self.published and self.ours is not None else None

    def to_dict(self) -> dict[str, Any]:
        """As ``study run --json`` prints it."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True)
class Verdict:
    """Whether what the publication says holds here.

    Attributes:
        statement: As the publication has it.
        holds: None: what is there cannot decide it.
        source: Figure, table or section of the publication.
        basis: As of a `Row`.
        why: The figures it was decided by; where it does not hold, the reason as far as it is known.
    """

    statement: str
    holds: bool | None
    source: str
    basis: str
    why: str = ""


@dataclass(frozen=True)
class Result:
    """What a study found.

    Attributes:
        rows: Published figures beside ours.
        verdicts: Published statements, and whether they hold.
        basis: Lines: what was measured (which file) and what was simulated (which paths, for how long, which seeds).
        figures: Drawn like the published plots; name (``figure-2a``) → figure.
        notes: Lines: what was left out, and why ours differs where it does.
        counterfactuals: Published statements over paths that differ from the study's in one published thing
            (`bentpipe.studies.counterfactual`): no verdicts on the study's paths.
    """

    rows: Sequence[Row]
    verdicts: Sequence[Verdict]
    basis: Sequence[str]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    counterfactuals: Sequence[Verdict] = ()


@dataclass(frozen=True)
class Study:
    """A published experiment that can be run again.

    Attributes:
        name: On the command line.
        title: One line.
        source: The publication and its figures.
        takes: How long, as people say it: full, and with ``--quick``.
        run: Does it.
        measured: What ``--data`` may hold for it, as people say it; empty: it simulates all there is, and refuses data.
        sweeps: Whether its Runs are a sweep, which ``--on`` may send to a cluster.
    """

    name: str
    title: str
    source: str
    takes: str
    run: Callable[[Request], Result]
    measured: str = ""
    sweeps: bool = False
