"""What is to be probed: targets that were looked up, and everything the engine is told."""

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

#: Shortest intervals [ns]: a millisecond of probes, half of what ping allows whoever is not root; and of traceroutes a
#: tenth of a second, as routers answer some tens of packets a second. Chosen here.
LEAST_EVERY_NS: dict[Method, int] = {"ping": 10**6, "tcp": 10**6, "owd": 10**6, "trace": 10**8}
#: Most targets. Chosen here: above, every interval that somebody would want is too short for one thread.
MOST_TARGETS = 100


@dataclass(frozen=True, slots=True)
class Target:
    """Where probes go.

    Attributes:
        name: As it was given.
        address: What it was looked up as; it stays that, so that a name with many addresses is one path.
        port: Of TCP and UDP; 0 for ICMP.
    """

    name: str
    address: str
    port: int

    @property
    def version(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.address else 4

    @property
    def family(self) -> socket.AddressFamily:
        """For a socket."""
        return socket.AF_INET6 if self.version == 6 else socket.AF_INET


@dataclass(frozen=True, slots=True)
class Spec:
    """What the engine does.

    Attributes:
        method: How it probes.
        targets: Where to.
        every_ns: Interval of probes to one target.
        for_ns: When it ends; None: when it is told to.

    Raises:
        UserError: The interval is shorter than `LEAST_EVERY_NS`.
    """

    method: Method
    targets: tuple[Target, ...]
    every_ns: int
    for_ns: int | None

    def __post_init__(self) -> None:
        """Refuses an interval that is none."""
        least_ns = LEAST_EVERY_NS[self.method]
        if self.every_ns < least_ns:
            raise UserError(
                f"--every: {self.every_ns / 1e9:g} s; expected {least_ns / 1e9:g} s or more for {self.method}"
            )

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """What `to_json` wrote."""
        found = json.loads(text)
        targets = tuple(Target(**target) for target in found.pop("targets"))
        return cls(targets=targets, **found)


def look_up(names: Sequence[str], method: Method, port: int, version: int | None) -> tuple[Target, ...]:
    """The targets of a command line.

    Args:
        names: Host names or addresses; each is one series of the Run.
        method: Decides whether there are ports.
        port: Of TCP and UDP.
        version: 4 or 6: only addresses of that; None: what the resolver has first.

    Raises:
        UserError: None, too many or twice the same, or a name that nobody knows.
    """
    if not 1 <= len(names) <= MOST_TARGETS:
        raise UserError(f"{len(names)} targets; expected 1 to {MOST_TARGETS}")
    found: dict[str, Target] = {}
    for name in names:
        target = _look_up(name, 0 if method in ("ping", "trace") else port, version)
        if target.address in found:
            raise UserError(f"{found[target.address].name} and {name} are both {target.address}; expected it once")
        found[target.address] = target
    return tuple(found.values())


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
    """A datagram socket finds out, sending nothing."""
    try:
        with socket.socket(target.family, socket.SOCK_DGRAM) as sock:
            sock.connect((target.address, target.port or 7))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{target.name} ({target.address}): no way there from this machine: {reason}") from None
