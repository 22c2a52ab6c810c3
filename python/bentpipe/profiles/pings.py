"""Pings over a Profile, through the simulator's link elements: what a prober at the terminal would have measured."""

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
    """RTTs of echo requests that leave the terminal and turn round at once at the far end.

    They pass queues, grant schedules, loss and delays of every hop, together: one that waits holds up those behind it.
    Within gaps the last known values hold (`known_at`); after the Profile's end, too.

    Args:
        profile: The path.
        sent_s: When they leave [s since the start], in any order, within the Profile; shape (n,).
        size_bytes: Size with the IP header.
        seed: Of the per-packet draws, as of a Run.

    Returns:
        RTTs [ms] in the order of `sent_s`, NaN where request or reply was lost; shape (n,).

    Raises:
        UserError: A time outside the Profile.
    """
    return _native.ping(profile, np.ascontiguousarray(sent_s, np.float64), size_bytes, seed)


def ping_table(profile: Profile, sent_s: ArrayLike, *, size_bytes: int = ECHO_BYTES, seed: int = 0) -> pl.DataFrame:
    """The same as a table that `bentpipe.analysis` reads: `unix_ns`, `rtt_ms` (null: lost), sorted by time.

    Probes within gaps of a measured Profile are left out: nobody knows what they would have met.
    """
    times = np.sort(np.asarray(sent_s, np.float64))
    times = times[known_at(profile, times)]
    unix_ns = profile.start_unix_ns + np.round(times * 1e9).astype(np.int64)
    rtt_ms = ping(profile, times, size_bytes=size_bytes, seed=seed)
    return pl.DataFrame({"unix_ns": unix_ns, "rtt_ms": rtt_ms}).with_columns(pl.col("rtt_ms").fill_nan(None))


def known_at(profile: Profile, t_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a packet that leaves the terminal at each time [s] meets a path that was measured, not a gap.

    Where everything is lost, that is known, though no delay is.
    """
    view = PathView(profile)
    valid, loss = view.valid("up"), view.loss("up")
    known: NDArray[np.bool_] = (held(valid.t_s, valid.value, t_s) > 0) | (held(loss.t_s, loss.value, t_s) >= 1)
    return known
