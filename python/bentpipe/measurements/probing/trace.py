"""``trace``: repeated traceroutes with the RTT to each hop.

All packets to a target belong to one flow (see `echo`), so that a load-balancing router sends them over the same path.
The first round probes up to `MOST_HOPS`, later rounds up to the target's distance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from bentpipe.measurements.probing.icmp import IcmpSocket
from bentpipe.measurements.probing.kernel import IcmpError
from bentpipe.measurements.probing.loop import Loop
from bentpipe.measurements.probing.spec import Target
from bentpipe.measurements.probing.tracker import ProbeTracker, Sent

#: Default of traceroute.
MOST_HOPS = 30
#: Largest time from one hop's packet to the next one's [ns]. Chosen here: no burst, and a round of 30 within a second.
GAP_NS = 20_000_000

#: target, when the round began [ns since 1970], TTL, address or None, RTT [ns] or None, how late it began [ns].
Hop = tuple[int, int, int, str | None, int | None, int]


@dataclass(slots=True)
class _Round:
    unix_ns: int
    late_ns: int
    last: int
    final: bool = False
    """Whether `last` is the end of the path: the target, or a host that refused the packet."""
    answers: dict[int, tuple[str, int]] = field(default_factory=dict)
    open: int = 0
    sent_all: bool = False


class Trace:
    """Traceroute prober of one target.

    Args:
        sock: Socket for the packets.
        loop: Spreads a round's packets over time.
        target: The target.
        every_ns: Interval of rounds.
        tracker: Tracks pending packets; its output is discarded.
        write: Receives each hop of a finished round.
    """

    def __init__(
        self,
        sock: IcmpSocket,
        loop: Loop,
        target: Target,
        every_ns: int,
        tracker: ProbeTracker,
        write: Callable[[Hop], None],
    ) -> None:
        """Register the target; nothing is sent yet."""
        self.tracker, self._sock, self._loop, self._write = tracker, sock, loop, write
        self._gap_ns = min(GAP_NS, every_ns // (MOST_HOPS + 1))
        self._send = sock.add(target, self)
        self._numbers = count()
        self._of: dict[int, tuple[_Round, int]] = {}
        self._distance = MOST_HOPS

    def send(self, seq: int, late_ns: int) -> None:
        """Start a round."""
        del seq
        self._next(_Round(time.time_ns(), late_ns, self._distance), 1)

    def _next(self, now: _Round, ttl: int) -> None:
        number = next(self._numbers)
        self._of[number] = (now, ttl)
        now.open += 1
        self.tracker.start(number, now.late_ns)
        try:
            self._send(number, ttl)
        except OSError:
            self._lost(number)
        if ttl < now.last:
            self._loop.at(time.monotonic_ns() + self._gap_ns, lambda _: self._go_on(now, ttl + 1))
        else:
            now.sent_all = True
            self._finish(now)

    def _go_on(self, now: _Round, ttl: int) -> None:
        if ttl <= now.last:
            self._next(now, ttl)
        else:  # the end of the path was reached meanwhile
            now.sent_all = True
            self._finish(now)

    def tick(self) -> None:
        """Remove timed-out packets."""
        for number in [number for number in self._of if self.tracker.pending(number) is None]:
            self._lost(number)

    def close(self) -> None:
        """Discard unfinished rounds."""

    def on_stamp(self, seq: int, tx_ns: int) -> None:
        """Store the transmit timestamp."""
        self.tracker.set_tx_time(seq, tx_ns)

    def on_reply(self, seq: int, seen_ns: int, rx_ns: int | None, address: str) -> None:
        """Record a reply of the target."""
        self._hop(seq, seen_ns, rx_ns, address, ends=True)

    def on_error(self, seq: int | None, low_bits: int, seen_ns: int, rx_ns: int | None, error: IcmpError) -> None:
        """Record the error of a hop; any error but an exceeded TTL ends the path."""
        number = self.tracker.nearest(low_bits) if seq is None else seq
        if number is None:
            return
        if error.sender is None:
            self._lost(number)
        else:
            self._hop(number, seen_ns, rx_ns, error.sender, ends=error.cause != "TTL exceeded")

    def _hop(self, seq: int, seen_ns: int, rx_ns: int | None, address: str, *, ends: bool) -> None:
        sent, of = self.tracker.pending(seq), self._of.pop(seq, None)
        if sent is None or of is None:
            return
        if sent.tx_ns is None:
            self._sock.read_stamps()
        now, ttl = of
        now.answers[ttl] = (address, self._rtt(sent, rx_ns, seen_ns))
        if ends and (ttl < now.last or not now.final):
            now.last, now.final = ttl, True
        self.tracker.mark_lost(seq, None)  # ends tracking; the round has the answer
        now.open -= 1
        self._finish(now)

    def _rtt(self, sent: Sent, rx_ns: int | None, seen_ns: int) -> int:
        return sent.rtt(rx_ns, seen_ns, self.tracker.clocks.jumps)[0]

    def _lost(self, number: int) -> None:
        of = self._of.pop(number, None)
        self.tracker.mark_lost(number, None)
        if of is not None:
            of[0].open -= 1
            self._finish(of[0])

    def _finish(self, now: _Round) -> None:
        if now.open or not now.sent_all:
            return
        now.open = -1  # once
        self._distance = now.last if now.final else MOST_HOPS
        # If the target does not answer, the round ends with the last hop that did.
        last = now.last if now.final else max(now.answers, default=1)
        for ttl in range(1, last + 1):
            address, rtt_ns = now.answers.get(ttl, (None, None))
            self._write((self.tracker.target, now.unix_ns, ttl, address, rtt_ns, now.late_ns))
