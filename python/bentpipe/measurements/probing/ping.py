"""``ping``: ICMP echo at an interval."""

from __future__ import annotations

import os

from bentpipe.measurements.probing.icmp import IcmpSocket
from bentpipe.measurements.probing.kernel import IcmpError
from bentpipe.measurements.probing.ledger import Ledger
from bentpipe.measurements.probing.spec import Target


class Ping:
    """One target's."""

    def __init__(self, sock: IcmpSocket, target: Target, ledger: Ledger) -> None:
        """Nothing is sent yet."""
        self.ledger, self._sock = ledger, sock
        self._send = sock.add(target, self)

    def send(self, seq: int, late_ns: int) -> None:
        """A request."""
        self.ledger.sending(seq, late_ns)
        try:
            self._send(seq, None)
        except OSError as error:
            self.ledger.lost(seq, not_sent(error))

    def tick(self) -> None:
        """Nothing is kept here."""

    def close(self) -> None:
        """The socket is everybody's."""

    def on_stamp(self, seq: int, tx_ns: int) -> None:
        """It left."""
        self.ledger.stamped(seq, tx_ns)

    def on_reply(self, seq: int, seen_ns: int, came_ns: int | None, address: str) -> None:
        """It was answered; by whom does not matter, for nobody else knows what was in it."""
        sent = self.ledger.under_way(seq)
        if sent is not None and sent.tx_ns is None:
            self._sock.read_stamps()
        self.ledger.answered(seq, seen_ns, came_ns)

    def on_error(self, seq: int | None, low_bits: int, seen_ns: int, came_ns: int | None, error: IcmpError) -> None:
        """It is lost, and somebody says why."""
        found = self.ledger.nearest(low_bits) if seq is None else seq
        if found is not None:
            self.ledger.lost(found, error.cause)


def not_sent(error: OSError) -> str:
    """Why the kernel did not send a probe."""
    return f"not sent: {os.strerror(error.errno).lower() if error.errno else str(error)}"
