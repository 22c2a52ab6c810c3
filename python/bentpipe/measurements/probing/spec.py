"""Specification of a measurement for the engine: method, resolved targets, interval and duration."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from bentpipe.errors import UserError, shown

Method = Literal["ping", "tcp", "owd", "trace"]
METHODS: tuple[Method, ...] = get_args(Method)

#: `kind` of the rows of `probes`.
KINDS: dict[Method, str] = {"ping": "icmp", "tcp": "tcp", "owd": "udp", "trace": "icmp"}

#: Shortest intervals [ns]: a millisecond for probes, half of what ping allows without root; a tenth of a second for
#: traceroutes, since routers answer some tens of packets a second. Chosen here.
MIN_INTERVAL_NS: dict[Method, int] = {"ping": 10**6, "tcp": 10**6, "owd": 10**6, "trace": 10**8}
#: Most targets. Chosen here: for more, usual intervals are too short for one thread.
MOST_TARGETS = 100


@dataclass(frozen=True, slots=True)
class Target:
    """A target of probes.

    Attributes:
        name: Name as given by the user.
        address: Resolved address; fixed, so that a name with several addresses is one path.
        port: Port of TCP and UDP; 0 for ICMP.
    """

    name: str
    address: str
    port: int

    @property
    def version(self) -> int:
        """IP version, 4 or 6."""
        return 6 if ":" in self.address else 4

    @property
    def family(self) -> socket.AddressFamily:
        """Address family for a socket."""
        return socket.AF_INET6 if self.version == 6 else socket.AF_INET


@dataclass(frozen=True, slots=True)
class Spec:
    """Specification of a measurement.

    Attributes:
        method: Probing method.
        targets: Targets.
        every_ns: Interval of probes to one target.
        for_ns: Duration; None: until stopped.

    Raises:
        UserError: The interval is shorter than `MIN_INTERVAL_NS`.
    """

    method: Method
    targets: tuple[Target, ...]
    every_ns: int
    for_ns: int | None

    def __post_init__(self) -> None:
        """Refuse an interval that is too short."""
        least_ns = MIN_INTERVAL_NS[self.method]
        if self.every_ns < least_ns:
            raise UserError(
                f"{self.every_ns / 1e9:g} s", where="every", expected=f"{least_ns / 1e9:g} s or more for {self.method}"
            )

    def to_json(self) -> str:
        """Serialise to one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Parse the output of `to_json`."""
        document = json.loads(text)
        targets = tuple(Target(**target) for target in document.pop("targets"))
        return cls(targets=targets, **document)


def look_up(names: Sequence[str], method: Method, port: int, version: int | None) -> tuple[Target, ...]:
    """Resolve the targets of a command line.

    Args:
        names: Host names or addresses; each is one series of the Run.
        method: Probing method; decides whether targets have a port.
        port: Port of TCP and UDP.
        version: 4 or 6: only addresses of that version; None: the resolver's first address.

    Raises:
        UserError: No target, too many, a duplicate, or an unknown name.
    """
    if not 1 <= len(names) <= MOST_TARGETS:
        raise UserError(f"{len(names)} targets; expected 1 to {MOST_TARGETS}")
    resolved: dict[str, Target] = {}
    for name in names:
        target = _look_up(name, 0 if method in ("ping", "trace") else port, version)
        if target.address in resolved:
            raise UserError(
                f"{resolved[target.address].name} and {name} are both {target.address}; expected different targets"
            )
        resolved[target.address] = target
    return tuple(resolved.values())


def _look_up(name: str, port: int, version: int | None) -> Target:
    family = {None: socket.AF_UNSPEC, 4: socket.AF_INET, 6: socket.AF_INET6}[version]
    try:
        answers = socket.getaddrinfo(name, None, family, socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        kind = "host" if version is None else f"IPv{version} host"
        raise UserError(f"{shown(name)}: no such {kind} ({reason.lower()}); expected a name or an address") from None
    target = Target(name, str(answers[0][4][0]), port)
    _require_route(target)
    return target


def _require_route(target: Target) -> None:
    """Raise `UserError` without a route; connecting a datagram socket checks that and sends nothing."""
    try:
        with socket.socket(target.family, socket.SOCK_DGRAM) as sock:
            sock.connect((target.address, target.port or 7))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{target.name} ({target.address}): no route from this machine: {reason}") from None
