"""Pings over computed Profiles: what a prober would have measured where nobody did."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.profiles.pings import ping_table
from bentpipe.scenarios.sites import Place
from bentpipe.scenarios.tables import Table
from bentpipe.studies.study import OnProgress
from bentpipe.times import format_utc, parse_utc

#: Probes come later by this part of the interval that was asked for, as ping's do: whole seconds would meet the edges
#: of slots, which lie on whole seconds, always at the same instant. In ten minutes of one a second all are met.
_LATE = 1 / 599
#: A probe sent this long before a Profile's end has its reply within it [s].
_REPLY_S = 2.0


@dataclass(frozen=True)
class Windows:
    """When is probed: stretches of `duration_s` [s] from each of `starts_unix_ns`."""

    starts_unix_ns: Sequence[int]
    duration_s: float

    @property
    def text(self) -> str:
        """One line for a result's basis."""
        first = format_utc(self.starts_unix_ns[0])
        many = len(self.starts_unix_ns)
        return f"{many} × {self.duration_s:g} s from {first} on" if many > 1 else f"{self.duration_s:g} s from {first}"


def take_windows(table: Table) -> Windows:
    """`first` (UTC), `days`, `hours` (of each day, UTC), `duration_s`: windows at the same hours of each day."""
    first = parse_utc(table.text("first"), f"{table.where}: first")
    days, hours = table.integer("days", 1, 366), table.integers("hours", 0, 23)
    found = Windows(
        [first + (day * 24 + hour) * 3600 * 10**9 for day in range(days) for hour in hours],
        table.number("duration_s", 1, 86_400),
    )
    table.done()
    return found


def simulated_pings(
    site: Place, server: Place, windows: Windows, every_s: float, seed: int, on_progress: OnProgress = lambda _: None
) -> pl.DataFrame:
    """Pings from `site` to `server` in each window, over a Profile of its own.

    Each Profile is drawn with `seed` plus the window's number.

    Returns:
        `unix_ns`, `site`, `target`, `rtt_ms` (null: lost), sorted by time.
    """
    parts = []
    for number, start_unix_ns in enumerate(windows.starts_unix_ns):
        with warnings.catch_warnings():
            # A study's own file says where its servers stand; that their way is a great circle is said there.
            warnings.simplefilter("ignore", UnpublishedRouteWarning)
            profile = make_profile(
                site, server, start_unix_ns=start_unix_ns, duration_s=windows.duration_s + _REPLY_S, seed=seed + number
            )
        sent_s = np.arange(0.0, windows.duration_s, every_s * (1 + _LATE))
        parts.append(ping_table(profile, sent_s, seed=seed + number))
        on_progress((number + 1) / len(windows.starts_unix_ns))
    return pl.concat(parts).select(
        "unix_ns", pl.lit(site.name).alias("site"), pl.lit(server.name).alias("target"), "rtt_ms"
    )
