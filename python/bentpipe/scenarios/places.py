"""Places on the Earth as a user types them: a known site's name, or ``lat,lon[,alt_m]``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bentpipe.errors import UserError, shown
from bentpipe.readers.checked import ALTITUDE_RANGE_M
from bentpipe.scenarios.sites import Place, load_sites, normalised_lon_deg
from bentpipe.scenarios.tables import unknown_name

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\Z")
_LOOKS_NUMERIC = re.compile(r"[\s0-9.,+eE-]+\Z")


def parse_place(text: str, sites: Mapping[str, Place] | None = None) -> Place:
    """Return the place that `text` means: a site's name (any case), or ``lat,lon[,alt_m]`` in degrees and metres.

    Latitude is -90 to 90, longitude -180 to 360 (normalised to (-180, 180]), altitude as in `ALTITUDE_RANGE_M`; decimal
    numbers without exponent. `sites` are the known names; by default those of the package.

    Raise `UserError` if it is neither.
    """
    if sites is None:
        sites = load_sites()
    given = text.strip()
    if given.lower() in sites:
        return sites[given.lower()]
    if "," in given or (given and _LOOKS_NUMERIC.match(given)):
        return _coordinates(given)
    raise unknown_name("site", given, sites, "`bentpipe sites` lists them; or give lat,lon[,alt_m]")


def _coordinates(text: str) -> Place:
    parts = [part.strip() for part in text.split(",")]
    words = text.split()
    if len(parts) == 1 and len(words) in (2, 3):
        raise UserError(f"place {shown(text)}: has no comma; wanted {','.join(words)}")
    if len(parts) not in (2, 3):
        raise UserError(f"place {shown(text)}: {len(parts)} number(s); wanted lat,lon or lat,lon,alt_m")
    lat_deg = _number(text, "latitude", parts[0], (-90.0, 90.0), "degrees")
    lon_deg = _number(text, "longitude", parts[1], (-180.0, 360.0), "degrees")
    alt_m = _number(text, "altitude", parts[2], ALTITUDE_RANGE_M, "metres") if len(parts) == 3 else 0.0
    lon_deg = normalised_lon_deg(lon_deg)
    return Place(name=_name(lat_deg, lon_deg, alt_m), lat_deg=lat_deg, lon_deg=lon_deg, alt_m=alt_m)


def _name(lat_deg: float, lon_deg: float, alt_m: float) -> str:
    """Coordinates as a name that may be part of a file's: ``40.44N79.99W``, or ``40.44N79.99W100m``."""
    north, east = "S" if lat_deg < 0 else "N", "W" if lon_deg < 0 else "E"
    return f"{abs(lat_deg):.9g}{north}{abs(lon_deg):.9g}{east}" + (f"{alt_m:.9g}m" if alt_m else "")


def _number(whole: str, what: str, text: str, bounds: tuple[float, float], unit: str) -> float:
    low, high = bounds
    if not _NUMBER.match(text) or not low <= float(text) <= high:
        raise UserError(f"place {shown(whole)}: {what} is {shown(text)}; wanted {low:g} to {high:g} {unit}")
    return float(text)
