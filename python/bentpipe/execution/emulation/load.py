"""Whether the machine, and not the path, was what an emulation's programs filled.

TCP adapts to whatever is narrowest. Over a path that is faster than this machine that is the relay or the processors;
nothing is late then, and the throughput is the machine's. So beside each window of the `links` table (a second) stands
how busy the relay and the processors were in it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.execution.emulation.proc import worked_s
from bentpipe.execution.emulation.processors import ProcessorTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BUSY = 0.8
"""From this share of a second on the relay, or all processors together, are held for full.

Chosen here: sender, relay and receiver take turns, so none of them works all the time even where they fill the machine.
"""

RELAYS_SHARE = 0.2
"""Of all processors' time, least that the relay takes where the emulation is what fills them: a machine that is busy
with other things beside little traffic is not what limits that. Chosen here."""

NEAR_CAPACITY = 0.8
"""A hop that carried this share of its capacity in a second was the limit, or nearly. Chosen here."""

QUEUE_S = 1e-3
"""A hop in which bytes for this long stood was the limit. Chosen here: a sender's burst of 64 KB is less from 0.5
Gbit/s on."""

BOUND_SHARE = 0.25
"""Of the bytes, most that may pass while the machine is the limit, of a Run that is valid. Chosen here."""

TCP_SHARE = 0.5
"""Of the bytes, least that are TCP's where full processors make the machine the limit: TCP takes what it gets, and so
hides it. What paces itself shows it by packets that are late or lost at the path's ends. Chosen here."""

DROPS = ("drops_queue", "drops_aqm")
"""Of a hop that held back. Random loss and handovers do not: a packet in 100,000 is one in every second of a machine
that is full, and what loss holds back does not fill one."""


@dataclass(frozen=True)
class Second:
    """One window: its end in the Run [s], what share of it the relay worked, and all of so many processors.

    `stolen_s`: processor time that the hypervisor gave to others [s], in the kernel's ticks.
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
class Bound:
    """Where the bytes of a Run passed while the emulation filled the machine and no element of the path was the limit.

    Attributes:
        share: Of all bytes, those over hops whose capacity was far above what they carried.
        unknown_share: Of all bytes, those over hops without a capacity: who can say what such a path would carry.
        bps: Mean rate in those seconds, of both kinds [bit/s].
        capacity_bps: Least of the first kind's capacities; None: there was none.
        relay: Mean share of those seconds in which the relay worked.
        processors: The same of all processors that this process may use.
    """

    share: float
    unknown_share: float
    bps: float
    capacity_bps: float | None
    relay: float
    processors: float

    def __str__(self) -> str:
        """Where the machine was the limit, in one line."""
        of = "a path without a limit" if self.capacity_bps is None else f"the path's {_rate(self.capacity_bps)}"
        return (
            f"{self.share + self.unknown_share:.0%} of the bytes passed while this machine was full (relay "
            f"{self.relay:.0%} of the time at work, processors {self.processors:.0%}) and no element of the path was: "
            f"{_rate(self.bps)} of {of}"
        )


class Watch:
    """Takes the emulator's lines as they come, and looks at the machine with each window of `links`."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.seconds: list[Second] = []
        self._process: int | None = None
        self._relay: Path | None = None
        self._last: tuple[float, float, ProcessorTime] | None = None

    def hear(self, line: Mapping[str, Any]) -> None:
        """One line."""
        if line["kind"] == "process":
            self._process = line["pid"]
        elif line["kind"] == "started":
            self._last = self._look()
        elif line["kind"] == "table" and line["table"] == "links" and line["columns"]["t_s"]:
            now = self._look()
            if now is not None and self._last is not None and now[0] > self._last[0]:
                at, relay_s, ticks = self._last
                busy = ticks.busy_share_until(now[2])
                if busy is not None:
                    relay = (now[1] - relay_s) / (now[0] - at)
                    count = len(os.sched_getaffinity(0))
                    stolen_s = (now[2].stolen - ticks.stolen) / os.sysconf("SC_CLK_TCK")
                    self.seconds.append(Second(line["columns"]["t_s"][-1], relay, busy, count, stolen_s))
            self._last = now

    def _look(self) -> tuple[float, float, ProcessorTime] | None:
        """Now, the relay's time at work so far [s], and the processors'; None where the kernel does not say."""
        if self._relay is None and self._process is not None:
            self._relay = _thread(self._process, "relay")
        with contextlib.suppress(OSError, ValueError, IndexError):
            if self._relay is not None and (ticks := ProcessorTime.now(os.sched_getaffinity(0))) is not None:
                return time.monotonic(), worked_s(self._relay), ticks
        return None


def bound(links: Mapping[str, Sequence[Any]], seconds: Iterable[Second], *, tcp_bytes: int) -> Bound | None:
    """Where the machine was the limit; None if it never was, or nothing passed.

    Args:
        links: Columns of the table; of it the rows of all flows together (`flow` -1).
        seconds: How busy the machine was, of the windows of which that is known.
        tcp_bytes: What connections of TCP carried in all. Where that is less than `TCP_SHARE` only a full relay counts.
    """
    full = {second.t_s: second for second in seconds if second.is_full}
    rows: dict[float, list[dict[str, Any]]] = defaultdict(list)
    for values in zip(*links.values(), strict=True):
        row = dict(zip(links, values, strict=True))
        if row["flow"] == -1:
            rows[row["t_s"]].append(row)
    total = 0
    found: list[tuple[Second, float, int, float | None]] = []  # with the span, the bytes and the capacity
    before: dict[tuple[str, str], dict[str, Any]] = {}
    last_s = 0.0
    for t_s in sorted(rows):
        span_s, last_s = t_s - last_s, t_s
        grown = [(row, _grown(row, before.get((row["hop"], row["direction"])))) for row in rows[t_s]]
        before |= {(row["hop"], row["direction"]): row for row in rows[t_s]}
        # Both directions carry something: data one way, acknowledgements the other. What counts is the fuller one.
        most, direction = max((more["delivered_bytes"], row["direction"]) for row, more in grown)
        total += most
        there = [(row, more) for row, more in grown if row["direction"] == direction]
        if t_s in full and most and not any(_limits(row, more, span_s) for row, more in there):
            capacities = [row["capacity_bps"] for row, _ in there if row["capacity_bps"]]
            found.append((full[t_s], span_s, most, min(capacities, default=None)))
    if tcp_bytes < TCP_SHARE * total:
        found = [second for second in found if second[0].relay >= BUSY]
    if not found:
        return None
    spans_s = sum(span_s for _, span_s, _, _ in found)
    known = sum(count for _, _, count, capacity_bps in found if capacity_bps is not None)
    every = sum(count for _, _, count, _ in found)
    return Bound(
        share=known / total,
        unknown_share=(every - known) / total,
        bps=every * 8 / spans_s,
        capacity_bps=min((c for _, _, _, c in found if c is not None), default=None),
        relay=sum(second.relay * span_s for second, span_s, _, _ in found) / spans_s,
        processors=sum(second.processors * span_s for second, span_s, _, _ in found) / spans_s,
    )


def _grown(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, int]:
    """Counters of this window alone."""
    return {name: row[name] - (before[name] if before else 0) for name in ("delivered_bytes", *DROPS)}


def _limits(row: Mapping[str, Any], more: Mapping[str, int], span_s: float) -> bool:
    """Whether this hop held the programs back: it dropped something, something waited in it, or it was nearly full."""
    if any(more[name] for name in DROPS):
        return True
    if not row["capacity_bps"]:  # none, or interrupted at the window's end, where what waits tells
        return bool(row["capacity_bps"] == 0 and row["backlog_max_bytes"] > 0)
    waited_s = row["backlog_max_bytes"] * 8 / row["capacity_bps"]
    return bool(waited_s >= QUEUE_S or more["delivered_bytes"] * 8 >= NEAR_CAPACITY * row["capacity_bps"] * span_s)


def _thread(process: int, name: str) -> Path | None:
    """Where the kernel tells of a thread."""
    with contextlib.suppress(OSError):
        for folder in Path(f"/proc/{process}/task").iterdir():
            if (folder / "comm").read_text(encoding="utf-8", errors="replace").strip() == name:
                return folder
    return None


def _rate(bps: float) -> str:
    return f"{bps / 1e9:.3g} Gbit/s" if bps >= 1e9 else f"{bps / 1e6:.3g} Mbit/s"
