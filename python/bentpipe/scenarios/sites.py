"""The named sites of ``sites.toml``, for terminals and servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from bentpipe.measurements.readers.checked import ALTITUDE_RANGE_M
from bentpipe.scenarios.tables import Table, packaged_text


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a terminal or server.

    Attributes:
        name: The site's name, or the coordinates as in ``40.44N79.99W``.
        lat_deg: Geodetic latitude on WGS84, -90 to 90.
        lon_deg: Longitude, above -180 to 180, east positive.
        alt_m: Metres above the WGS84 ellipsoid.
        pop: Code of the PoP that serves a terminal here, where published; otherwise None.
        description: One line.
        country: ISO 3166 two-letter code; empty where it is not known.

    """

    name: str
    lat_deg: float
    lon_deg: float
    alt_m: float = 0.0
    pop: str | None = None
    description: str = ""
    country: str = ""


def normalised_lon_deg(lon_deg: float) -> float:
    """Return the same meridian in (-180, 180], for -180 ≤ lon_deg ≤ 360."""
    if lon_deg > 180.0:
        return lon_deg - 360.0
    return 180.0 if lon_deg == -180.0 else lon_deg


@cache
def load_sites() -> Mapping[str, Place]:
    """Return the packaged sites, by name."""
    return MappingProxyType(parse_sites(packaged_text("sites.toml"), "sites.toml"))


def sites_source() -> str:
    """Return the source of the packaged sites' coordinates, in one line."""
    return Table.parse(packaged_text("sites.toml"), "sites.toml").text("source")


def parse_sites(text: str, where: str) -> dict[str, Place]:
    """Read TOML text shaped like ``sites.toml``; `where` names it in messages. Raise `UserError`."""
    table = Table.parse(text, where)
    table.text("source")
    sites = {name: _site(name, entry) for name, entry in table.named_tables("sites").items()}
    table.done()
    return sites


def _site(name: str, entry: Table) -> Place:
    place = Place(
        name=name,
        lat_deg=entry.number("lat_deg", -90.0, 90.0),
        lon_deg=normalised_lon_deg(entry.number("lon_deg", -180.0, 360.0)),
        alt_m=entry.number("alt_m", *ALTITUDE_RANGE_M),
        pop=entry.text("pop") if entry.has("pop") else None,
        description=entry.text("description"),
        country=entry.text("country") if entry.has("country") else "",
    )
    if place.pop is not None:
        entry.text("pop_source")
    entry.done()
    return place
