"""Gateways, where satellite paths reach the ground, and PoPs, where they reach the Internet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError, unknown_name
from bentpipe.files import read_bytes, text_of
from bentpipe.records import Items, Record, Text
from bentpipe.scenarios.fibre import FibreTable, fibre_one_way_ms, great_circle_km
from bentpipe.scenarios.sites import Place, load_sites
from bentpipe.scenarios.tables import packaged_names, packaged_text

#: Size limit of a gateway list [bytes]: the packaged one has 30 kB.
MAX_GATEWAYS_BYTES = 1 << 20


class Gateway(Record):
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

    name: Text
    region: str = ""
    country: Text
    lat_deg: Annotated[float, Field(ge=-90, le=90)]
    lon_deg: Annotated[float, Field(ge=-180, le=180)]
    bands: Items[str]
    antennas: Items[Annotated[int, Field(ge=1, le=1000)]]

    @model_validator(mode="after")
    def _check_bands(self) -> Self:
        bands, antennas = self.bands, self.antennas
        if not bands or any(band not in ("Ka", "E") for band in bands) or len(antennas) != len(bands):
            raise UserError(
                f"bands {list(bands)} with antennas {list(antennas)}", expected="Ka or E, one count for each"
            )
        return self

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


class GatewaysFile(Record):
    """A gateway list, as ``gateways/NAME.toml`` or a user's own file has it."""

    source: Text
    pop_rule: Literal["nearest-by-fibre"]
    min_elevation_deg: Annotated[float, Field(ge=0, le=90)]
    gateways: Annotated[Items[Gateway], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        labels: set[str] = set()
        for gateway in self.gateways:
            if gateway.label in labels:
                raise UserError(f"gateway {gateway.label!r} is listed twice", hint="another name for one of them")
            labels.add(gateway.label)
        return self


class Pop(Record):
    """A point of presence: where the operator's network meets the Internet.

    Attributes:
        code: Short code, such as ``SEA``.
        dns: The code in reverse DNS names, such as ``sttlwax1``.
        city: City, for people.
        country: ISO 3166 two-letter code.
        lat_deg: Geodetic latitude (WGS84).
        lon_deg: Longitude, -180 to 180.

    """

    code: Text
    dns: Text
    city: Text
    country: Text
    lat_deg: Annotated[float, Field(ge=-90, le=90)]
    lon_deg: Annotated[float, Field(ge=-180, le=180)]


class PopsFile(Record):
    """``pops.toml``."""

    source: Text
    pops: Annotated[Items[Pop], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_codes(self) -> Self:
        codes = [pop.code for pop in self.pops]
        for number, code in enumerate(codes):
            if code in codes[:number]:
                raise UserError(f"PoP code {code!r} is listed twice", where=f"pops[{number}]", expected="unique codes")
        return self


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
    file = GatewaysFile.from_toml(text, where)
    return GatewayList(file.gateways, file.min_elevation_deg, file.source)


def parse_pops(text: str, where: str) -> dict[str, Pop]:
    """Read TOML text shaped like ``pops.toml``; `where` names it in messages. Raise `UserError`."""
    return {pop.code: pop for pop in PopsFile.from_toml(text, where).pops}


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
