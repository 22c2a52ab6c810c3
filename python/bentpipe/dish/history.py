"""The terminal's last minutes: ring buffers with one sample a second, put in order, and the outages it keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bentpipe.dish.gps import unix_ns_of_gps
from bentpipe.dish.status import cause_name
from bentpipe.dish.wire import Message
from bentpipe.errors import UserError

#: Series of the history, in the order of `History`.
SERIES = ("pop_ping_drop_rate", "pop_ping_latency_ms", "downlink_throughput_bps", "uplink_throughput_bps", "power_in")


@dataclass(frozen=True, slots=True)
class Outage:
    """A time without service, as the terminal logged it; `did_switch`: it changed the satellite."""

    cause: str
    start_unix_ns: int
    duration_s: float
    did_switch: bool


@dataclass(frozen=True, slots=True)
class History:
    """The valid samples of the ring buffers, oldest first.

    Attributes:
        current: Samples since the terminal booted. Less than in an earlier answer: it rebooted.
        counter: Which sample since boot each is, the newest is ``current - 1``; shape (n,).
        pop_ping_drop_rate: Fraction of pings lost in the second; shape (n,) or (0,), as all series.
        pop_ping_latency_ms: Mean round trip; NaN where every ping was lost, since nothing came back to be timed.
        downlink_throughput_bps: Towards the terminal.
        uplink_throughput_bps: From it.
        power_in_w: What the terminal draws.
        outages: In order of time.
    """

    current: int
    counter: NDArray[np.uint64]
    pop_ping_drop_rate: NDArray[np.float32]
    pop_ping_latency_ms: NDArray[np.float32]
    downlink_throughput_bps: NDArray[np.float32]
    uplink_throughput_bps: NDArray[np.float32]
    power_in_w: NDArray[np.float32]
    outages: list[Outage]

    def __len__(self) -> int:
        """How many samples are valid."""
        return len(self.counter)

    def times_unix_ns(self, received_unix_ns: int) -> NDArray[np.int64]:
        """When each sample ended, if the newest ended when the answer came: right within a second."""
        ages_s = np.arange(len(self) - 1, -1, -1, dtype=np.int64)
        return received_unix_ns - ages_s * 10**9


def history_of(message: Message) -> History:
    """The record of a `DishGetHistoryResponse`.

    Raises:
        UserError: Its series differ in length, so that nobody knows which samples belong together.
    """
    series = {name: np.asarray(getattr(message, name), dtype=np.float32) for name in SERIES}
    lengths = {name: len(values) for name, values in series.items() if len(values)}
    length = max(lengths.values(), default=0)
    if any(found != length for found in lengths.values()):
        listed = ", ".join(f"{name} {found}" for name, found in lengths.items())
        raise UserError(f"the history's series have different lengths ({listed}); wanted one length")
    current = int(message.current)
    valid = min(current, length)
    # Only that many were written since boot; the oldest of them is `valid` places behind the write position.
    order = (np.arange(valid) + (current - valid) % length) % length if length else np.arange(0)
    drop, latency, down, up, power = (values[order] if len(values) else values for values in series.values())
    if len(latency) and len(drop):
        latency = np.where(drop >= 1.0, np.float32(np.nan), latency)
    outages = [
        Outage(cause_name(entry), start, entry.duration_ns / 1e9, entry.did_switch)
        for entry in message.outages
        if (start := unix_ns_of_gps(entry.start_timestamp_ns)) is not None
    ]
    return History(
        current=current,
        counter=np.uint64(current - valid) + np.arange(valid, dtype=np.uint64),
        pop_ping_drop_rate=drop,
        pop_ping_latency_ms=latency,
        downlink_throughput_bps=down,
        uplink_throughput_bps=up,
        power_in_w=power,
        outages=sorted(outages, key=lambda outage: outage.start_unix_ns),
    )
