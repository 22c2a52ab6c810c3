"""What would have to be different: a study's own tests again, with one thing changed to a published value.

Where a published ordering is not met, a study says here which difference between the published path and ours brings it
and which does not. The changes stand in the study's file, each with its source. What comes of them are rows and
statements of their own, named as counterfactual: they change no verdict, and nothing of them goes into the access
model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.profiles.access import default_parameters
from bentpipe.profiles.path import PathView
from bentpipe.scenarios.tables import Table
from bentpipe.studies.study import Row, Verdict

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction

#: Loss of each packet for itself is one episode after the other: so many begin in a second, and last so long [ms].
#: All of a slot but its first 20 ms, on average, is in one.
_ENDLESS_PER_S, _ENDLESS_MS = 50.0, 10_000.0


@dataclass(frozen=True)
class Counterfactual:
    """One change.

    Attributes:
        name: In the study's file.
        change: What is different, as people say it.
        source: Where the value is published.
        on: What of the study it changes (a path, an hour); empty: all of it.
        tests: How many of the study's tests are run again.
        parameters: Of the access model.
        preset: The path in place of the study's; None: the same.
        traffic: Other people's in place of the study's; None: the same.
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
        """What rows and statements of it begin with."""
        return f"counterfactual, {self.change}"

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """The study's own rows as this change's."""
        return [
            replace(row, quantity=f"{self.label}: {row.quantity}", basis=f"{row.basis}; {self.source}") for row in rows
        ]

    def statements(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        """The study's own statements as this change's."""
        return [
            replace(verdict, statement=f"{self.label}: {verdict.statement}", basis=f"{verdict.basis}; {self.source}")
            for verdict in verdicts
        ]

    def lost_row(self, paths: Sequence[Profile], direction: Direction, basis: str) -> Row:
        """What these paths lose on their way, over all their time."""
        lost = float(np.mean([PathView(path).loss(direction).mean() for path in paths]))
        return Row(f"{self.label}: lost on the path", "%", None, 100 * lost, "–", f"{basis}; {self.source}")


#: So many of a file's changes does a study run that has no time (``--quick``): the first.
QUICK = 1


def take_counterfactuals(table: Table) -> list[Counterfactual]:
    """The table ``counterfactual`` of a study's file, the most telling first.

    Of each: `change`, `source`, `tests`, optional `on`, and what is different: `lost` (the share of packets, in each
    direction) with `every_s` (in bursts that begin at random, so far apart on average) or without (each packet for
    itself); `preset`; `traffic`.
    """
    return [_counterfactual(name, entry) for name, entry in table.named_tables("counterfactual").items()]


def _counterfactual(name: str, entry: Table) -> Counterfactual:
    lost = entry.number("lost", 1e-6, 1.0) if entry.has("lost") else None
    every_s = entry.number("every_s", 0.05, 3600.0) if entry.has("every_s") else None
    found = Counterfactual(
        name=name,
        change=entry.text("change"),
        source=entry.text("source"),
        on=entry.text("on") if entry.has("on") else "",
        tests=entry.integer("tests", 1, 1000),
        parameters={} if lost is None else {"loss": loss_parameters(lost, every_s)},
        preset=entry.text("preset") if entry.has("preset") else None,
        traffic=entry.text("traffic") if entry.has("traffic") else None,
    )
    entry.done()
    return found


def loss_parameters(lost: float, every_s: float | None) -> dict[str, Any]:
    """The access model's loss that takes the share `lost` of packets in each direction, at any hour.

    In bursts every `every_s` on average, whose lengths spread and which take packets as the model's episodes do; None:
    each packet for itself.
    """
    if every_s is None:
        per_s, length_ms, sigma, inside = _ENDLESS_PER_S, _ENDLESS_MS, 0.0, lost
    else:
        model = default_parameters()["loss"]
        per_s, sigma, inside = 1.0 / every_s, model["length_log_sigma"], model["probability_inside"]
        # The host's libm may differ in the last digit; the path may not.
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
