"""Handovers: when the next slot edge comes, how large the step may be, how long the gap.

Times are fixed by the schedule; sizes are random. A slot's level (median RTT) is drawn from the levels that followed
slots of its class, *usual* or *high* (above 1.3 times the median): levels of successive slots correlate too little for
a model with memory (r = 0.43 over 9,449 pairs of a terminal's slots). Gaps are the longest times without an arriving
reply around edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from bentpipe.analysis.edges import edges_near, silences_s
from bentpipe.analysis.handovers import analyze_handovers
from bentpipe.errors import UserError
from bentpipe.records import Items, Record

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HIGH = 1.3
"""A slot whose median RTT is above this many medians of all slots is *high*; chosen in the facts' analysis."""

POINTS = np.linspace(0.0, 1.0, 41)
"""Levels of the quantiles that a model keeps."""

LEAST_EDGES = 20
"""Fewest edges of a model; chosen here: five minutes."""

CLASSES = ("usual", "high")


class HandoverModel(Record):
    """Schedule and sizes of a path's handovers, learned from pings.

    Quantiles are at 41 evenly spaced levels from 0 to 1.
    """

    source: str
    """Name of the measurement."""
    period_s: float
    """Time between edges [s]."""
    phase_s: float
    """Time of an edge modulo the period [s since 1970]."""
    phase_error_s: float
    """Its standard error [s]."""
    edges: Annotated[int, Field(ge=0)]
    """Number of edges that it was learned from."""
    median_ms: float
    """Median of the slots' levels [ms]."""
    after_usual_ms: Items[float]
    """Quantiles of the level after a usual slot [ms]."""
    after_high_ms: Items[float]
    """Quantiles of the level after a high slot [ms]; those after any, where there are too few."""
    high_after_usual: float
    """Share of high slots after usual ones."""
    high_after_high: float
    """Share of high slots after high ones."""
    gap_ms: Items[float]
    """Quantiles of the longest silence around an edge [ms]; the spacing of pings is in it."""
    step_ms: Items[float]
    """Quantiles of the step between successive slots' levels, up or down [ms]."""

    def next_edge(self, now_s: float) -> tuple[float, float]:
        """Return the time of the next edge and its error [s]."""
        since_s = (now_s - self.phase_s) % self.period_s
        return now_s + self.period_s - since_s, self.phase_error_s

    def step_probability(self, level_ms: float, over_ms: float) -> float:
        """Return the probability that the next slot's level differs from `level_ms` by more than `over_ms`."""
        quantiles = np.array(self.after_high_ms if level_ms > HIGH * self.median_ms else self.after_usual_ms)
        below = float(np.interp(level_ms - over_ms, quantiles, POINTS, left=0.0, right=1.0))
        above = 1.0 - float(np.interp(level_ms + over_ms, quantiles, POINTS, left=0.0, right=1.0))
        return below + above


@dataclass(frozen=True)
class _Slots:
    levels_ms: Floats
    follows: NDArray[np.bool_]


def learn_handovers(path: str | Path) -> HandoverModel:
    """Learn a model from pings.

    Raises:
        UserError: Unreadable, without pings, or without slots in them.
    """
    from bentpipe.measurements.runs.analysis_input import load_table

    loaded = load_table(path, "probes")
    model = handovers_in(loaded.table, str(path), clock_known=loaded.clock_known)
    return model.model_copy(update={"source": str(getattr(path, "name", path))})


def handovers_in(table: pl.LazyFrame, source: str, *, clock_known: bool = True) -> HandoverModel:
    """Learn a model from a table of pings (`unix_ns`, `rtt_ms`); errors name `source`. Raises as `learn_handovers`."""
    seen = analyze_handovers(table, clock_known=clock_known)
    if not seen.found or seen.period_s is None or seen.phase_s is None or seen.edge_unix_ns is None:
        raise UserError(seen.reason, where=source, expected="pings with slots, and the time of the day")
    slots = _slots(seen.slots, seen.period_s)
    pairs = [(slots.levels_ms[i - 1], slots.levels_ms[i]) for i in range(1, len(slots.levels_ms)) if slots.follows[i]]
    if len(pairs) < LEAST_EDGES:
        raise UserError(f"has {len(pairs)} edges with pings on both sides", where=source, expected=f"{LEAST_EDGES}")
    before, after = (np.array(each) for each in zip(*pairs, strict=True))
    replies_s = arrivals_s(table)
    edges_s = edges_near(replies_s, seen.edge_unix_ns / 1e9, seen.period_s)
    inner = edges_s[(edges_s > replies_s[0] + 1) & (edges_s < replies_s[-1] - 1)]
    return HandoverModel(
        source=source,
        period_s=seen.period_s,
        phase_s=seen.phase_s,
        phase_error_s=seen.phase_error_s or 0.0,
        edges=len(pairs),
        **sizes(before, after, silences_s(replies_s, inner) * 1e3),
    )


def arrivals_s(table: pl.LazyFrame) -> Floats:
    """Return when replies to pings (`unix_ns`, `rtt_ms`) arrived, sorted [s since 1970].

    An interruption delays packets that wait for its end: it shows where replies arrive, not where probes were sent.
    """
    replies = table.select("unix_ns", "rtt_ms").filter(pl.col("rtt_ms").is_finite()).collect()
    arrived: Floats = np.sort(replies["unix_ns"].to_numpy() / 1e9 + replies["rtt_ms"].to_numpy() / 1e3)
    return arrived


def sizes(before_ms: Floats, after_ms: Floats, gaps_ms: Floats) -> dict[str, Any]:
    """Return a model's fields of sizes from the levels on both sides of edges [ms], and from gaps [ms]."""
    median_ms = float(np.median(np.append(before_ms[:1], after_ms)))
    was_high, is_high = before_ms > HIGH * median_ms, after_ms > HIGH * median_ms
    high = after_ms[was_high] if was_high.sum() >= LEAST_EDGES else after_ms
    return {
        "median_ms": median_ms,
        "after_usual_ms": _quantiles(after_ms[~was_high] if (~was_high).any() else after_ms),
        "after_high_ms": _quantiles(high),
        "high_after_usual": float(is_high[~was_high].mean()) if (~was_high).any() else 0.0,
        "high_after_high": float(is_high[was_high].mean()) if was_high.any() else 0.0,
        "gap_ms": _quantiles(gaps_ms),
        "step_ms": _quantiles(np.abs(after_ms - before_ms)),
    }


def _slots(table: pl.DataFrame, period_s: float) -> _Slots:
    known = table.filter(pl.col("median_ms").is_not_null() & pl.col("median_ms").is_finite())
    starts_s = known["start_s"].to_numpy()
    follows = np.concatenate([[False], np.abs(np.diff(starts_s) - period_s) < period_s / 2])
    return _Slots(known["median_ms"].to_numpy(), follows)


def _quantiles(values: Floats) -> tuple[float, ...]:
    return tuple(float(each) for each in np.quantile(values, POINTS))


def describe(model: HandoverModel, over_ms: float, now_s: float) -> dict[str, Any]:
    """Return what ``predict handovers --json`` prints: the next edge, the probability of a step, quantiles."""
    edge_s, error_s = model.next_edge(now_s)

    def quantiles(values: tuple[float, ...]) -> dict[str, float]:
        return {f"p{level}": float(np.interp(level / 100, POINTS, values)) for level in (25, 50, 75, 95)}

    return {
        "edge_s": edge_s,
        "error_s": error_s,
        "in_s": edge_s - now_s,
        "over_ms": over_ms,
        "step_probability": model.step_probability(model.median_ms, over_ms),
        "step_ms": quantiles(model.step_ms),
        "gap_ms": quantiles(model.gap_ms),
    }


def generate_handovers(model: HandoverModel, slots: int, seed: int, start_s: float = 0.0) -> pl.DataFrame:
    """Draw slots with the model's levels and gaps; the same seed gives the same slots.

    Args:
        model: The model.
        slots: Number of slots.
        seed: Seed.
        start_s: Time from which on edges are drawn [s since 1970].

    Returns:
        Columns `edge_s`, `gap_ms`, `level_ms`, `step_ms` (null for the first).

    Raises:
        UserError: `slots` is out of range.
    """
    if not 1 <= slots <= 10_000_000:
        raise UserError(str(slots), where="slots", expected="1 to 10,000,000")
    draws = np.random.default_rng(np.random.SeedSequence([seed, 0x48414E44])).random((slots, 2))
    usual, high = np.array(model.after_usual_ms), np.array(model.after_high_ms)
    levels = np.empty(slots)
    was_high = False
    for i in range(slots):
        levels[i] = np.interp(draws[i, 0], POINTS, high if was_high else usual)
        was_high = bool(levels[i] > HIGH * model.median_ms)
    first, _ = model.next_edge(start_s)
    return pl.DataFrame(
        {
            "edge_s": first + model.period_s * np.arange(slots),
            "gap_ms": np.interp(draws[:, 1], POINTS, np.array(model.gap_ms)),
            "level_ms": levels,
            "step_ms": pl.Series(levels).diff(),
        }
    )
