"""Whether the machine, rather than the path, limited an emulation's throughput.

TCP adapts to the narrowest resource. On a path faster than this machine that is the relay or the processors: no packet
is late, but the machine determines the throughput. So the load of the relay and the processors is measured for each
window of the `links` table (a second).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.execution.emulation.proc import cpu_time_s
from bentpipe.execution.emulation.processors import ProcessorTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BUSY = 0.8
"""Share of a second from which the relay, or all processors together, count as fully loaded.

Chosen here: sender, relay and receiver take turns, so none is busy all the time even on a full machine.
"""

RELAYS_SHARE = 0.2
"""Smallest share of all processors' time in the relay where the emulation fills them: other work on the machine does
not limit a little traffic. Chosen here."""

NEAR_CAPACITY = 0.8
"""Share of its capacity that a hop carries in a second if it is the limit. Chosen here."""

QUEUE_S = 1e-3
"""Backlog of a hop that is the limit [s of its capacity]. Chosen here: a sender's burst of 64 KB is less from 0.5
Gbit/s on."""

MAX_LIMITED_SHARE = 0.25
"""Largest share of a valid Run's bytes that passed while the machine was the limit. Chosen here."""

TCP_SHARE = 0.5
"""Smallest share of TCP in the bytes for which full processors count as a limit. TCP adapts to them and so hides the
limit; paced traffic shows it by packets that are late or lost at the path's ends. Chosen here."""

DROPS = ("drops_queue", "drops_aqm")
"""Drop counters of a hop that is the limit. Random loss and handover drops do not count: a loss rate of 1 in 100,000 is
one packet in every second of a full machine, and traffic limited by loss does not fill one."""


@dataclass(frozen=True)
class Second:
    """Load in one window.

    Attributes:
        t_s: End of the window in the Run [s].
        relay: Share of the window in which the relay worked.
        processors: Load of all processors that this process may use (0 to 1).
        count: Their number.
        stolen_s: Processor time that the hypervisor gave to others [s], in whole kernel ticks.
    """

    t_s: float
    relay: float
    processors: float
    count: int
    stolen_s: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the emulation filled the machine."""
        return self.relay >= BUSY or (self.processors >= BUSY and self.relay >= RELAYS_SHARE * self.count)


@dataclass(frozen=True)
class MachineLimit:
    """Traffic that passed while the emulation filled the machine and no hop of the path was the limit.

    Attributes:
        share: Share of all bytes over hops with capacity far above their load.
        unknown_share: Share of all bytes over hops without a capacity, whose limit is unknown.
        bps: Mean rate in these seconds, of both kinds [bit/s].
        capacity_bps: Smallest capacity of the first kind [bit/s]; None: there was none.
        relay: Mean share of these seconds in which the relay worked.
        processors: Mean load of all processors that this process may use.
    """

    share: float
    unknown_share: float
    bps: float
    capacity_bps: float | None
    relay: float
    processors: float

    def __str__(self) -> str:
        """Describe the limit in one line."""
        of = "a path without a limit" if self.capacity_bps is None else f"the path's {_rate(self.capacity_bps)}"
        return (
            f"{self.share + self.unknown_share:.0%} of the bytes passed while this machine was full (relay "
            f"{self.relay:.0%} busy, processors {self.processors:.0%}) and no hop of the path was: "
            f"{_rate(self.bps)} of {of}"
        )


class MachineMonitor:
    """Measures the machine's load at each window of `links`, driven by the emulator's messages."""

    def __init__(self) -> None:
        """Start without a measurement."""
        self.seconds: list[Second] = []
        self._process: int | None = None
        self._relay: Path | None = None
        self._window_s = 0.0
        self._last: tuple[float, float, ProcessorTime] | None = None

    def update(self, message: Mapping[str, Any]) -> None:
        """Process one message of the emulator."""
        if message["type"] == "process":
            self._process = message["pid"]
        elif message["type"] == "started":
            self._last = self._look()
        elif message["type"] == "link" and message["t_s"] > self._window_s:
            self._window_s = message["t_s"]
            now = self._look()
            if now is not None and self._last is not None and now[0] > self._last[0]:
                at, relay_s, ticks = self._last
                busy = ticks.busy_share_until(now[2])
                if busy is not None:
                    relay = (now[1] - relay_s) / (now[0] - at)
                    count = len(os.sched_getaffinity(0))
                    stolen_s = (now[2].stolen - ticks.stolen) / os.sysconf("SC_CLK_TCK")
                    self.seconds.append(Second(message["t_s"], relay, busy, count, stolen_s))
            self._last = now

    def _look(self) -> tuple[float, float, ProcessorTime] | None:
        """Return the time [s], the relay's processor time [s] and the processors'; None where they are unknown."""
        if self._relay is None and self._process is not None:
            self._relay = _thread(self._process, "relay")
        with contextlib.suppress(OSError, ValueError, IndexError):
            if self._relay is not None and (ticks := ProcessorTime.now(os.sched_getaffinity(0))) is not None:
                return time.monotonic(), cpu_time_s(self._relay), ticks
        return None


def machine_limit(
    links: Mapping[str, Sequence[Any]], seconds: Iterable[Second], *, tcp_bytes: int
) -> MachineLimit | None:
    """Return the traffic that the machine limited; None if there was none.

    Args:
        links: Columns of the `links` table; only rows of all flows together (`flow` -1) are used.
        seconds: Load in the windows for which it is known.
        tcp_bytes: Bytes of all TCP flows. If they are less than `TCP_SHARE` only a full relay counts.
    """
    full = {second.t_s: second for second in seconds if second.is_full}
    rows: dict[float, list[dict[str, Any]]] = defaultdict(list)
    for values in zip(*links.values(), strict=True):
        row = dict(zip(links, values, strict=True))
        if row["flow"] == -1:
            rows[row["t_s"]].append(row)
    total = 0
    limited: list[tuple[Second, float, int, float | None]] = []  # with duration [s], bytes and capacity [bit/s]
    before: dict[tuple[str, str], dict[str, Any]] = {}
    last_s = 0.0
    for t_s in sorted(rows):
        span_s, last_s = t_s - last_s, t_s
        grown = [(row, _grown(row, before.get((row["hop"], row["direction"])))) for row in rows[t_s]]
        before |= {(row["hop"], row["direction"]): row for row in rows[t_s]}
        # Data goes one way, acknowledgements the other: the direction with more bytes counts.
        most, direction = max((more["delivered_bytes"], row["direction"]) for row, more in grown)
        total += most
        there = [(row, more) for row, more in grown if row["direction"] == direction]
        if t_s in full and most and not any(_limits(row, more, span_s) for row, more in there):
            capacities = [row["capacity_bps"] for row, _ in there if row["capacity_bps"]]
            limited.append((full[t_s], span_s, most, min(capacities, default=None)))
    if tcp_bytes < TCP_SHARE * total:
        limited = [second for second in limited if second[0].relay >= BUSY]
    if not limited:
        return None
    spans_s = sum(span_s for _, span_s, _, _ in limited)
    known = sum(count for _, _, count, capacity_bps in limited if capacity_bps is not None)
    every = sum(count for _, _, count, _ in limited)
    return MachineLimit(
        share=known / total,
        unknown_share=(every - known) / total,
        bps=every * 8 / spans_s,
        capacity_bps=min((c for _, _, _, c in limited if c is not None), default=None),
        relay=sum(second.relay * span_s for second, span_s, _, _ in limited) / spans_s,
        processors=sum(second.processors * span_s for second, span_s, _, _ in limited) / spans_s,
    )


def _grown(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the counters' increase in this window."""
    return {name: row[name] - (before[name] if before else 0) for name in ("delivered_bytes", *DROPS)}


def _limits(row: Mapping[str, Any], more: Mapping[str, int], span_s: float) -> bool:
    """Whether this hop was the limit: it dropped packets, had a backlog, or was nearly full."""
    if any(more[name] for name in DROPS):
        return True
    if not row["capacity_bps"]:  # no capacity, or interrupted at the window's end, where the backlog decides
        return bool(row["capacity_bps"] == 0 and row["backlog_max_bytes"] > 0)
    waited_s = row["backlog_max_bytes"] * 8 / row["capacity_bps"]
    return bool(waited_s >= QUEUE_S or more["delivered_bytes"] * 8 >= NEAR_CAPACITY * row["capacity_bps"] * span_s)


def _thread(process: int, name: str) -> Path | None:
    """Return the folder of a process's thread in `/proc`, by name; None: there is none."""
    with contextlib.suppress(OSError):
        for folder in Path(f"/proc/{process}/task").iterdir():
            if (folder / "comm").read_text(encoding="utf-8", errors="replace").strip() == name:
                return folder
    return None


def _rate(bps: float) -> str:
    return f"{bps / 1e9:.3g} Gbit/s" if bps >= 1e9 else f"{bps / 1e6:.3g} Mbit/s"
