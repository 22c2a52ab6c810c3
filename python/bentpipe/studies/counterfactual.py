"""Counterfactuals: a study's tests repeated with one property of the path changed to a published value.

Where a published ordering is not reproduced, counterfactuals show which difference between the published path and ours
causes it. The study's file lists the changes with their sources. Their rows and statements are labelled as
counterfactual. They change no verdict, and the access model does not use them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from bentpipe.profiles.access import default_parameters
from bentpipe.profiles.path import PathView
from bentpipe.records import Record, Text
from bentpipe.studies.study import Row, Verdict

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction

#: Independent loss is modelled as endless loss episodes: their rate [1/s] and length [ms]. On average, all of a slot
#: but its first 20 ms is in an episode.
_ENDLESS_PER_S, _ENDLESS_MS = 50.0, 10_000.0


@dataclass(frozen=True)
class Counterfactual:
    """One change to a study's paths.

    Attributes:
        name: Name in the study's file.
        change: The difference, as text.
        source: Publication of the value.
        on: Part of the study that changes (a path, an hour); empty: all of it.
        tests: Number of the study's tests that are repeated.
        parameters: Changed parameters of the access model.
        preset: Path that replaces the study's; None: the same.
        traffic: Background traffic that replaces the study's; None: the same.
    """

    name: str
    change: str
    source: str
    on: str
    tests: int
    parameters: Mapping[str, Any]
    preset: str | None
    traffic: str | None

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
        lost = float(np.mean([PathView(path).loss(direction).mean() for path in paths]))
        return Row(f"{self.label}: lost on the path", "%", None, 100 * lost, "–", f"{basis}; {self.source}")


#: Number of a file's changes that ``--quick`` runs: the first.
QUICK = 1


class CounterfactualEntry(Record):
    """A change in a study's file. With `every_s` losses come in bursts, otherwise each packet is lost independently."""

    change: Text
    """The difference, as text."""
    source: Text
    """Publication of the value."""
    on: Text | None = None
    """Part of the study that changes (a path, an hour); default: all of it."""
    tests: Annotated[int, Field(ge=1, le=1000)]
    """Number of the study's tests that are repeated."""
    lost: Annotated[float, Field(ge=1e-6, le=1)] | None = None
    """Share of packets lost in each direction; default: the path's own."""
    every_s: Annotated[float, Field(ge=0.05, le=3600)] | None = None
    """Mean time between bursts [s]; default: independent losses."""
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
            parameters={} if entry.lost is None else {"loss": loss_parameters(entry.lost, entry.every_s)},
            preset=entry.preset,
            traffic=entry.traffic,
        )
        for name, entry in entries.items()
    ]


def loss_parameters(lost: float, every_s: float | None) -> dict[str, Any]:
    """Return loss parameters of the access model that lose the share `lost` of packets in each direction, at any hour.

    Losses come in bursts every `every_s` on average, with the model's spread of lengths and loss inside; None: each
    packet is lost independently.
    """
    if every_s is None:
        per_s, length_ms, sigma, inside = _ENDLESS_PER_S, _ENDLESS_MS, 0.0, lost
    else:
        model = default_parameters()["loss"]
        per_s, sigma, inside = 1.0 / every_s, model["length_log_sigma"], model["probability_inside"]
        # Rounded, since libm may differ in the last digit between hosts and the path must not.
        length_ms = round(1e3 * lost * every_s / inside * math.exp(-(sigma**2) / 2), 3)
    side = {"episodes_per_s": per_s}
    return {
        "up": side,
        "down": side,
        "load_power": 0.0,
        "length_median_ms": length_ms,
        "length_log_sigma": sigma,
        "probability_inside": inside,
    }
