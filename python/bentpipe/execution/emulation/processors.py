"""Processor time of the machine, from `/proc/stat`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

STAT = Path("/proc/stat")

FIELDS = 8
"""user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)). user and nice include virtual processors."""

IDLE, IOWAIT, STEAL = 3, 4, 7


@dataclass(frozen=True)
class ProcessorTime:
    """Time of a set of processors [kernel ticks since boot]."""

    stolen: int
    idle: int
    total: int

    @classmethod
    def now(cls, processors: Collection[int] | None = None) -> ProcessorTime | None:
        """Read the current time of these processors or of all; None where it is unknown."""
        try:
            return cls.parse(STAT.read_text(encoding="ascii"), processors)
        except (OSError, UnicodeError):
            return None

    @classmethod
    def parse(cls, text: str, processors: Collection[int] | None = None) -> ProcessorTime | None:
        """Parse the text of `/proc/stat`; None if a requested line is missing."""
        missing = {"cpu"} if processors is None else {f"cpu{number}" for number in processors}
        ticks_by_line = []
        for line in text.splitlines():
            name, *fields = line.split() or [""]
            if name in missing and len(fields) >= FIELDS and all(field.isdecimal() for field in fields[:FIELDS]):
                missing.remove(name)
                ticks_by_line.append([int(field) for field in fields[:FIELDS]])
        if missing or not ticks_by_line:
            return None
        ticks = [sum(column) for column in zip(*ticks_by_line, strict=True)]
        return cls(ticks[STEAL], ticks[IDLE] + ticks[IOWAIT], sum(ticks))

    def stolen_share_since(self) -> float | None:
        """Return the share of the time since then that the hypervisor gave to others; None where it is unknown."""
        now = ProcessorTime.now()
        return None if now is None else self.stolen_share_until(now)

    def stolen_share_until(self, later: ProcessorTime) -> float | None:
        """Return the stolen share between two measurements; None if no tick lies between them."""
        total = later.total - self.total
        return (later.stolen - self.stolen) / total if total > 0 else None

    def busy_share_until(self, later: ProcessorTime) -> float | None:
        """Return the share of busy or stolen time between two measurements; None if no tick lies between them."""
        total = later.total - self.total
        return 1.0 - (later.idle - self.idle) / total if total > 0 else None
