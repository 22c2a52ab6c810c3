"""Rates of a network interface, second by second: for a simulated terminal that real traffic passes."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.net_dev import interface_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

KEPT = 1000
"""Seconds that are kept: more than a terminal's history has."""


class InterfaceRates:
    """Follows an interface in a thread.

    Args:
        interface: Its name; what it receives is the downlink.
        second: Returns the terminal's second now.

    Raises:
        UserError: There is no such interface.
    """

    def __init__(self, interface: str, second: Callable[[], int]) -> None:
        """Begin to follow it."""
        self._interface, self._second = interface, second
        self._rates: dict[int, tuple[float, float]] = {}
        interface_bytes(interface)
        threading.Thread(target=self._follow, name="interface", daemon=True).start()

    def _follow(self) -> None:
        before, second, at_s = interface_bytes(self._interface), self._second(), time.monotonic()
        while True:
            time.sleep(0.02)
            now = self._second()
            if now == second:
                continue
            try:
                counts = interface_bytes(self._interface)
            except UserError:
                continue
            time_s = time.monotonic()
            rates = tuple(8 * (new - old) / (time_s - at_s) for new, old in zip(counts, before, strict=True))
            self._rates[second] = (max(rates[0], 0.0), max(rates[1], 0.0))
            for old in [each for each in self._rates if each < now - KEPT]:
                del self._rates[old]
            before, second, at_s = counts, now, time_s

    def in_seconds(self, seconds: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the rates down and up [bit/s]; 0 where they are not known."""
        pairs = np.array([self._rates.get(int(second), (0.0, 0.0)) for second in seconds]).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]
