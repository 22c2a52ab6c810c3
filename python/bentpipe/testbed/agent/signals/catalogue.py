"""Every signal with its unit, its meaning and its plausible range; nothing outside of the range reaches a trigger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Signal:
    """A signal.

    Attributes:
        name: Name in expressions, with its unit.
        feed: Name of the feed that gives it.
        unit: Unit; empty: a number without one.
        meaning: What it is, in one line.
        least: Smallest plausible value.
        most: Largest plausible value.
    """

    name: str
    feed: str
    unit: str
    meaning: str
    least: float
    most: float


def _signals(feed: str, *rows: tuple[str, str, str, float, float]) -> list[Signal]:
    return [Signal(name, feed, unit, meaning, least, most) for name, unit, meaning, least, most in rows]


_RATE_MOST = 1e10
_LATENCY_MOST_MS = 10_000.0

_ALL = [
    *_signals(
        "dish",
        ("latency_ms", "ms", "RTT to the PoP in the newest second of the terminal's history", 0, _LATENCY_MOST_MS),
        ("latency_smoothed_ms", "ms", "RTT to the PoP in its status: a mean of some 15 s", 0, _LATENCY_MOST_MS),
        ("drop_rate", "", "share of its pings lost in the newest second", 0, 1),
        ("downlink_bps", "bit/s", "all traffic towards the terminal in the newest second", 0, _RATE_MOST),
        ("uplink_bps", "bit/s", "all traffic from the terminal in the newest second", 0, _RATE_MOST),
        ("power_w", "W", "power that the terminal takes", 0, 1000),
        ("obstructed", "", "1 while the view to the satellite is obstructed, else 0", 0, 1),
        ("fraction_obstructed", "", "share of the sky that is obstructed", 0, 1),
        ("connected", "", "1 while the terminal is connected, 0 in an outage", 0, 1),
        ("uptime_s", "s", "time since the terminal booted", 0, 1e9),
        ("boresight_azimuth_deg", "°", "direction of the terminal, clockwise from north", -180, 360),
        ("boresight_elevation_deg", "°", "its elevation above the horizon", -90, 90),
    ),
    *_signals(
        "ping",
        ("ping_ms", "ms", "RTT of a ping to the node's reference address", 0, _LATENCY_MOST_MS),
        ("ping_lost", "", "1 for a ping without an answer, 0 for an answered one; a window's mean is its loss", 0, 1),
    ),
    *_signals(
        "serving",
        ("satellite", "", "catalogue number of the serving satellite", 1, 999_999_999),
        ("elevation_deg", "°", "its elevation above the horizon", -5, 90),
        ("azimuth_deg", "°", "its direction, clockwise from north", 0, 360),
        ("range_km", "km", "distance to it", 100, 50_000),
        ("since_handover_s", "s", "time since another satellite served", 0, 1e7),
    ),
    *_signals(
        "weather",
        ("temperature_c", "°C", "temperature of the air", -90, 65),
        ("rain_mm_per_h", "mm/h", "rain", 0, 500),
        ("cloud_percent", "%", "share of the sky with clouds", 0, 100),
        ("wind_mps", "m/s", "wind", 0, 120),
    ),
]

CATALOGUE: Mapping[str, Signal] = {signal.name: signal for signal in _ALL}
"""Signals by name."""

FEEDS = tuple(dict.fromkeys(signal.feed for signal in _ALL))
"""Names of the feeds."""


def plausible(values: Mapping[str, object]) -> tuple[dict[str, float], int]:
    """Return the values that may reach a trigger, and the number of refused ones.

    Refused are unknown names, other types than numbers, values that are not finite, and values out of range. None is
    no value and is left out without being counted.

    Example:
        >>> plausible({"latency_ms": 31.5, "drop_rate": float("nan"), "power_w": -3.0, "uptime_s": None})
        ({'latency_ms': 31.5}, 2)
    """
    good: dict[str, float] = {}
    refused = 0
    for name, value in values.items():
        if value is None:
            continue
        signal = CATALOGUE.get(name)
        number = float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else math.nan
        if signal is not None and signal.least <= number <= signal.most:
            good[name] = number
        else:
            refused += 1
    return good, refused
