"""``reflect``: the other end of ``owd``, made to stand in the open Internet: see `owd_wire` and the limits here."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from bentpipe.errors import UserError
from bentpipe.probing import kernel, owd_wire
from bentpipe.probing.owd_wire import ECHO, HELLO, PROBE, TOKEN_BYTES, WELCOME, Message

#: Probers at a time, hellos a second from all of them together, echoes a second to one. Chosen here: a laboratory's
#: use; a hundred hellos a second of 96 bytes are nothing to whom they might be sent in somebody's name.
MOST_CLIENTS, HELLOS_PER_S, ECHOES_PER_S = 1024, 100, 2000
#: After this long without a probe a prober is forgotten [ns]; after this long if it never sent one. Chosen here.
_FORGET_NS, _FORGET_SILENT_NS = 300 * 10**9, 5 * 10**9
#: How often `serve` looks whether it should end [s].
_LOOK_S = 0.2


@dataclass(slots=True)
class _Bucket:
    """So many a second, and no more than that at once."""

    per_s: float
    level: float
    at_ns: int

    def take(self, now_ns: int) -> bool:
        self.level = min(self.per_s, self.level + (now_ns - self.at_ns) * self.per_s / 1e9)
        self.at_ns = now_ns
        if self.level < 1:
            return False
        self.level -= 1
        return True


@dataclass(slots=True)
class _Client:
    token: bytes
    seen_ns: int
    bucket: _Bucket
    received: int = 0


Address = tuple[str, int]


class Desk:
    """What is answered to whom: no socket, no clock.

    Attributes:
        refused: Datagrams that got no answer.
        echoed: Probes that did.
    """

    def __init__(self, machine: bytes, now_ns: int) -> None:
        """Knows nobody."""
        self.refused = self.echoed = 0
        self._machine = machine
        self._hellos = _Bucket(HELLOS_PER_S, HELLOS_PER_S, now_ns)
        self._clients: OrderedDict[Address, _Client] = OrderedDict()

    def answer(self, data: bytes, address: Address, came_ns: int, now_ns: int) -> Message | None:
        """What to answer to a datagram, or None.

        Args:
            data: It.
            address: From where.
            came_ns: When it came [ns since 1970].
            now_ns: Monotonic.
        """
        message = owd_wire.decode(data)
        found = None
        if message is not None and message.kind == HELLO:
            found = self._welcome(message, address, now_ns)
        elif message is not None and message.kind == PROBE:
            found = self._echo(message, address, came_ns, now_ns)
        if found is None:
            self.refused += 1
        return found

    def _welcome(self, message: Message, address: Address, now_ns: int) -> Message | None:
        self._forget(now_ns)
        known = self._clients.get(address)
        if not self._hellos.take(now_ns) or (known is None and len(self._clients) >= MOST_CLIENTS):
            return None
        # Whoever says hello in another's name does not take that one's token away.
        if known is None:
            bucket = _Bucket(ECHOES_PER_S, ECHOES_PER_S, now_ns)
            known = self._clients[address] = _Client(os.urandom(TOKEN_BYTES), now_ns, bucket)
        return Message(WELCOME, known.token, message.number, machine=self._machine)

    def _echo(self, message: Message, address: Address, came_ns: int, now_ns: int) -> Message | None:
        client = self._clients.get(address)
        if client is None or client.token != message.token:
            return None
        client.seen_ns = now_ns
        client.received += 1
        if not client.bucket.take(now_ns):
            return None
        self.echoed += 1
        return replace(message, kind=ECHO, came_ns=came_ns, received=client.received)

    def _forget(self, now_ns: int) -> None:
        gone = [
            address
            for address, client in self._clients.items()
            if now_ns - client.seen_ns > (_FORGET_NS if client.received else _FORGET_SILENT_NS)
        ]
        for address in gone:
            del self._clients[address]


class Reflector:
    """A socket with a `Desk`.

    Args:
        address: To listen on; ``::`` is everything, IPv4 too.
        port: 0: a free one.

    Raises:
        UserError: It is taken, or not this machine's.
    """

    def __init__(self, address: str, port: int) -> None:
        """Listens from now on; answers in `serve`."""
        try:
            self._sock = _listening(address, port)
        except (OSError, OverflowError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise UserError(f"{address} port {port}: cannot listen there: {reason}") from None
        kernel.ask_for_stamps_of_arrivals(self._sock)
        self.desk = Desk(owd_wire.this_machine(), time.monotonic_ns())

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._sock.getsockname()[1])

    def serve(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Answers until `stop` says so."""
        with selectors.DefaultSelector() as selector, self._sock:
            selector.register(self._sock, selectors.EVENT_READ)
            while not stop():
                if selector.select(_LOOK_S):
                    with contextlib.suppress(BlockingIOError):
                        while True:
                            self._one()

    def _one(self) -> None:
        try:
            data, controls, _, address = self._sock.recvmsg(owd_wire.SIZE + 1, kernel.CONTROL_BYTES)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                raise
            return  # somebody to whom something was sent is not there any more
        came_ns = kernel.stamp_ns(controls) or time.time_ns()
        answer = self.desk.answer(data, address[:2], came_ns, time.monotonic_ns())
        if answer is not None:
            with contextlib.suppress(OSError):  # a full queue or no way back: it is lost, which is what is measured
                self._sock.sendto(owd_wire.encode(replace(answer, left_ns=time.time_ns())), address)


def _listening(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if address == "::" and not socket.has_dualstack_ipv6():
        address, family = "0.0.0.0", socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if address == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((address, port))
    except (OSError, OverflowError):
        sock.close()
        raise
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return sock
