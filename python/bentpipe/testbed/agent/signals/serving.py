"""Feed of the serving satellite: which one it is, from obstruction maps and elements, and where it stands."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.testbed.agent.signals.feed import Feed, Values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from bentpipe.measurements.dish.client import DishClient
    from bentpipe.measurements.dish.display import Watcher
    from bentpipe.scenarios.sites import Place

NANOS = 10**9


class ServingFeed(Feed):
    """Estimates the serving satellite once a second, as `bentpipe dish watch` does."""

    name = "serving"
    hold_s = 2.0
    stale_s = 30.0

    def __init__(
        self,
        client: DishClient | str,
        elements: Path | None,
        site: str | None = None,
        every_s: float = 1.0,
        now_unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Set up the feed; elements are read when it starts, and again when the file changes.

        Args:
            client: A client, or the terminal's HOST[:PORT].
            elements: File with orbital elements of the day; None: the built-in constellation, of simulated terminals.
            site: Place of the terminal; None: what it reports.
            every_s: Interval [s].
            now_unix_ns: Returns the time of day [ns since 1970].

        Raises:
            UserError: The extra ``dish`` is not installed.
        """
        from bentpipe.measurements.dish.extra import require_extra

        require_extra()
        from bentpipe.measurements.dish.client import DishClient

        self._client = DishClient(client) if isinstance(client, str) else client
        self._elements, self._site, self._every_s = elements, site, every_s
        self._now_unix_ns = now_unix_ns
        self._read_at = 0.0
        self._pass: Pass | None = None
        self._watcher: Watcher | None = None

    async def samples(self) -> AsyncIterator[Values]:
        """Yield a sample at each interval in which the satellite is known. Raises `UserError`: no elements or place."""
        while True:
            values = await asyncio.to_thread(self._poll)
            if values:
                yield values
            await asyncio.sleep(self._every_s)

    async def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _poll(self) -> Values:
        from bentpipe.measurements.dish.following import Sample

        self._load()
        assert self._watcher is not None
        assert self._pass is not None
        now = self._now_unix_ns()
        status = self._client.status()
        satellite = self._watcher.observe(Sample(now, time.clock_gettime_ns(time.CLOCK_BOOTTIME), status)).satellite
        return {} if satellite is None else self._pass.values(satellite.norad_id, now)

    def _load(self) -> None:
        """Read the elements at the start and when the file has changed."""
        from bentpipe.errors import UserError
        from bentpipe.files import reason_of

        try:
            changed_at = self._elements.stat().st_mtime if self._elements else 0.0
        except OSError as error:
            raise UserError(reason_of(error), where=str(self._elements), expected="orbital elements") from None
        if self._watcher is not None and changed_at == self._read_at:
            return
        import warnings

        from bentpipe.measurements.dish.display import Watcher, place_of
        from bentpipe.measurements.serving.live import LiveEstimator
        from bentpipe.orbits.elements import load_satellites

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of age: the estimator's confidence shows it
            satellites = load_satellites(self._elements, None, self._now_unix_ns())
        place = place_of(self._client, self._site)
        self._watcher = Watcher(self._client, LiveEstimator(satellites, place))
        self._pass, self._read_at = Pass(satellites, place), changed_at


class Pass:
    """Where the serving satellite stands, and since when it serves.

    Args:
        satellites: Satellites of elements or a built-in constellation.
        place: The terminal.
    """

    def __init__(self, satellites: Any, place: Place) -> None:  # noqa: ANN401 - native
        """Begin without a serving satellite."""
        self._satellites = satellites
        self._place = place
        self._index = {int(number): row for row, number in enumerate(satellites.elements()["norad_id"])}
        self._number: int | None = None
        self._since_unix_ns: int | None = None

    def values(self, number: int, unix_ns: int) -> Values:
        """Return the signals for the satellite with a catalogue number at a time [ns since 1970]."""
        if number != self._number:
            # The first satellite has served for an unknown time.
            self._since_unix_ns = None if self._number is None else unix_ns
            self._number = number
        row = self._index.get(number)
        if row is None:
            return {"satellite": float(number)}
        azimuth, elevation, range_km = (np.empty((1, 1)) for _ in range(3))
        point = (self._place.lat_deg, self._place.lon_deg, self._place.alt_m)
        self._satellites.look_angles(point, np.array([unix_ns]), row, azimuth, elevation, range_km)
        since = self._since_unix_ns
        return {
            "satellite": float(number),
            "elevation_deg": float(elevation[0, 0]),
            "azimuth_deg": float(azimuth[0, 0]),
            "range_km": float(range_km[0, 0]),
            "since_handover_s": None if since is None else max(0.0, (unix_ns - since) / NANOS),
        }
