"""What the kernel says beside a packet: timestamps, errors, and how many found no room.

Linux constants that Python's socket module does not name, and the control messages they lead to.
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
#: Of SO_MEMINFO's words the one that counts packets which found the socket's buffer full
#: (include/uapi/linux/sock_diag.h).
SK_MEMINFO_DROPS, SK_MEMINFO_VARS = 8, 9
# include/uapi/linux/net_tstamp.h. Software stamps are of CLOCK_REALTIME: when a packet left for the device, and when it
# came from it. Without OPT_TSONLY the packet comes back with its stamp, and so says itself which one it is: counters
# (OPT_ID) go wrong where a send fails halfway.
TX_SOFTWARE, RX_SOFTWARE, SOFTWARE = 1 << 1, 1 << 3, 1 << 4
# include/uapi/linux/in.h, in6.h
IP_RECVERR, IPV6_RECVERR = 11, 25
MSG_ERRQUEUE = 0x2000
# include/uapi/linux/errqueue.h
_ORIGIN_LOCAL, _ORIGIN_ICMP, _ORIGIN_ICMP6 = 1, 2, 3
_EXTENDED_ERROR = struct.Struct("=IBBBBII")
_TIMESPEC = struct.Struct("=qq")

#: Room for a stamp and an error with its sender.
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
    """Somebody on the path, or this machine, said that a packet did not get there.

    Attributes:
        cause: In words, as RFC 792 and RFC 4443 have them.
        sender: Who said so; None: this machine.
    """

    cause: str
    sender: str | None


def ask_for_stamps(sock: socket.socket) -> None:
    """Lets the kernel stamp what is sent and received; where it does not, there are none."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | RX_SOFTWARE | SOFTWARE)


def ask_for_stamps_of_arrivals(sock: socket.socket) -> None:
    """Lets the kernel stamp what is received; where it does not, there are none."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE)


def ask_for_errors(sock: socket.socket) -> None:
    """Lets ICMP errors be read from the error queue."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)


def stamp_ns(controls: Controls) -> int | None:
    """The software stamp of a packet [ns since 1970]; None if there is none.

    SCM_TIMESTAMPING has three of which the first is the software's.
    """
    for level, kind, data in controls:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return (int(seconds) * 10**9 + int(nanoseconds)) or None
    return None


def icmp_error(controls: Controls) -> IcmpError | None:
    """The error in an error queue's controls; None: they hold none (a sent packet's stamp)."""
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
    """How many packets this socket's buffer had no room for so far."""
    size = struct.calcsize(f"={SK_MEMINFO_VARS}I")
    words = struct.unpack(f"={SK_MEMINFO_VARS}I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, size))
    return int(words[SK_MEMINFO_DROPS])


def _offender(address: bytes) -> str | None:
    """The address in a sockaddr_in or sockaddr_in6; None: none, or it is cut off."""
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
