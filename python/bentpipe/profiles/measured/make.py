"""Make a Profile from pings and, where given, a capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.analysis.edges import NEAR_S
from bentpipe.analysis.handovers import analyze_handovers
from bentpipe.errors import UserError
from bentpipe.measurements.readers.timestamps import Times
from bentpipe.profiles.build import DEFAULT_QUEUE, Points, Provenance, Side, queue_limit, single_hop_profile
from bentpipe.profiles.measured.capacity import Capacity, PlacedCapacity, place_capacity
from bentpipe.profiles.measured.delay import one_way_delays
from bentpipe.profiles.measured.intervals import lost_from, unknown_within, until
from bentpipe.profiles.measured.loss import loss_process
from bentpipe.profiles.measured.probes import Probes, choose_series, read_probes
from bentpipe.scenarios.units import QueueLimit, parse_queue
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.analysis.handovers import Handovers
    from bentpipe.profiles.measured.intervals import Intervals

    Edges = NDArray[np.int64]

#: Effects that a measured RTT contains already, so that they are not added twice.
INCLUDES = ("queueing", "mac_jitter")
#: Fate of packets at a slot edge of a measured Profile; the effect of the edge is in its delay and loss already.
_FATE = {"queue": "keep", "in_flight": "deliver", "order": "clamp"}


@dataclass(frozen=True)
class FromPings:
    """Options of `profile_from_pings`.

    Attributes:
        site, target, kind: The series of the table; None: the only one.
        split: Share of an RTT that is up, 0 to 1, where one-way delays are not known.
        silent_is_lost: Times without rows are lost probes, not gaps: the prober logged only replies.
        capacities: Candidates. For each direction those measured at the time of the pings are used, otherwise the first
            one; none: no capacity limit.
        queue: Queue limit, which no measurement contains.
        name: The Profile's name; None: site and target.
        source: Source of the pings, in a few words.
        clock_known: Whether the pings' times are those of a wall clock; otherwise only differences are meaningful.
        times: Whether the pings' timestamps are send times (`probe`) or reply times; None: detected.
    """

    site: str | None = None
    target: str | None = None
    kind: str | None = None
    split: float = 0.5
    silent_is_lost: bool = False
    capacities: Sequence[Capacity] = ()
    queue: QueueLimit = field(default_factory=lambda: parse_queue(DEFAULT_QUEUE, "queue"))
    name: str | None = None
    source: str = "pings"
    clock_known: bool = True
    times: Times | None = None


@dataclass(frozen=True)
class Measured:
    """A measured Profile, its probes and handovers, and notes about assumed or ignored data."""

    profile: Profile
    probes: Probes
    handovers: Handovers
    notes: Sequence[str]


def profile_from_pings(table: pl.DataFrame | pl.LazyFrame, options: FromPings | None = None) -> Measured:
    """Make the Profile of a path from pings; ``docs/reference/profile-from.md`` describes the method.

    Args:
        table: Pings (`bentpipe.analysis.tables.PINGS`); `up_ms` and `down_ms` [ms], `kind`, `seq` and `duplicate` are
            used if present.
        options: Default: the table's only series, half of its RTTs in each direction, and no capacity limit.

    Raises:
        UserError: Several series; too few replies; impossible values (`read_probes`); a split outside 0 to 1.
    """
    options = options or FromPings()
    if not 0 <= options.split <= 1:
        raise UserError(f"{options.split:g}", where="split", expected="0 to 1: the share of the RTT that is up")
    chosen = choose_series(table, site=options.site, target=options.target, kind=options.kind)
    probes = read_probes(chosen, silent_is_lost=options.silent_is_lost, times=options.times)
    handovers = analyze_handovers(probes.table(), clock_known=options.clock_known)
    edges = _edges(handovers, probes)
    delays = one_way_delays(probes, options.split, edges)
    loss = loss_process(probes, delays.up)
    duration_ns = int(probes.sent_ns[-1]) + probes.spacing_ns
    one_way = probes.up_ms is not None
    notes = [*probes.notes, *_notes(probes, delays.overtaken, edges), handovers.reason]
    up, down = (
        place_capacity(
            options.capacities,
            "up" if direction == "up" else "down",
            probes.start_unix_ns,
            duration_ns / 1e9,
            handovers.period_s,
            clock_known=options.clock_known,
        )
        for direction in ("up", "down")
    )
    notes += [*up.notes, *down.notes]
    limit = queue_limit(options.queue)
    if up.series is not None or down.series is not None:
        notes.append(f"the queue holds {_format_limit(limit)}: an assumption, not measured (`queue` sets it)")
    used = list(dict.fromkeys(one.source for one in (*up.used, *down.used)))
    achieved = any(one.achieved for one in (*up.used, *down.used))
    name = options.name or probes.name
    profile = single_hop_profile(
        name=name,
        hop="measured",
        start_unix_ns=probes.start_unix_ns,
        duration_s=duration_ns / 1e9,
        basis="one_way" if one_way else "half_rtt",
        provenance=Provenance(
            "measured",
            f"{options.source}: {probes.name}, {probes.sent_ns.size} probes from {format_utc(probes.start_unix_ns)}",
            (*INCLUDES, "cross_traffic", *(("congestion_control",) if achieved else ())),
            _recipe(probes, handovers, options, delays.cut_share, delays.overtaken)
            | {"capacity": used, "loss": loss.facts},
        ),
        up=_side(delays.up, loss.outages[0], up, loss.up, limit, duration_ns),
        down=_side(delays.down, loss.outages[1], down, loss.down, limit, duration_ns),
        events=[_edge(int(at)) for at in edges],
    )
    return Measured(profile, probes, handovers, notes)


def _side(
    delay: Points,
    outages: Intervals,
    capacity: PlacedCapacity,
    loss: Points | None,
    limit: dict[str, int],
    duration_ns: int,
) -> Side:
    """Return the series of a direction, without times after the last probe."""
    if capacity.outage_s is not None:
        closed = np.array([[round(capacity.outage_s * 1e9), duration_ns]])
        outages = np.concatenate([outages, closed])
        loss = lost_from(loss, capacity.outage_s)
    end_s = duration_ns / 1e9
    # The delay is unknown during an outage.
    whole = until(unknown_within(delay, outages), end_s, linear=True)
    assert whole is not None
    return Side(whole, capacity.series, until(loss, end_s, linear=False), limit)


def _edges(handovers: Handovers, probes: Probes) -> Edges:
    """Return the slot edges [ns since the first probe] between the first and the last probe."""
    if handovers.edge_unix_ns is None or handovers.period_s is None:
        return np.zeros(0, np.int64)
    period_ns = round(handovers.period_s * 1e9)
    first = (handovers.edge_unix_ns - probes.start_unix_ns) % period_ns
    return np.arange(first or period_ns, int(probes.sent_ns[-1]), period_ns, dtype=np.int64)


def _edge(at_ns: int) -> dict[str, Any]:
    """Return a handover event of which only the time is known; its effect is in the series already."""
    unknown = dict.fromkeys(("from_satellite", "to_satellite", "from_gateway", "to_gateway"))
    kind = {"handover": {**unknown, "to_hop": 0}}
    return {"at_ns": at_ns, "interruption_ns": 0, "hop": 0, "kind": kind, "up": _FATE, "down": _FATE}


def _notes(probes: Probes, overtaken: int, edges: Edges) -> list[str]:
    notes = []
    if probes.gap.any():
        total_s = float(np.diff(probes.gaps_ns(), axis=1).sum()) / 1e9
        notes.append(f"{int(probes.gap.sum())} gap(s), {total_s:.3g} s in all, without probes: they stay gaps")
        at_edges = _at_edges(probes, edges)
        if not probes.lost.any() and at_edges > probes.gap.sum() / 2:
            notes.append(
                f"no probe was lost, but {at_edges} of {int(probes.gap.sum())} gaps lie at slot edges: if the prober "
                "logged only replies, they are loss (`silent` lost)"
            )
    if overtaken:
        notes.append(f"{overtaken} reply(s) overtaken by later ones: delays reduced to keep the order of packets")
    if probes.up_ms is None:
        notes.append("RTTs only: the direction of delay and loss is unknown")
    return notes


def _format_limit(limit: dict[str, int]) -> str:
    """Format a queue limit with its unit."""
    ((unit, amount),) = limit.items()
    return f"{amount / 1e6:g} ms" if unit == "time_ns" else f"{amount} {unit}"


def _at_edges(probes: Probes, edges: Edges) -> int:
    """Count the gaps that begin or end within `NEAR_S` of a slot edge."""
    if not edges.size:
        return 0
    ends = probes.gaps_ns()
    after = np.searchsorted(edges, ends)
    before, behind = edges[np.maximum(after - 1, 0)], edges[np.minimum(after, edges.size - 1)]
    near = np.minimum(np.abs(ends - before), np.abs(ends - behind)) <= NEAR_S * 1e9
    return int(near.any(axis=1).sum())


def _recipe(
    probes: Probes, handovers: Handovers, options: FromPings, cut_share: float, overtaken: int
) -> dict[str, Any]:
    """Return the recipe: source, options and estimates of the Profile."""
    return {
        "maker": "pings",
        "site": probes.site,
        "target": probes.target,
        "probes": int(probes.sent_ns.size),
        "spacing_s": probes.spacing_ns / 1e9,
        "gaps": int(probes.gap.sum()),
        "silent_is_lost": options.silent_is_lost,
        "split": None if probes.up_ms is not None else options.split,
        "cut_share": cut_share,
        "overtaken": overtaken,
        "slots": {
            "period_s": handovers.period_s,
            "phase_s": handovers.phase_s,
            "p_value": handovers.p_value,
        },
    }
