"""Display of a watched terminal: each sample as a line, as JSON, or in a live table."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
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
from bentpipe.sparkline import sparkline
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Number of samples in the curves of the live table.
_SHOWN = 60


class ServingSatellite(NamedTuple):
    """The serving satellite: name, catalogue number, and probability that the identification is right."""

    name: str
    norad_id: int
    confidence: float


class ServingEstimator(Protocol):
    """Estimates the serving satellite from obstruction maps: `bentpipe.measurements.serving.live.LiveEstimator`."""

    def update(
        self, t_unix_ns: int, obstruction_map: ObstructionMap, quaternion: tuple[float, float, float, float] | None
    ) -> ServingSatellite | None:
        """Return the serving satellite according to this map and earlier ones; None if unknown."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A sample with the time to the next slot and the serving satellite.

    Attributes:
        sample: The sample.
        next_slot_s: Time until the network may change the satellite [s], by this machine's clock.
        satellite: The serving satellite; None without elements, or without new pixels in this slot.
    """

    sample: Sample
    next_slot_s: float
    satellite: ServingSatellite | None

    def to_dict(self) -> dict[str, Any]:
        """Return the observation ready for JSON; NaN becomes null."""
        status = self.sample.status
        names = (
            "state", "pop_ping_latency_ms", "pop_ping_drop_rate", "downlink_throughput_bps", "uplink_throughput_bps",
            "boresight_azimuth_deg", "boresight_elevation_deg", "desired_boresight_azimuth_deg",
            "desired_boresight_elevation_deg", "tilt_angle_deg", "fraction_obstructed", "currently_obstructed",
            "uptime_s", "hardware_version", "software_version",
        )  # fmt: skip
        values = {name: _plain(getattr(status, name)) for name in names}
        satellite = self.satellite
        serving = {
            "satellite": None if satellite is None else satellite.name,
            "norad_id": None if satellite is None else satellite.norad_id,
            "satellite_confidence": None if satellite is None else round(satellite.confidence, 4),
        }
        return {
            "t": format_utc(self.sample.t_unix_ns),
            "t_unix_ns": self.sample.t_unix_ns,
            **values,
            "alerts": status.alert_names(),
            "next_slot_s": round(self.next_slot_s, 3),
            **serving,
        }

    def to_line(self) -> str:
        """Format the observation as one line for a pipe or a log."""
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
    """Adds the next slot and the serving satellite to samples.

    Args:
        client: The terminal; its obstruction map is read if `serving` is given.
        serving: Estimator of the serving satellite.
    """

    def __init__(self, client: DishClient, serving: ServingEstimator | None = None) -> None:
        """Store client and estimator."""
        self._client, self._serving = client, serving

    def observe(self, sample: Sample) -> Observation:
        """Return the observation of a sample."""
        satellite = None
        if self._serving is not None:
            with suppress(DishError):
                satellite = self._serving.update(sample.t_unix_ns, self._client.obstruction_map(), _quaternion(sample))
        return Observation(sample, next_edge_s(sample.t_unix_ns), satellite)


def place_of(client: DishClient, site: str | None) -> Place:
    """Return the place of a terminal: `site` (see `bentpipe.scenarios.parse_place`), or the location it reports.

    Raises:
        UserError: Neither is known.
    """
    if site is not None:
        return parse_place(site)
    try:
        lat_deg, lon_deg, alt_m = client.location()
    except DishError as error:
        raise UserError(f"none given, and the terminal reports none: {error}", where="site") from None
    return parse_place(f"{lat_deg},{lon_deg},{alt_m}")


def _quaternion(sample: Sample) -> tuple[float, float, float, float] | None:
    status = sample.status
    turn = (status.quaternion_scalar, status.quaternion_x, status.quaternion_y, status.quaternion_z)
    numbers = [number for number in turn if number is not None]
    whole = len(numbers) == len(turn) and abs(sum(number * number for number in numbers) - 1) < 0.02
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if whole else None


class LiveTable:
    """Live table of the last minute of samples, rendered by Rich."""

    def __init__(self) -> None:
        """Start without samples."""
        self._observations: deque[Observation] = deque(maxlen=_SHOWN)
        self._message, self._lost = "waiting for the first answer", False

    def add_observation(self, observation: Observation) -> None:
        """Add a sample."""
        self._observations.append(observation)

    def add_change(self, change: Change) -> None:
        """Show a change of state as the title."""
        self._message, self._lost = change.text, change.kind == "lost"

    def __rich__(self) -> RenderableType:
        """Render the current values, with curves of the last minute."""
        import rich.box
        from rich.markup import escape
        from rich.table import Table

        table = Table(
            box=rich.box.SIMPLE_HEAD, show_header=False, title=escape(printable(self._message)), title_justify="left"
        )
        if not self._observations:
            return table
        last = self._observations[-1]
        status = last.sample.status
        history = [observation.sample.status for observation in self._observations]
        satellite = last.satellite
        serving = ("–", "") if satellite is None else (satellite.name, f"{satellite.confidence:.0%} sure")
        aim = (status.boresight_azimuth_deg, status.boresight_elevation_deg)
        desired = (status.desired_boresight_azimuth_deg, status.desired_boresight_elevation_deg)
        rows = [
            ("state", "no answer" if self._lost else status.state, "values of the last answer" if self._lost else ""),
            ("latency", _number(status.pop_ping_latency_ms, "ms"), sparkline([s.pop_ping_latency_ms for s in history])),
            ("drops", _percent(status.pop_ping_drop_rate), sparkline([s.pop_ping_drop_rate for s in history])),
            ("down", _rate(status.downlink_throughput_bps), sparkline([s.downlink_throughput_bps for s in history])),
            ("up", _rate(status.uplink_throughput_bps), sparkline([s.uplink_throughput_bps for s in history])),
            ("obstructed", _percent(status.fraction_obstructed), "now" if status.currently_obstructed else ""),
            ("alignment", _direction(*aim), f"desired {_direction(*desired)}" if None not in desired else ""),
            ("next slot", f"{last.next_slot_s:.1f} s", ""),
            ("satellite", *serving),
            ("alerts", ", ".join(status.alert_names()) or "none", ""),
        ]
        for row in rows:
            table.add_row(*(escape(printable(cell)) for cell in row))
        return table


@contextmanager
def live(table: LiveTable, *, shown: bool) -> Iterator[None]:
    """Refresh the table twice a second inside the context, if `shown`."""
    if not shown:
        yield
        return
    from rich.live import Live

    with Live(table, refresh_per_second=2):
        yield


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a status holds
    if not isinstance(value, float):
        return value
    # 32-bit floats on the wire have seven digits.
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
