"""Whether this host's time of day is synchronized, by the kernel (`adjtimex`, which NTP and PTP programs tell it).

Source: Linux, include/uapi/linux/timex.h; adjtimex(2).
"""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass

_TIMEX = struct.Struct("@Illlli")
"""Begin of `struct timex`: modes, offset, freq, maxerror [us], esterror [us], status."""
_SIZE = 512
"""More than `struct timex` has [bytes]."""
_UNSYNCHRONIZED = 0x40
LARGEST_ERROR_S = 2.0
"""Largest bound of the error that is no trouble [s]. Chosen here: twice the 1.02 s to which it grows on a synchronized
host. The kernel adds 500 µs a second (kernel/time/ntp.c) since the last answer, and systemd-timesyncd, which sets it to
0, asks every 2048 s by default (PollIntervalMaxSec in timesyncd.conf(5))."""


@dataclass(frozen=True)
class TimeOfDay:
    """What the kernel tells about the time of day.

    Attributes:
        is_synchronized: Whether a program keeps it right; None: the kernel does not tell.
        max_error_s: Bound of its error [s].
    """

    is_synchronized: bool | None = None
    max_error_s: float = 0.0

    @property
    def trouble(self) -> str:
        """Return why it cannot be trusted; empty if it can, or if nothing is known.

        Example:
            >>> from bentpipe.kernel.clock.time_of_day import TimeOfDay
            >>> TimeOfDay(False).trouble
            "this host's time of day is not synchronized; try `timedatectl set-ntp true`"
            >>> TimeOfDay(True, 1.02).trouble
            ''
        """
        if self.is_synchronized is False:
            return "this host's time of day is not synchronized; try `timedatectl set-ntp true`"
        if self.is_synchronized and self.max_error_s > LARGEST_ERROR_S:
            error = f"{self.max_error_s:.1f} s; expected {LARGEST_ERROR_S:g} s or less"
            return f"this host's time of day may be wrong by {error}"
        return ""


def time_of_day() -> TimeOfDay:
    """Return what the kernel tells; nothing where it refuses (some containers), or is not Linux."""
    buffer = ctypes.create_string_buffer(_SIZE)  # modes 0: nothing is set
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (OSError, AttributeError, TypeError):
        return TimeOfDay()
    return parse_timex(buffer.raw) if state >= 0 and os.name == "posix" else TimeOfDay()


def parse_timex(data: bytes) -> TimeOfDay:
    """Return the state in a `struct timex`; nothing if it is too short."""
    if len(data) < _TIMEX.size:
        return TimeOfDay()
    _, _, _, max_error_us, _, status = _TIMEX.unpack_from(data)
    return TimeOfDay(not status & _UNSYNCHRONIZED, max_error_us / 1e6)
