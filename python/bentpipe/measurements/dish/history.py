"""The terminal's history: ring buffers with one sample a second, put in order, and its list of outages."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.dish.gps import gps_to_unix_ns
from bentpipe.measurements.dish.status import cause_name, enum_name
from bentpipe.measurements.dish.wire import Message

#: Series of the history, in the order of `History`.
SERIES = ("pop_ping_drop_rate", "pop_ping_latency_ms", "downlink_throughput_bps", "uplink_throughput_bps", "power_in")


@dataclass(frozen=True, slots=True)
class Outage:
    """A time without service, from the terminal's log.

    Attributes:
        cause: Name of a `DishOutage.Cause`, or of an outage's reason in the event log without its prefix.
        start_unix_ns: Start [ns since 1970].
        duration_s: Length [s].
        did_switch: Whether the satellite changed; None where only the event log has the outage.
    """

    cause: str
    start_unix_ns: int
    duration_s: float
    did_switch: bool | None

    @property
    def end_unix_ns(self) -> int:
        """End [ns since 1970], at most the largest 64-bit integer."""
        return min(self.start_unix_ns + round(self.duration_s * 1e9), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class History:
    """The valid samples of the ring buffers, oldest first.

    Attributes:
        current: Number of samples since boot. A smaller number than before means a reboot.
        counter: Number of each sample since boot, the newest is ``current - 1``; shape (n,).
        pop_ping_drop_rate: Fraction of pings lost in the second; shape (n,) or (0,), as all series.
        pop_ping_latency_ms: Mean RTT [ms]; NaN where every ping was lost.
        downlink_throughput_bps: Throughput towards the terminal [bit/s].
        uplink_throughput_bps: Throughput from the terminal [bit/s].
        power_in_w: Power input of the terminal [W].
        outages: Outages of the list `outages` (since 2021) and the event log (since 2025), each once, by time.
        undated: Number of ignored outages without a usable time.
        other_events: Reasons of other events in the log, and their counts.
        log_unix_ns: Current time of the event log [ns since 1970]; None without one.
    """

    current: int
    counter: NDArray[np.uint64]
    pop_ping_drop_rate: NDArray[np.float32]
    pop_ping_latency_ms: NDArray[np.float32]
    downlink_throughput_bps: NDArray[np.float32]
    uplink_throughput_bps: NDArray[np.float32]
    power_in_w: NDArray[np.float32]
    outages: list[Outage]
    undated: int = 0
    other_events: Mapping[str, int] = field(default_factory=dict)
    log_unix_ns: int | None = None

    def __len__(self) -> int:
        """Return the number of valid samples."""
        return len(self.counter)

    def times_unix_ns(self, received_unix_ns: int) -> NDArray[np.int64]:
        """Return the end of each sample, if the newest ended when the answer arrived: correct within a second."""
        ages_s = np.arange(len(self) - 1, -1, -1, dtype=np.int64)
        return received_unix_ns - ages_s * 10**9


def parse_history(message: Message, labels: Mapping[str, str] | None = None) -> History:
    """Parse a `DishGetHistoryResponse`.

    Args:
        message: The response.
        labels: Names of unknown enumeration values, by their number as text.

    Raises:
        UserError: The series differ in length, so that their samples cannot be matched.
    """
    series = {name: np.asarray(getattr(message, name), dtype=np.float32) for name in SERIES}
    lengths = {name: len(values) for name, values in series.items() if len(values)}
    length = max(lengths.values(), default=0)
    if any(size != length for size in lengths.values()):
        listed = ", ".join(f"{name} {size}" for name, size in lengths.items())
        raise UserError(f"the history's series have different lengths ({listed}); expected one length")
    current = int(message.current)
    valid = min(current, length)
    # Only `valid` samples were written since boot; the oldest is `valid` places behind the write position.
    order = (np.arange(valid) + (current - valid) % length) % length if length else np.arange(0)
    drop, latency, down, up, power = (values[order] if len(values) else values for values in series.values())
    if len(latency) and len(drop):
        latency = np.where(drop >= 1.0, np.float32(np.nan), latency)
    outages, undated, others = _outages(message, labels or {})
    return History(
        current=current,
        counter=np.uint64(current - valid) + np.arange(valid, dtype=np.uint64),
        pop_ping_drop_rate=drop,
        pop_ping_latency_ms=latency,
        downlink_throughput_bps=down,
        uplink_throughput_bps=up,
        power_in_w=power,
        outages=outages,
        undated=undated,
        other_events=others,
        log_unix_ns=_log_time(message),
    )


#: Prefix of the outage reasons in the event log; the cause follows it.
_OUTAGE_REASON = "EVENT_REASON_OUTAGE_"
#: Largest difference of two timestamps of one outage [ns]. Chosen here: less than the shortest logged outage.
SAME_NS = 10**8


def _outages(message: Message, labels: Mapping[str, str]) -> tuple[list[Outage], int, dict[str, int]]:
    """Return the outages of both lists, the number of undated ones, and the other events by reason.

    Timestamps in `outages` count from the GPS epoch, those in the event log from 1970. A logged event that overlaps a
    listed outage is that outage: a terminal has one at a time.
    """
    listed, undated = [], 0
    for entry in message.outages:
        start = gps_to_unix_ns(entry.start_timestamp_ns)
        if start is None:
            undated += 1
            continue
        cause = cause_name(entry)
        listed.append(Outage(labels.get(cause, cause), start, entry.duration_ns / 1e9, entry.did_switch))
    listed.sort(key=attrgetter("start_unix_ns"))
    starts = [outage.start_unix_ns for outage in listed]
    logged = []
    others: dict[str, int] = {}
    for event in message.event_log.events:
        reason = enum_name(event, "reason")
        reason = labels.get(reason, reason)
        if not reason.startswith(_OUTAGE_REASON):
            others[reason] = others.get(reason, 0) + 1
        elif event.start_timestamp_ns <= 0:
            undated += 1
        else:
            cause = reason.removeprefix(_OUTAGE_REASON)
            outage = Outage(cause, event.start_timestamp_ns, event.duration_ns / 1e9, None)
            place = bisect_left(starts, outage.start_unix_ns)
            after, before = listed[place : place + 1], listed[max(place - 1, 0) : place]
            if not any(_overlap(outage, other) for other in (*before, *after)):
                logged.append(outage)
    return sorted([*listed, *logged], key=attrgetter("start_unix_ns")), undated, others


def _overlap(one: Outage, other: Outage) -> bool:
    first, second = sorted((one, other), key=attrgetter("start_unix_ns"))
    return second.start_unix_ns < max(first.end_unix_ns, first.start_unix_ns + SAME_NS)


def _log_time(message: Message) -> int | None:
    now = message.event_log.current_timestamp_ns
    return now if now > 0 else None
