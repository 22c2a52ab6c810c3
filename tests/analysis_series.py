"""Series of pings for tests of the analyses: generated ones, and the campaigns where available."""

import numpy as np
import polars as pl
from shared_data import require_data

START_NS = 1_734_544_800_000_000_000
"""2024-12-18T18:00:00Z: a multiple of 15 s, of 10 s and of 12 s."""


def table(t_s, rtt_ms, **columns):
    rows = {"unix_ns": START_NS + np.round(np.asarray(t_s) * 1e9).astype(np.int64)}
    return pl.DataFrame({**rows, "rtt_ms": pl.Series(rtt_ms, dtype=pl.Float64).fill_nan(None), **columns})


def noise(rng, size, memory=10):
    """Delay with a memory of a few packets [ms]."""
    return np.convolve(rng.exponential(6.0, size + memory - 1), np.ones(memory) / memory, "valid")


def slotted(seed=0, *, period_s=15.0, phase_s=12.0, span_s=900.0, every_s=0.05, loss=0.01, step_ms=8.0):
    """Levels that change at each edge, on noise; no burst at the edges."""
    rng = np.random.default_rng(seed)
    t_s = np.arange(0, span_s, every_s)
    slot = np.floor((t_s - phase_s) / period_s).astype(int)
    levels = rng.exponential(step_ms, slot[-1] - slot[0] + 1)
    rtt_ms = 20 + levels[slot - slot[0]] + noise(rng, t_s.size)
    rtt_ms[rng.random(t_s.size) < loss] = np.nan
    return table(t_s, rtt_ms)


def shifting(seed, *, mean_s=15.0, span_s=900.0, every_s=0.05):
    """The same levels, changing at the times of a Poisson process: no clock."""
    rng = np.random.default_rng(seed)
    t_s = np.arange(0, span_s, every_s)
    changes = np.cumsum(rng.exponential(mean_s, int(4 * span_s / mean_s) + 20))
    levels = rng.exponential(8.0, changes.size + 1)
    return table(t_s, 20 + levels[np.searchsorted(changes, t_s)] + noise(rng, t_s.size))


def campaigns():
    """The campaigns by name, as the claim `slots` reads them."""
    from bentpipe.validation.slots import load

    return load(require_data())
