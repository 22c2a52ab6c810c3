"""ICMP echo socket, unprivileged where the kernel allows it, shared by all targets of one IP version."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bentpipe.errors import UserError
from bentpipe.measurements.probing import kernel
from bentpipe.measurements.probing.echo import Codec, Echo
from bentpipe.measurements.probing.loop import Loop
from bentpipe.measurements.probing.spec import Target

#: Requested receive buffer [bytes]; the kernel grants up to net.core.rmem_max. Chosen here: a second of a thousand
#: answers a second.
_BUFFER_BYTES = 4 << 20
#: Messages read before the loop checks whether a probe is due. Chosen here: a tenth of a millisecond of work.
_AT_ONCE = 8
# include/uapi/linux/icmp.h: a raw socket delivers the types whose bits are not set in the filter.
_ICMP_FILTER, _SOL_RAW = 1, 255
_ICMP6_FILTER = 1


class Listener(Protocol):
    """Receiver of events of one target's probes."""

    def on_stamp(self, seq: int, tx_ns: int) -> None:
        """Handle the transmit timestamp of a probe [ns since 1970]."""

    def on_reply(self, seq: int, seen_ns: int, rx_ns: int | None, address: str) -> None:
        """Handle a reply; `seen_ns` is monotonic, `rx_ns` the kernel's timestamp [ns since 1970]."""

    def on_error(
        self, seq: int | None, low_bits: int, seen_ns: int, rx_ns: int | None, error: kernel.IcmpError
    ) -> None:
        """Handle an ICMP error; `seq` None: only the low 16 bits are known."""


@dataclass(slots=True)
class _Open:
    sock: socket.socket
    raw: bool


class IcmpSocket:
    """Sends echo requests and dispatches each answer to the listener of its target.

    Raises:
        UserError: Missing permission, or no support for this IP version.
    """

    def __init__(self, version: int, loop: Loop) -> None:
        """Open the socket and register it with the loop."""
        self._version = version
        opened = _open(version)
        self._sock, self._raw = opened.sock, opened.raw
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        kernel.enable_stamps(self._sock)
        kernel.enable_errors(self._sock)
        ident = int.from_bytes(os.urandom(2), "big")
        if not self._raw:
            self._sock.bind(("::" if version == 6 else "0.0.0.0", ident))  # the port is the identifier
        self._codec = Codec(version, os.urandom(8), ident)
        self._listeners: list[Listener] = []
        self._addresses: list[str] = []
        self._by_address: dict[str, int] = {}
        loop.watch(self._sock, self._read)

    def add(self, target: Target, listener: Listener) -> Callable[[int, int | None], None]:
        """Add a target; return a function that sends it a request with a number and, if given, a TTL.

        That function raises OSError if the kernel does not send the request.
        """
        number = len(self._listeners)
        self._listeners.append(listener)
        self._by_address[target.address] = number
        where = (target.address, 0)

        def send(seq: int, ttl: int | None = None) -> None:
            packet = self._codec.request(number, seq)
            controls = [] if ttl is None else [self._hop_limit(ttl)]
            try:
                self._sock.sendmsg([packet], controls, 0, where)
            except OSError as error:
                if error.errno in (errno.ENOBUFS, errno.EAGAIN, errno.EPERM, errno.EINVAL):
                    raise
                # The kernel also reports an ICMP error to an earlier packet once, at the next call.
                self._sock.sendmsg([packet], controls, 0, where)

        return send

    def overruns(self) -> int:
        """Return the number of packets dropped at the full socket buffer."""
        return kernel.overruns(self._sock)

    def _hop_limit(self, ttl: int) -> tuple[int, int, bytes]:
        if self._version == 6:
            return (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT, struct.pack("=i", ttl))
        return (socket.IPPROTO_IP, socket.IP_TTL, struct.pack("=i", ttl))

    def read_stamps(self) -> None:
        """Read timestamps from the error queue: they arrive before the answer, but may not have been read yet."""
        self._read_errors(0)

    def _read(self, seen_ns: int) -> None:
        self._read_errors(seen_ns)
        for _ in range(_AT_ONCE):
            try:
                data, controls, _, address = self._sock.recvmsg(2048, kernel.CONTROL_BYTES)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error is also reported here; it is in the error queue
                continue
            echo = self._codec.reply(data, ip_header=self._raw and self._version == 4)
            if echo is not None and echo.target is not None and echo.target < len(self._listeners):
                listener = self._listeners[echo.target]
                listener.on_reply(echo.seq, seen_ns, kernel.stamp_ns(controls), str(address[0]))

    def _read_errors(self, seen_ns: int) -> None:
        for _ in range(2 * _AT_ONCE):
            try:
                data, controls, _, address = self._sock.recvmsg(2048, kernel.CONTROL_BYTES, kernel.MSG_ERRQUEUE)
            except BlockingIOError:
                return
            stamp, error = kernel.stamp_ns(controls), kernel.icmp_error(controls)
            if error is None:
                echo = self._codec.sent(data)
                if echo is not None and stamp is not None and echo.target is not None:
                    self._listeners[echo.target].on_stamp(echo.seq, stamp)
            else:
                self._report_error(self._codec.quoted(data), address, seen_ns, stamp, error)

    def _report_error(
        self,
        echo: Echo | None,
        address: tuple[str, int] | None,
        seen_ns: int,
        stamp: int | None,
        error: kernel.IcmpError,
    ) -> None:
        if echo is None:
            return
        number = echo.target
        if number is None and address is not None:
            number = self._by_address.get(str(address[0]))  # destination of the quoted packet
        if number is not None and number < len(self._listeners):
            seq = None if echo.target is None else echo.seq
            self._listeners[number].on_error(seq, echo.seq & 0xFFFF, seen_ns, stamp, error)


def _open(version: int) -> _Open:
    """Open a ping socket (ping_group_range), or a raw one (CAP_NET_RAW)."""
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    protocol = socket.IPPROTO_ICMPV6 if version == 6 else socket.IPPROTO_ICMP
    try:
        return _Open(socket.socket(family, socket.SOCK_DGRAM, protocol), raw=False)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            raise UserError(f"this machine has no IPv{version}; expected a target of the other version") from None
    try:
        raw = socket.socket(family, socket.SOCK_RAW, protocol)
    except OSError:
        raise UserError(
            "permission denied: ICMP is not allowed for this user; try "
            "`sudo sysctl -w net.ipv4.ping_group_range='0 2147483647'`, which allows it for all users, CAP_NET_RAW, or "
            "`bentpipe probe tcp`, which needs neither"
        ) from None
    if version == 6:
        # Block all types except 129, echo reply (RFC 3542, section 3.2).
        blocked = [0xFFFFFFFF] * 8
        blocked[129 // 32] &= ~(1 << (129 % 32))
        raw.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("=8I", *blocked))
    else:
        raw.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF & ~1))  # type 0, echo reply
    return _Open(raw, raw=True)
