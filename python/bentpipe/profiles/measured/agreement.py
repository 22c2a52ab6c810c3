"""How well a measured Profile gives back what it was made from: a ping over it, beside the ping that was."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.analysis.loss import LossEpisodes, loss_episodes
from bentpipe.profiles.pings import known_at, ping_table

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.profiles.measured.make import Measured
    from bentpipe.profiles.measured.probes import Probes

#: Share by which a quantile of the delay may differ from what was measured without a warning: that of the claim
#: `measured-profile`.
TOLERANCE = 0.05


@dataclass(frozen=True)
class Seen:
    """What a ping saw.

    Attributes:
        probes: How many it sent.
        median_ms, p95_ms, p99_ms: RTTs; NaN: no reply.
        loss: Share lost.
        run: Lost probes in a row, mean over episodes; NaN: none was lost.
        longest_run: The most lost in a row.
    """

    probes: int
    median_ms: float
    p95_ms: float
    p99_ms: float
    loss: float
    run: float
    longest_run: int


def seen(table: pl.DataFrame) -> Seen:
    """What a table of pings of one series comes to."""
    replies = table["rtt_ms"].drop_nulls().to_numpy()
    quantiles = np.full(3, np.nan)
    if replies.size:
        quantiles[:] = np.quantile(replies, [0.5, 0.95, 0.99])
    found: LossEpisodes = loss_episodes(table)
    runs = found.episodes["probes"].to_numpy()
    return Seen(
        table.height,
        float(quantiles[0]),
        float(quantiles[1]),
        float(quantiles[2]),
        float(found.lost / max(found.probes, 1)),
        float(runs.mean()) if runs.size else float("nan"),
        int(runs.max(initial=0)),
    )


def same_times(probes: Probes, shift: float = 0.25) -> NDArray[np.float64]:
    """The measured sending times, all later by so much of a spacing [s since the start]."""
    times: NDArray[np.float64] = probes.sent_ns.astype(np.float64) + shift * probes.spacing_ns
    return times / 1e9


def regular_times(probes: Probes, profile: Profile, shift: float = 0.5) -> NDArray[np.float64]:
    """As many probes as were sent, at one distance over the time that was probed [s since the start]."""
    real, clock = probes.probed()
    count = probes.sent_ns.size
    times: NDArray[np.float64] = np.interp((np.arange(count) + shift) * clock[-1] / count, clock, real) / 1e9
    times = times[times <= profile.duration_s]
    known: NDArray[np.float64] = times[known_at(profile, times)]
    return known


def given_back(profile: Profile, sent_s: NDArray[np.float64], seed: int = 0) -> Seen:
    """What a ping over the Profile sees, at these times [s]; those in gaps, or beyond its end, are not sent."""
    return seen(ping_table(profile, sent_s[sent_s <= profile.duration_s], seed=seed))


def agreement(made: Measured) -> list[dict[str, Any]]:
    """What was measured, and what a ping of as many probes at one distance sees over the Profile: two rows, as JSON.

    Quantities are those of `Seen`; None: there is none.
    """
    rows = {
        "measured": seen(made.probes.table()),
        "given back": given_back(made.profile, regular_times(made.probes, made.profile)),
    }
    return [
        {"ping": what} | {key: None if value != value else round(value, 6) for key, value in asdict(one).items()}  # noqa: PLR0124 - NaN
        for what, one in rows.items()
    ]


def disagreement(rows: list[dict[str, Any]]) -> list[str]:
    """Lines on what of the delay a Profile does not give back, from what `agreement` says."""
    measured, given = rows
    lines = []
    for key in ("median_ms", "p95_ms", "p99_ms"):
        was, now = measured[key], given[key]
        if was and now is not None and abs(now / was - 1) > TOLERANCE:
            name = key.removesuffix("_ms")
            lines.append(f"{name} {now:.4g} ms given back, {was:.4g} ms measured ({100 * (now / was - 1):+.0f} %)")
    if not lines:
        return []
    return [
        f"the delay is not given back within {100 * TOLERANCE:g} %: {'; '.join(lines)}. A capacity that holds pings up "
        "(--capacity), or a prober that waits for each reply, does that"
    ]
