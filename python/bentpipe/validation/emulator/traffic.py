"""Run the prober on a path: sent packets, received packets, and the emulator's record."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import UserError
from bentpipe.execution.program import run_program
from bentpipe.validation.emulator.prober import PORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.execution.emulation.result import EmulationResult

LOAD_PORT = PORT + 1

KNOWN_SHARE = 0.99
"""Least share of probes with known delay, as a 99th percentile needs."""

NO_CONTROLLER = 3
"""The prober's exit code for an unavailable congestion controller."""


@dataclass(frozen=True)
class Probe:
    """Packets by number: `sent` [ns of UTC], NaN if unknown; `arrived` likewise, 0 if lost.

    `overflowed` packets crossed the path but met a full receive buffer.
    """

    sent: NDArray[np.float64]
    arrived: NDArray[np.int64]
    overflowed: int
    emulated: EmulationResult

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which packets have both times."""
        return (self.arrived > 0) & np.isfinite(self.sent)

    @property
    def at_s(self) -> NDArray[np.float64]:
        """Send times by the Profile's clock [s]; NaN if unknown."""
        started = self.emulated.started or {}
        sent_s: NDArray[np.float64] = (self.sent - started["clock_unix_ns"] + started["offset_ns"]) / 1e9
        return sent_s

    @property
    def why_thin(self) -> str | None:
        """Reason to reject the delays; None: `KNOWN_SHARE` of the packets that the path delivered are known.

        Packets lost behind the path, or without a timestamp, may be the late ones.
        """
        relay = (self.emulated.done or {}).get("relay") or {}
        due = len(self.sent) - relay.get("lost", 0) - relay.get("refused", 0)
        known = int(self.known.sum())
        if known >= KNOWN_SHARE * due and known > 0:
            return None
        return f"of {due} probes that the path let through only {known} arrived with both stamps"

    @property
    def delay_us(self) -> NDArray[np.float64]:
        """One-way delays of the known packets [µs]."""
        known = self.known
        return (self.arrived[known] - self.sent[known]) / 1e3


@dataclass(frozen=True)
class Flood:
    """Received packets of a flood: (time of arrival [ns of UTC], bytes on the wire)."""

    packets: NDArray[np.int64]
    overflowed: int
    emulated: EmulationResult


@dataclass(frozen=True)
class Stream:
    """Progress of a TCP connection: (seconds since its start, bytes so far)."""

    seen: NDArray[np.float64]
    emulated: EmulationResult

    def goodput_bps(self, after_s: float) -> float:
        """Return the goodput of TCP's payload from `after_s` to the last sample."""
        late = self.seen[self.seen[:, 0] >= after_s]
        if len(late) < 2:
            return 0.0
        (from_s, first), (to_s, last) = late[0], late[-1]
        return float((last - first) * 8 / (to_s - from_s))


def probe(
    profile: Profile,
    count: int,
    every_s: float,
    *,
    size: int = 100,
    load: Sequence[str] | None = None,
    load_sink: Sequence[str] | None = None,
    offset_s: float = 0.0,
) -> Probe:
    """Send `count` packets, one every `every_s`, beside the command `load`, whose other end is `load_sink`."""
    with tempfile.TemporaryDirectory() as folder:
        sent_file, got_file = Path(folder, "sent"), Path(folder, "got")
        sender = shlex.join(prober("send", sent_file, count, every_s, size))
        line = f"{shlex.join(load)} & {sender}; wait" if load else sender
        server = "exec " + shlex.join([*prober("receive", got_file), *(load_sink or ())])
        result = run_program(profile, ["sh", "-c", line], server=server, offset_s=offset_s)
        sent = np.array(_read(sent_file), dtype=float)
        got = _read(got_file)
    packets = np.array(got["packets"], dtype=np.int64).reshape(-1, 3)
    arrived = np.zeros(count, np.int64)
    arrived[packets[:, 0]] = packets[:, 1]
    return Probe(sent, arrived, got["overflowed"], result.emulated)


def flood(profile: Profile, seconds: float, bps: float) -> Flood:
    """Send UDP packets of 1500 bytes at `bps`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "got")
        server = "exec " + shlex.join(prober("receive", file))
        result = run_program(profile, prober("flood", seconds, bps, PORT), server=server, offset_s=0.0)
        got = _read(file)
    packets = np.array(got["packets"], dtype=np.int64).reshape(-1, 3)
    return Flood(packets[:, 1:], got["overflowed"], result.emulated)


def stream(profile: Profile, seconds: float, controller: str) -> Stream:
    """Run one TCP connection at full speed; raise `UserError` if the controller is unavailable."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "got")
        server = "exec " + shlex.join(prober("drain", file, LOAD_PORT))
        result = run_program(profile, streamer(seconds, controller), server=server, offset_s=0.0)
        if result.exit_code == NO_CONTROLLER:
            raise UserError(f"{controller} is not available on this kernel; try `bentpipe kernel check`")
        seen = np.array(_read(file), dtype=float).reshape(-1, 2)
    return Stream(seen, result.emulated)


def prober(*arguments: object) -> list[str]:
    """Return the prober's command."""
    return [sys.executable, str(Path(__file__).with_name("prober.py")), *map(str, arguments)]


def counted_bps(file: Path) -> float:
    """Return a flood's rate between the counter's first and last sample; 0 if nothing arrived."""
    try:
        seen = json.loads(file.read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0.0
    (from_s, first), (to_s, last) = seen[0], seen[-1]
    return (last - first) * 8 / (to_s - from_s) if len(seen) > 1 else 0.0


def streamer(seconds: float, controller: str) -> list[str]:
    """Return the command of a TCP connection at full speed."""
    return prober("stream", seconds, controller, LOAD_PORT)


def _read(file: Path) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        raise UserError("the prober wrote nothing: it, or the emulation, was ended; see above") from None
