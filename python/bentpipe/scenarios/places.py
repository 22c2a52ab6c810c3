"""Parse places: the name or IATA code of a known site, or ``lat,lon[,alt_m]``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from numbers import Real

from bentpipe.errors import UserError, shown, unknown_name
from bentpipe.measurements.readers.checked import ALTITUDE_RANGE_M
from bentpipe.scenarios.sites import Place, load_iata_codes, load_sites, normalised_lon_deg

#: Name, bounds and unit of each coordinate.
_BOUNDS = (
    ("latitude", (-90.0, 90.0), "degrees"),
    ("longitude", (-180.0, 360.0), "degrees"),
    ("altitude", ALTITUDE_RANGE_M, "metres"),
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\Z")
_COMPASS = re.compile(
    r"(?P<lat>[0-9.]+)\s*(?P<north>[NS])[,\s]*(?P<lon>[0-9.]+)\s*(?P<east>[EW])(?:[,\s]*(?P<alt>[+-]?[0-9.]+)M?)?\Z"
)
_IATA = re.compile(r"[A-Za-z]{3}\Z")
_LOOKS_NUMERIC = re.compile(r"[\s0-9.,+eE-]+\Z")


PlaceLike = str | Place | tuple[float, float] | tuple[float, float, float]
"""A place: a `Place`, text for `parse_place`, or ``(lat, lon)`` or ``(lat, lon, alt_m)``."""


def as_place(given: PlaceLike) -> Place:
    """Convert a place in any form of `PlaceLike` to a `Place`. Raises `UserError` for anything else.

    Example:
        >>> as_place("london").lat_deg
        51.51
        >>> as_place((51.5, 0.0)).name
        '51.5N0E'
    """
    if isinstance(given, Place):
        return given
    if isinstance(given, str):
        return parse_place(given)
    if isinstance(given, (tuple, list)) and len(given) in (2, 3) and all(_is_number(value) for value in given):
        lat_deg, lon_deg, alt_m = (float(value) for value in (*given, 0.0)[:3])
        return _place(repr(tuple(given)), lat_deg, lon_deg, alt_m)
    raise UserError(
        f"place {shown(given)}: expected a site name, 'lat,lon[,alt_m]', (lat, lon), (lat, lon, alt_m) or a Place"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def parse_place(text: str, sites: Mapping[str, Place] | None = None) -> Place:
    """Parse a place: a site's name or IATA code (any case), or ``lat,lon[,alt_m]`` in degrees and metres.

    Latitude is -90 to 90, longitude -180 to 360 (normalised to (-180, 180]), altitude as in `ALTITUDE_RANGE_M`; decimal
    numbers without exponent, or with a hemisphere as in ``38.72N,9.14W``. `sites` are the known names; default: those
    of the package.

    Raises `UserError` if it is neither.

    Example:
        >>> parse_place("LIS").name, parse_place("38.72N,9.14W").lon_deg
        ('lisbon', -9.14)
    """
    known = load_sites()
    codes = load_iata_codes() if sites is None else {}
    if sites is None:
        sites = known
    given = text.strip()
    name = codes.get(given.upper(), given.lower())
    if name in sites:
        return sites[name]
    if match := _COMPASS.match(given.upper()):
        signs = ("-" if match["north"] == "S" else "", "-" if match["east"] == "W" else "")
        given = ",".join([signs[0] + match["lat"], signs[1] + match["lon"], *filter(None, [match["alt"]])])
    if "," in given or (given and _LOOKS_NUMERIC.match(given)):
        return _coordinates(given)
    if sites is known and _IATA.match(given):
        raise UserError(
            f"place {shown(given)}: the IATA code of no known site",
            expected="a name or code of `bentpipe sites`",
            hint="lat,lon such as 38.72,-9.14",
        )
    raise unknown_name("site", given, sites, "`bentpipe sites` lists them; or give lat,lon such as 38.72,-9.14")


def _coordinates(text: str) -> Place:
    parts = [part.strip() for part in text.split(",")]
    words = text.split()
    if len(parts) == 1 and len(words) in (2, 3):
        raise UserError(f"place {shown(text)}: has no comma; expected {','.join(words)}")
    if len(parts) not in (2, 3):
        raise UserError(f"place {shown(text)}: {len(parts)} number(s); expected lat,lon or lat,lon,alt_m")
    for part, (coordinate, bounds, unit) in zip(parts, _BOUNDS, strict=False):
        if not _NUMBER.match(part):
            raise _bad(text, coordinate, part, bounds, unit)
    lat_deg, lon_deg, alt_m = (float(part) for part in (*parts, "0")[:3])
    return _place(text, lat_deg, lon_deg, alt_m, parts)


def _place(given: str, lat_deg: float, lon_deg: float, alt_m: float, parts: Sequence[str] = ()) -> Place:
    """Make a place of coordinates; messages quote `given`, and the coordinates as written in `parts`, if any."""
    values = (lat_deg, lon_deg, alt_m)
    for number, (value, (coordinate, bounds, unit)) in enumerate(zip(values, _BOUNDS, strict=True)):
        if not bounds[0] <= value <= bounds[1]:
            raise _bad(given, coordinate, parts[number] if parts else value, bounds, unit)
    lon_deg = normalised_lon_deg(lon_deg)
    return Place(name=_name(lat_deg, lon_deg, alt_m), lat_deg=lat_deg, lon_deg=lon_deg, alt_m=alt_m)


def _name(lat_deg: float, lon_deg: float, alt_m: float) -> str:
    """Return a name of coordinates that is valid in a file name: ``40.44N79.99W``, or ``40.44N79.99W100m``."""
    north, east = "S" if lat_deg < 0 else "N", "W" if lon_deg < 0 else "E"
    return f"{abs(lat_deg):.9g}{north}{abs(lon_deg):.9g}{east}" + (f"{alt_m:.9g}m" if alt_m else "")


def _bad(given: str, coordinate: str, value: object, bounds: tuple[float, float], unit: str) -> UserError:
    return UserError(
        f"place {shown(given)}: {coordinate} is {shown(value)}; expected {bounds[0]:g} to {bounds[1]:g} {unit}"
    )
