"""``trace``: which hops there are on the way and how long it takes to each, again and again.

All packets of a target are of one flow (see `echo`), so that a router that shares load sends them the same way. The
first round asks up to `MOST_HOPS`, later ones as far as the target was found.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from bentpipe.measurements.probing.icmp import IcmpSocket
from bentpipe.measurements.probing.kernel import IcmpError
from bentpipe.measurements.probing.ledger import Ledger, Sent
from bentpipe.measurements.probing.loop import Loop
from bentpipe.measurements.probing.spec import Target

#: As traceroute has it.
MOST_HOPS = 30
#: From one hop's packet to the next one's, at most [ns]. Chosen here: no burst, and a round of 30 within a second.
GAP_NS = 20_000_000

#: target, when the round began [ns since 1970], TTL, address or None, RTT [ns] or None, how late it began [ns].
Hop = tuple[int, int, int, str | None, int | None, int]


@dataclass(slots=True)
class _Round:
    unix_ns: int
    late_ns: int
    last: int
    final: bool = False
    """`last` is where it ends: the target, or who refused."""
    found: dict[int, tuple[str, int]] = field(default_factory=dict)
    open: int = 0
    sent_all: bool = False


class Trace:
    """One target's.

    Args:
        sock: Sends.
        loop: Spreads a round's packets over time.
        target: Where to.
        every_ns: Interval of rounds.
        ledger: Knows which packets are under way; what it writes of them nobody wants.
        write: Takes each hop of a round that is over.
    """

    def __init__(
        self,
        sock: IcmpSocket,
        loop: Loop,
        target: Target,
        every_ns: int,
        ledger: Ledger,
        write: Callable[[Hop], None],
    ) -> None:
        """Nothing is sent yet."""
        self.ledger, self._sock, self._loop, self._write = ledger, sock, loop, write
        self._gap_ns = min(GAP_NS, every_ns // (MOST_HOPS + 1))
        self._send = sock.add(target, self)
        self._numbers = count()
        self._of: dict[int, tuple[_Round, int]] = {}
        self._distance = MOST_HOPS

    def send(self, seq: int, late_ns: int) -> None:
        """Begins a round."""
        del seq
        self._next(_Round(time.time_ns(), late_ns, self._distance), 1)

    def _next(self, now: _Round, ttl: int) -> None:
        number = next(self._numbers)
        self._of[number] = (now, ttl)
        now.open += 1
        self.ledger.sending(number, now.late_ns)
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
        else:  # the end was found meanwhile
            now.sent_all = True
            self._finish(now)

    def tick(self) -> None:
        """After the ledger gave up some packets."""
        for number in [number for number in self._of if self.ledger.under_way(number) is None]:
            self._lost(number)

    def close(self) -> None:
        """Rounds that are not over are not kept."""

    def on_stamp(self, seq: int, tx_ns: int) -> None:
        """It left."""
        self.ledger.stamped(seq, tx_ns)

    def on_reply(self, seq: int, seen_ns: int, came_ns: int | None, address: str) -> None:
        """The target itself."""
        self._hop(seq, seen_ns, came_ns, address, ends=True)

    def on_error(self, seq: int | None, low_bits: int, seen_ns: int, came_ns: int | None, error: IcmpError) -> None:
        """A hop on the way; whoever says anything but that the TTL is used up lets nothing pass."""
        found = self.ledger.nearest(low_bits) if seq is None else seq
        if found is None:
            return
        if error.sender is None:
            self._lost(found)
        else:
            self._hop(found, seen_ns, came_ns, error.sender, ends=error.cause != "TTL exceeded")

    def _hop(self, seq: int, seen_ns: int, came_ns: int | None, address: str, *, ends: bool) -> None:
        sent, of = self.ledger.under_way(seq), self._of.pop(seq, None)
        if sent is None or of is None:
            return
        if sent.tx_ns is None:
            self._sock.read_stamps()
        now, ttl = of
        now.found[ttl] = (address, self._round_trip(sent, came_ns, seen_ns))
        if ends and (ttl < now.last or not now.final):
            now.last, now.final = ttl, True
        self.ledger.lost(seq, None)  # its fate is ours
        now.open -= 1
        self._finish(now)

    def _round_trip(self, sent: Sent, came_ns: int | None, seen_ns: int) -> int:
        return sent.round_trip(came_ns, seen_ns, self.ledger.clocks.jumps)[0]

    def _lost(self, number: int) -> None:
        of = self._of.pop(number, None)
        self.ledger.lost(number, None)
        if of is not None:
            of[0].open -= 1
            self._finish(of[0])

    def _finish(self, now: _Round) -> None:
        if now.open or not now.sent_all:
            return
        now.open = -1  # once
        self._distance = now.last if now.final else MOST_HOPS
        # Behind the last hop that answered there is nothing to be said of a target that does not.
        last = now.last if now.final else max(now.found, default=1)
        for ttl in range(1, last + 1):
            address, rtt_ns = now.found.get(ttl, (None, None))
            self._write((self.ledger.target, now.unix_ns, ttl, address, rtt_ns, now.late_ns))
