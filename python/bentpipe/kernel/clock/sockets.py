"""Statistics of this network namespace's TCP sockets, by `inet_diag`: no rights needed, any congestion controller.

Source: Linux, include/uapi/linux/inet_diag.h, netlink.h, sock_diag.h and tcp.h (`struct tcp_info`).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NETLINK_SOCK_DIAG = 4
_BY_FAMILY, _ERROR, _DONE = 20, 2, 3
_REQUEST, _DUMP = 0x1, 0x300
_ESTABLISHED = 1
_INFO = 2
_HEADER = struct.Struct("=IHHII")
_REQUEST_BODY = struct.Struct("=BBBBI48s")
_ANSWER_BODY = struct.Struct("=BBBB48s")
_BODY = 72
"""`sizeof(struct inet_diag_msg)` [bytes]."""
_ATTRIBUTE = struct.Struct("=HH")
_TCP_INFO = struct.Struct("=24x I 28x I 8x I 68x I 4x I 40x I")
"""Of `struct tcp_info`: unacked, last_ack_recv [ms], rtt [us], segs_in, min_rtt [us], delivered."""
_MAPPED, _LOOPBACK = bytes(10) + b"\xff\xff", bytes(15) + b"\x01"
"""Prefix of an IPv4 address in IPv6, and the loopback address of IPv6."""
WAIT_S = 2.0
"""Longest wait for the kernel's answer [s]. Chosen here: it answers at once."""


@dataclass(frozen=True, slots=True)
class SocketId:
    """A connection: family, and ends and number as the kernel has them (`struct inet_diag_sockid`)."""

    family: int
    ends: bytes

    @property
    def number(self) -> int:
        """Return its cookie: another connection between the same ends has another."""
        return int.from_bytes(self.ends[40:48], "little")

    @property
    def is_local(self) -> bool:
        """Whether the other end is on this machine: a loopback address, or the same at both ends."""
        size = 4 if self.family == socket.AF_INET else 16
        here, there = (self.ends[at : at + size].removeprefix(_MAPPED) for at in (4, 20))
        return here == there or (there[0] == 127 if len(there) == 4 else there == _LOOPBACK)


@dataclass(frozen=True, slots=True)
class TcpSample:
    """A socket's statistics.

    Attributes:
        id: The socket.
        at_ns: When they were read, on the monotonic clock [ns].
        last_ack_ns: When the last ACK arrived, to some milliseconds [ns].
        acks: Segments that arrived; counted as ACKs where data were delivered.
        delivered: Segments delivered to the other end.
        srtt_ns: Smoothed RTT [ns].
        min_rtt_ns: Smallest RTT of the last minutes [ns]; 0: none yet.
        is_idle: Whether no data are in flight.
    """

    id: SocketId
    at_ns: int
    last_ack_ns: int
    acks: int
    delivered: int
    srtt_ns: int
    min_rtt_ns: int
    is_idle: bool


class SocketTable:
    """The kernel's table of TCP sockets in the calling thread's network namespace.

    Raises:
        UserError: This system has none.
    """

    def __init__(self) -> None:
        """Open it."""
        try:
            self._socket = socket.socket(getattr(socket, "AF_NETLINK", -1), socket.SOCK_DGRAM, NETLINK_SOCK_DIAG)
            self._socket.settimeout(WAIT_S)
            self._socket.bind((0, 0))
        except OSError as error:
            raise _no_statistics(os.strerror(error.errno or errno.EPROTONOSUPPORT)) from None
        self._sequence = 0

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def established(self) -> Iterator[list[TcpSample]]:
        """Yield all established connections, those of a datagram of the kernel at a time: about 80.

        Each costs some microseconds, and a walk through the kernel's table about a millisecond. The answers of a poll
        come after those of an unfinished dump: until its last datagram is read, only another `SocketTable` can poll.
        """
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST_BODY.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 1 << _ESTABLISHED, bytes(48))
            yield from self._ask(request, _DUMP)

    def poll(self, ids: Iterable[SocketId]) -> list[TcpSample]:
        """Return the statistics of these connections, without those that have closed."""
        requests = [
            _REQUEST_BODY.pack(each.family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 1 << _ESTABLISHED, each.ends)
            for each in ids
        ]
        return [sample for request in requests for samples in self._ask(request, 0) for sample in samples]

    def _ask(self, request: bytes, flags: int) -> Iterator[list[TcpSample]]:
        self._sequence = (self._sequence + 1) % 2**32
        size = _HEADER.size + len(request)
        self._socket.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST | flags, self._sequence, 0) + request)
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return
            samples, is_over = parse_answers(data, self._sequence, time.monotonic_ns(), is_dump=bool(flags))
            yield samples
            if is_over:
                return


def parse_answers(data: bytes, sequence: int, at_ns: int, *, is_dump: bool = True) -> tuple[list[TcpSample], bool]:
    """Return the connections in a datagram of the kernel, and whether it ends the answer.

    Other answers and what cannot be read are left out. An answer about one connection (not `is_dump`) is one message:
    that it has closed, or without statistics as it is closing.

    Raises:
        UserError: The kernel refuses a dump.

    Example:
        >>> from bentpipe.kernel.clock.sockets import parse_answers
        >>> parse_answers(b"not netlink", 1, 0)
        ([], False)
    """
    samples: list[TcpSample] = []
    at = 0
    while at + _HEADER.size <= len(data):
        size, kind, _, number, _ = _HEADER.unpack_from(data, at)
        if size < _HEADER.size or at + size > len(data):
            break
        body = data[at + _HEADER.size : at + size]
        at += -(-size // 4) * 4
        if number != sequence:
            continue
        if kind in (_ERROR, _DONE):
            code = -int.from_bytes(body[:4], sys.byteorder, signed=True)
            if is_dump and code > 0:
                raise _no_statistics(os.strerror(code))
            return samples, True
        if kind == _BY_FAMILY:
            if (sample := _sample(body, at_ns)) is not None:
                samples.append(sample)
            if not is_dump:
                return samples, True
    return samples, False


def _no_statistics(why: str) -> UserError:
    return UserError(
        f"the kernel gives no socket statistics: {why}", expected="Linux with CONFIG_INET_DIAG and CONFIG_INET_TCP_DIAG"
    )


def _sample(body: bytes, at_ns: int) -> TcpSample | None:
    if len(body) < _BODY:
        return None
    family, _, _, _, ends = _ANSWER_BODY.unpack_from(body)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    at = _BODY
    while at + _ATTRIBUTE.size <= len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, at)
        if size < _ATTRIBUTE.size or at + size > len(body):
            return None
        if kind == _INFO:
            info = body[at + _ATTRIBUTE.size : at + size]
            if len(info) < _TCP_INFO.size:
                return None  # a kernel before 4.18
            unacked, last_ack_ms, rtt_us, segments_in, min_rtt_us, delivered = _TCP_INFO.unpack_from(info)
            return TcpSample(
                id=SocketId(family, ends),
                at_ns=at_ns,
                last_ack_ns=max(at_ns - last_ack_ms * 10**6, 0),
                acks=segments_in,
                delivered=delivered,
                srtt_ns=rtt_us * 1000,
                min_rtt_ns=0 if min_rtt_us == 2**32 - 1 else min_rtt_us * 1000,
                is_idle=unacked == 0,
            )
        at += -(-size // 4) * 4
    return None
