"""Compare a measured Profile with its measurement: a simulated ping over the Profile, beside the real one."""

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

#: Relative error of a delay quantile from which on there is a warning; the tolerance of the claim `measured-profile`.
TOLERANCE = 0.05


@dataclass(frozen=True)
class PingStats:
    """Statistics of a ping.

    Attributes:
        probes: Number of probes sent.
        median_ms, p95_ms, p99_ms: RTT quantiles; NaN: no reply.
        loss: Share of probes lost, 0 to 1.
        run: Mean number of consecutive losses, over loss episodes; NaN: no loss.
        longest_run: Largest number of consecutive losses.
    """

    probes: int
    median_ms: float
    p95_ms: float
    p99_ms: float
    loss: float
    run: float
    longest_run: int


def ping_stats(table: pl.DataFrame) -> PingStats:
    """Return the statistics of a table of pings of one series."""
    replies = table["rtt_ms"].drop_nulls().to_numpy()
    quantiles = np.full(3, np.nan)
    if replies.size:
        quantiles[:] = np.quantile(replies, [0.5, 0.95, 0.99])
    losses: LossEpisodes = loss_episodes(table)
    runs = losses.episodes["probes"].to_numpy()
    return PingStats(
        table.height,
        float(quantiles[0]),
        float(quantiles[1]),
        float(quantiles[2]),
        float(losses.lost / max(losses.probes, 1)),
        float(runs.mean()) if runs.size else float("nan"),
        int(runs.max(initial=0)),
    )


def shifted_times(probes: Probes, shift: float = 0.25) -> NDArray[np.float64]:
    """Return the measured send times, each later by `shift` spacings [s since the start]."""
    times: NDArray[np.float64] = probes.sent_ns.astype(np.float64) + shift * probes.spacing_ns
    return times / 1e9


def regular_times(probes: Probes, profile: Profile, shift: float = 0.5) -> NDArray[np.float64]:
    """Return as many send times as were measured, evenly spaced over the probed time [s since the start]."""
    real, clock = probes.probing_clock()
    count = probes.sent_ns.size
    times: NDArray[np.float64] = np.interp((np.arange(count) + shift) * clock[-1] / count, clock, real) / 1e9
    times = times[times <= profile.duration_s]
    known: NDArray[np.float64] = times[known_at(profile, times)]
    return known


def simulated_ping_stats(profile: Profile, sent_s: NDArray[np.float64], seed: int = 0) -> PingStats:
    """Return the statistics of a simulated ping with these send times [s], without those in gaps or after the end."""
    return ping_stats(ping_table(profile, sent_s[sent_s <= profile.duration_s], seed=seed))


def agreement(measured_profile: Measured) -> list[dict[str, Any]]:
    """Return the statistics of the measurement and of a simulated, evenly spaced ping: two rows, ready for JSON.

    Quantities are those of `PingStats`; None: no value.
    """
    rows = {
        "measured": ping_stats(measured_profile.probes.table()),
        "simulated": simulated_ping_stats(
            measured_profile.profile, regular_times(measured_profile.probes, measured_profile.profile)
        ),
    }
    return [
        {"ping": name} | {key: None if value != value else round(value, 6) for key, value in asdict(one).items()}  # noqa: PLR0124 - NaN
        for name, one in rows.items()
    ]


def disagreement(rows: list[dict[str, Any]]) -> list[str]:
    """Return warnings about delay quantiles in which measurement and Profile differ, from rows of `agreement`."""
    measured, simulated = rows
    lines = []
    for key in ("median_ms", "p95_ms", "p99_ms"):
        before, after = measured[key], simulated[key]
        if before and after is not None and abs(after / before - 1) > TOLERANCE:
            name = key.removesuffix("_ms")
            lines.append(
                f"{name} {after:.4g} ms simulated, {before:.4g} ms measured ({100 * (after / before - 1):+.0f} %)"
            )
    if not lines:
        return []
    return [
        f"the Profile's delay differs by more than {100 * TOLERANCE:g} %: {'; '.join(lines)}. Likely causes: a "
        "capacity that delays pings (`capacity`), or a prober that waits for each reply"
    ]
