"""A Profile of a node's link in a time window, from the results of its experiments.

The delay is that of a series that covers the window: the terminal's own latency, which its recording has each second,
or pings that an experiment sent. The capacity is that of transfers in the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from bentpipe.errors import UserError
from bentpipe.measurements.runs.store import find_measured, measured_files
from bentpipe.profiles.measured.capacity import capacities_from_tables
from bentpipe.profiles.measured.make import FromPings, Measured, profile_from_pings
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.measurements.runs.store import MeasuredRun

Latency = Literal["auto", "dish", "probes"]
"""Which delays: the terminal's own, probes of experiments, or those of both that cover more seconds."""

TABLES = ("probes", "samples", "dish_samples")
"""Tables of results that are used."""

LEAST_REPLIES = 10
"""Replies that a Profile needs."""

_NANOS = 10**9
_SMOOTHED = "the delay is the terminal's own latency, which most terminals report as a running mean: no jitter"


@dataclass(frozen=True)
class _Series:
    """Probes of one series, and what they are."""

    name: str
    probes: pl.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> int:
        """Seconds with a reply."""
        replies = self.probes.drop_nulls("rtt_ms")
        return (replies["unix_ns"] // _NANOS).n_unique()


def node_profile(results: Path, node: str, from_at_ms: int, to_at_ms: int, *, latency: Latency = "auto") -> Measured:
    """Make the Profile of a node's link from its results.

    Args:
        results: Folder with the results of experiments, as `bentpipe exp results` stores them.
        node: Name of the node, for the Profile.
        from_at_ms: Start of the window [ms since 1970].
        to_at_ms: Its end [ms since 1970].
        latency: Which delays.

    Raises:
        UserError: No delays in the window, or see `profile_from_pings`.
    """
    there = find_measured(results) if measured_files(results) else []
    runs = [run for run in there if not set(run.path.relative_to(results).parts) & {"server", "emulation"}]
    window = pl.col("unix_ns").is_between(from_at_ms * 10**6, to_at_ms * 10**6, closed="left")
    known = []
    if latency != "probes":
        known += _of_terminal(runs, window)
    if latency != "dish":
        known += _of_probes(runs, window)
    candidates = sorted(known, key=lambda series: -series.seconds)
    if not candidates or candidates[0].probes["rtt_ms"].count() < LEAST_REPLIES:
        span = f"{format_utc(from_at_ms * 10**6)} to {format_utc(to_at_ms * 10**6)}"
        raise UserError(
            f"no {'latency' if latency == 'auto' else latency} of {node} from {span}",
            where="profile",
            expected=f"{LEAST_REPLIES} replies",
            hint="an experiment with the builtin `dish` or `ping` in that time",
            code="not_found",
        )
    chosen = candidates[0]
    samples = _tables(runs, "samples", window)
    capacities = capacities_from_tables(pl.concat(samples) if samples else None, None)
    made = profile_from_pings(
        chosen.probes, FromPings(capacities=capacities, name=node, source=chosen.name, times="probe")
    )
    others = [f"{series.name}: not used, {series.seconds} s with replies" for series in candidates[1:4]]
    return Measured(made.profile, made.probes, made.handovers, [*chosen.notes, *made.notes, *others])


def _tables(runs: Sequence[MeasuredRun], name: str, window: pl.Expr) -> list[pl.DataFrame]:
    tables = [run.table(name) for run in runs if run.clock_known(name)]
    inside = [table.filter(window) for table in tables if table is not None]
    return [table for table in inside if table.height]


def _of_probes(runs: Sequence[MeasuredRun], window: pl.Expr) -> list[_Series]:
    """Return the series of probes; of Runs that overlap, the one that began first counts."""
    tables = sorted(_tables(runs, "probes", window), key=lambda table: int(table["unix_ns"][0]))
    ends: dict[tuple[object, ...], int] = {}
    parts: dict[tuple[object, ...], list[pl.DataFrame]] = {}
    for table in tables:
        for key, part in table.filter(~pl.col("duplicate").fill_null(value=False)).group_by("target", "kind"):
            times = part["unix_ns"].sort()
            begin, end = int(times[0]), int(times[-1])
            if begin > ends.get(key, -1):
                ends[key] = end
                parts.setdefault(key, []).append(part)
    return [
        _Series(f"{kind} probes of {target}", pl.concat(each).sort("unix_ns"))
        for (target, kind), each in sorted(parts.items(), key=str)
    ]


def _of_terminal(runs: Sequence[MeasuredRun], window: pl.Expr) -> list[_Series]:
    """Return the terminal's latency; several results of one second have the same sample."""
    inside = []
    for run in runs:
        table = run.table("dish_samples")
        if table is not None:
            lost = pl.col("pop_ping_drop_rate").fill_null(0) >= 1
            inside.append(
                table.select(
                    unix_ns="t_unix_ns",
                    rtt_ms=pl.when(~lost).then(pl.col("pop_ping_latency_ms")).cast(pl.Float64),
                ).filter(window & pl.col("unix_ns").is_not_null())
            )
    samples = [table for table in inside if table.height]
    if not samples:
        return []
    whole = pl.concat(samples).sort("unix_ns").unique("unix_ns", keep="first", maintain_order=True)
    # A second without any latency is no lost ping: the terminal did not say.
    probes = whole.select("unix_ns", "rtt_ms", site=pl.lit("terminal"), target=pl.lit("PoP"), kind=pl.lit("icmp"))
    return [_Series("the terminal's latency", probes, (_SMOOTHED,))]
