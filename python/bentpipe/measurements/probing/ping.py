"""``ping``: ICMP echo at an interval."""

from __future__ import annotations

import os

from bentpipe.measurements.probing.icmp import IcmpSocket
from bentpipe.measurements.probing.kernel import IcmpError
from bentpipe.measurements.probing.spec import Target
from bentpipe.measurements.probing.tracker import ProbeTracker


class Ping:
    """ICMP echo prober of one target."""

    def __init__(self, sock: IcmpSocket, target: Target, tracker: ProbeTracker) -> None:
        """Register the target; nothing is sent yet."""
        self.tracker, self._sock = tracker, sock
        self._send = sock.add(target, self)

    def send(self, seq: int, late_ns: int) -> None:
        """Send an echo request."""
        self.tracker.start(seq, late_ns)
        try:
            self._send(seq, None)
        except OSError as error:
            self.tracker.mark_lost(seq, send_failure(error))

    def tick(self) -> None:
        """Do nothing: this prober has no state."""

    def close(self) -> None:
        """Do nothing: the socket is shared."""

    def on_stamp(self, seq: int, tx_ns: int) -> None:
        """Store the transmit timestamp."""
        self.tracker.set_tx_time(seq, tx_ns)

    def on_reply(self, seq: int, seen_ns: int, rx_ns: int | None, address: str) -> None:
        """Record a reply from any address: its nonce proves that it answers our request."""
        sent = self.tracker.pending(seq)
        if sent is not None and sent.tx_ns is None:
            self._sock.read_stamps()
        self.tracker.record_answer(seq, seen_ns, rx_ns)

    def on_error(self, seq: int | None, low_bits: int, seen_ns: int, rx_ns: int | None, error: IcmpError) -> None:
        """Mark the probe lost, with the cause from an ICMP error."""
        number = self.tracker.nearest(low_bits) if seq is None else seq
        if number is not None:
            self.tracker.mark_lost(number, error.cause)


def send_failure(error: OSError) -> str:
    """Return the cause of a failed send."""
    return f"not sent: {os.strerror(error.errno).lower() if error.errno else str(error)}"
