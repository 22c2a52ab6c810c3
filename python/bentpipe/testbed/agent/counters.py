"""Byte counters of a network interface: of this machine, or of a router whose node_exporter the host allows."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bentpipe.errors import UserError, shown
from bentpipe.net_dev import MOST_BYTES, NET_DEV, parse_net_dev
from bentpipe.testbed.agent.fetching import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence


_NAME = re.compile(r"[A-Za-z0-9_.@:-]{1,64}\Z")
_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+]?[0-9]{1,2})?"


@dataclass(frozen=True, slots=True)
class ByteCounts:
    """Counters at a time.

    Attributes:
        t_s: Steady time [s].
        down_bytes: Bytes towards the household, or the run.
        up_bytes: Bytes from it.
    """

    t_s: float
    down_bytes: int
    up_bytes: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Mean rates between two readings.

    Attributes:
        t_s: Steady time of the later one [s].
        duration_s: Time between them [s].
        down_bps: Towards the household, or the run [bit/s].
        up_bps: From it [bit/s].
    """

    t_s: float
    duration_s: float
    down_bps: float
    up_bps: float


class CounterReader(Protocol):
    """Reads the counters of one interface."""

    async def read(self) -> ByteCounts:
        """Return the counters now. Raises `UserError`: they cannot be read."""


class InterfaceCounters:
    """Counters of an interface of this machine, from `bentpipe.net_dev`.

    Args:
        interface: Its name.
        faces_run: Whether it is the host's end of a run's veth pair: what it sends is towards the run.
        path: The file.
    """

    def __init__(self, interface: str, *, faces_run: bool = False, path: Path = NET_DEV) -> None:
        """Store the parameters; nothing is read yet."""
        self._interface, self._faces_run, self._path = _checked_name(interface), faces_run, path

    async def read(self) -> ByteCounts:
        """Return the counters now. Raises `UserError`: there is no such interface."""
        try:
            text = self._path.read_bytes()
        except OSError as error:
            raise UserError(error.strerror or "cannot be read", where=str(self._path)) from None
        received, sent = parse_net_dev(text, self._interface)
        down, up = (sent, received) if self._faces_run else (received, sent)
        return ByteCounts(time.monotonic(), down, up)


class NodeExporterCounters:
    """Counters of a router's interface to the terminal, from its Prometheus node_exporter (OpenWrt has one).

    Args:
        url: The page, as ``http://192.168.1.1:9100/metrics``.
        device: Interface that faces the terminal.
        allowed: URLs that the host's policy allows.

    Raises:
        UserError: No name of an interface.
    """

    def __init__(self, url: str, device: str, allowed: Sequence[str]) -> None:
        """Nothing is fetched yet."""
        self._url, self._device, self._allowed = url, _checked_name(device), allowed

    def allow(self, urls: Sequence[str]) -> None:
        """Go on with other URLs that the host allows."""
        self._allowed = urls

    async def read(self) -> ByteCounts:
        """Return the counters now. Raises `UserError`: not allowed, no answer, or no such device in it."""
        before_s = time.monotonic()
        data = await fetch(self._url, self._allowed, timeout_s=3.0)
        received, sent = parse_node_exporter(data, self._device)
        return ByteCounts((before_s + time.monotonic()) / 2, received, sent)


def parse_node_exporter(data: bytes, device: str) -> tuple[int, int]:
    r"""Return the received and sent bytes of a device in the text of node_exporter.

    Raises:
        UserError: The device is not there, or its values are no counts.

    Example:
        >>> line = 'node_network_{}_bytes_total{{device="wan"}} {}\n'
        >>> parse_node_exporter((line.format("receive", "1.5e+09") + line.format("transmit", 7)).encode(), "wan")
        (1500000000, 7)
    """
    text = data.decode("utf-8", "replace")
    counts = []
    for way in ("receive", "transmit"):
        labels = rf'(?:[^"\n]|{_QUOTED})*?\bdevice="{re.escape(device)}"(?:[^"}}\n]|{_QUOTED})*'
        match = re.search(rf"^node_network_{way}_bytes(?:_total)?\{{{labels}\}} +(\S+)", text, re.MULTILINE)
        if match is None:
            raise UserError(
                f"no {'received' if way == 'receive' else 'transmitted'} bytes of {shown(device)}",
                where="router",
                expected="node_network_… of it",
            )
        counts.append(_count(match[1], device))
    return counts[0], counts[1]


def rates(before: ByteCounts, after: ByteCounts) -> Rates | None:
    """Return the rates between two readings; None: the counters began anew, or no time has passed.

    Example:
        >>> rates(ByteCounts(1.0, 0, 0), ByteCounts(2.0, 1000, 125))
        Rates(t_s=2.0, duration_s=1.0, down_bps=8000.0, up_bps=1000.0)
    """
    duration_s = after.t_s - before.t_s
    down, up = after.down_bytes - before.down_bytes, after.up_bytes - before.up_bytes
    if duration_s <= 0 or down < 0 or up < 0:
        return None
    return Rates(after.t_s, duration_s, 8 * down / duration_s, 8 * up / duration_s)


def _count(text: str, where: str) -> int:
    if re.fullmatch(_NUMBER, text) is None:
        raise UserError(f"{shown(text)} is no count of bytes", where=where)
    value = int(text) if text.isascii() and text.isdigit() else float(text)
    if not value < MOST_BYTES:
        raise UserError(f"{shown(text)} is no count of bytes", where=where)
    return int(value)


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise UserError(f"{shown(name)} is no interface", where="router", expected="a name as eth0")
    return name
