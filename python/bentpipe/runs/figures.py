"""Quantities by which worlds are compared, defined the same for simulated and emulated Runs."""

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
    """A readable Run without these figures; `reason` says why."""

    def __init__(self, run: Run, reason: str) -> None:
        """Name the Run and the reason."""
        super().__init__(f"{run.path}: not a whole Run: {reason}; delete this folder and run the comparison again")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one Run after the warm-up.

    Attributes:
        goodput_bps: Goodput of all flows together [bit/s].
        shares: Each flow's share of it.
        delay_ms: Mean one-way delay of data, measured by the elements, weighted by packets, summed over the hops [ms].
        retransmit_rate: Segments retransmitted / segments sent.
        lateness_ms: The emulator's lateness, 99th and 99.9th percentile [ms]; None: simulated.
        seconds: By one-second window (its end, rounded): the summed delay of its packets [ms], and their number.
        stolen: Windows in which the hypervisor stole processor time.
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
        """The first flow's share."""
        return self.shares[0]

    @property
    def calm(self) -> frozenset[int]:
        """Windows without stolen time in them or in the window before, whose queue may remain."""
        return frozenset(second for second in self.seconds if not {second, second - 1} & self.stolen)

    def delay_in_ms(self, seconds: Collection[int]) -> float:
        """Return `delay_ms` of these windows only; NaN: no packet was delivered in them."""
        windows = [self.seconds[second] for second in seconds if second in self.seconds]
        packets = sum(count for _, count in windows)
        return sum(spent_ms for spent_ms, _ in windows) / packets if packets else float("nan")


def figures_of(
    run: Run, samples: pl.DataFrame, links: pl.DataFrame, events: pl.DataFrame, *, warmup_s: float
) -> Figures:
    """Compute a Run's figures from its tables, without its first `warmup_s` [s].

    Raises:
        NoFiguresError: The Run has no flows or ended early, or a flow has no samples after the warm-up.
    """
    if not run.flows:
        raise NoFiguresError(run, f"it has no flow ({run.record.why_invalid or 'no reason is given'})")
    direction = run.record.experiment.flows[0].direction
    received_bytes, retransmits, span_s = [], [], []
    for flow in range(len(run.flows)):
        rows = samples.filter(pl.col("flow") == flow).sort("t_s")
        before = rows.filter(pl.col("t_s") <= warmup_s + HALF_STEP_S).tail(1)
        first, last = (before if before.height else rows.head(1)), rows.tail(1)
        if not last.height or float(last["t_s"][0]) <= max(float(first["t_s"][0]), warmup_s):
            until = f"{float(last['t_s'][0]):.1f} s" if last.height else "none at all"
            raise NoFiguresError(run, f"the samples of flow {flow} end at {until}; expected more than {warmup_s:g} s")
        received_bytes.append(int(last["goodput_bytes"][0]) - int(first["goodput_bytes"][0]))
        retransmits.append(int(last["retransmits"][0]) - int(first["retransmits"][0]))
        span_s.append(float(last["t_s"][0]) - float(first["t_s"][0]))
    total_bytes = sum(received_bytes)
    sent = total_bytes / MSS_BYTES + sum(retransmits)
    seconds = delays_by_second(links, direction, warmup_s)
    packets = sum(count for _, count in seconds.values())
    return Figures(
        goodput_bps=sum(8 * count / span for count, span in zip(received_bytes, span_s, strict=True)),
        shares=tuple(count / total_bytes if total_bytes else 0.0 for count in received_bytes),
        delay_ms=sum(ms for ms, _ in seconds.values()) / packets if packets else float("nan"),
        retransmit_rate=sum(retransmits) / sent if sent else 0.0,
        lateness_ms=lateness_ms(run) if "emulator" in run.record.summary else None,
        seconds=seconds,
        stolen=frozenset(round(t_s) for t_s in events.filter(pl.col("kind") == "stolen")["t_s"].to_list()),
    )


def lateness_ms(run: Run) -> tuple[float, float]:
    """Return the emulator's lateness [ms]: 99th and 99.9th percentile.

    Raises:
        NoFiguresError: The emulator stopped before it recorded its lateness.
    """
    relay = run.record.summary["emulator"].get("relay")
    if relay is None:
        raise NoFiguresError(run, str(run.record.why_invalid or "the emulator recorded no lateness"))
    return float(relay["lateness_p99_ms"] or 0.0), float(relay["lateness_p999_ms"] or 0.0)


HALF_STEP_S = 0.05
"""Half the interval between samples: the kernel's are taken a little after the tenth of a second [s]."""


def delays_by_second(links: pl.DataFrame, direction: str, warmup_s: float) -> dict[int, tuple[float, int]]:
    """Return by window the summed delay of the delivered packets of all flows [ms], and their number, at least 1.

    A path's hops alternate (satellites) and follow each other (satellite, gateway, exchange). The delay is that of all
    packets in all hops; the packets are those that `_counting_hops` forwarded. A window without such packets is left
    out: its mean is unknown.
    """
    # A window's row has the time of its end; the emulator writes it a little later.
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
    windows = rows.group_by("second").agg(spent_ms.alias("ms"), counted).filter(pl.col("delay_n") > 0).sort("second")
    return {int(second): (float(ms), int(count)) for second, ms, count in windows.rows()}


def _counting_hops(rows: pl.DataFrame) -> list[str]:
    """Return hops that together count each packet on the path once.

    The busiest hop is one of them: most paths have a hop that every route shares. Routes without a common hop
    alternate. So a further hop counts if most of its packets crossed in windows in which no hop before it forwarded a
    packet.
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
"""Value of `flow` in the rows of `links` that sum over all flows."""

HALF_WINDOW_S = 0.5
"""Half a window of `links` [s]."""


@dataclass(frozen=True, slots=True)
class Side:
    """One world's Runs of a validation cell, seed by seed."""

    runs: tuple[Figures, ...]

    def mean(self, name: str) -> float:
        """Return the mean of a figure over the seeds."""
        return fmean(float(getattr(run, name)) for run in self.runs)

    def first_shares(self) -> Sequence[float]:
        """Return the first flow's share, seed by seed."""
        return [run.shares[0] for run in self.runs]

    @property
    def lateness_ms(self) -> tuple[float, float] | None:
        """The largest lateness of the Runs; None: simulated."""
        late = [run.lateness_ms for run in self.runs if run.lateness_ms is not None]
        return (max(p99 for p99, _ in late), max(p999 for _, p999 in late)) if late else None
