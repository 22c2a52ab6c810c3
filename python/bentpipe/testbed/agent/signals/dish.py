"""Feed of a terminal: its status once a second, and the newest second of its history, which is not smoothed.

The status' latency is a running mean of some 15 s: conditions on jumps need the history's, which has a name of its own.
Some firmware smooths the history as well (docs/guides/triggers.md); the feed notes that: then only pings show jumps.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bentpipe.testbed.agent.signals.feed import Feed, Values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import numpy as np
    from numpy.typing import NDArray

    from bentpipe.measurements.dish.client import DishClient
    from bentpipe.measurements.dish.history import History
    from bentpipe.measurements.dish.status import Status


SMOOTHED = "latency_ms is smoothed by this firmware, as latency_smoothed_ms is: use pings for conditions on jumps"

SMOOTHED_FROM = 0.9
"""Correlation of successive seconds' log latencies from which they are smoothed: 0.59 in a history that is not
(NUWiNS), 0.99 in five that are (FjordLink)."""

SCAVENGER_EVERY_S = 0.5
"""Interval of polls with which the household's traffic is detected in time [s] (`bentpipe validate scavenger`)."""

LEAST_SECONDS = 300
"""Seconds of history that this takes."""


class DishFeed(Feed):
    """Polls a terminal.

    Attributes:
        every_s: Interval of polls [s].
    """

    name = "dish"
    hold_s = 2.0
    stale_s = 5.0

    def __init__(self, client: DishClient | str, every_s: float = 1.0) -> None:
        """Set up the feed.

        Args:
            client: A client, or the terminal's HOST[:PORT].
            every_s: Interval of polls [s]; `SCAVENGER_EVERY_S` where runs yield to the household.

        Raises:
            UserError: The extra ``dish`` is not installed.
        """
        from bentpipe.measurements.dish.extra import require_extra

        require_extra()
        from bentpipe.measurements.dish.client import DishClient

        self._client = DishClient(client) if isinstance(client, str) else client
        self.every_s = every_s
        self._seconds = SecondsOfHistory()
        self._is_smoothed: bool | None = None
        self._rates: tuple[float | None, float | None] | None = None

    async def samples(self) -> AsyncIterator[Values]:
        """Yield a sample at each interval. Raises `DishError`: no answer."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            yield await asyncio.to_thread(self._poll)
            due_s = max(due_s + self.every_s, loop.time())
            await asyncio.sleep(due_s - loop.time())

    async def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _poll(self) -> Values:
        from bentpipe.measurements.dish.errors import DishError

        status = self._client.status()
        values = of_status(status)
        try:
            history = self._client.history()
            values |= self._seconds.newest(history)
            if self._is_smoothed is None:
                self._is_smoothed = is_smoothed(history.pop_ping_latency_ms)
                self.note = SMOOTHED if self._is_smoothed else ""
        except DishError as error:
            if error.kind not in ("unsupported", "malformed"):
                raise
            values |= self._throughput(status)
        return values

    def _throughput(self, status: Status) -> Values:
        """Return the throughput of a status that is not the last one's, for firmware without a history."""
        rates = status.downlink_throughput_bps, status.uplink_throughput_bps
        before, self._rates = self._rates, rates
        return {} if rates == before else {"downlink_bps": rates[0], "uplink_bps": rates[1]}


class SecondsOfHistory:
    """Gives each second of successive histories once."""

    def __init__(self) -> None:
        """Begin without a history."""
        self._current: int | None = None

    def newest(self, history: History) -> Values:
        """Return the newest second of a history; empty if it was given before."""
        if not len(history) or history.current == self._current:
            return {}
        self._current = history.current
        drop = _last(history.pop_ping_drop_rate)
        latency = _last(history.pop_ping_latency_ms)
        all_lost = drop is not None and drop >= 1.0
        return {
            "drop_rate": drop,
            "latency_ms": None if all_lost or latency is None else latency,
            "downlink_bps": _last(history.downlink_throughput_bps),
            "uplink_bps": _last(history.uplink_throughput_bps),
            "power_w": _last(history.power_in_w),
        }


def is_smoothed(latency_ms: NDArray[np.float32]) -> bool | None:
    """Return whether the latencies of successive seconds are means of many; None: too few to say.

    Example:
        >>> import numpy as np
        >>> seconds = np.random.default_rng(1).exponential(10.0, 900) + 25.0
        >>> is_smoothed(seconds), is_smoothed(np.convolve(seconds, np.ones(15) / 15, "valid")), is_smoothed(seconds[:9])
        (False, True, None)
    """
    import numpy as np

    values = np.asarray(latency_ms, dtype=np.float64)
    known = np.isfinite(values) & (values > 0)
    both = known[1:] & known[:-1]
    if both.sum() < LEAST_SECONDS:
        return None
    now, before = np.log(values[1:][both]), np.log(values[:-1][both])
    if now.std() == 0 or before.std() == 0:
        return None
    return bool(np.corrcoef(now, before)[0, 1] > SMOOTHED_FROM)


def of_status(status: Status) -> Values:
    """Return the signals of a status."""
    obstructed = status.currently_obstructed
    return {
        "latency_smoothed_ms": status.pop_ping_latency_ms,
        "obstructed": None if obstructed is None else float(obstructed),
        "fraction_obstructed": status.fraction_obstructed,
        "connected": None if status.state == "UNKNOWN" else float(status.state == "CONNECTED"),
        "uptime_s": status.uptime_s,
        "boresight_azimuth_deg": status.boresight_azimuth_deg,
        "boresight_elevation_deg": status.boresight_elevation_deg,
    }


def _last(series: NDArray[np.float32]) -> float | None:
    return float(series[-1]) if len(series) else None
