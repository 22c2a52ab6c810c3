"""A terminal as somebody watches it: one record per sample, as a line, as JSON, or as a picture that is redrawn."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe import orbit
from bentpipe.dish.client import DishClient, DishError
from bentpipe.dish.following import Change, Sample
from bentpipe.dish.obstruction import ObstructionMap, direction_of
from bentpipe.dish.slots import next_edge_s, slot_of
from bentpipe.errors import UserError
from bentpipe.scenarios import Place, parse_place
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from rich.console import RenderableType

#: How far a satellite may stand from where the map was painted [deg]. Chosen here: two pixels of the map, of 1.3
#: degrees each, and what a satellite overhead moves in the second since.
NEAR_DEG = 4.0
#: Samples of the picture's curves.
_SHOWN = 60
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Seen:
    """A sample with what follows from it.

    Attributes:
        sample: It.
        next_slot_s: Until the network may change the satellite [s], by this machine's clock.
        satellite: Name and catalogue number of the one that stands where the obstruction map was painted last in this
            slot; None without elements, or while nothing new was painted.
    """

    sample: Sample
    next_slot_s: float
    satellite: tuple[str, int] | None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what is not a number becomes null."""
        status = self.sample.status
        names = (
            "state", "pop_ping_latency_ms", "pop_ping_drop_rate", "downlink_throughput_bps", "uplink_throughput_bps",
            "boresight_azimuth_deg", "boresight_elevation_deg", "desired_boresight_azimuth_deg",
            "desired_boresight_elevation_deg", "tilt_angle_deg", "fraction_obstructed", "currently_obstructed",
            "uptime_s", "hardware_version", "software_version",
        )  # fmt: skip
        values = {name: _plain(getattr(status, name)) for name in names}
        who = {"satellite": None, "norad_id": None}
        if self.satellite is not None:
            who = {"satellite": self.satellite[0], "norad_id": self.satellite[1]}  # type: ignore[dict-item]
        return {
            "t": format_utc(self.sample.t_unix_ns),
            "t_unix_ns": self.sample.t_unix_ns,
            **values,
            "alerts": status.alert_names(),
            "next_slot_s": round(self.next_slot_s, 3),
            **who,
        }

    def to_line(self) -> str:
        """One line for a pipe or a log."""
        status = self.sample.status
        at = format_utc(self.sample.t_unix_ns // 10**9 * 10**9)
        parts = [
            at,
            status.state,
            f"latency {_number(status.pop_ping_latency_ms, 'ms')}",
            f"drop {_percent(status.pop_ping_drop_rate)}",
            f"down {_rate(status.downlink_throughput_bps)}",
            f"up {_rate(status.uplink_throughput_bps)}",
            f"obstructed {_percent(status.fraction_obstructed)}",
            f"next slot {self.next_slot_s:.1f} s",
        ]
        if self.satellite is not None:
            parts.append(f"satellite {self.satellite[0]}")
        return "  ".join([*parts, *status.alert_names()])


class Watcher:
    """Adds to samples what is not the terminal's to say.

    Args:
        client: The terminal; asked for its obstruction map where there are satellites.
        satellites: Which may serve.
        place: Where the terminal stands.
    """

    def __init__(
        self, client: DishClient, satellites: orbit.Satellites | None = None, place: Place | None = None
    ) -> None:
        """Nothing is asked yet."""
        self._client, self._satellites, self._place = client, satellites, place
        self._map: ObstructionMap | None = None
        self._slot = -1
        self._serving: tuple[str, int] | None = None

    @classmethod
    def of(
        cls, client: DishClient, elements: str | os.PathLike[str] | None, site: str | None, at_unix_ns: int
    ) -> Watcher:
        """One that knows the satellites of a file of elements.

        The place is `site` (as `bentpipe.scenarios.parse_place` has it), or what the terminal says.

        Raises:
            UserError: The file does not read, or nobody says where the terminal stands.
        """
        if elements is None:
            return cls(client)
        satellites = orbit.load_satellites(elements, None, at_unix_ns)
        if site is not None:
            return cls(client, satellites, parse_place(site))
        try:
            lat_deg, lon_deg, alt_m = client.location()
        except DishError as error:
            raise UserError(f"where the terminal stands is not known, give --site: {error}") from None
        return cls(client, satellites, parse_place(f"{lat_deg},{lon_deg},{alt_m}"))

    def see(self, sample: Sample) -> Seen:
        """What a sample shows."""
        if self._satellites is not None and self._place is not None:
            slot = slot_of(sample.t_unix_ns)
            if slot != self._slot:
                self._slot, self._serving = slot, None
            self._look(sample.t_unix_ns)
        return Seen(sample, next_edge_s(sample.t_unix_ns), self._serving)

    def _look(self, now_unix_ns: int) -> None:
        """Compares the map with the last one: what is new in it was painted by the serving satellite."""
        assert self._satellites is not None
        assert self._place is not None
        try:
            found = self._client.obstruction_map()
        except DishError:
            return
        before, self._map = self._map, found
        if before is None or before.quality.shape != found.quality.shape or found.frame != "FRAME_EARTH":
            return
        new = np.argwhere((before.quality < 0) & (found.quality >= 0))
        if not len(new):
            return
        up = orbit.sky(self._satellites, self._place, now_unix_ns)
        ranked = sorted(
            (_apart_deg(direction_of(float(row), float(column)), (one["azimuth_deg"], one["elevation_deg"])), place)
            for place, one in enumerate(up)
            for row, column in new
        )
        if ranked and ranked[0][0] <= NEAR_DEG:
            one = up[ranked[0][1]]
            self._serving = (one["name"], one["norad_id"])


class Picture:
    """The samples of the last minute, to be drawn by Rich."""

    def __init__(self) -> None:
        """Empty."""
        self._seen: deque[Seen] = deque(maxlen=_SHOWN)
        self._said, self._lost = "waiting for the first answer", False

    def add(self, seen: Seen) -> None:
        """A sample more."""
        self._seen.append(seen)

    def say(self, change: Change) -> None:
        """What became different last."""
        self._said, self._lost = change.text, change.kind == "lost"

    def __rich__(self) -> RenderableType:
        """As a table of what is now, with curves of a minute."""
        import rich.box
        from rich.markup import escape
        from rich.table import Table

        drawn = Table(box=rich.box.SIMPLE_HEAD, show_header=False, title=escape(self._said), title_justify="left")
        if not self._seen:
            return drawn
        last = self._seen[-1]
        status = last.sample.status
        history = [seen.sample.status for seen in self._seen]
        aim = (status.boresight_azimuth_deg, status.boresight_elevation_deg)
        wanted = (status.desired_boresight_azimuth_deg, status.desired_boresight_elevation_deg)
        rows = [
            ("state", "no answer" if self._lost else status.state, "these are its last words" if self._lost else ""),
            ("latency", _number(status.pop_ping_latency_ms, "ms"), _curve([s.pop_ping_latency_ms for s in history])),
            ("drops", _percent(status.pop_ping_drop_rate), _curve([s.pop_ping_drop_rate for s in history])),
            ("down", _rate(status.downlink_throughput_bps), _curve([s.downlink_throughput_bps for s in history])),
            ("up", _rate(status.uplink_throughput_bps), _curve([s.uplink_throughput_bps for s in history])),
            ("obstructed", _percent(status.fraction_obstructed), "now" if status.currently_obstructed else ""),
            ("alignment", _direction(*aim), f"wanted {_direction(*wanted)}" if None not in wanted else ""),
            ("next slot", f"{last.next_slot_s:.1f} s", ""),
            ("satellite", last.satellite[0] if last.satellite is not None else "–", ""),
            ("alerts", ", ".join(status.alert_names()) or "none", ""),
        ]
        for row in rows:
            drawn.add_row(*(escape(cell) for cell in row))
        return drawn


@contextmanager
def live(picture: Picture, *, shown: bool) -> Iterator[None]:
    """Redraws the picture twice a second inside, if it is to be `shown`."""
    if not shown:
        yield
        return
    from rich.live import Live

    with Live(picture, refresh_per_second=2):
        yield


def _apart_deg(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The angle between two directions given as azimuth and elevation [deg]."""
    (az_a, el_a), (az_b, el_b) = ((math.radians(a), math.radians(e)) for a, e in (one, other))
    cosine = math.sin(el_a) * math.sin(el_b) + math.cos(el_a) * math.cos(el_b) * math.cos(az_a - az_b)
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a status holds
    if not isinstance(value, float):
        return value
    # Seven digits are all that the 32 bits on the wire hold.
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _number(value: float | None, unit: str) -> str:
    return f"{value:.1f} {unit}" if _known(value) else "–"


def _percent(value: float | None) -> str:
    return f"{value:.1%}" if _known(value) else "–"


def _rate(bps: float | None) -> str:
    return f"{bps / 1e6:.2f} Mbit/s" if bps is not None and math.isfinite(bps) else "–"


def _direction(azimuth_deg: float | None, elevation_deg: float | None) -> str:
    return f"azimuth {_number(azimuth_deg, '°')}, elevation {_number(elevation_deg, '°')}"


def _curve(values: Sequence[float | None]) -> str:
    """Bars from zero to the largest; blank where there is no value."""
    top = max((v for v in values if v is not None and math.isfinite(v)), default=0.0) or 1.0
    return "".join(
        _BARS[min(7, max(0, int(v / top * 7.999)))] if v is not None and math.isfinite(v) else " " for v in values
    )
