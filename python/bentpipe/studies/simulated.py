"""Simulated pings over computed Profiles, for places without measurements."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.profiles.pings import ping_table
from bentpipe.scenarios.sites import Place
from bentpipe.studies.scenario import WindowsEntry
from bentpipe.studies.study import OnProgress
from bentpipe.times import format_utc, parse_utc

#: The interval between probes is longer than requested by this part, as ping's is. Probes at whole seconds would
#: always meet the slot edges, which lie on whole seconds, at the same phase. At one a second,
#: ten minutes cover all phases.
_LATE = 1 / 599
#: Time that a Profile lasts beyond the last probe, for its reply [s].
_REPLY_S = 2.0


@dataclass(frozen=True)
class Windows:
    """Times of probing: windows of `duration_s` [s] from each of `starts_unix_ns`."""

    starts_unix_ns: Sequence[int]
    duration_s: float

    @property
    def text(self) -> str:
        """Describe the windows in one line for a result's basis."""
        first = format_utc(self.starts_unix_ns[0])
        many = len(self.starts_unix_ns)
        return f"{many} × {self.duration_s:g} s from {first} on" if many > 1 else f"{self.duration_s:g} s from {first}"


def windows_of(entry: WindowsEntry) -> Windows:
    """Return the windows of a study's file."""
    first = parse_utc(entry.first)
    starts = [first + (day * 24 + hour) * 3600 * 10**9 for day in range(entry.days) for hour in entry.hours]
    return Windows(starts, entry.duration_s)


def simulated_pings(
    site: Place, server: Place, windows: Windows, every_s: float, seed: int, on_progress: OnProgress = lambda _: None
) -> pl.DataFrame:
    """Simulate pings from `site` to `server`, over one Profile for each window.

    The seed of each Profile is `seed` plus the window's number.

    Returns:
        `unix_ns`, `site`, `target`, `rtt_ms` (null: lost), sorted by time.
    """
    parts = []
    for number, start_unix_ns in enumerate(windows.starts_unix_ns):
        with warnings.catch_warnings():
            # The study's file gives the servers' places and states that the route is a great circle.
            warnings.simplefilter("ignore", UnpublishedRouteWarning)
            profile = make_profile(
                site,
                server,
                start_unix_ns=start_unix_ns,
                duration_s=windows.duration_s + _REPLY_S,
                loss="idle",  # pings do not fill the path
                seed=seed + number,
            )
        sent_s = np.arange(0.0, windows.duration_s, every_s * (1 + _LATE))
        parts.append(ping_table(profile, sent_s, seed=seed + number))
        on_progress((number + 1) / len(windows.starts_unix_ns))
    return pl.concat(parts).select(
        "unix_ns", pl.lit(site.name).alias("site"), pl.lit(server.name).alias("target"), "rtt_ms"
    )
