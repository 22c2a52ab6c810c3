"""Loss episodes: their length, spacing, and phase in the slot.

T3P, section 3.3 (loss where spikes begin and end), Huston 2024 (loss at switchover, 1 % over months) and Michel et al.,
IMC 2022, section 4 (loss events of several packets).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from bentpipe.analysis.evidence import spacing_s
from bentpipe.analysis.tables import only_series

#: Number of spacings without a row that counts as a silence of the record; chosen here: more than late probes explain.
SILENT_SPACINGS = 5.0


@dataclass(frozen=True)
class LossEpisodes:
    """Runs of lost probes.

    Attributes:
        probes: Number of rows of the series.
        lost: Number of lost probes.
        episodes: One row each: `start_unix_ns`, `probes` (lost in a row), `duration_s` (first lost probe to the next
            answered one; null at the end of the series), `since_last_s` (from the end of the episode before; null for
            the first), `phase_s` (its start in the slot; null without a period).
        multi_share: Share of episodes of several probes; null without an episode.
        silences: Times without rows for more than `SILENT_SPACINGS` spacings: `start_unix_ns`, `duration_s`. Some
            probers write no rows for lost probes: then these are the loss, and `lost` is 0.
        by_phase: Lost share of the probes in each second of the slot, null where there are none; empty without a
            period.
    """

    probes: int
    lost: int
    episodes: pl.DataFrame
    multi_share: float | None
    silences: pl.DataFrame
    by_phase: list[float | None]


def loss_episodes(
    table: pl.DataFrame | pl.LazyFrame, period_s: float | None = None, edge_unix_ns: int | None = None
) -> LossEpisodes:
    """Find the loss episodes of one series.

    Args:
        table: Pings (`tables.PINGS`) from one site to one target.
        period_s: Length of a slot from `analyze_handovers` [s].
        edge_unix_ns: Time of any slot edge from `analyze_handovers` [ns since 1970].

    Raises:
        UserError: Several series, or see `tables.series`.
    """
    one = only_series(table)
    lost = one.lost
    change = np.diff(np.concatenate([[False], lost, [False]]).astype(np.int8))
    first, after = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    ends = np.append(one.t_s, np.nan)[after]
    starts = one.t_s[first]
    since = np.concatenate([[np.nan], starts[1:] - ends[:-1]])[: starts.size]
    phases, by_phase = np.full(starts.size, np.nan), []
    if period_s is not None and edge_unix_ns is not None:
        edge_s = (edge_unix_ns - one.start_unix_ns) / 1e9
        phases = (starts - edge_s) % period_s
        second = ((one.t_s - edge_s) % period_s).astype(np.int64)
        count = np.bincount(second, minlength=int(np.ceil(period_s)))
        losses = np.bincount(second[lost], minlength=count.size)
        by_phase = [float(k / n) if n else None for k, n in zip(losses, count, strict=True)]
    episodes = pl.DataFrame(
        {
            "start_unix_ns": one.start_unix_ns + np.round(starts * 1e9).astype(np.int64),
            "probes": after - first,
            "duration_s": ends - starts,
            "since_last_s": since,
            "phase_s": phases,
        }
    ).with_columns(pl.col("duration_s", "since_last_s", "phase_s").fill_nan(None))
    steps = np.diff(one.t_s)
    silent = np.flatnonzero(steps > SILENT_SPACINGS * spacing_s(one.t_s))
    silences = pl.DataFrame(
        {
            "start_unix_ns": one.start_unix_ns + np.round(one.t_s[silent] * 1e9).astype(np.int64),
            "duration_s": steps[silent],
        }
    )
    multi = float((episodes["probes"].to_numpy() > 1).mean()) if episodes.height else None
    return LossEpisodes(one.rtt_ms.size, int(lost.sum()), episodes, multi, silences, by_phase)
