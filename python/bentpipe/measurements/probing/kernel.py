"""Kernel socket features: packet timestamps, ICMP errors, and the count of dropped packets.

Has the Linux constants that Python's socket module lacks, and parsers for their control messages.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

# include/uapi/asm-generic/socket.h
SO_TIMESTAMPING = 37
SO_MEMINFO = 55
#: Index in SO_MEMINFO of the count of packets dropped at the full socket buffer (include/uapi/linux/sock_diag.h).
SK_MEMINFO_DROPS, SK_MEMINFO_VARS = 8, 9
# include/uapi/linux/net_tstamp.h. Software timestamps are of CLOCK_REALTIME: when a packet is passed to the device, and
# when it is received from it. Without OPT_TSONLY the packet is returned with its timestamp, which identifies it;
# counters (OPT_ID) get out of step if a send fails halfway.
TX_SOFTWARE, RX_SOFTWARE, SOFTWARE = 1 << 1, 1 << 3, 1 << 4
# include/uapi/linux/in.h, in6.h
IP_RECVERR, IPV6_RECVERR = 11, 25
MSG_ERRQUEUE = 0x2000
# include/uapi/linux/errqueue.h
_ORIGIN_LOCAL, _ORIGIN_ICMP, _ORIGIN_ICMP6 = 1, 2, 3
_EXTENDED_ERROR = struct.Struct("=IBBBBII")
_TIMESPEC = struct.Struct("=qq")

#: Room for a timestamp and an error with its sender.
CONTROL_BYTES = 512

Controls = Sequence[tuple[int, int, bytes]]

_CAUSES = {
    4: {
        (3, 0): "network unreachable",
        (3, 1): "host unreachable",
        (3, 2): "protocol unreachable",
        (3, 3): "port unreachable",
        (3, 4): "too big",
        (3, 9): "prohibited",
        (3, 10): "prohibited",
        (3, 13): "prohibited",
        (11, 0): "TTL exceeded",
    },
    6: {
        (1, 0): "network unreachable",
        (1, 1): "prohibited",
        (1, 3): "host unreachable",
        (1, 4): "port unreachable",
        (2, 0): "too big",
        (3, 0): "TTL exceeded",
    },
}


@dataclass(frozen=True, slots=True)
class IcmpError:
    """An ICMP error from a host on the path, or an error of this machine.

    Attributes:
        cause: Description, after RFC 792 and RFC 4443.
        sender: Address of the sender; None: this machine.
    """

    cause: str
    sender: str | None


def enable_stamps(sock: socket.socket) -> None:
    """Enable kernel timestamps of sent and received packets, if supported."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | RX_SOFTWARE | SOFTWARE)


def enable_rx_stamps(sock: socket.socket) -> None:
    """Enable kernel timestamps of received packets, if supported."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE)


def enable_errors(sock: socket.socket) -> None:
    """Enable ICMP errors in the error queue."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)


def stamp_ns(controls: Controls) -> int | None:
    """Return the software timestamp of a packet [ns since 1970]; None: absent.

    SCM_TIMESTAMPING has three timestamps; the first is the software timestamp.
    """
    for level, kind, data in controls:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return (int(seconds) * 10**9 + int(nanoseconds)) or None
    return None


def icmp_error(controls: Controls) -> IcmpError | None:
    """Return the error in control messages of the error queue; None: only the timestamp of a sent packet."""
    for level, kind, data in controls:
        if (level, kind) not in ((socket.IPPROTO_IP, IP_RECVERR), (socket.IPPROTO_IPV6, IPV6_RECVERR)):
            continue
        if len(data) < _EXTENDED_ERROR.size:
            continue
        number, origin, type_, code, _, _, _ = _EXTENDED_ERROR.unpack_from(data)
        if origin == _ORIGIN_LOCAL:
            return IcmpError(_words(number), None)
        if origin in (_ORIGIN_ICMP, _ORIGIN_ICMP6):
            version = 4 if origin == _ORIGIN_ICMP else 6
            cause = _CAUSES[version].get((type_, code), f"ICMP type {type_} code {code}")
            return IcmpError(cause, _offender(data[_EXTENDED_ERROR.size :]))
    return None


def overruns(sock: socket.socket) -> int:
    """Return the number of packets dropped so far at the socket's full buffer."""
    size = struct.calcsize(f"={SK_MEMINFO_VARS}I")
    words = struct.unpack(f"={SK_MEMINFO_VARS}I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, size))
    return int(words[SK_MEMINFO_DROPS])


def _offender(address: bytes) -> str | None:
    """Return the address in a sockaddr_in or sockaddr_in6; None: absent or truncated."""
    if len(address) < 2:
        return None
    (family,) = struct.unpack_from("=H", address)
    if family == socket.AF_INET and len(address) >= 8:
        return str(ipaddress.IPv4Address(address[4:8]))
    if family == socket.AF_INET6 and len(address) >= 24:
        return str(ipaddress.IPv6Address(address[8:24]))
    return None


def _words(number: int) -> str:
    return os.strerror(number).lower()
