"""A terminal as somebody watches it: one record per sample, as a line, as JSON, or as a picture that is redrawn."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from bentpipe.errors import UserError, printable
from bentpipe.measurements.dish.client import DishClient, DishError
from bentpipe.measurements.dish.following import Change, Sample
from bentpipe.measurements.dish.obstruction import ObstructionMap
from bentpipe.measurements.dish.slots import next_edge_s
from bentpipe.scenarios.places import parse_place
from bentpipe.scenarios.sites import Place
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Samples of the picture's curves.
_SHOWN = 60
_BARS = "▁▂▃▄▅▆▇█"


class Named(NamedTuple):
    """A satellite that serves: its name, its catalogue number, and the probability that it is this one."""

    name: str
    norad_id: int
    confidence: float


class Serving(Protocol):
    """Says from maps who serves: `bentpipe.measurements.serving.watching.Watching`."""

    def look(
        self, t_unix_ns: int, seen: ObstructionMap, quaternion: tuple[float, float, float, float] | None
    ) -> Named | None:
        """Who serves, as far as this map and those before it tell."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A sample with what follows from it.

    Attributes:
        sample: It.
        next_slot_s: Until the network may change the satellite [s], by this machine's clock.
        satellite: The one that serves; None without elements, or while nothing new was painted in this slot.
    """

    sample: Sample
    next_slot_s: float
    satellite: Named | None

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
        named = self.satellite
        who = {
            "satellite": None if named is None else named.name,
            "norad_id": None if named is None else named.norad_id,
            "satellite_confidence": None if named is None else round(named.confidence, 4),
        }
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
            parts.append(f"satellite {self.satellite.name} ({self.satellite.confidence:.0%})")
        return "  ".join([*parts, *status.alert_names()])


class Watcher:
    """Adds to samples what is not the terminal's to say.

    Args:
        client: The terminal; asked for its obstruction map where somebody knows satellites.
        serving: Knows them.
    """

    def __init__(self, client: DishClient, serving: Serving | None = None) -> None:
        """Nothing is asked yet."""
        self._client, self._serving = client, serving

    def see(self, sample: Sample) -> Seen:
        """What a sample shows."""
        named = None
        if self._serving is not None:
            with suppress(DishError):
                named = self._serving.look(sample.t_unix_ns, self._client.obstruction_map(), _quaternion(sample))
        return Seen(sample, next_edge_s(sample.t_unix_ns), named)


def place_of(client: DishClient, site: str | None) -> Place:
    """Where a terminal stands: `site` (as `bentpipe.scenarios.parse_place` has it), or what the terminal says.

    Raises:
        UserError: Nobody says.
    """
    if site is not None:
        return parse_place(site)
    try:
        lat_deg, lon_deg, alt_m = client.location()
    except DishError as error:
        raise UserError(f"where the terminal stands is not known, give --site: {error}") from None
    return parse_place(f"{lat_deg},{lon_deg},{alt_m}")


def _quaternion(sample: Sample) -> tuple[float, float, float, float] | None:
    status = sample.status
    turn = (status.quaternion_scalar, status.quaternion_x, status.quaternion_y, status.quaternion_z)
    numbers = [number for number in turn if number is not None]
    whole = len(numbers) == len(turn) and abs(sum(number * number for number in numbers) - 1) < 0.02
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if whole else None


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

        drawn = Table(
            box=rich.box.SIMPLE_HEAD, show_header=False, title=escape(printable(self._said)), title_justify="left"
        )
        if not self._seen:
            return drawn
        last = self._seen[-1]
        status = last.sample.status
        history = [seen.sample.status for seen in self._seen]
        named = last.satellite
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
            ("satellite", *((named.name, f"{named.confidence:.0%} sure") if named is not None else ("–", ""))),
            ("alerts", ", ".join(status.alert_names()) or "none", ""),
        ]
        for row in rows:
            drawn.add_row(*(escape(printable(cell)) for cell in row))
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
