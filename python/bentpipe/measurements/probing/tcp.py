"""``tcp``: time from a SYN to its SYN-ACK, or to the RST of a closed port. Needs no privileges.

The kernel measures the first RTT of a connection from the SYN's transmission to the SYN-ACK's arrival, and TCP_INFO has
it in microseconds. It has none for a refused connection, which is timed here, from before connect() to the epoll event.
The connection is reset at once, so that neither host keeps state and ports do not run out in TIME_WAIT.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time

from bentpipe.measurements.probing.loop import Loop
from bentpipe.measurements.probing.ping import send_failure
from bentpipe.measurements.probing.spec import Target
from bentpipe.measurements.probing.tracker import KERNEL_RX, KERNEL_TX, ProbeTracker

#: The kernel retransmits a SYN after a second (RFC 6298, section 2.1); an answer to that one would give a wrong RTT.
TIMEOUT_NS = 10**9
# struct tcp_info of include/uapi/linux/tcp.h: tcpi_rtt [us] and tcpi_total_retrans.
_RTT_AT, _RETRANSMITS_AT, _INFO_BYTES = 68, 100, 104
_RESET_AT_CLOSE = struct.pack("=ii", 1, 0)


class Tcp:
    """TCP handshake prober of one target."""

    def __init__(self, loop: Loop, target: Target, tracker: ProbeTracker) -> None:
        """Store the parameters; nothing is sent yet."""
        self.tracker, self._loop, self._target = tracker, loop, target
        self._open: dict[int, socket.socket] = {}

    def send(self, seq: int, late_ns: int) -> None:
        """Send a SYN."""
        self.tracker.start(seq, late_ns)
        try:
            sock = socket.socket(self._target.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:  # no descriptors left
            self.tracker.mark_lost(seq, send_failure(error))
            return
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        number = sock.connect_ex((self._target.address, self._target.port))
        if number == errno.EINPROGRESS:
            self._open[seq] = sock
            self._loop.watch(sock, lambda seen_ns: self._known(seq, seen_ns), select.EPOLLOUT)
            return
        self._judge(seq, sock, number, time.monotonic_ns())
        sock.close()

    def tick(self) -> None:
        """Close the sockets of timed-out probes, so that no SYN is retransmitted."""
        for seq in [seq for seq in self._open if self.tracker.pending(seq) is None]:
            self._close(seq)

    def close(self) -> None:
        """Close all half-open connections."""
        for seq in list(self._open):
            self._close(seq)

    def _known(self, seq: int, seen_ns: int) -> None:
        sock = self._open[seq]
        self._judge(seq, sock, sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), seen_ns)
        self._close(seq)

    def _judge(self, seq: int, sock: socket.socket, number: int, seen_ns: int) -> None:
        """Record the outcome of connect() for a probe."""
        sent = self.tracker.pending(seq)
        if sent is None:
            return
        ours_ns = max(1, seen_ns - sent.mono_ns)
        if ours_ns >= TIMEOUT_NS:
            self.tracker.mark_lost(seq, None)
        elif number == errno.ECONNREFUSED:
            self.tracker.record_answer(seq, seen_ns, rtt=(ours_ns, 0))
        elif number:
            self.tracker.mark_lost(seq, _cause(number))
        else:
            rtt_ns, again = _handshake(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES))
            if again:
                self.tracker.mark_lost(seq, None)
            else:
                known = 0 < rtt_ns <= ours_ns
                rtt = (rtt_ns, KERNEL_TX | KERNEL_RX) if known else (ours_ns, 0)
                self.tracker.record_answer(seq, seen_ns, rtt=rtt)

    def _close(self, seq: int) -> None:
        sock = self._open.pop(seq)
        self._loop.forget(sock)
        sock.close()


def _handshake(info: bytes) -> tuple[int, int]:
    """Return the RTT [ns] and the number of retransmissions; 0, 0 if the kernel does not report them."""
    if len(info) < _INFO_BYTES:
        return 0, 0
    return struct.unpack_from("=I", info, _RTT_AT)[0] * 1000, struct.unpack_from("=I", info, _RETRANSMITS_AT)[0]


def _cause(number: int) -> str:
    known = {
        errno.EHOSTUNREACH: "host unreachable",
        errno.ENETUNREACH: "network unreachable",
        errno.EACCES: "prohibited",
        errno.EPERM: "prohibited",
        errno.ETIMEDOUT: "no answer",
    }
    return known.get(number) or send_failure(OSError(number, ""))
