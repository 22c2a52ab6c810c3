"""Read weather from JSON or CSV, with the host's names for the signals."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bentpipe.errors import UserError, shown
from bentpipe.testbed.agent.signals.catalogue import CATALOGUE, plausible
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from collections.abc import Mapping

TextFormat = Literal["json", "csv"]

TIME = "time"
"""Name of the key for the time of the observation."""

NAMES = (*(name for name, signal in CATALOGUE.items() if signal.feed == "weather"), TIME)
"""Names that a mapping of keys may have."""

MOST_ROWS = 100_000
"""Most rows of a CSV file."""

_EARLIEST_S, _LATEST_S = 946_684_800.0, 4_102_444_800.0


@dataclass(frozen=True)
class WeatherKey:
    """Where a signal is in the text.

    Attributes:
        key: Key of JSON, with dots between levels (``current.rain``; a number is an item of a list, -1 the last), or
            column of CSV.
        factor: Factor to the signal's unit: 0.2778 from km/h to m/s.
        offset: Added after that: -273.15 from K to °C.
    """

    key: str
    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Observation:
    """Weather at a time.

    Attributes:
        values: Plausible values by signal.
        refused: Number of values that were none.
        observed_s: When it was observed [s since 1970]; None: the text does not say.
    """

    values: dict[str, float]
    refused: int
    observed_s: float | None


def read_weather(
    data: bytes, text_format: TextFormat, keys: Mapping[str, WeatherKey] | None = None, where: str = "weather"
) -> Observation:
    r"""Read the newest observation.

    Args:
        data: The text, UTF-8. Of a list of JSON objects and of rows of CSV the last counts.
        text_format: ``json`` or ``csv``.
        keys: Signal → its key; also `TIME`, as ISO-8601 or seconds since 1970. None: those of Open-Meteo's present
            weather (``current=temperature_2m,rain,cloud_cover,wind_speed_10m``) with its units, or the signals' names.
        where: The text's name in messages.

    Raises:
        UserError: Not such a text, or without a plausible value.

    Example:
        >>> read_weather(b'{"now": {"rain": 2.5}}', "json", {"rain_mm_per_h": WeatherKey("now.rain")}).values
        {'rain_mm_per_h': 2.5}
        >>> read_weather(b"time,temperature_c\n2026-05-10T09:00Z,11.5\n", "csv").values
        {'temperature_c': 11.5}
    """
    if keys is not None and (unknown := sorted(keys.keys() - set(NAMES))):
        raise UserError(f"no signal {shown(unknown[0])}", where=where, expected=", ".join(NAMES))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError("is not UTF-8", where=where, expected="a text") from None
    document = _json(text, where) if text_format == "json" else _csv(text, where)
    keys = _usual_keys(document) if keys is None else keys
    raw: dict[str, object] = {}
    for name, entry in keys.items():
        value = document.get(entry.key) if text_format == "csv" else _follow(document, entry.key)
        if text_format == "csv" and name != TIME:
            value = _number(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
        raw[name] = float(value) * entry.factor + entry.offset if is_number and name != TIME else value  # type: ignore[arg-type]
    observed_s = _time(raw.pop(TIME, None), where)
    raw = {name: "no number" if isinstance(value, bool) else value for name, value in raw.items()}
    values, refused = plausible(raw)
    if not values:
        expected = f"numbers for {', '.join(entry.key for name, entry in keys.items() if name != TIME)}"
        raise UserError("has no plausible value", where=where, expected=expected)
    return Observation(values, refused, observed_s)


_UNITS = {"°C": (1.0, 0.0), "°F": (5 / 9, -160 / 9), "km/h": (1 / 3.6, 0.0), "m/s": (1.0, 0.0), "%": (1.0, 0.0)} | {
    "mp/h": (0.44704, 0.0),
    "kn": (1852 / 3600, 0.0),
    "mm": (1.0, 0.0),
    "inch": (25.4, 0.0),
}
"""Unit of Open-Meteo → factor and offset to the signal's."""

_OPEN_METEO = {
    "temperature_c": "temperature_2m",
    "rain_mm_per_h": "rain",
    "cloud_percent": "cloud_cover",
    "wind_mps": "wind_speed_10m",
}


def _usual_keys(document: Mapping[str, object]) -> dict[str, WeatherKey]:
    """Return the keys of Open-Meteo's present weather with its units, or the names of the signals."""
    current, units = document.get("current"), document.get("current_units")
    if not isinstance(current, dict) or not isinstance(units, dict):
        return {name: WeatherKey(name) for name in NAMES}
    interval_s = current.get("interval")
    is_interval = (
        isinstance(interval_s, (int, float)) and not isinstance(interval_s, bool) and 1 <= interval_s <= 86_400
    )
    keys = {TIME: WeatherKey("current.time")}
    for name, theirs in _OPEN_METEO.items():
        unit = units.get(theirs)
        if not isinstance(unit, str) or unit not in _UNITS:
            continue
        factor, offset = _UNITS[unit]
        if name == "rain_mm_per_h":  # the sum over the interval before
            if not is_interval:
                continue
            factor *= 3600 / interval_s  # type: ignore[operator]
        keys[name] = WeatherKey(f"current.{theirs}", factor, offset)
    return keys


def _json(text: str, where: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("is no JSON", where=where, expected="an object") from None
    if isinstance(document, list) and document:
        document = document[-1]
    if not isinstance(document, dict):
        raise UserError("is no JSON object", where=where, expected="an object, or a list of them")
    return document


def _csv(text: str, where: str) -> dict[str, object]:
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        heading = [name.strip() for name in next(rows, [])]
        last: list[str] = []
        for count, row in enumerate(rows):
            if count >= MOST_ROWS:
                raise UserError(f"has more than {MOST_ROWS} rows", where=where)
            if any(cell.strip() for cell in row):
                last = row
    except csv.Error:
        raise UserError("is no CSV", where=where, expected="a heading and rows") from None
    if not heading or len(last) != len(heading):
        raise UserError("has no whole row", where=where, expected=f"a heading and rows of {len(heading)} cells")
    return dict(zip(heading, last, strict=True))


def _follow(document: object, key: str) -> object:
    for part in key.split("."):
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list):
            try:
                document = document[int(part)]
            except (ValueError, IndexError):
                return None
        else:
            return None
    return document


def _number(value: object) -> object:
    """Return a cell's number; None for an empty one, and the text of another."""
    text = str(value or "").strip()
    if not text or len(text) > 40:
        return text or None
    try:
        return float(text)
    except ValueError:
        return text


def _time(value: object, where: str) -> float | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        text = value
        try:
            value = float(text)
        except ValueError:
            value = parse_utc(text, f"{where}: time") / 1e9
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _EARLIEST_S <= value <= _LATEST_S:
        raise UserError(f"time {shown(value)}", where=where, expected="ISO-8601, or seconds since 1970")
    return float(value)
