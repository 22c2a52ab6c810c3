"""The named sites of ``sites.toml``, for terminals and servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError
from bentpipe.measurements.readers.checked import ALTITUDE_RANGE_M
from bentpipe.records import Items, Name, Record, Text
from bentpipe.scenarios.tables import packaged_text


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


class SiteEntry(Record):
    """A site in ``sites.toml``: the attributes of `Place`, its IATA codes, and the source of its PoP."""

    lat_deg: Annotated[float, Field(ge=-90, le=90)]
    lon_deg: Annotated[float, Field(ge=-180, le=360)]
    alt_m: Annotated[float, Field(ge=ALTITUDE_RANGE_M[0], le=ALTITUDE_RANGE_M[1])]
    description: Text
    country: Text | None = None
    iata: Items[Annotated[str, Field(pattern="^[A-Z]{3}$")]] = ()
    pop: Text | None = None
    pop_source: Text | None = None

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.pop is not None and self.pop_source is None:
            raise UserError("key 'pop_source' is missing", expected="one line of text", code="missing_key")
        return self


class SitesFile(Record):
    """``sites.toml``."""

    source: Text
    sites: Annotated[dict[Name, SiteEntry], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_codes(self) -> Self:
        taken: dict[str, str] = {}
        for name, entry in self.sites.items():
            for code in entry.iata:
                if taken.setdefault(code, name) != name:
                    raise UserError(f"IATA code {code!r} is of {taken[code]} too", where=name, expected="unique codes")
        return self


def normalised_lon_deg(lon_deg: float) -> float:
    """Return the same meridian in (-180, 180], for -180 ≤ lon_deg ≤ 360."""
    if lon_deg > 180.0:
        return lon_deg - 360.0
    return 180.0 if lon_deg == -180.0 else lon_deg


@cache
def load_sites() -> Mapping[str, Place]:
    """Return the packaged sites, by name."""
    return MappingProxyType(parse_sites(packaged_text("sites.toml"), "sites.toml"))


@cache
def load_iata_codes() -> Mapping[str, str]:
    """Return the name of the packaged site of each IATA code: of the city, and of its largest airports."""
    file = SitesFile.from_toml(packaged_text("sites.toml"), "sites.toml")
    return MappingProxyType({code: name for name, entry in file.sites.items() for code in entry.iata})


def sites_source() -> str:
    """Return the source of the packaged sites' coordinates, in one line."""
    return SitesFile.from_toml(packaged_text("sites.toml"), "sites.toml").source


def parse_sites(text: str, where: str) -> dict[str, Place]:
    """Read TOML text shaped like ``sites.toml``; `where` names it in messages. Raise `UserError`."""
    return {
        name: Place(
            name=name,
            lat_deg=entry.lat_deg,
            lon_deg=normalised_lon_deg(entry.lon_deg),
            alt_m=entry.alt_m,
            pop=entry.pop,
            description=entry.description,
            country=entry.country or "",
        )
        for name, entry in SitesFile.from_toml(text, where).sites.items()
    }
