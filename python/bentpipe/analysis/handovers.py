"""Detection of scheduler slots in a series of RTTs: existence, period and phase, and statistics of each slot.

Starlink reassigns terminals every 15 s at :12, :27, :42 and :57 UTC (Tanveer et al., arXiv:2307.00402). At these times
minimum latency changes, packets are lost and delay rises briefly (Huston, "A Transport Protocol's View of Starlink",
2024, figures 3 to 5; T3P, section 3.3). None of that is assumed: period and phase are searched for, and "none" is a
possible result.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.analysis.edges import AtEdges, at_edges, edges_near, place, silent_from
from bentpipe.analysis.evidence import WINDOWS_S, evidence, spacing_s
from bentpipe.analysis.period import LEAST_BLOCK_S, LEAST_BLOCKS, LEAST_PERIODS, Clock, search
from bentpipe.analysis.tables import Series, only_series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Range of periods searched [s].
SHORTEST_S, LONGEST_S = 5.0, 60.0
#: Largest false-alarm probability at which slots count as found.
SIGNIFICANCE = 0.01
#: Probability up to which a record without found slots is undecided, however long it is. Chosen here: of 180
#: stretches long enough (`ENOUGH_S`) of the two Victoria campaigns and Seattle, which have slots, one in ten is above
#: `SIGNIFICANCE` and none above 0.04; of 252 null series (`bentpipe validate slots`) none is from 0.01 to 0.1.
NO_CLOCK = 0.1
#: Length of the windows in which a long record is searched [s], so that a host's drifting clock does not blur edges:
#: 100 ppm, a bad crystal, is 0.4 s in an hour.
WINDOW_S = 3600.0
#: Most windows searched, evenly spaced; their p-values are multiplied by their number (Bonferroni).
MOST_WINDOWS = 8
#: Fewest replies in a window; chosen here: two in each of three slots of four blocks, and some.
LEAST_REPLIES = 50
#: Spacing at which an interruption of 0.1 s is visible [s].
DENSE_S = 0.05
#: Probes whose slots are computed at once; chosen here: they take 100 MB.
AT_ONCE = 1_000_000
#: Coarsest usable spacing [s]: a slot of 15 s needs two probes on either side of an edge.
COARSEST_S = 2.5
#: (largest probe spacing, record length at which existing slots are usually found) [s]; chosen here by the shares found
#: in stretches of two campaigns (``validation/slots/README.md``). In sparser records few were found even in the longest
#: that were tried.
ENOUGH_S = ((0.025, 600.0), (0.6, 3600.0))
#: Sufficient share of that length: a ping of ten minutes ends slightly earlier.
NEARLY = 0.99


@dataclass(frozen=True)
class Handovers:
    """Result of the search for slots; without slots, all fields that depend on them are None or empty.

    Attributes:
        found: Whether `p_value` is at most `SIGNIFICANCE`.
        reason: Reason for the result, in one line.
        p_value: Bound on the probability of as much evidence in a series without slots (`period`); None if the series
            is too short or too sparse to be searched.
        period_s: The period [s].
        phase_s: Time of an edge modulo the period [s since 1970]; for 15 s the same as seconds of the minute modulo 15.
            Also None if `clock_known` is false.
        phase_error_s: Its standard error [s].
        edge_unix_ns: An edge: the first at or after the first probe.
        periods_searched_s: Shortest and longest period searched [s].
        probes, lost, duration_s, spacing_s: Properties of the series.
        slots: One row per slot with probes: `start_unix_ns`, `start_s` (since the first probe; the first slot may begin
            before it), `probes`, `lost`, `min_ms`, `median_ms`, `p95_ms`, `jitter_ms` (mean |difference| of successive
            replies), `step_ms` (median minus that of the preceding slot, if it has one).
        step_ms: Median |step| between successive slots' medians.
        step_p95_ms: Its 95th percentile.
        jitter_ms: Mean |difference| of successive replies in the same slot (Huston 2024: 6.7 ms).
        edges: Delay, loss and silence at edges.
        windows: One row per window searched: `start_unix_ns`, `start_s`, `p_value`, `period_s` and `phase_s` of its
            best candidate.
        clock_known: Whether the times of the series are wall-clock times. Otherwise they, `edge_unix_ns` and all
            `start_unix_ns` are relative to an unknown moment: comparable with the series, but not times of the day.
        enough_s: Length of a record with this spacing at which existing slots are usually found [s], see `ENOUGH_S`;
            None: no length that was tried is sufficient.
        undecided: Whether no slots were found in a record that was not searched, is shorter than `enough_s`, or has a
            `p_value` between `SIGNIFICANCE` and `NO_CLOCK`: it may have slots or not.
    """

    found: bool
    reason: str
    p_value: float | None
    period_s: float | None
    phase_s: float | None
    phase_error_s: float | None
    edge_unix_ns: int | None
    periods_searched_s: tuple[float, float] | None
    probes: int
    lost: int
    duration_s: float
    spacing_s: float | None
    slots: pl.DataFrame
    step_ms: float | None
    step_p95_ms: float | None
    jitter_ms: float | None
    edges: AtEdges | None
    windows: pl.DataFrame
    clock_known: bool = True
    enough_s: float | None = None
    undecided: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `analyze handovers --json` prints: tables as lists of objects.

        Without a wall clock, times since 1970 are null, and `start_s` has the start of a slot.
        """
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        slots, windows = self.slots, self.windows
        if not self.clock_known:
            plain["edge_unix_ns"] = None
            no = pl.lit(None, pl.Int64).alias("start_unix_ns")
            slots, windows = slots.with_columns(no), windows.with_columns(no)
        return plain | {
            "slots": slots.to_dicts(),
            "windows": windows.to_dicts(),
            "edges": asdict(self.edges) if self.edges else None,
        }


def analyze_handovers(
    table: pl.DataFrame | pl.LazyFrame,
    shortest_s: float = SHORTEST_S,
    longest_s: float = LONGEST_S,
    *,
    clock_known: bool = True,
) -> Handovers:
    """Find the scheduler's slots in the pings of one series.

    Args:
        table: Pings (`tables.PINGS`) from one site to one target; `unix_ns` is the send time, or, with a phase error of
            half an RTT, the reply time.
        shortest_s: Shortest period to search [s]; sparse series raise it: see `Handovers.periods_searched_s`.
        longest_s: Longest period to search [s].
        clock_known: Whether `unix_ns` is wall-clock time; false: only differences are meaningful, without a phase.

    Raises:
        UserError: Several series, or see `tables.series`.
    """
    result = _analyze(only_series(table), shortest_s, longest_s)
    if clock_known:
        return result
    reason = f"{result.reason}; without a wall clock, edges have no time of the day" if result.found else result.reason
    return replace(
        result,
        reason=reason,
        phase_s=None,
        windows=result.windows.with_columns(pl.lit(None, pl.Float64).alias("phase_s")),
        clock_known=False,
    )


def _analyze(one: Series, shortest_s: float, longest_s: float) -> Handovers:
    replies_s, rtt_ms = one.replies()
    spacing = spacing_s(one.t_s)
    # The windows on both sides of an edge must fit into a slot.
    shortest_s = max(shortest_s, 2.5 * max(WINDOWS_S[0], 2 * spacing))
    if replies_s.size < LEAST_REPLIES:
        return _none(one, spacing, f"{replies_s.size} replies; a search needs {LEAST_REPLIES}")
    if spacing > COARSEST_S:
        return _none(one, spacing, f"a probe every {spacing:.3g} s; slots need one every {COARSEST_S:g} s or denser")
    needed = LEAST_BLOCKS * max(LEAST_BLOCK_S, LEAST_PERIODS * shortest_s)
    if one.duration_s < needed:
        return _none(one, spacing, f"a search needs {needed:.0f} s")
    windows = [
        (part[0], clock)
        for part in _windows(one)
        if (clock := _search(replies_s, rtt_ms, part, spacing, shortest_s, longest_s)) is not None
    ]
    if not windows:
        return _none(one, spacing, "replies cover too little of it for a search")
    _, clock = min(windows, key=lambda window: (window[1].p_value, -window[1].strength))
    p_value = min(1.0, clock.p_value * len(windows))
    is_significant = p_value <= SIGNIFICANCE
    searched = (shortest_s, longest_s)
    table_of_windows = _window_table(one, windows)
    if not is_significant:
        reason = (
            f"no period from {shortest_s:g} to {longest_s:g} s stands out: p = {p_value:.2g}, above {SIGNIFICANCE:g}"
        )
        return _none(one, spacing, reason, p_value, searched, table_of_windows)
    period = clock.period_s
    every = edges_near(replies_s, clock.edge_s, period)
    every = every[(every >= 0) & (every < one.duration_s)]
    placed = place(replies_s, rtt_ms, every, 2 * max(WINDOWS_S[0], spacing))
    stops = silent_from(replies_s, every + placed.shift_s, period) if spacing <= DENSE_S else None
    edge_s = (clock.edge_s + placed.shift_s + (stops or 0.0)) % period
    edge_ns = one.start_unix_ns + round(edge_s * 1e9)
    slots, jitter = _slots(one, edge_s, period)
    steps = slots["step_ms"].drop_nulls().abs()
    return Handovers(
        found=True,
        reason=f"a reconfiguration every {period:g} s: p = {p_value:.2g}",
        p_value=p_value,
        period_s=period,
        phase_s=edge_ns % round(period * 1e9) / 1e9,
        phase_error_s=placed.error_s,
        edge_unix_ns=edge_ns,
        periods_searched_s=searched,
        probes=one.rtt_ms.size,
        lost=int(one.lost.sum()),
        duration_s=one.duration_s,
        spacing_s=spacing,
        slots=slots,
        step_ms=_number(steps.median()),
        step_p95_ms=_number(steps.quantile(0.95, "linear")),
        jitter_ms=jitter,
        edges=at_edges(one.t_s, one.rtt_ms, edge_s, period),
        windows=table_of_windows,
        enough_s=_enough_s(spacing),
    )


def _windows(one: Series) -> list[tuple[float, float]]:
    """Return the windows to search [s]."""
    count = max(1, round(one.duration_s / WINDOW_S))
    bounds = np.linspace(0, one.duration_s, count + 1)
    chosen = range(count) if count <= MOST_WINDOWS else np.linspace(0, count - 1, MOST_WINDOWS).astype(int)
    return [(float(bounds[i]), float(bounds[i + 1])) for i in chosen]


def _search(
    replies_s: Floats, rtt_ms: Floats, part: tuple[float, float], spacing: float, shortest_s: float, longest_s: float
) -> Clock | None:
    inside = slice(*np.searchsorted(replies_s, part))
    if replies_s[inside].size < LEAST_REPLIES:
        return None
    return search(evidence(replies_s[inside], rtt_ms[inside], spacing), shortest_s, longest_s, SIGNIFICANCE)


def _slots(one: Series, edge_s: float, period_s: float) -> tuple[pl.DataFrame, float | None]:
    """Return the slots and the jitter inside them; processes blocks of whole slots to save memory."""
    first, last = (int(np.floor((t_s - edge_s) / period_s)) for t_s in (one.t_s[0], one.t_s[-1]))
    at_once = max(1, int(AT_ONCE / one.t_s.size * (last - first + 1)))
    parts = []
    for slot in range(first, last + 1, at_once):
        bounds = [slot * period_s + edge_s, (slot + at_once) * period_s + edge_s]
        inside = slice(*np.searchsorted(one.t_s, bounds))
        parts.append(_some_slots(one.t_s[inside] - edge_s, one.rtt_ms[inside], period_s))
    slots = (
        # By rounding, a probe on an edge may be in either block; both assign it to the same slot.
        pl.concat(parts)
        .group_by("slot")
        .agg(
            pl.col("probes", "lost", "changes", "change_ms").sum(),
            pl.col("min_ms").min(),
            pl.col("median_ms", "p95_ms").sort_by("probes").last(),
        )
        .sort("slot")
    )
    changes, change_ms = int(slots["changes"].sum()), float(slots["change_ms"].sum())
    slots = slots.with_columns(
        pl.when(pl.col("slot").diff() == 1).then(pl.col("median_ms").diff()).alias("step_ms"),
        pl.when(pl.col("changes") > 0).then(pl.col("change_ms") / pl.col("changes")).alias("jitter_ms"),
        # In whole nanoseconds, because floating-point seconds since 1970 are too coarse.
        (pl.col("slot") * round(period_s * 1e9) + round(edge_s * 1e9)).alias("start_ns"),
    )
    slots = slots.with_columns(
        (one.start_unix_ns + pl.col("start_ns")).alias("start_unix_ns"), (pl.col("start_ns") / 1e9).alias("start_s")
    ).select(*_SLOTS)
    return slots, change_ms / changes if changes else None


def _some_slots(since_edge_s: Floats, rtt_ms: Floats, period_s: float) -> pl.DataFrame:
    rows = pl.DataFrame({"slot": np.floor(since_edge_s / period_s).astype(np.int64), "rtt_ms": rtt_ms})
    rows = rows.with_columns(pl.col("rtt_ms").fill_nan(None))
    sent = rows.group_by("slot").agg(pl.len().alias("probes"), pl.col("rtt_ms").null_count().alias("lost"))
    answered = (
        rows.drop_nulls()
        .with_columns(
            pl.when(pl.col("slot").diff() == 0).then(pl.col("rtt_ms").diff().abs()).alias("change"),
        )
        .group_by("slot")
        .agg(
            pl.col("change").count().alias("changes"),
            pl.col("change").sum().alias("change_ms"),
            pl.col("rtt_ms").min().alias("min_ms"),
            pl.col("rtt_ms").median().alias("median_ms"),
            pl.col("rtt_ms").quantile(0.95, "linear").alias("p95_ms"),
        )
    )
    return sent.join(answered, on="slot", how="left")


_SLOTS = {
    "start_unix_ns": pl.Int64,
    "start_s": pl.Float64,
    "probes": pl.UInt32,
    "lost": pl.UInt32,
    **dict.fromkeys(("min_ms", "median_ms", "p95_ms", "jitter_ms", "step_ms"), pl.Float64),
}
_WINDOWS = {"start_unix_ns": pl.Int64, **dict.fromkeys(("start_s", "p_value", "period_s", "phase_s"), pl.Float64)}


def _window_table(one: Series, windows: list[tuple[float, Clock]]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "start_unix_ns": one.start_unix_ns + round(start_s * 1e9),
                "start_s": start_s,
                "p_value": clock.p_value,
                "period_s": clock.period_s,
                "phase_s": (one.start_unix_ns + round(clock.edge_s * 1e9)) % round(clock.period_s * 1e9) / 1e9,
            }
            for start_s, clock in windows
        ],
        schema=_WINDOWS,
    )


def _none(
    one: Series,
    spacing: float,
    reason: str,
    p_value: float | None = None,
    searched: tuple[float, float] | None = None,
    windows: pl.DataFrame | None = None,
) -> Handovers:
    enough_s = _enough_s(spacing)
    short = p_value is None or enough_s is None or one.duration_s < NEARLY * enough_s
    between = p_value is not None and p_value <= NO_CLOCK
    undecided = short or between
    if between:
        reason = f"{reason}, but not above {NO_CLOCK:g}"
    if undecided:
        reason = f"{_short_of(one.duration_s, spacing) if short else 'undecided'}: {reason}"
    return Handovers(
        found=False,
        reason=reason,
        p_value=p_value,
        period_s=None,
        phase_s=None,
        phase_error_s=None,
        edge_unix_ns=None,
        periods_searched_s=searched,
        probes=one.rtt_ms.size,
        lost=int(one.lost.sum()),
        duration_s=one.duration_s,
        spacing_s=spacing if np.isfinite(spacing) else None,
        slots=pl.DataFrame(schema=_SLOTS),
        step_ms=None,
        step_p95_ms=None,
        jitter_ms=None,
        edges=None,
        windows=windows if windows is not None else pl.DataFrame(schema=_WINDOWS),
        enough_s=enough_s,
        undecided=undecided,
    )


def _enough_s(spacing: float) -> float | None:
    return next((length_s for most_s, length_s in ENOUGH_S if spacing <= most_s), None)


def _short_of(duration_s: float, spacing: float) -> str:
    """Return what an undecided record lacks."""
    enough_s = _enough_s(spacing)
    if enough_s is None and np.isfinite(spacing):
        most_s, length_s = ENOUGH_S[-1]
        return f"too sparse to tell (a probe every {spacing:.3g} s; expected {most_s:g} s, for {length_s:g} s)"
    if enough_s is not None and duration_s < NEARLY * enough_s:
        return f"too short to tell ({duration_s:.0f} s; expected {enough_s:g} s with a probe every {spacing:.3g} s)"
    return "too little to tell"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
