"""What the machine's processors did, as `/proc/stat` counts it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")

FIELDS = 8
"""user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)); guest and guest_nice are in user and nice."""

STEAL = 7


@dataclass(frozen=True)
class ProcessorTime:
    """Time of all processors together, in the kernel's ticks since the machine started."""

    stolen: int
    total: int

    @classmethod
    def now(cls) -> ProcessorTime | None:
        """As of now; None where the kernel does not say."""
        try:
            return cls.parse(STAT.read_text(encoding="ascii"))
        except (OSError, UnicodeError):
            return None

    @classmethod
    def parse(cls, text: str) -> ProcessorTime | None:
        """From the text of `/proc/stat`; None if it has no such line."""
        for line in text.splitlines():
            name, *fields = line.split() or [""]
            if name == "cpu" and len(fields) >= FIELDS and all(field.isdecimal() for field in fields[:FIELDS]):
                ticks = [int(field) for field in fields[:FIELDS]]
                return cls(ticks[STEAL], sum(ticks))
        return None

    def stolen_share_since(self) -> float | None:
        """The part of the time since then that the hypervisor gave to others; None where the kernel does not say."""
        now = ProcessorTime.now()
        return None if now is None else self.stolen_share_until(now)

    def stolen_share_until(self, later: ProcessorTime) -> float | None:
        """The same between two moments; None if no tick lies between them."""
        total = later.total - self.total
        return (later.stolen - self.stolen) / total if total > 0 else None
