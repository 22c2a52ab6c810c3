"""Polls of a simulated flow's socket, from its hook trace: what the kernel would tell at each time."""

from __future__ import annotations

import gzip
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.kernel.clock.learning import POLL_NS, SEARCH_NS, Watch
from bentpipe.kernel.clock.sockets import SocketId, TcpSample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bentpipe.kernel.clock.reading import Reading

_ACK, _SENT = 3, 6
_ACK_WORDS, _NOW, _MSS, _SRTT, _MIN_RTT, _DELIVERED, _IN_FLIGHT = 28, 0, 1, 6, 7, 12, 17
_SENT_IN_FLIGHT = 1
JIFFY_NS = 4_000_000
"""Resolution of the time of the last ACK [ns]: a kernel with 250 ticks a second."""


def acks_of(file: Path) -> NDArray[np.uint64]:
    """Return a flow's ACKs and transmissions.

    Args:
        file: Hook trace (`crates/cc/hook_trace.h`).

    Returns:
        Rows of time [ns], whether it is an ACK, smoothed RTT [ns], minimum RTT [ns], delivered so far [packets] and
        inflight [bytes]; of a transmission only time and inflight.
    """
    data = gzip.decompress(Path(file).read_bytes())
    (length,) = struct.unpack_from("<Q", data, 8)
    at, rows = 16 + length, []
    while at < len(data):
        kind, size, _ = struct.unpack_from("<HHI", data, at)
        if kind == _ACK:
            words = struct.unpack_from(f"<{_ACK_WORDS}Q", data, at + 8)
            rows.append(
                (words[_NOW], 1, words[_SRTT], words[_MIN_RTT], words[_DELIVERED] // words[_MSS], words[_IN_FLIGHT])
            )
        elif kind == _SENT:
            now, in_flight, _ = struct.unpack_from("<3Q", data, at + 8)
            rows.append((now, 0, 0, 0, 0, in_flight))
        at += size
    return np.array(rows, np.uint64)


def polls_of(events: NDArray[np.uint64], number: int, until_s: float) -> Iterator[TcpSample]:
    """Yield the polls of a socket, every `POLL_NS`, until a time [s]; the socket has this number."""
    ends = bytes([1, 187]) * 2 + bytes([192, 0, 2, 1]).ljust(16, b"\0") + bytes([203, 0, 113, 7]).ljust(16, b"\0")
    name = SocketId(socket.AF_INET, ends + bytes(4) + number.to_bytes(8, "little"))
    acks = events[events[:, 1] == 1]
    counts = np.searchsorted(acks[:, 0], np.arange(POLL_NS, round(until_s * 1e9), POLL_NS), side="right")
    all_counts = np.searchsorted(events[:, 0], np.arange(POLL_NS, round(until_s * 1e9), POLL_NS), side="right")
    for poll, (count, all_count) in enumerate(zip(counts.tolist(), all_counts.tolist(), strict=True), 1):
        if not count:
            continue
        now, _, srtt_ns, min_rtt_ns, delivered, _ = acks[count - 1].tolist()
        yield TcpSample(
            id=name,
            at_ns=poll * POLL_NS,
            last_ack_ns=now // JIFFY_NS * JIFFY_NS,
            acks=count,
            delivered=delivered,
            srtt_ns=srtt_ns // 1000 * 1000,
            min_rtt_ns=0 if min_rtt_ns >= 2**63 else min_rtt_ns,
            is_idle=events[all_count - 1, 5] == 0,
        )


def readings_of(
    flows: Sequence[NDArray[np.uint64]], until_s: float, wall_ns: int | None = None
) -> list[tuple[float, Reading]]:
    """Return what the clock tells of these flows' sockets, each second [s], as `bentpipe clock --learn` would.

    Args:
        flows: Of `acks_of`.
        until_s: End [s].
        wall_ns: The host's time of day at the flows' start [ns since 1970]; None: not known.
    """
    watch, readings = Watch(), []
    if wall_ns is not None:
        watch.set_time_of_day(wall_ns)
    by_poll: dict[int, list[TcpSample]] = {}
    for number, events in enumerate(flows, 1):
        for sample in polls_of(events, number, until_s):
            by_poll.setdefault(sample.at_ns, []).append(sample)
    for now_ns in range(POLL_NS, round(until_s * 1e9), POLL_NS):
        samples = by_poll.get(now_ns, [])
        if now_ns % SEARCH_NS == 0:
            watch.consider(samples)
            watch.choose()
            readings.append((now_ns / 1e9, watch.read(now_ns)))
        chosen: Any = set(watch.sockets)
        watch.take(now_ns, [sample for sample in samples if sample.id in chosen])
    return readings
