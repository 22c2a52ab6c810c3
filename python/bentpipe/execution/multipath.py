"""Simulate one connection over several paths: a TCP subflow on each, a scheduler, delivery in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from bentpipe import _native
from bentpipe.errors import UserError, unknown_name
from bentpipe.experiments.experiment import NS_PER_S
from bentpipe.records import Items, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bentpipe._native import Profile

    Floats = NDArray[np.float64]

SchedulerName = Literal["min-rtt", "round-robin", "linger", "forecast"]
"""How new data is distributed: ``min-rtt`` (lowest smoothed RTT with room in its window, the default of MPTCP v0.9x),
``round-robin``, ``linger`` (shortest time to flush what is queued, Linux's default since 5.11) and ``forecast``
(earliest completion by a `PathOutlook`, nothing into interruptions)."""

SCHEDULERS: tuple[SchedulerName, ...] = get_args(SchedulerName)
"""All of them."""

SAMPLE_S = 0.1
"""Time between samples of a multipath run [s]."""

RECEIVE_BUFFER_BYTES = 16_777_216
"""Receive window of the connection: half of Linux's `tcp_rmem[2]`, which it announces of a full buffer [bytes]."""


class PathOutlook(Record):
    """What a sender knows of a path to come. Times are since the Profile's start."""

    rtts_ns: Items[Items[int]] = ()
    """Pairs: when a forecast is made, rising, and the RTT that it has without the sender's own queue [ns]."""
    interruptions_ns: Items[Items[int]] = ()
    """Pairs: begin and end of each time in which the path is expected to carry nothing, rising [ns]."""


@dataclass(frozen=True)
class MultipathRun:
    """A multipath run.

    Attributes:
        completion_ms: Of each write, the time until its last byte had arrived in order [ms]; NaN: it had not.
        delivered_bytes: Data delivered in order, each `SAMPLE_S`.
        acked_bytes: Payload acknowledged on each path, each `SAMPLE_S`; shape (paths, samples).
        retransmits: Segments retransmitted on each path.
        timeouts: Retransmission time-outs of each path.
        reinjected_bytes: Data that each path carried although another had before.
        peak_reordering_bytes: Most data that waited at the receiver for earlier data.
    """

    completion_ms: Floats
    delivered_bytes: NDArray[np.uint64]
    acked_bytes: NDArray[np.uint64]
    retransmits: tuple[int, ...]
    timeouts: tuple[int, ...]
    reinjected_bytes: tuple[int, ...]
    peak_reordering_bytes: int

    def goodput_bps(self, from_s: float) -> float:
        """Return the mean goodput from `from_s` on [bit/s]."""
        first = round(from_s / SAMPLE_S) - 1
        span_s = (len(self.delivered_bytes) - 1 - first) * SAMPLE_S
        return float(self.delivered_bytes[-1] - self.delivered_bytes[first]) * 8 / span_s


def simulate_multipath(
    profiles: Sequence[Profile],
    scheduler: SchedulerName,
    *,
    duration_s: float,
    start_s: float = 0.0,
    writes: Sequence[tuple[float, int]] = (),
    outlooks: Sequence[PathOutlook | None] | None = None,
    controller: str = "cubic",
    seed: int = 0,
) -> MultipathRun:
    """Simulate one connection whose server sends data to the terminal over all `profiles` at once.

    Subflows are the simulator's TCP senders, each with a congestion controller of its own (uncoupled). They open at the
    start; path management is not modelled.

    Args:
        profiles: The paths.
        scheduler: One of `SCHEDULERS`.
        duration_s: Duration [s].
        start_s: Start within the Profiles [s].
        writes: When the server writes, rising [s since the start], and how much [bytes]; empty: it always has data.
        outlooks: What the sender knows of each path, used by ``forecast`` alone; None: nothing.
        controller: Congestion controller of the subflows.
        seed: Seed of the per-packet draws.

    Raises:
        UserError: An unknown name, or a time outside the Profiles.

    Example:
        >>> from bentpipe.profiles import preset_profile
        >>> paths = [preset_profile(f"dumbbell:rate=10mbit,rtt={rtt}ms", 12.0) for rtt in (20, 40)]
        >>> round(simulate_multipath(paths, "min-rtt", duration_s=10).goodput_bps(2) / 1e6)
        19
    """
    if scheduler not in SCHEDULERS:
        raise unknown_name("scheduler", scheduler, SCHEDULERS, f"{', '.join(SCHEDULERS)}")
    if duration_s < 2 * SAMPLE_S:
        raise UserError(f"{duration_s:g} s", where="duration_s", expected=f"at least {2 * SAMPLE_S:g} s")
    spec = _Spec(
        scheduler=scheduler,
        controller=controller,
        seed=seed,
        start_ns=round(start_s * NS_PER_S),
        duration_ns=round(duration_s * NS_PER_S),
        writes=tuple(_Write(at_ns=round(at_s * NS_PER_S), bytes=size) for at_s, size in writes),
        receive_buffer_bytes=RECEIVE_BUFFER_BYTES,
        outlooks=tuple(outlooks) if outlooks is not None else (None,) * len(profiles),
    )
    data = _native.simulate_multipath(spec.model_dump_json(), profiles)
    subflows = data["subflows"]
    written_s = np.array([at_s for at_s, _ in writes])
    return MultipathRun(
        completion_ms=(data["completed_s"] - written_s) * 1e3,
        delivered_bytes=data["delivered_bytes"],
        acked_bytes=np.vstack([each["acked_bytes"] for each in subflows]),
        retransmits=tuple(each["retransmits"] for each in subflows),
        timeouts=tuple(each["timeouts"] for each in subflows),
        reinjected_bytes=tuple(each["reinjected_bytes"] for each in subflows),
        peak_reordering_bytes=data["peak_reordering_bytes"],
    )


class _Write(Record):
    at_ns: int
    bytes: int


class _Spec(Record):
    scheduler: SchedulerName
    controller: str
    seed: int
    direction: Literal["down"] = "down"
    start_ns: int
    duration_ns: int
    writes: Items[_Write]
    receive_buffer_bytes: int
    outlooks: Items[PathOutlook | None]
