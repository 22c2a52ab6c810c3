"""A generated series of pings with the features of Starlink, for the claim without measurements."""

from __future__ import annotations

import numpy as np
import polars as pl

#: Slots [s], and the second of the first edge.
SLOT_S, PHASE_S = 15.0, 12.0
#: Start of the series: a whole minute [ns since 1970].
START_UNIX_NS = 1_734_544_800 * 10**9


def drawn(seed: int = 1, duration_s: float = 780.0, every_s: float = 0.0132) -> pl.DataFrame:
    """Draw pings with a level, a grant schedule and a tail in each slot, and losses in bursts at edges and alone.

    Levels, tails and bursts have the size of those in ping campaigns from Victoria BC (clarkzjw/LEOLiveStreaming):
    levels of 14 to 35 ms, waits of up to 15 ms for a grant, delays that decay over a second after an edge, and
    interruptions of 0.1 s; 0.5 % of probes are lost alone.

    Args:
        seed: Seed of all draws.
        duration_s: Duration.
        every_s: Mean interval of probes; each is sent up to a quarter of it early or late.

    Returns:
        Columns as `bentpipe.analysis.tables.PINGS`.
    """
    rng = np.random.default_rng(seed)
    count = int(duration_s / every_s)
    sent = np.arange(count) * every_s + rng.uniform(-0.25, 0.25, count) * every_s
    sent -= sent[0]
    slot = np.floor((sent - PHASE_S) / SLOT_S).astype(np.int64) + 1
    slots = int(slot[-1]) + 1
    level, tail = rng.uniform(14, 35, slots), rng.gamma(2.0, 2.0, slots)
    since = (sent - PHASE_S) % SLOT_S
    burst = rng.exponential(20.0, slots)[slot] * np.exp(-since / 0.3)
    rtt_ms = level[slot] + rng.uniform(0, 15, count) + tail[slot] * rng.exponential(1.0, count) + burst
    # Replies arrive in the order of their probes.
    rtt_ms = np.maximum.accumulate(sent * 1e3 + rtt_ms) - sent * 1e3
    lost = (since < rng.exponential(0.1, slots)[slot]) | (rng.random(count) < 0.005)
    lost[0] = lost[-1] = False
    return pl.DataFrame(
        {
            "unix_ns": START_UNIX_NS + np.round(sent * 1e9).astype(np.int64),
            "rtt_ms": np.where(lost, np.nan, np.round(rtt_ms, 1)),
        }
    ).with_columns(pl.col("rtt_ms").fill_nan(None))
