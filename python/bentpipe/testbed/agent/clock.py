"""The orchestrator's time at the node, from the four time stamps of each heartbeat (RFC 5905, section 8)."""

from __future__ import annotations

import secrets
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = 8
"""Heartbeats that count: NTP's clock filter has as many."""
DRIFT = 100e-6
"""Drift of a clock that is not disciplined, as a fraction; chosen here: 500e-6 is the worst that NTP corrects."""


@dataclass(frozen=True)
class Offset:
    """Offset of the orchestrator's clock.

    Attributes:
        offset_ms: Orchestrator's time less this node's [ms].
        error_ms: Bound of its error [ms]: half of the exchange's RTT, which grows with age.
    """

    offset_ms: float
    error_ms: float


class OrchestratorClock:
    """Gives the orchestrator's time. It runs on by the monotonic clock, so a wall clock that is set changes nothing.

    Example:
        >>> clock = OrchestratorClock(wall_ms=lambda: 5000.0, steady_s=lambda: 0.02)
        >>> clock.add(sent_steady_s=0.0, received_at_ms=9000.0, answered_at_ms=9000.0, got_steady_s=0.02)
        >>> clock.offset().error_ms, clock.now_ms()
        (10.0, 9010.0)
    """

    def __init__(
        self,
        wall_ms: Callable[[], float] = lambda: time.time_ns() / 1e6,
        steady_s: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        """Begin with this node's wall clock."""
        self._wall_ms, self.steady_s = wall_ms, steady_s
        self._begin_ms = wall_ms() - steady_s() * 1e3
        # Time of the exchange, orchestrator's time less monotonic time, error bound.
        self._samples: deque[tuple[float, float, float]] = deque(maxlen=SAMPLES)

    def add(self, *, sent_steady_s: float, received_at_ms: float, answered_at_ms: float, got_steady_s: float) -> None:
        """Add an exchange; those that cannot be (a reply before its request) are left out."""
        rtt_ms = (got_steady_s - sent_steady_s) * 1e3 - (answered_at_ms - received_at_ms)
        if not 0 <= rtt_ms < 60_000 or answered_at_ms < received_at_ms:
            return
        middle_ms = (sent_steady_s + got_steady_s) / 2 * 1e3
        begin_ms = (received_at_ms + answered_at_ms) / 2 - middle_ms
        if self._samples and abs(begin_ms - self._best()[1]) > 1000 + rtt_ms:
            self._samples.clear()  # the orchestrator's clock was set
        self._samples.append((got_steady_s, begin_ms, max(rtt_ms, 0.0) / 2))

    def kept(self) -> tuple[str, float, float, float] | None:
        """Return what another process of this machine may go on with, until it starts anew; None: no exchange yet."""
        return (_machine_start(), *self._best()) if self._samples else None

    def go_on_with(self, kept: tuple[str, float, float, float] | None) -> None:
        """Take what an earlier process kept, if the machine has not started anew: its wall clock may be wrong."""
        if kept is not None and kept[0] == _machine_start():
            self._samples.append(kept[1:])

    def _best(self) -> tuple[float, float, float]:
        now_s = self._samples[-1][0]
        return min(self._samples, key=lambda sample: sample[2] + (now_s - sample[0]) * 1e3 * DRIFT)

    @property
    def is_known(self) -> bool:
        """Whether there was an exchange."""
        return bool(self._samples)

    def now_ms(self) -> float:
        """Return the orchestrator's time [ms since 1970]; without an exchange, this node's."""
        begin_ms = self._best()[1] if self._samples else self._begin_ms
        return begin_ms + self.steady_s() * 1e3

    def offset(self) -> Offset | None:
        """Return the offset; None: no exchange yet."""
        if not self._samples:
            return None
        got_s, begin_ms, error_ms = self._best()
        now_s = self.steady_s()
        wall_ms = self._wall_ms() - now_s * 1e3
        return Offset(begin_ms - wall_ms, error_ms + max(0.0, now_s - got_s) * 1e3 * DRIFT)


def _machine_start() -> str:
    """Return what names this start of the machine, and with it of `CLOCK_BOOTTIME`."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return secrets.token_hex(16)
