"""Feeds of the service: a terminal that is polled, or a recording that is replayed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.aware.state import Sample
from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl

    from bentpipe.measurements.dish.following import Sample as Polled

COLUMNS = {
    "pop_ping_latency_ms": "latency_ms",
    "pop_ping_drop_rate": "drop_rate",
    "downlink_throughput_bps": "downlink_bps",
    "uplink_throughput_bps": "uplink_bps",
    "currently_obstructed": "obstructed",
    "boresight_azimuth_deg": "azimuth_deg",
    "direction_azimuth": "azimuth_deg",
    "boresight_elevation_deg": "elevation_deg",
    "direction_elevation": "elevation_deg",
    "uptime_s": "uptime_s",
    "uptime": "uptime_s",
    "software_version": "software_version",
    "state": "state",
}
"""Field of a terminal → field of `bentpipe.aware.documents.Telemetry`."""

_TEXTS = frozenset({"state", "software_version"})


class Feed(threading.Thread):
    """A thread that gives samples, and the reason where there are none, to two functions."""

    def __init__(self, name: str) -> None:
        """Create the thread; `begin` starts it."""
        super().__init__(name=name, daemon=True)
        self._on_sample: Callable[[Sample], object] = lambda _: None
        self._on_trouble: Callable[[str], object] = lambda _: None

    def begin(self, on_sample: Callable[[Sample], object], on_trouble: Callable[[str], object]) -> None:
        """Start."""
        self._on_sample, self._on_trouble = on_sample, on_trouble
        self.start()

    def now_s(self) -> float:
        """Return the time of the samples' clock [s since 1970]."""
        return time.time()

    def steady_s(self) -> float:
        """Return a time that runs on where that clock is set, also while the machine sleeps [s]."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class DishFeed(Feed):
    """Polls a terminal in a thread of its own, once a second, and waits while it does not answer."""

    def __init__(self, host: str, elements: Path | None) -> None:
        """Check the extra and the elements; `begin` begins to poll. Raises `UserError`."""
        from bentpipe.measurements.dish.extra import require_extra

        require_extra()
        super().__init__("dish")
        self._host = host
        self._satellites: Any = None
        if elements is not None:
            from bentpipe.orbits.elements import load_satellites

            self._satellites = load_satellites(elements, None, time.time_ns())

    def run(self) -> None:
        """Poll for ever."""
        from bentpipe.measurements.dish.client import DishClient
        from bentpipe.measurements.dish.clocks import WallClock
        from bentpipe.measurements.dish.display import Watcher, place_of
        from bentpipe.measurements.dish.following import Follower

        client, estimator = DishClient(self._host), None
        follower = Follower(client, WallClock(), 1.0, lambda change: self._changed(change.kind, change.text))
        for polled in follower.samples():
            if self._satellites is not None and estimator is None:
                from bentpipe.measurements.serving.live import LiveEstimator

                try:
                    estimator = Watcher(client, LiveEstimator(self._satellites, place_of(client, None)))
                except UserError as error:
                    self._on_trouble(str(error))
            satellite = None if estimator is None else estimator.observe(polled).satellite
            self._on_sample(_of_status(polled, satellite))

    def _changed(self, kind: str, text: str) -> None:
        if kind == "lost":
            self._on_trouble(text)


def _of_status(polled: Polled, satellite: Any) -> Sample:  # noqa: ANN401 - ServingSatellite or None
    status = polled.status
    values = {
        ours: _plain(ours, getattr(status, theirs)) for theirs, ours in COLUMNS.items() if hasattr(status, theirs)
    }
    if values.get("drop_rate") == 1.0:
        values["latency_ms"] = None  # with all pings lost there is none
    return Sample(polled.t_unix_ns / 1e9, values, satellite)


class ReplayFeed(Feed):
    """Replays a recording: its samples at their times, `speed` times as fast."""

    def __init__(self, path: Path, speed: float) -> None:
        """Read the recording. Raises `UserError`: unreadable, or without samples of a terminal."""
        super().__init__("replay")
        if not 0.1 <= speed <= 3600:
            raise UserError(f"{speed:g}", where="speed", expected="0.1 to 3600")
        self._speed = speed
        self._samples = list(read_samples(path))
        if not self._samples:
            raise UserError("has no sample with a time", where=str(path), expected="samples of a terminal with times")
        self._begin = time.monotonic()

    def now_s(self) -> float:
        """Return the time of the recording [s since 1970]."""
        return self._samples[0].t_s + (time.monotonic() - self._begin) * self._speed

    def steady_s(self) -> float:
        """Return the time of the recording, which is never set [s]."""
        return self.now_s()

    def run(self) -> None:
        """Replay once."""
        for sample in self._samples:
            wait_s = (sample.t_s - self.now_s()) / self._speed
            if wait_s > 0:
                time.sleep(wait_s)
            self._on_sample(sample)
        self._on_trouble("the recording has ended")


def read_samples(path: Path) -> Iterator[Sample]:
    """Yield the samples of a recording of `bentpipe dish record`, or of a Parquet table with such columns.

    Raises:
        UserError: Unreadable, or without times and latencies.
    """
    from bentpipe.measurements.readers.column_names import normal_name

    table = _table(path)
    names = {normal_name(name): name for name in reversed(table.columns)}
    time_column = next((names[name] for name in ("t_unix_ns", "time_utc", "timestamp") if name in names), None)
    fields = {ours: names[theirs] for theirs, ours in reversed(COLUMNS.items()) if theirs in names}
    if time_column is None or "latency_ms" not in fields or table.is_empty():
        raise UserError(
            f"has columns {', '.join(table.columns[:6])}", where=str(path), expected="samples of a terminal with times"
        )
    from bentpipe.predict.signals import times_of

    t_s = times_of(table[time_column], path)
    last_s = -1e300
    for at_s, row in zip(t_s, table.select(fields.values()).iter_rows(), strict=True):
        if at_s > last_s and at_s < 1e12:  # neither an unknown time nor a row twice
            last_s = float(at_s)
            yield Sample(last_s, {ours: _plain(ours, value) for ours, value in zip(fields, row, strict=True)})


def _table(path: Path) -> pl.DataFrame:
    import polars as pl

    from bentpipe.measurements.dish.recording.reading import scan_recording

    if path.is_dir():
        return scan_recording(path).collect()
    try:
        return pl.read_parquet(path)
    except OSError as error:
        reason = error.strerror or "cannot be read"
    except pl.exceptions.PolarsError:
        reason = "is no Parquet table"
    raise UserError(reason, where=str(path), expected="a recording, or a Parquet table")


def _plain(name: str, value: object) -> float | str | bool | None:
    if value is None:
        return None
    if name in _TEXTS:
        return str(value)
    if name == "obstructed":
        return bool(value)
    number = float(value) if isinstance(value, (int, float)) else float("nan")
    return number if abs(number) < 1e300 else None
