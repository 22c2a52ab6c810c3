"""The host's clock in the maps of loaded controllers (`struct bp_host_clock`, `bpf/kernel/socket.h`)."""

from __future__ import annotations

import contextlib
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bentpipe.kernel import libbpf, owned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFIX = "bpt_"
"""Begin of the maps' names; a controller's name in the kernel follows."""
ANNOUNCED = frozenset({"satcp"})
"""Controllers, by their names in the kernel, that take each handover ahead of time, also irregular ones."""
_RECORD = struct.Struct("<5Q")
_FIRST = bytes(4)
STEP_NS = 5_000_000
"""Least change of the wall clock that is written [ns]. Chosen here: above what reading two clocks costs."""


@dataclass(frozen=True)
class HostClockRecord:
    """The record in one map; times are on the kernel's monotonic clock [ns].

    Attributes:
        generation: Grows with each change: sockets read the record anew.
        period_ns: Time between two handovers; 0: no clock.
        at_ns: Time of one of them.
        until_ns: End of its validity.
        unix_ns: Wall-clock time when the monotonic clock is zero.
    """

    generation: int = 1
    period_ns: int = 0
    at_ns: int = 0
    until_ns: int = 0
    unix_ns: int = 0

    def to_bytes(self) -> bytes:
        """Return it as the kernel has it."""
        return _RECORD.pack(self.generation, self.period_ns, self.at_ns, self.until_ns, self.unix_ns)

    @classmethod
    def from_bytes(cls, data: bytes) -> HostClockRecord:
        """Return it from a map's value.

        Example:
            >>> from bentpipe.kernel.clock.record import HostClockRecord
            >>> record = HostClockRecord(2, 15_000_000_000, 7, 8, 9)
            >>> HostClockRecord.from_bytes(record.to_bytes()) == record
            True
        """
        return cls(*_RECORD.unpack_from(data))

    def is_valid(self, now_ns: int) -> bool:
        """Whether sockets use it now."""
        return self.period_ns >= 10**9 and now_ns < self.until_ns

    def next_ns(self, now_ns: int) -> int:
        """Return the time of the next handover; needs a period."""
        return now_ns + self.period_ns - (now_ns - self.at_ns) % self.period_ns


def wall_clock_ns() -> int:
    """Return the wall-clock time when the monotonic clock is zero [ns since 1970]."""
    return time.time_ns() - time.monotonic_ns()


def first_record() -> HostClockRecord:
    """Return the record of a controller that is being loaded: the time of day, and no handovers."""
    return HostClockRecord(unix_ns=wall_clock_ns())


def read_records() -> dict[str, HostClockRecord]:
    """Return the record of each controller, by its name in the kernel; of two with one name that of the newer.

    Raises:
        KernelRefusedError: This process may not ask the kernel.
    """
    records = {}
    for info, file in _maps():
        with contextlib.suppress(libbpf.KernelRefusedError):
            value = libbpf.value_of(file, _FIRST, info.value_bytes)
            records[info.name.removeprefix(PREFIX)] = HostClockRecord.from_bytes(value)
    return records


def _maps() -> Iterator[tuple[libbpf.MapInfo, int]]:
    """Yield the maps that loaded controllers use: another program may have some of the same name."""
    for info in owned.owned_maps(PREFIX, (libbpf.ARRAY, len(_FIRST), _RECORD.size)):
        with contextlib.suppress(libbpf.KernelRefusedError), libbpf.open_map(info.id) as file:
            yield info, file


@dataclass(frozen=True)
class Hint:
    """What is to be written, on the monotonic clock [ns]: a periodic clock, or the last and the next handover.

    Attributes:
        period_ns: Period; 0: no clock.
        at_ns: Time of a handover.
        last_ns: The handover before now, for controllers that take announcements.
        next_ns: The one after; 0: not known in advance, the period counts.
    """

    period_ns: int = 0
    at_ns: int = 0
    last_ns: int = 0
    next_ns: int = 0

    def record(self, name: str, until_ns: int) -> HostClockRecord:
        """Return the record of a controller, valid until `until_ns` at most."""
        if name in ANNOUNCED and self.next_ns:
            # A controller adds the period to the last handover; after the next one it waits for a new record.
            gap_ns = self.next_ns - self.last_ns
            return HostClockRecord(0, gap_ns, self.last_ns, min(until_ns, self.next_ns))
        return HostClockRecord(0, self.period_ns, self.at_ns, until_ns if self.period_ns else 0)


NO_HINT = Hint()


class HostClockMaps:
    """Writes the maps of all controllers, also of those that are loaded later.

    Args:
        on_foreign: Called with the name of a controller whose record another program has changed; it is overwritten.
            Called once while that goes on.
    """

    def __init__(self, on_foreign: Callable[[str], object] = lambda _: None) -> None:
        """Write nothing yet."""
        self._on_foreign = on_foreign
        self._written: dict[int, HostClockRecord] = {}
        self._foreign: set[int] = set()

    def write(self, hint: Hint, until_ns: int) -> list[str]:
        """Write a hint to every map; return the controllers that have one, by their names in the kernel.

        Without a hint, only records that have one, or the wrong time of day, are written.

        Raises:
            KernelRefusedError: This process may not ask the kernel.
        """
        names, seen = [], {}
        for info, file in _maps():
            name = info.name.removeprefix(PREFIX)
            with contextlib.suppress(libbpf.KernelRefusedError):
                old = HostClockRecord.from_bytes(libbpf.value_of(file, _FIRST, info.value_bytes))
                mine = self._written.get(info.id)
                if mine is None or old == mine:
                    self._foreign.discard(info.id)
                elif info.id not in self._foreign:
                    self._foreign.add(info.id)
                    self._on_foreign(name)
                seen[info.id] = self._set(file, old, hint.record(name, until_ns))
                names.append(name)
        self._written = seen
        return sorted(set(names))

    @staticmethod
    def _set(file: int, old: HostClockRecord, new: HostClockRecord) -> HostClockRecord:
        unix_ns = wall_clock_ns()
        if abs(unix_ns - old.unix_ns) < STEP_NS:
            unix_ns = old.unix_ns
        new = replace(new, generation=old.generation, unix_ns=unix_ns)
        if new == old or (not new.period_ns and not old.period_ns and unix_ns == old.unix_ns):
            return old
        # The values before their generation: a socket that reads between the two reads again.
        libbpf.set_value(file, _FIRST, new.to_bytes())
        new = replace(new, generation=max(old.generation + 1, time.monotonic_ns()))
        libbpf.set_value(file, _FIRST, new.to_bytes())
        return new

    def withdraw(self) -> None:
        """Take the hint back from every map. Raises as `write`."""
        self.write(NO_HINT, 0)


def shown_clocks(name: str | None = None) -> dict[str, dict[str, float | None]]:
    """Return the clock of each controller, or of one, by its name in the registry, as `described`."""
    now_ns = time.monotonic_ns()
    with contextlib.suppress(libbpf.KernelRefusedError):
        records = {each.replace("_", "-"): record for each, record in read_records().items()}
        return {each: described(record, now_ns) for each, record in records.items() if name in (None, each)}
    return {}


def described(record: HostClockRecord, now_ns: int) -> dict[str, float | None]:
    """Return a record as `bentpipe kernel status --json` has it.

    Returns:
        `period_s`, `next_s` (until the next handover), `second_of_minute` (of a handover, below the period if it
        divides a minute) and `valid_s`; all None where there is no clock.
    """
    if not record.is_valid(now_ns):
        return dict.fromkeys(("period_s", "next_s", "second_of_minute", "valid_s"))
    next_ns = record.next_ns(now_ns)
    return {
        "period_s": record.period_ns / 1e9,
        "next_s": (next_ns - now_ns) / 1e9,
        "second_of_minute": second_of_minute(next_ns, record.period_ns, record.unix_ns),
        "valid_s": (record.until_ns - now_ns) / 1e9,
    }


def second_of_minute(at_ns: int, period_ns: int, unix_ns: int) -> float:
    """Return the second of the minute of a handover, of the first in a minute if the period divides it.

    Example:
        >>> from bentpipe.kernel.clock.record import second_of_minute
        >>> second_of_minute(57_000_000_000, 15_000_000_000, 0)
        12.0
    """
    whole = round(period_ns / 1e8) / 10
    span_s = whole if whole >= 1 and abs(60 / whole - round(60 / whole)) < 1e-6 else 60.0
    return float(round((at_ns + unix_ns) % round(span_s * 1e9) / 1e9, 3))
