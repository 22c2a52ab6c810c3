"""Items of applications (transfers, messages, requests, or an application's own) by their kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from bentpipe.runs.store import Run


@dataclass(frozen=True)
class Items:
    """The items of one kind in a Run.

    Attributes:
        kind: Their kind, such as ``request``.
        items: Number of items that began.
        completed: Number of those that were complete at the end.
        durations_s: Durations of the complete ones, sorted [s].
    """

    kind: str
    items: int
    completed: int
    durations_s: Sequence[float]

    def quantile_s(self, percent: int) -> float | None:
        """Return a quantile of the durations by nearest rank, as `run.json` has it [s]; None: no item was complete."""
        rank = -(-len(self.durations_s) * percent // 100)
        return self.durations_s[max(rank, 1) - 1] if self.durations_s else None


def items_by_kind(run: Run, flows: Collection[int] | None = None) -> dict[str, Items]:
    """Return the items of some flows of a Run, by kind in order of first occurrence; None: of all its flows.

    Pings are no items of a flow.
    """
    chosen = range(len(run.flows)) if flows is None else flows
    numbers = [run.flow_numbers[i] for i in chosen if run.flows[i].get("app")]
    table = run.applications() if numbers else None
    if table is None:
        return {}
    own = table.filter(pl.col("flow").is_in(numbers))
    spans = own.select(
        "kind", s=pl.col("completed_s") - pl.col("start_s"), complete=pl.col("completed_s").is_not_null()
    )
    return {
        str(kind): Items(str(kind), rows.height, int(rows["complete"].sum()), rows["s"].drop_nulls().sort().to_list())
        for (kind,), rows in spans.group_by("kind", maintain_order=True)
    }
