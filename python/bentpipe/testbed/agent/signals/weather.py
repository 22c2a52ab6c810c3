"""Feed of weather: a file that something at the node writes, or a URL that the host allows."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.agent.fetching import fetch
from bentpipe.testbed.agent.signals.feed import Feed, Values
from bentpipe.testbed.agent.signals.weather_text import TIME, read_weather

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from bentpipe.testbed.agent.signals.catalogue import Signal
    from bentpipe.testbed.agent.signals.weather_text import Observation, TextFormat, WeatherKey

FILE_BYTES = 10_000_000
"""Largest file [bytes]."""

EVERY_S = {"file": 30.0, "url": 300.0}
"""Interval of reads [s]; services of weather ask for a few requests an hour."""

AHEAD_S = 300.0
"""How far in the future an observation may be [s]: clocks differ."""


class WeatherFeed(Feed):
    """Reads weather from a file or a URL."""

    name = "weather"

    def __init__(
        self,
        source: str | Path,
        keys: Mapping[str, WeatherKey] | None = None,
        *,
        allowed: Sequence[str] = (),
        text_format: TextFormat | None = None,
        every_s: float | None = None,
        oldest_s: float = 3600.0,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Set up the feed.

        Args:
            source: A file, or ``http://…`` or ``https://…``.
            keys: Signal → its key in the text; None: those of Open-Meteo, or the signals' names.
            allowed: URLs that the host's policy allows.
            text_format: ``json`` or ``csv``; None: by the name's end, ``json`` if that says nothing.
            every_s: Interval of reads [s]; None: `EVERY_S`.
            oldest_s: Age from which an observation is none of the present [s].
            now_s: Returns the time of day [s since 1970].
        """
        self._is_url = str(source).startswith(("http://", "https://"))
        self._source, self._keys, self._allowed = str(source), keys, allowed
        ends_csv = str(source).partition("?")[0].lower().endswith(".csv")
        self._format: TextFormat = text_format or ("csv" if ends_csv else "json")
        self._every_s = every_s or EVERY_S["url" if self._is_url else "file"]
        self._oldest_s, self._now_s = oldest_s, now_s
        self.hold_s = self.stale_s = self._every_s * 2.5

    def allow(self, urls: Sequence[str]) -> None:
        """Go on with other URLs that the host allows: one that is none of them is not asked any more."""
        self._allowed = urls

    @property
    def signals(self) -> Mapping[str, Signal]:
        """The signals that it gives, by name."""
        own = super().signals
        return own if self._keys is None else {name: own[name] for name in self._keys if name != TIME and name in own}

    async def samples(self) -> AsyncIterator[Values]:
        """Yield the weather at each interval. Raises `UserError`: unreadable, nonsense, or too old."""
        while True:
            observation = await self._read()
            yield dict(observation.values)
            await asyncio.sleep(self._every_s)

    async def _read(self) -> Observation:
        written_s: float | None = None
        if self._is_url:
            data = await fetch(self._source, self._allowed)
            where = self._source.partition("?")[0]
        else:
            data, written_s = await asyncio.to_thread(_file, Path(self._source))
            where = self._source
        observation = read_weather(data, self._format, self._keys, where)
        observed_s = observation.observed_s if observation.observed_s is not None else written_s
        if observed_s is not None:
            age_s = self._now_s() - observed_s
            if age_s > self._oldest_s:
                raise UserError(f"is {age_s / 60:.0f} min old", where=where, expected=f"{self._oldest_s / 60:.0f} min")
            if age_s < -AHEAD_S:
                raise UserError(f"is {-age_s / 60:.0f} min in the future", where=where, expected="a time of the past")
        return observation


def _file(path: Path) -> tuple[bytes, float]:
    from bentpipe.files import read_bytes, reason_of

    data = read_bytes(path, FILE_BYTES)
    try:
        return data, path.stat().st_mtime
    except OSError as error:
        raise UserError(reason_of(error), where=str(path)) from None
