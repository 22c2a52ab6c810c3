"""Simulate pings over a Profile, through the simulator's link elements."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from bentpipe import _native
from bentpipe._native import Profile
from bentpipe.profiles.path import PathView, held

#: An echo request as ping sends it [bytes]: 56 of data and the headers of ICMP (8) and IPv4 (20).
ECHO_BYTES = 84


def ping(profile: Profile, sent_s: ArrayLike, *, size_bytes: int = ECHO_BYTES, seed: int = 0) -> NDArray[np.float64]:
    """Return the RTTs of echo requests that the terminal sends and the far end answers at once.

    The packets share the queues, grant schedules, loss and delays of every hop: a packet that waits delays those behind
    it. In gaps and after the end of the Profile the last known values hold (`known_at`).

    Args:
        profile: The path.
        sent_s: Send times [s since the start], in any order, within the Profile; shape (n,).
        size_bytes: Packet size [bytes] with the IP header.
        seed: Seed of the per-packet draws, as of a Run.

    Returns:
        RTTs [ms] in the order of `sent_s`, NaN where request or reply was lost; shape (n,).

    Raises:
        UserError: A send time is outside the Profile.

    Example:
        >>> from bentpipe.profiles import preset_profile
        >>> rtt_ms = ping(preset_profile("dumbbell:rate=100mbit,rtt=40ms", 10.0), [1.0, 2.0])
        >>> rtt_ms.round(1).tolist()
        [40.0, 40.0]
    """
    return _native.ping(profile, np.ascontiguousarray(sent_s, np.float64), size_bytes, seed)


def ping_table(profile: Profile, sent_s: ArrayLike, *, size_bytes: int = ECHO_BYTES, seed: int = 0) -> pl.DataFrame:
    """Return simulated pings as a table for `bentpipe.analysis`: `unix_ns`, `rtt_ms` (null: lost), sorted by time.

    Probes in gaps of a measured Profile are left out, because the path is unknown there.
    """
    times = np.sort(np.asarray(sent_s, np.float64))
    times = times[known_at(profile, times)]
    unix_ns = profile.start_unix_ns + np.round(times * 1e9).astype(np.int64)
    rtt_ms = ping(profile, times, size_bytes=size_bytes, seed=seed)
    return pl.DataFrame({"unix_ns": unix_ns, "rtt_ms": rtt_ms}).with_columns(pl.col("rtt_ms").fill_nan(None))


def known_at(profile: Profile, t_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether the path is known (not a gap) for a packet that leaves the terminal at each time [s].

    Total loss counts as known, although there is no delay.
    """
    view = PathView(profile)
    valid, loss = view.valid("up"), view.loss("up")
    known: NDArray[np.bool_] = (held(valid.t_s, valid.value, t_s) > 0) | (held(loss.t_s, loss.value, t_s) >= 1)
    return known
