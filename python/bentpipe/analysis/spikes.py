"""Lasting latency spikes: RTTs above twice the median for about a slot or more (T3P, section 3.3 and figure 3a).

The paper plots pings at 1 s intervals and reports latencies above 2 × the median of the larger window (35.2 ms there),
"each persisting for roughly 15 seconds or more", for multiples of 15 s, often with loss at their start and end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.tables import only_series

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Threshold of a spike as a multiple of the median (T3P, section 3.3).
TIMES_MEDIAN = 2.0
#: The paper's ping interval [s]; denser pings are reduced to their median in each bin.
BIN_S = 1.0
#: "Roughly 15 seconds or more" [s]; chosen here: 15 s less a bin at either end, whose median may be on either side.
LASTING_S = 13.0
#: Successive bins below the threshold, or without a reply, that do not end a spike; chosen here, since single replies
#: at 1 s intervals fall below it by jitter.
BRIDGED_BINS = 2


@dataclass(frozen=True)
class Spikes:
    """Latency spikes of a series.

    Attributes:
        median_ms: Median RTT of the whole series.
        threshold_ms: `TIMES_MEDIAN` times the median.
        spikes: One row per spike: `start_unix_ns`, `duration_s`, `lasting` (`LASTING_S` or more), `median_ms`,
            `peak_ms` (of bins), `periods` (its duration in whole periods, rounded), `off_period_s` (duration minus
            those), `lost_at_ends` (a probe was lost within a bin of its start or end). `periods` and `off_period_s` are
            null without a period.
        share_lasting: Share of all bins with replies inside lasting spikes.
        near_multiple: Share of lasting spikes within `BIN_S` of a multiple of the period; null without one. By chance
            it would be 2 × `BIN_S` / period: 0.13 for 15 s.
    """

    median_ms: float | None
    threshold_ms: float | None
    spikes: pl.DataFrame
    share_lasting: float | None
    near_multiple: float | None


_COLUMNS = {
    "start_unix_ns": pl.Int64,
    "duration_s": pl.Float64,
    "lasting": pl.Boolean,
    "median_ms": pl.Float64,
    "peak_ms": pl.Float64,
    "periods": pl.Int64,
    "off_period_s": pl.Float64,
    "lost_at_ends": pl.Boolean,
}


def latency_spikes(table: pl.DataFrame | pl.LazyFrame, period_s: float | None = None) -> Spikes:
    """Find the latency spikes of one series.

    Args:
        table: Pings (`tables.PINGS`) from one site to one target.
        period_s: Length of a slot from `analyze_handovers` [s]; None: no slots.

    Raises:
        UserError: Several series, or see `tables.series`.
    """
    one = only_series(table)
    replies_s, rtt_ms = one.replies()
    if not rtt_ms.size:
        return Spikes(None, None, pl.DataFrame(schema=_COLUMNS), None, None)
    median = float(np.median(rtt_ms))
    threshold = TIMES_MEDIAN * median
    # Only bins with replies: in a series with a gap of years the empty ones would not fit into memory.
    grouped = (
        pl.DataFrame({"bin": (replies_s // BIN_S).astype(np.int64), "rtt_ms": rtt_ms})
        .group_by("bin")
        .agg(pl.col("rtt_ms").median())
        .sort("bin")
    )
    bins, level = grouped["bin"].to_numpy(), grouped["rtt_ms"].to_numpy()
    with_loss = np.unique((one.t_s[one.lost] // BIN_S).astype(np.int64))
    rows = []
    inside = np.zeros(bins.size, bool)
    for first, last in _runs(bins[level > threshold]):
        duration = (last - first + 1) * BIN_S
        of_it = slice(*np.searchsorted(bins, (first, last + 1)))
        values = level[of_it]
        periods = round(duration / period_s) if period_s else None
        rows.append(
            {
                "start_unix_ns": one.start_unix_ns + round(first * BIN_S * 1e9),
                "duration_s": duration,
                "lasting": duration >= LASTING_S,
                "median_ms": float(np.median(values)),
                "peak_ms": float(values.max()),
                "periods": periods,
                "off_period_s": duration - periods * period_s if period_s and periods is not None else None,
                "lost_at_ends": any(_within(with_loss, end - 1, end + 1) for end in (first, last)),
            }
        )
        inside[of_it] |= duration >= LASTING_S
    spikes = pl.DataFrame(rows, schema=_COLUMNS)
    lasting = spikes.filter("lasting")
    near = None
    if period_s and lasting.height:
        on_multiple = (pl.col("periods") >= 1) & (pl.col("off_period_s").abs() <= BIN_S)
        near = lasting.filter(on_multiple).height / lasting.height
    return Spikes(median, threshold, spikes, float(inside.mean()), near)


def _within(bins: NDArray[np.int64], first: int, last: int) -> bool:
    """Return whether any of the sorted bins lies from `first` to `last`."""
    return bool(np.searchsorted(bins, first) < np.searchsorted(bins, last + 1))


def _runs(where: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return first and last bin of each run of sorted bins above the threshold, bridging up to `BRIDGED_BINS`."""
    if not where.size:
        return []
    breaks = np.flatnonzero(np.diff(where) > BRIDGED_BINS + 1)
    firsts = where[np.concatenate([[0], breaks + 1])]
    lasts = where[np.concatenate([breaks, [where.size - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
