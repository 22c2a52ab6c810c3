"""What worlds are compared by: the same quantities of a Run, whichever world it happened in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.runs.store import DamagedRunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.runs.store import Run

MSS_BYTES = 1448
"""Payload of a full segment: 1500-byte IPv4 packets with timestamps."""


class NoFiguresError(DamagedRunError):
    """A Run that is readable and has no such figures; `found` says why."""

    def __init__(self, run: Run, found: str) -> None:
        """Of a Run, and what was found in it."""
        super().__init__(f"{run.path}: not a whole Run: {found}; delete this folder and run the comparison again")
        self.found = found


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one Run, after the warm-up.

    Attributes:
        goodput_bps: What all flows got [bit/s].
        shares: Each flow's part of it.
        delay_ms: Mean one-way delay of the data as the elements saw it, weighted by packets, summed over the hops [ms].
        retransmit_rate: Segments retransmitted / segments sent.
        lateness_ms: How late the emulator was, 99th and 99.9th percentile; None: simulated.
        seconds: By window of a second (its end, rounded): delay spent by its packets [ms], and how many there were.
        stolen: Windows in which the hypervisor took time from the processors.
    """

    goodput_bps: float
    shares: tuple[float, ...]
    delay_ms: float
    retransmit_rate: float
    lateness_ms: tuple[float, float] | None
    seconds: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    stolen: frozenset[int] = frozenset()

    @property
    def first_share(self) -> float:
        """The first flow's."""
        return self.shares[0]

    @property
    def calm(self) -> frozenset[int]:
        """Windows in which nothing was stolen, nor in the one before, whose queue may still stand."""
        return frozenset(second for second in self.seconds if not {second, second - 1} & self.stolen)

    def delay_in_ms(self, seconds: Collection[int]) -> float:
        """As `delay_ms`, in these windows only; NaN: no packet came through in them."""
        found = [self.seconds[second] for second in seconds if second in self.seconds]
        packets = sum(count for _, count in found)
        return sum(spent_ms for spent_ms, _ in found) / packets if packets else float("nan")


def figures_of(
    run: Run, samples: pl.DataFrame, links: pl.DataFrame, events: pl.DataFrame, *, warmup_s: float
) -> Figures:
    """The figures of a Run from its tables, without its first `warmup_s` [s].

    Raises `NoFiguresError` for a Run without flows or that ended early, and for a flow of which nothing follows the
    warm-up.
    """
    if not run.flows:
        raise NoFiguresError(run, f"it has no flow ({run.record.get('why_invalid') or 'no reason is given'})")
    experiment = run.record["experiment"]
    direction = experiment["flows"][0]["direction"]
    got_bytes, again, span_s = [], [], []
    for flow in range(len(run.flows)):
        rows = samples.filter(pl.col("flow") == flow).sort("t_s")
        before = rows.filter(pl.col("t_s") <= warmup_s + HALF_STEP_S).tail(1)
        first, last = (before if before.height else rows.head(1)), rows.tail(1)
        if not last.height or float(last["t_s"][0]) <= max(float(first["t_s"][0]), warmup_s):
            until = f"{float(last['t_s'][0]):.1f} s" if last.height else "none at all"
            raise NoFiguresError(run, f"the samples of flow {flow} end at {until}; wanted more than {warmup_s:g} s")
        got_bytes.append(int(last["goodput_bytes"][0]) - int(first["goodput_bytes"][0]))
        again.append(int(last["retransmits"][0]) - int(first["retransmits"][0]))
        span_s.append(float(last["t_s"][0]) - float(first["t_s"][0]))
    total_bytes = sum(got_bytes)
    sent = total_bytes / MSS_BYTES + sum(again)
    seconds = delays_by_second(links, direction, warmup_s)
    packets = sum(count for _, count in seconds.values())
    return Figures(
        goodput_bps=sum(8 * count / span for count, span in zip(got_bytes, span_s, strict=True)),
        shares=tuple(count / total_bytes if total_bytes else 0.0 for count in got_bytes),
        delay_ms=sum(ms for ms, _ in seconds.values()) / packets if packets else float("nan"),
        retransmit_rate=sum(again) / sent if sent else 0.0,
        lateness_ms=lateness_ms(run) if "emulator" in run.record["summary"] else None,
        seconds=seconds,
        stolen=frozenset(round(t_s) for t_s in events.filter(pl.col("kind") == "stolen")["t_s"].to_list()),
    )


def lateness_ms(run: Run) -> tuple[float, float]:
    """The emulator's own measure of itself [ms]: 99th and 99.9th percentile.

    Raises `NoFiguresError` where it ended before it could tell.
    """
    relay = run.record["summary"]["emulator"].get("relay")
    if relay is None:
        raise NoFiguresError(run, str(run.record.get("why_invalid") or "the emulator did not say how late it was"))
    return float(relay["lateness_p99_ms"] or 0.0), float(relay["lateness_p999_ms"] or 0.0)


HALF_STEP_S = 0.05
"""Half the time between samples: the kernel's are taken a little after the tenth of a second [s]."""


def delays_by_second(links: pl.DataFrame, direction: str, warmup_s: float) -> dict[int, tuple[float, int]]:
    """By window: delay of the packets that came through, of all flows together [ms], and their number, at least 1.

    A path's hops take turns (satellites) and follow each other (satellite, gateway, exchange): the delay of all packets
    in all hops, and the packets that `_counting_hops` passed on. A window in which these passed on none is left out:
    its mean is not known.
    """
    # A window's row is written at its end, the kernel's a little later.
    rows = links.filter(
        (pl.col("flow") == ALL_FLOWS)
        & (pl.col("direction") == direction)
        & (pl.col("t_s") > warmup_s + HALF_WINDOW_S)
        & (pl.col("delay_n") > 0)
    ).with_columns(pl.col("t_s").round().cast(pl.Int64).alias("second"))
    if rows.is_empty():
        return {}
    hops = _counting_hops(rows)
    spent_ms = (pl.col("delay_mean_ms") * pl.col("delay_n").cast(pl.Float64)).sum()
    counted = pl.col("delay_n").filter(pl.col("hop").is_in(hops)).sum()
    found = rows.group_by("second").agg(spent_ms.alias("ms"), counted).filter(pl.col("delay_n") > 0).sort("second")
    return {int(second): (float(ms), int(count)) for second, ms, count in found.rows()}


def _counting_hops(rows: pl.DataFrame) -> list[str]:
    """Return the hops whose packets, added up, are those that crossed the path, each once.

    The busiest hop is one: most paths have a hop that every route shares. Routes that share none take turns, so a hop
    is another one if most of its packets crossed in windows in which none of the hops before it passed a packet on.
    """
    crossed = rows.group_by("hop", "second").agg(pl.col("delay_n").sum())
    totals = crossed.group_by("hop").agg(pl.col("delay_n").sum().alias("total"))
    hops = [str(totals.sort("total", "hop")["hop"][-1])]
    while True:
        counted = crossed.filter(pl.col("hop").is_in(hops))["second"].unique()
        missed = (
            crossed.filter(~pl.col("second").is_in(counted.implode()))
            .group_by("hop")
            .agg(pl.col("delay_n").sum())
            .join(totals, on="hop")
            .filter(2 * pl.col("delay_n") > pl.col("total"))
            .sort("delay_n", "hop")
        )
        if missed.is_empty():
            return hops
        hops.append(str(missed["hop"][-1]))


def seconds_without_delay(seconds: Collection[int], duration_s: float, warmup_s: float) -> int:
    """Count the whole windows after the warm-up that `delays_by_second` does not have."""
    windows = range(1, int(duration_s + 1e-6) + 1)
    return sum(second > warmup_s + HALF_WINDOW_S and second not in seconds for second in windows)


ALL_FLOWS = -1
"""Row of a hop's sum over the flows in `links`."""

HALF_WINDOW_S = 0.5
"""Half a window of `links` [s]."""


@dataclass(frozen=True, slots=True)
class Side:
    """One world's Runs of a cell, seed by seed."""

    runs: tuple[Figures, ...]

    def mean(self, name: str) -> float:
        """Mean of one of the figures over the seeds."""
        return fmean(float(getattr(run, name)) for run in self.runs)

    def first_shares(self) -> Sequence[float]:
        """The first flow's share, seed by seed."""
        return [run.shares[0] for run in self.runs]

    @property
    def lateness_ms(self) -> tuple[float, float] | None:
        """The worst of the Runs; None: simulated."""
        late = [run.lateness_ms for run in self.runs if run.lateness_ms is not None]
        return (max(p99 for p99, _ in late), max(p999 for _, p999 in late)) if late else None
