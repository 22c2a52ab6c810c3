"""Counterfactuals: a study's tests repeated with one property of the path changed to a published value.

Where a published ordering is not reproduced, counterfactuals show which difference between the published path and ours
causes it. The study's file lists the changes with their sources. Their rows and statements are labelled as
counterfactual. They change no verdict, and the access model does not use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from bentpipe.profiles.access import loss_process
from bentpipe.records import Name, Record, Text
from bentpipe.scenarios.losses import find_loss
from bentpipe.studies.orders import share_lost
from bentpipe.studies.study import Row, Verdict

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction


@dataclass(frozen=True)
class Counterfactual:
    """One change to a study's paths.

    Attributes:
        name: Name in the study's file.
        change: The difference, as text.
        source: Publication of the value.
        on: Part of the study that changes (a path, an hour); empty: all of it.
        tests: Number of the study's tests that are repeated.
        loss: Loss environment that replaces the path's own; empty: the same.
        preset: Path that replaces the study's; None: the same.
        traffic: Background traffic that replaces the study's; None: the same.
    """

    name: str
    change: str
    source: str
    on: str
    tests: int
    loss: str
    preset: str | None
    traffic: str | None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Changed parameters of the access model."""
        return {"loss": loss_process(self.loss)} if self.loss else {}

    @property
    def label(self) -> str:
        """Prefix of its rows and statements."""
        return f"counterfactual, {self.change}"

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """Label the study's rows as results of this change."""
        return [
            replace(row, quantity=f"{self.label}: {row.quantity}", basis=f"{row.basis}; {self.source}") for row in rows
        ]

    def statements(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        """Label the study's statements as results of this change."""
        return [
            replace(verdict, statement=f"{self.label}: {verdict.statement}", basis=f"{verdict.basis}; {self.source}")
            for verdict in verdicts
        ]

    def lost_row(self, paths: Sequence[Profile], direction: Direction, basis: str) -> Row:
        """Return a row with the paths' mean random loss over their whole duration."""
        lost = 100 * share_lost(paths, direction)
        return Row(f"{self.label}: lost on the path", "%", None, lost, "–", f"{basis}; {self.source}")


#: Number of a file's changes that ``--quick`` runs: the first.
QUICK = 1


class CounterfactualEntry(Record):
    """A change in a study's file."""

    change: Text
    """The difference, as text."""
    source: Text
    """Publication of the value."""
    on: Text | None = None
    """Part of the study that changes (a path, an hour); default: all of it."""
    tests: Annotated[int, Field(ge=1, le=1000)]
    """Number of the study's tests that are repeated."""
    loss: Name | None = None
    """Loss environment, of ``loss.toml``, that replaces the path's own; default: the same."""
    preset: Text | None = None
    """Path that replaces the study's; default: the same."""
    traffic: Text | None = None
    """Background traffic that replaces the study's; default: the same."""


def counterfactuals_of(entries: Mapping[str, CounterfactualEntry]) -> list[Counterfactual]:
    """Return the changes of a study's file, in its order."""
    return [
        Counterfactual(
            name=name,
            change=entry.change,
            source=entry.source,
            on=entry.on or "",
            tests=entry.tests,
            loss="" if entry.loss is None else find_loss(entry.loss, f"counterfactual.{name}: loss").name,
            preset=entry.preset,
            traffic=entry.traffic,
        )
        for name, entry in entries.items()
    ]
