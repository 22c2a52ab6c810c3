"""Clocks of a wrapped program that a test sets: an hour passes at once, or its wall clock is off by an hour."""

from __future__ import annotations

import mmap
import selectors
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FORM = struct.Struct("dd")
TICK_S = 0.05
"""A program with such a clock looks so often whether time has passed [s]."""


class ClockFile:
    """Two numbers that several processes see: seconds that have passed on all clocks, and the wall clock's error."""

    def __init__(self, file: Path) -> None:
        """Open or create it."""
        if not file.exists():
            file.write_bytes(_FORM.pack(0.0, 0.0))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), _FORM.size)

    @property
    def passed_s(self) -> float:
        """Time that passed beside the real one [s]."""
        return float(_FORM.unpack_from(self._memory)[0])

    @property
    def wall_error_s(self) -> float:
        """Error of the wall clock alone [s]."""
        return float(_FORM.unpack_from(self._memory)[1])

    def set(self, *, passed_s: float | None = None, wall_error_s: float | None = None) -> None:
        """Set one or both."""
        passed_s = self.passed_s if passed_s is None else passed_s
        wall_error_s = self.wall_error_s if wall_error_s is None else wall_error_s
        _FORM.pack_into(self._memory, 0, passed_s, wall_error_s)


def shift(file: Path) -> None:
    """Shift this process's clocks by a file, if there is one; before anything else is imported."""
    if not file.exists():
        return
    clock = ClockFile(file)

    def shifted(function: Callable[..., Any], unit: float, *, wall: bool) -> Callable[..., Any]:
        def now(*arguments: Any) -> Any:  # noqa: ANN401 - a clock's number
            is_wall = wall or arguments == (time.CLOCK_REALTIME,)
            more_s = clock.passed_s + (clock.wall_error_s if is_wall else 0.0)
            value = function(*arguments)
            return value + (round(more_s * 1e9) if unit == 1e9 else more_s)

        return now

    time.time = shifted(time.time, 1, wall=True)
    time.time_ns = shifted(time.time_ns, 1e9, wall=True)
    time.monotonic = shifted(time.monotonic, 1, wall=False)
    time.monotonic_ns = shifted(time.monotonic_ns, 1e9, wall=False)
    time.clock_gettime = shifted(time.clock_gettime, 1, wall=False)
    original = selectors.EpollSelector.select

    def select(self: selectors.EpollSelector, timeout: float | None = None) -> Any:  # noqa: ANN401 - the selector's
        return original(self, TICK_S if timeout is None else min(timeout, TICK_S))

    selectors.EpollSelector.select = select  # type: ignore[method-assign, assignment]
