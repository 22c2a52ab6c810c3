"""Gateways, where satellite paths reach the ground, and PoPs, where they reach the Internet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

from bentpipe.errors import UserError
from bentpipe.files import read_bytes, text_of
from bentpipe.scenarios.fibre import FibreTable, fibre_one_way_ms, great_circle_km
from bentpipe.scenarios.sites import Place, load_sites
from bentpipe.scenarios.tables import Table, packaged_names, packaged_text, unknown_name

#: Size limit of a gateway list [bytes]: the packaged one has 30 kB.
MAX_GATEWAYS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway earth station.

    Attributes:
        name: Town; with `region` and `country` it is unique.
        region: State or province code, empty where the source has none.
        country: ISO 3166 two-letter code.
        lat_deg: Geodetic latitude (WGS84).
        lon_deg: Longitude, -180 to 180.
        bands: Feeder bands, ``"Ka"`` and ``"E"``.
        antennas: Number of antennas for each band of `bands`.

    """

    name: str
    region: str
    country: str
    lat_deg: float
    lon_deg: float
    bands: tuple[str, ...]
    antennas: tuple[int, ...]

    @property
    def label(self) -> str:
        """Unique label, such as ``Boorowa NSW AU``."""
        return " ".join(part for part in (self.name, self.region, self.country) if part)


@dataclass(frozen=True, slots=True)
class GatewayList:
    """An operator's gateways.

    Attributes:
        gateways: The gateways.
        min_elevation_deg: Minimum elevation at which they track a satellite [deg].
        source: Source of the list.
        file: Name of a user's own file; None for a packaged list.
        sha256: Hash of that file.
    """

    gateways: tuple[Gateway, ...]
    min_elevation_deg: float
    source: str
    file: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Pop:
    """A point of presence: where the operator's network meets the Internet.

    Attributes:
        code: Short code, such as ``SEA``.
        dns: The code in reverse DNS names, such as ``sttlwax1``.
        city: City, for people.
        country: ISO 3166 two-letter code.
        lat_deg: Geodetic latitude (WGS84).
        lon_deg: Longitude, -180 to 180.

    """

    code: str
    dns: str
    city: str
    country: str
    lat_deg: float
    lon_deg: float


@cache
def load_gateways(operator: str = "starlink") -> GatewayList:
    """Return an operator's packaged gateways; raise `UserError` if there is no list of that name."""
    known = packaged_names("gateways")
    if operator not in known:
        raise unknown_name("gateway list", operator, known, f"known: {', '.join(known)}")
    return parse_gateways(packaged_text(f"gateways/{operator}.toml"), f"gateways/{operator}.toml")


def read_gateways(path: str | os.PathLike[str]) -> GatewayList:
    """Read a user's own gateway list, a TOML file in the form of ``gateways/starlink.toml``.

    Raises:
        UserError: The file is missing, too large, not TOML, or not a gateway list; the message names file and key.
    """
    data = read_bytes(path, MAX_GATEWAYS_BYTES)
    gateways = parse_gateways(text_of(data, path), str(path))
    return replace(gateways, file=Path(path).name, sha256=hashlib.sha256(data).hexdigest())


@cache
def load_pops() -> Mapping[str, Pop]:
    """Return the packaged Starlink PoPs, by code."""
    return MappingProxyType(parse_pops(packaged_text("pops.toml"), "pops.toml"))


def parse_gateways(text: str, where: str) -> GatewayList:
    """Read TOML text shaped like ``gateways/starlink.toml``; `where` names it in messages. Raise `UserError`."""
    table = Table.parse(text, where)
    source = table.text("source")
    table.choice("pop_rule", ["nearest-by-fibre"])
    min_elevation_deg = table.number("min_elevation_deg", 0.0, 90.0)
    gateways = tuple(_gateway(entry) for entry in table.tables("gateways"))
    table.done()
    labels: set[str] = set()
    for gateway in gateways:
        if gateway.label in labels:
            raise UserError(f"{where}: gateway {gateway.label!r} is listed twice; give one of them another name")
        labels.add(gateway.label)
    return GatewayList(gateways, min_elevation_deg, source)


def parse_pops(text: str, where: str) -> dict[str, Pop]:
    """Read TOML text shaped like ``pops.toml``; `where` names it in messages. Raise `UserError`."""
    table = Table.parse(text, where)
    table.text("source")
    pops: dict[str, Pop] = {}
    for entry in table.tables("pops"):
        pop = Pop(
            code=entry.text("code"),
            dns=entry.text("dns"),
            city=entry.text("city"),
            country=entry.text("country"),
            lat_deg=entry.number("lat_deg", -90.0, 90.0),
            lon_deg=entry.number("lon_deg", -180.0, 180.0),
        )
        entry.done()
        if pop.code in pops:
            raise UserError(f"{entry.where}: PoP code {pop.code!r} is listed twice; codes are unique")
        pops[pop.code] = pop
    table.done()
    return pops


def pop_by_code(code: str) -> Pop:
    """Return the packaged PoP with this code (any case); raise `UserError` with the nearest code."""
    known = load_pops()
    if code.upper() in known:
        return known[code.upper()]
    raise unknown_name("PoP", code.upper(), known, "codes are in scenarios/pops.toml")


def country_at(lat_deg: float, lon_deg: float) -> str:
    """Return the ISO 3166 code of the country of the nearest packaged site, gateway or PoP."""
    known: list[Place | Gateway | Pop] = [place for place in load_sites().values() if place.country]
    known += [*load_gateways().gateways, *load_pops().values()]
    at = (lat_deg, lon_deg)
    return min(known, key=lambda place: great_circle_km(at, (place.lat_deg, place.lon_deg))).country


def nearest_pop(
    lat_deg: float, lon_deg: float, among: Iterable[Pop] | None = None, fibre: FibreTable | None = None
) -> Pop:
    """Return the PoP with the least one-way fibre delay from a point; ties go to the first code in the alphabet.

    This is the rule ``pop_rule = "nearest-by-fibre"`` for a terminal without a published PoP. `among` are the PoPs to
    choose from (at least one); default: the packaged ones.
    """
    choices = list(load_pops().values() if among is None else among)
    if not choices:
        raise UserError("no PoP to choose from; expected at least one")
    here = (lat_deg, lon_deg)
    return min(choices, key=lambda p: (fibre_one_way_ms(here, (p.lat_deg, p.lon_deg), fibre).one_way_ms, p.code))


def _gateway(entry: Table) -> Gateway:
    bands = tuple(entry.texts("bands"))
    antennas = tuple(entry.integers("antennas", 1, 1000))
    if not bands or any(band not in ("Ka", "E") for band in bands) or len(antennas) != len(bands):
        raise UserError(
            f"{entry.where}: bands {list(bands)} with antennas {list(antennas)}; expected Ka or E, one count for each"
        )
    gateway = Gateway(
        name=entry.text("name"),
        region=entry.text("region") if entry.has("region") else "",
        country=entry.text("country"),
        lat_deg=entry.number("lat_deg", -90.0, 90.0),
        lon_deg=entry.number("lon_deg", -180.0, 180.0),
        bands=bands,
        antennas=antennas,
    )
    entry.done()
    return gateway
