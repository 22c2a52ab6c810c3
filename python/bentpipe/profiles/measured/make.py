"""A Profile from pings and, if there is one, a capacity."""

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
from bentpipe.profiles.measured.capacity import Capacity, Laid, laid_out
from bentpipe.profiles.measured.delay import one_way_delays
from bentpipe.profiles.measured.intervals import lost_from, unknown_within, until
from bentpipe.profiles.measured.loss import loss_process
from bentpipe.profiles.measured.probes import Probes, choose, read_probes
from bentpipe.scenarios.units import QueueLimit, parse_queue
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.analysis.handovers import Handovers
    from bentpipe.profiles.measured.intervals import Intervals

    Edges = NDArray[np.int64]

#: What a measured RTT holds already, so that nothing adds it again.
INCLUDES = ("queueing", "mac_jitter")
#: What becomes of packets at an edge of a measured Profile: what happened to them is in its delay and loss already.
_FATE = {"queue": "keep", "in_flight": "deliver", "order": "clamp"}


@dataclass(frozen=True)
class FromPings:
    """How a Profile is made from pings.

    Attributes:
        site, target, kind: Which series of the table; None: the only one there is.
        split: Share of an RTT that is up, 0 to 1, where one-way delays are not known.
        silent_is_lost: Stretches without rows are lost probes, not gaps: the prober wrote only what was answered.
        capacities: Of each direction those measured beside the pings, or else the first that speaks of it; none: no
            capacity limit.
        queue: Limit of the queues; no measurement knows it.
        name: The Profile's; None: site and target.
        source: Where the pings come from, in a few words.
        clock_known: Whether the pings' times are those of a wall clock; else only their differences mean anything.
        times: Whether the pings' timestamps are send times (`probe`) or reply times; None: as they look.
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
    """A measured Profile, the probes that it was made from, and lines about what was left out or assumed."""

    profile: Profile
    probes: Probes
    handovers: Handovers
    notes: Sequence[str]


def profile_from_pings(table: pl.DataFrame | pl.LazyFrame, options: FromPings | None = None) -> Measured:
    """The path that a prober saw, as a Profile; how: ``docs/reference/profile-from.md``.

    Args:
        table: Pings (`bentpipe.analysis.tables.PINGS`); `up_ms` and `down_ms`, `kind`, `seq` and `duplicate` are used
            where there are any.
        options: By default the table's only series, halves of its RTTs, and no capacity limit.

    Raises:
        UserError: Several series; too few replies; impossible values (`read_probes`); a split beyond 0 and 1.
    """
    wanted = options or FromPings()
    if not 0 <= wanted.split <= 1:
        raise UserError(f"split: {wanted.split:g}; wanted 0 to 1: the share of the RTT that is up")
    chosen = choose(table, site=wanted.site, target=wanted.target, kind=wanted.kind)
    probes = read_probes(chosen, silent_is_lost=wanted.silent_is_lost, times=wanted.times)
    handovers = analyze_handovers(probes.table(), clock_known=wanted.clock_known)
    edges = _edges(handovers, probes)
    delays = one_way_delays(probes, wanted.split, edges)
    loss = loss_process(probes, delays.up)
    duration_ns = int(probes.sent_ns[-1]) + probes.spacing_ns
    one_way = probes.up_ms is not None
    notes = [*probes.notes, *_told(probes, delays.overtaken, edges), handovers.reason]
    up, down = (
        laid_out(
            wanted.capacities,
            "up" if direction == "up" else "down",
            probes.start_unix_ns,
            duration_ns / 1e9,
            handovers.period_s,
            clock_known=wanted.clock_known,
        )
        for direction in ("up", "down")
    )
    notes += [*up.notes, *down.notes]
    limit = queue_limit(wanted.queue)
    if up.series is not None or down.series is not None:
        notes.append(f"the queue before the capacity holds {_said(limit)}: no measurement knows (--queue says it)")
    used = list(dict.fromkeys(one.source for one in (*up.used, *down.used)))
    achieved = any(one.achieved for one in (*up.used, *down.used))
    name = wanted.name or probes.name
    profile = single_hop_profile(
        name=name,
        hop="measured",
        start_unix_ns=probes.start_unix_ns,
        duration_s=duration_ns / 1e9,
        basis="one_way" if one_way else "half_rtt",
        provenance=Provenance(
            "measured",
            f"{wanted.source}: {probes.name}, {probes.sent_ns.size} probes from {format_utc(probes.start_unix_ns)}",
            (*INCLUDES, "cross_traffic", *(("congestion_control",) if achieved else ())),
            _recipe(probes, handovers, wanted, delays.cut_share, delays.overtaken)
            | {"capacity": used, "loss": loss.facts},
        ),
        up=_side(delays.up, loss.outages[0], up, loss.up, limit, duration_ns),
        down=_side(delays.down, loss.outages[1], down, loss.down, limit, duration_ns),
        events=[_edge(int(at)) for at in edges],
    )
    return Measured(profile, probes, handovers, notes)


def _side(
    delay: Points, outages: Intervals, laid: Laid, loss: Points | None, limit: dict[str, int], duration_ns: int
) -> Side:
    """A direction; what the far end's clock has behind the last probe is left out."""
    if laid.outage_s is not None:
        closed = np.array([[round(laid.outage_s * 1e9), duration_ns]])
        outages = np.concatenate([outages, closed])
        loss = lost_from(loss, laid.outage_s)
    end_s = duration_ns / 1e9
    # While nothing comes through, nobody knows how late it would be.
    whole = until(unknown_within(delay, outages), end_s, linear=True)
    assert whole is not None
    return Side(whole, laid.series, until(loss, end_s, linear=False), limit)


def _edges(handovers: Handovers, probes: Probes) -> Edges:
    """When slots begin [ns since the first probe], after the first probe and up to the last."""
    if handovers.edge_unix_ns is None or handovers.period_s is None:
        return np.zeros(0, np.int64)
    period_ns = round(handovers.period_s * 1e9)
    first = (handovers.edge_unix_ns - probes.start_unix_ns) % period_ns
    return np.arange(first or period_ns, int(probes.sent_ns[-1]), period_ns, dtype=np.int64)


def _edge(at_ns: int) -> dict[str, Any]:
    """A handover of which nothing is known but when; what it did to packets is in the series already."""
    unknown = dict.fromkeys(("from_satellite", "to_satellite", "from_gateway", "to_gateway"))
    kind = {"handover": {**unknown, "to_hop": 0}}
    return {"at_ns": at_ns, "interruption_ns": 0, "hop": 0, "kind": kind, "up": _FATE, "down": _FATE}


def _told(probes: Probes, overtaken: int, edges: Edges) -> list[str]:
    notes = []
    if probes.gap.any():
        total_s = float(np.diff(probes.unknown(), axis=1).sum()) / 1e9
        notes.append(f"{int(probes.gap.sum())} gap(s), {total_s:.3g} s in all, in which nobody probed: gaps stay gaps")
        at_edges = _at_edges(probes, edges)
        if not probes.lost.any() and at_edges > probes.gap.sum() / 2:
            notes.append(
                f"no probe was lost, but {at_edges} of {int(probes.gap.sum())} gaps lie at slot edges: if the prober "
                "wrote only what was answered, they are loss (--silent lost)"
            )
    if overtaken:
        notes.append(f"{overtaken} reply(s) overtaken by later ones: cut to the overtaker's, since a path keeps order")
    if probes.up_ms is None:
        notes.append("RTTs only: which way was late, or lost, is not known")
    return notes


def _said(limit: dict[str, int]) -> str:
    """A queue's limit with its unit."""
    ((unit, amount),) = limit.items()
    return f"{amount / 1e6:g} ms" if unit == "time_ns" else f"{amount} {unit}"


def _at_edges(probes: Probes, edges: Edges) -> int:
    """How many gaps begin or end within `NEAR_S` of a slot's edge."""
    if not edges.size:
        return 0
    ends = probes.unknown()
    after = np.searchsorted(edges, ends)
    before, behind = edges[np.maximum(after - 1, 0)], edges[np.minimum(after, edges.size - 1)]
    near = np.minimum(np.abs(ends - before), np.abs(ends - behind)) <= NEAR_S * 1e9
    return int(near.any(axis=1).sum())


def _recipe(
    probes: Probes, handovers: Handovers, wanted: FromPings, cut_share: float, overtaken: int
) -> dict[str, Any]:
    """All that was decided on the way."""
    return {
        "maker": "pings",
        "site": probes.site,
        "target": probes.target,
        "probes": int(probes.sent_ns.size),
        "spacing_s": probes.spacing_ns / 1e9,
        "gaps": int(probes.gap.sum()),
        "silent_is_lost": wanted.silent_is_lost,
        "split": None if probes.up_ms is not None else wanted.split,
        "cut_share": cut_share,
        "overtaken": overtaken,
        "slots": {
            "period_s": handovers.period_s,
            "phase_s": handovers.phase_s,
            "p_value": handovers.p_value,
        },
    }
