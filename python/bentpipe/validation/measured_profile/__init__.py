"""Compare ping statistics over a measured Profile with those of its source; independent loss must fail.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.errors import UserError
from bentpipe.measurements.runs.imports import read_file
from bentpipe.profiles.measured.agreement import (
    PingStats,
    ping_stats,
    regular_times,
    shifted_times,
    simulated_ping_stats,
)
from bentpipe.profiles.measured.make import FromPings, Measured, profile_from_pings
from bentpipe.profiles.table import profile_from_frame, profile_to_frame
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.measured_profile.series import drawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bentpipe._native import Profile

#: Largest relative difference between measurement and simulation. That of the mean run of lost probes is chosen here:
#: it is half a probe more or less at the ends of runs of five.
TOLERANCE, RUN_TOLERANCE = 0.05, 0.10

#: Compared quantities: name, attribute of `PingStats`, unit, factor to the unit, tolerance.
Quantity = tuple[str, str, str, float, float]
DELAY: Sequence[Quantity] = (
    ("median", "median_ms", " ms", 1, TOLERANCE),
    ("p95", "p95_ms", " ms", 1, TOLERANCE),
    ("p99", "p99_ms", " ms", 1, TOLERANCE),
)
LOSS: Sequence[Quantity] = (
    ("loss", "loss", " %", 100, TOLERANCE),
    ("mean run of lost probes", "run", "", 1, RUN_TOLERANCE),
)


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Compare pings over Profiles with their source: a generated series, and the campaigns below `data`."""
    rows: list[Row] = []
    notes = []
    campaigns = list(_campaigns(data)) if data is not None else []
    if not campaigns:
        notes.append("drawn series only: no ping campaigns given (`data`, see the claim's README)")
    campaigns.insert(0, ("drawn", drawn(), FromPings(), False))
    for k, (name, table, how, waits) in enumerate(campaigns):
        made = profile_from_pings(table, how)
        was = ping_stats(made.probes.table())
        regular = simulated_ping_stats(made.profile, regular_times(made.probes, made.profile))
        rows += compared(name, LOSS, was, regular)
        if waits:
            rows += compared(
                f"{name}, as it was sent", DELAY, was, simulated_ping_stats(made.profile, shifted_times(made.probes))
            )
            notes.append(
                f"{name}, at one distance (its prober waited for replies): {stats_text(regular)}; was {stats_text(was)}"
            )
        else:
            rows += compared(name, DELAY, was, regular)
        if was.run >= 2:
            rows.append(control(name, made, was))
        on_progress((k + 1) / len(campaigns))
    return Outcome("measured-profile", rows, notes)


def compared(name: str, quantities: Sequence[Quantity], was: PingStats, now: PingStats) -> list[Row]:
    """Return a row for each quantity."""
    rows = []
    for quantity, key, unit, scale, tolerance in quantities:
        measured, ours = getattr(was, key) * scale, getattr(now, key) * scale
        if not was.loss and key == "run":
            continue
        within = bool(abs(ours - measured) <= tolerance * measured)
        rows.append(
            Row(f"{name}: {quantity}", f"{ours:.4g}{unit}", f"{measured:.4g}{unit}", f"{tolerance:.0%}", within)
        )
    return rows


def control(name: str, made: Measured, was: PingStats) -> Row:
    """Check that independent loss at the same rate does not pass for the measured bursts."""
    now = simulated_ping_stats(with_coin(made.profile, was.loss), regular_times(made.probes, made.profile))
    fails = abs(now.run - was.run) > RUN_TOLERANCE * was.run
    return Row(
        f"{name}, negative control: {now.loss:.2%} as a coin a packet",
        f"runs of {now.run:.2f}",
        f"{was.run:.2f}",
        "must fail",
        fails,
    )


def with_coin(profile: Profile, loss: float) -> Profile:
    """Return the Profile with constant, independent loss in both directions instead of its loss process."""
    frame = profile_to_frame(profile).filter(pl.col("kind") != "loss_probability")
    one_way = 1 - (1 - loss) ** 0.5
    hop = frame["hop"][0]
    coins = pl.DataFrame(
        {
            "t_s": [0.0, 0.0],
            "hop": [hop, hop],
            "direction": ["up", "down"],
            "kind": ["loss_probability"] * 2,
            "value": [one_way] * 2,
            "valid": [True] * 2,
        },
        schema=frame.schema,
    )
    return profile_from_frame(pl.concat([frame, coins]), profile.metadata_json())


def stats_text(stats: PingStats) -> str:
    """Describe a ping's statistics in one line."""
    return (
        f"{stats.median_ms:.1f} / {stats.p95_ms:.1f} / {stats.p99_ms:.1f} ms, {stats.loss:.2%} lost in runs of "
        f"{stats.run:.2f}"
    )


def _campaigns(data: Path) -> Iterator[tuple[str, pl.DataFrame, FromPings, bool]]:
    """Yield the campaigns that are present.

    Each has its name, pings, how the Profile is made, and whether the prober waited for replies.
    """
    for file in sorted((data / "latency_victoria_10ms").glob("*.csv")):
        table = _columns(file, ",", 0, 1, 1)
        name = f"victoria {file.stem.removeprefix('bent_pipe_victoria_').removesuffix('_latency')}"
        yield name, table, FromPings(), False
        # Lost probes have no rows there: a silence of more than five probes counts as loss.
        yield f"{name}, silences as loss", table, FromPings(silent_is_lost=True), False
    for file in sorted((data / "latency_seattle_250ms").glob("*ping*.txt")):
        yield (
            "seattle" if "seattle" in file.name else file.stem[:30],
            _columns(file, "\t", 0, 2, 10**9),
            FromPings(),
            True,
        )
    for file in sorted((data / "joint_victoria_20250529").glob("ping-*.txt")):
        yield "joint", read_file(file).measurement.tables["probes"], FromPings(), False


def _columns(path: Path, separator: str, time: int, rtt: int, unit_ns: int) -> pl.DataFrame:
    """Return a table without a heading: reply times, and RTTs [ms], below 0 if lost."""
    try:
        table = np.loadtxt(path, delimiter=separator, usecols=(time, rtt), dtype=np.float64, ndmin=2)
    except (ValueError, OSError) as error:
        raise UserError(f"{path}: {error}; expected numbers in columns {time + 1} and {rtt + 1}") from None
    lost = table[:, 1] < 0
    replied_ns = np.round(table[:, 0] * unit_ns).astype(np.int64)
    sent_ns = replied_ns - np.round(np.where(lost, 0, table[:, 1]) * 1e6).astype(np.int64)
    return pl.DataFrame({"unix_ns": sent_ns, "rtt_ms": np.where(lost, np.nan, table[:, 1])}).with_columns(
        pl.col("rtt_ms").fill_nan(None)
    )
