"""What the machine's processors did, as `/proc/stat` counts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

STAT = Path("/proc/stat")

FIELDS = 8
"""user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)); plugin and plugin_nice are in user and nice."""

IDLE, IOWAIT, STEAL = 3, 4, 7


@dataclass(frozen=True)
class ProcessorTime:
    """Time of some processors together, in the kernel's ticks since the machine started."""

    stolen: int
    idle: int
    total: int

    @classmethod
    def now(cls, processors: Collection[int] | None = None) -> ProcessorTime | None:
        """As of now, of these processors or of all; None where the kernel does not say."""
        try:
            return cls.parse(STAT.read_text(encoding="ascii"), processors)
        except (OSError, UnicodeError):
            return None

    @classmethod
    def parse(cls, text: str, processors: Collection[int] | None = None) -> ProcessorTime | None:
        """From the text of `/proc/stat`; None if it has no such lines."""
        wanted = {"cpu"} if processors is None else {f"cpu{number}" for number in processors}
        found = []
        for line in text.splitlines():
            name, *fields = line.split() or [""]
            if name in wanted and len(fields) >= FIELDS and all(field.isdecimal() for field in fields[:FIELDS]):
                wanted.remove(name)
                found.append([int(field) for field in fields[:FIELDS]])
        if wanted or not found:
            return None
        ticks = [sum(column) for column in zip(*found, strict=True)]
        return cls(ticks[STEAL], ticks[IDLE] + ticks[IOWAIT], sum(ticks))

    def stolen_share_since(self) -> float | None:
        """The part of the time since then that the hypervisor gave to others; None where the kernel does not say."""
        now = ProcessorTime.now()
        return None if now is None else self.stolen_share_until(now)

    def stolen_share_until(self, later: ProcessorTime) -> float | None:
        """The same between two moments; None if no tick lies between them."""
        total = later.total - self.total
        return (later.stolen - self.stolen) / total if total > 0 else None

    def busy_share_until(self, later: ProcessorTime) -> float | None:
        """The part of the time between two moments in which they worked, or could not; None if no tick lies between."""
        total = later.total - self.total
        return 1.0 - (later.idle - self.idle) / total if total > 0 else None
