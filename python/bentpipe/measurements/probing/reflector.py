"""``reflect``: the remote host of ``owd``, safe on the open Internet: see `owd_wire` and the limits here."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import ipaddress
import os
import selectors
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from bentpipe.errors import UserError
from bentpipe.measurements.probing import kernel, owd_wire
from bentpipe.measurements.probing.owd_wire import ECHO, FULL, HELLO, PROBE, TOKEN_BYTES, WELCOME, Message

#: Limits: concurrent probers; probers per address (of IPv6: per /64); hellos per second and address; echoes per second
#: and prober. Chosen here: enough for a laboratory behind one address, while no single address can use up the slots or
#: hellos of others; twenty replies a second of 96 bytes do no harm to a victim of spoofed hellos.
MOST_CLIENTS, CLIENTS_PER_ADDRESS, HELLOS_PER_S, ECHOES_PER_S = 1024, 32, 20, 2000
#: Addresses with a hello rate limiter at a time. Chosen here: about a megabyte. A flood from more spoofed addresses
#: evicts these limiters; then only the total limit holds.
_MOST_COUNTED = 4096
#: Hellos per second of all addresses. Chosen here: 11 Mbit/s of replies at most. A flood of spoofed hellos above this
#: rate delays new probers, which repeat their hello; it does not affect admitted probers.
ALL_HELLOS_PER_S = 10_000
#: Time without a probe after which a prober is forgotten [ns]. Chosen here.
_FORGET_NS = 300 * 10**9
#: Period of tokens [ns]: a token must first be used in its period or the next. Chosen here: a forgotten prober gets
#: another one.
_TOKEN_NS = 60 * 10**9
#: How often `serve` checks whether it should end [s], and after how many datagrams at the latest.
_LOOK_S, _AT_ONCE = 0.2, 256
_SECOND_NS = 10**9


@dataclass(slots=True)
class _Bucket:
    """Token bucket: `per_s` events a second, with a burst of the same size."""

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
    network: str
    seen_ns: int
    bucket: _Bucket
    received: int = 0
    refused: int = 0


Address = tuple[str, int]


class ReflectorProtocol:
    """Protocol logic of the reflector, without socket and clock.

    A hello occupies no slot: its token is a keyed hash of the address, and a probe with it proves that its sender
    receives at that address. So spoofed hellos lock nobody out.

    Attributes:
        refused: Datagrams without an answer.
        echoed: Probes that were echoed.
        overruns: Datagrams dropped at the full socket buffer, as far as known.
    """

    def __init__(self, machine: bytes) -> None:
        """Start without clients."""
        self.refused = self.echoed = self.overruns = 0
        self._machine = machine
        self._secret = os.urandom(32)
        self._hellos: OrderedDict[str, _Bucket] = OrderedDict()
        self._all_hellos: _Bucket | None = None
        self._clients: dict[Address, _Client] = {}
        self._of_network: Counter[str] = Counter()
        self._forgot_ns: int | None = None

    def answer(self, data: bytes, address: Address, rx_ns: int, now_ns: int) -> Message | None:
        """Return the answer to a datagram, or None.

        Args:
            data: The datagram.
            address: Its sender.
            rx_ns: Its receive time [ns since 1970].
            now_ns: Monotonic time.
        """
        message = owd_wire.decode(data)
        reply = None
        if message is not None and message.kind == HELLO:
            reply = self._welcome(message, address, now_ns)
        elif message is not None and message.kind == PROBE:
            reply = self._echo(message, address, rx_ns, now_ns)
        if reply is None:
            self.refused += 1
        return reply

    def _welcome(self, message: Message, address: Address, now_ns: int) -> Message | None:
        network = _network(address[0])
        if not self._takes_hello(network, now_ns):
            return None
        # Whoever says hello in another's name does not take that one's token away.
        known = self._clients.get(address)
        if known is None and not self._has_slot(network, now_ns):
            return Message(FULL, number=message.number)
        token = self._token(address, now_ns // _TOKEN_NS) if known is None else known.token
        return Message(WELCOME, token, message.number, machine=self._machine, overruns=self.overruns)

    def _takes_hello(self, network: str, now_ns: int) -> bool:
        """Return whether the rate limits of hellos allow an answer now."""
        bucket = self._hellos.pop(network, None) or _Bucket(HELLOS_PER_S, HELLOS_PER_S, now_ns)
        self._hellos[network] = bucket
        if len(self._hellos) > _MOST_COUNTED:
            self._hellos.popitem(last=False)
        if self._all_hellos is None:
            self._all_hellos = _Bucket(ALL_HELLOS_PER_S, ALL_HELLOS_PER_S, now_ns)
        return bucket.take(now_ns) and self._all_hellos.take(now_ns)

    def _echo(self, message: Message, address: Address, rx_ns: int, now_ns: int) -> Message | None:
        client = self._clients.get(address)
        if client is None and self._is_valid(message.token, address, now_ns):
            network = _network(address[0])
            if not self._has_slot(network, now_ns):
                # As often as to a hello: a prober without a slot sends as many probes as it likes.
                is_due = self._takes_hello(network, now_ns)
                return Message(FULL, message.token, message.number) if is_due else None
            client = _Client(message.token, network, now_ns, _Bucket(ECHOES_PER_S, ECHOES_PER_S, now_ns))
            self._clients[address] = client
            self._of_network[network] += 1
        if client is None or client.token != message.token:
            return None
        client.seen_ns = now_ns
        client.received += 1
        if not client.bucket.take(now_ns):
            client.refused += 1
            return None
        self.echoed += 1
        return replace(
            message,
            kind=ECHO,
            rx_ns=rx_ns,
            received=client.received,
            overruns=self.overruns,
            refused=client.refused,
        )

    def _is_valid(self, token: bytes, address: Address, now_ns: int) -> bool:
        """Return whether a token is a recent one of its address."""
        period = now_ns // _TOKEN_NS
        return any(hmac.compare_digest(token, self._token(address, given)) for given in (period, period - 1))

    def _has_slot(self, network: str, now_ns: int) -> bool:
        """Return whether a network may have another client."""
        self._forget(now_ns)
        return len(self._clients) < MOST_CLIENTS and self._of_network[network] < CLIENTS_PER_ADDRESS

    def _token(self, address: Address, period: int) -> bytes:
        text = f"{address[0]} {address[1]} {period}".encode()
        return hashlib.blake2b(text, key=self._secret, digest_size=TOKEN_BYTES).digest()

    def _forget(self, now_ns: int) -> None:
        if self._forgot_ns is not None and now_ns - self._forgot_ns < _SECOND_NS:
            return
        self._forgot_ns = now_ns
        gone = [address for address, client in self._clients.items() if now_ns - client.seen_ns > _FORGET_NS]
        for address in gone:
            self._of_network[self._clients.pop(address).network] -= 1
        self._of_network += Counter()  # without zeros


def _network(address: str) -> str:
    """Return the network of one user: an IPv4 address (also mapped into IPv6), or the /64 of an IPv6 address."""
    if ":" not in address:
        return address
    parsed = ipaddress.IPv6Address(address.partition("%")[0])
    return str(parsed.ipv4_mapped or int(parsed) >> 64)


class Reflector:
    """Reflector: a UDP socket with a `ReflectorProtocol`.

    Args:
        address: Address to listen on; ``::`` is all addresses, IPv4 included.
        port: Port; 0: any free one.

    Raises:
        UserError: The port is in use, or the address is not this machine's.

    Example:
        >>> from threading import Event, Thread
        >>> import bentpipe as bp
        >>> reflector, end = bp.Reflector("127.0.0.1", 0), Event()
        >>> thread = Thread(target=reflector.serve, args=(end.is_set,))
        >>> thread.start()
        >>> measured = bp.probe("127.0.0.1", "out/owd", method="owd", port=reflector.port, duration=0.5, every="100ms")
        >>> end.set()
        >>> measured.to_polars("probes")["kind"].unique().to_list()
        ['udp']
    """

    def __init__(self, address: str, port: int) -> None:
        """Open the socket; `serve` answers."""
        try:
            self._sock = _listening(address, port)
        except (OSError, OverflowError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise UserError(f"{address} port {port}: cannot listen there: {reason}") from None
        kernel.enable_rx_stamps(self._sock)
        self.protocol = ReflectorProtocol(owd_wire.this_machine())

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._sock.getsockname()[1])

    def serve(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Answer datagrams until `stop` returns true.

        Example:
            >>> from time import monotonic
            >>> import bentpipe as bp
            >>> until_s = monotonic() + 0.1
            >>> bp.Reflector("127.0.0.1", 0).serve(lambda: monotonic() > until_s)
        """
        with selectors.DefaultSelector() as selector, self._sock:
            selector.register(self._sock, selectors.EVENT_READ)
            while not stop():
                if selector.select(_LOOK_S):
                    self.protocol.overruns = kernel.overruns(self._sock)
                    with contextlib.suppress(BlockingIOError):
                        for _ in range(_AT_ONCE):
                            self._one()

    def _one(self) -> None:
        try:
            data, controls, _, address = self._sock.recvmsg(owd_wire.SIZE + 1, kernel.CONTROL_BYTES)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                raise
            return  # an ICMP error: a former client is gone
        rx_ns = kernel.stamp_ns(controls) or time.time_ns()
        answer = self.protocol.answer(data, address[:2], rx_ns, time.monotonic_ns())
        if answer is not None:
            with contextlib.suppress(OSError):  # a full queue or no route: the echo is lost, as the prober measures
                self._sock.sendto(owd_wire.encode(replace(answer, tx_ns=time.time_ns())), address)


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
