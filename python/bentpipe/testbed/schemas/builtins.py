"""Arguments of the built-in experiments, and what each needs: time, bytes, a server.

The programs are in `bentpipe.testbed.builtins`; orchestrator and agent plan with these records.
"""

from __future__ import annotations

import abc
from typing import ClassVar, Literal

from pydantic import Field

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.records import Record
from bentpipe.testbed.schemas.quantities import BitRate, Duration

Host = str
"""A host's name or address on the Internet."""


class Arguments(Record, abc.ABC):
    """Base of all arguments."""

    needs_server: ClassVar[bool] = False
    """Whether a server node takes part."""
    capabilities: ClassVar[tuple[str, ...]] = ()
    """Capabilities of the program inside of its run."""

    @abc.abstractmethod
    def longest_s(self) -> float:
        """Return the longest time that a run takes [s]."""

    @abc.abstractmethod
    def expected_bytes(self) -> int:
        """Return the bytes that a run is expected to use, both directions; 0: hardly any."""


class PingArguments(Arguments):
    """ICMP echo."""

    capabilities: ClassVar[tuple[str, ...]] = ("CAP_NET_RAW",)
    target: str | None = None
    """Host; default: the other end of an emulated path, else required."""
    every: Duration = 1.0
    """Time between two probes."""
    seconds: float = Field(default=60.0, gt=0, le=86_400)
    """Length [s]."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return self.seconds + 3

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return round(self.seconds / max(self.every, 0.005) * 2 * 92)  # 64 bytes, as of ping, and headers


class TcpPingArguments(Arguments):
    """TCP handshakes."""

    target: str = Field(min_length=1)
    """HOST:PORT."""
    every: Duration = 1.0
    """Time between two handshakes."""
    seconds: float = Field(default=60.0, gt=0, le=86_400)
    """Length [s]."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return self.seconds + 5

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return round(self.seconds / max(self.every, 0.05) * 400)


class TracerouteArguments(Arguments):
    """Routes to hosts."""

    capabilities: ClassVar[tuple[str, ...]] = ("CAP_NET_RAW",)
    targets: tuple[str, ...] = Field(min_length=1, max_length=16, strict=False)
    """Hosts."""
    rounds: int = Field(default=1, ge=1, le=100)
    """Routes to each."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return 30.0 * self.rounds * len(self.targets)

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return 10_000 * self.rounds * len(self.targets)


class IrttArguments(Arguments):
    """RTTs and one-way delays with irtt."""

    needs_server: ClassVar[bool] = True
    every: Duration = 0.02
    """Time between two packets."""
    seconds: float = Field(default=60.0, gt=0, le=86_400)
    """Length [s]."""
    size: int = Field(default=60, ge=60, le=1400)
    """Size of a packet [bytes]."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return self.seconds + 6

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return round(self.seconds / max(self.every, 0.001) * 2 * (self.size + 28))


class Iperf3Arguments(Arguments):
    """A transfer with iperf3."""

    needs_server: ClassVar[bool] = True
    seconds: float = Field(default=30.0, ge=1, le=3600)
    """Length [s]."""
    direction: Literal["up", "down"] = "down"
    """Direction of the data; ``up``: towards the Internet."""
    streams: int = Field(default=1, ge=1, le=32)
    """Connections."""
    udp: BitRate | None = None
    """Rate of UDP; default: TCP."""
    bitrate: BitRate | None = None
    """Highest rate of TCP; default: none."""
    controller: str | None = Field(default=None, pattern=r"^[a-z0-9_-]{1,15}$")
    """Congestion controller of TCP; default: the sender's."""
    omit: float = Field(default=0.0, ge=0, le=60)
    """Seconds at the start that iperf3 leaves out of its sums."""
    interval: float = Field(default=1.0, ge=0.1, le=60)
    """Length of an interval in the result [s]."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return self.seconds + self.omit + 10

    def expected_bytes(self) -> int:
        """Return the bytes at the given rate, or at 100 Mbit/s, which a terminal seldom exceeds for long."""
        rate_bps = self.udp or self.bitrate or 100_000_000
        return round((self.seconds + self.omit) * rate_bps / 8)


class Http3Arguments(Arguments):
    """Downloads over HTTP/3 from the server node."""

    needs_server: ClassVar[bool] = True
    size: int = Field(default=10_000_000, ge=1, le=10**9)
    """Size of a download [bytes]."""
    count: int = Field(default=1, ge=1, le=100)
    """Downloads, one after the other."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return 30.0 + self.count * (10.0 + self.size * 8 / 1e6)

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return self.count * self.size


class WebArguments(Arguments):
    """A web page in a browser without a window."""

    url: str = Field(pattern=r"^https?://[!-~]{1,2000}$")
    """Page."""
    loads: int = Field(default=1, ge=1, le=50)
    """Loads, each with an empty cache."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return 70.0 * self.loads

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return 4_000_000 * self.loads


class VideoArguments(Arguments):
    """Adaptive video from the server node."""

    needs_server: ClassVar[bool] = True
    seconds: float = Field(default=120.0, ge=10, le=3600)
    """Length of what is played [s]."""
    policy: Literal["robust-mpc", "mpc", "buffer", "bola"] = "robust-mpc"
    """Policy of `bentpipe video race`, of those that see no rates to come."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return self.seconds * 1.5 + 30

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return round(self.seconds * 8e6 / 8)


class CallArguments(Arguments):
    """A call with the server node: paced packets both ways with their one-way delays."""

    needs_server: ClassVar[bool] = True
    seconds: float = Field(default=60.0, ge=1, le=300)
    """Length [s]."""
    bitrate: BitRate = Field(default=1_500_000, ge=40_000, le=9_000_000)
    """Rate in each direction, with the headers of IP and UDP."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return self.seconds + 10

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return round(self.seconds * 2 * self.bitrate / 8)


class DishArguments(Arguments):
    """The terminal's telemetry alone: no traffic."""

    seconds: float = Field(default=600.0, ge=1, le=86_400)
    """Length [s]."""

    def longest_s(self) -> float:
        """See `Arguments`."""
        return self.seconds + 2

    def expected_bytes(self) -> int:
        """See `Arguments`."""
        return 0


BUILTINS: dict[str, type[Arguments]] = {
    "ping": PingArguments,
    "tcp-ping": TcpPingArguments,
    "traceroute": TracerouteArguments,
    "irtt": IrttArguments,
    "iperf3": Iperf3Arguments,
    "http3": Http3Arguments,
    "web": WebArguments,
    "video": VideoArguments,
    "call": CallArguments,
    "dish": DishArguments,
}
"""The built-in experiments."""

LIGHT = frozenset({"ping", "tcp-ping", "traceroute", "irtt", "dish"})
"""Those that may be of class ``background``: at most 100 kbit/s."""
LIGHT_BPS = 100_000
"""Highest mean rate of a background experiment [bit/s]."""


def check_arguments(name: str, arguments: object) -> Arguments:
    """Return the checked arguments of a built-in experiment.

    Raises:
        UserError: No such experiment, or wrong arguments.

    Example:
        >>> check_arguments("iperf3", {"seconds": 10}).expected_bytes()
        125000000
    """
    if name not in BUILTINS:
        raise UserError(
            f"{shown(name)}{did_you_mean(name, BUILTINS)}", where="run: builtin", expected=", ".join(BUILTINS)
        )
    return BUILTINS[name].check(arguments, "run: args")
