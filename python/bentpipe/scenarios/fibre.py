"""Fibre delay between two points: from measured city pairs, else cables, else great circles.

A packet from Melbourne to Sao Paulo takes 2.4 times as long as along the great circle, which no cable follows. So the
delay comes from ``fibre.toml``, a graph of cities whose links are published RTTs or cable lengths:

1. Ends closer together than the access radius: great circle x path factor.
2. Otherwise each end connects to its nearest city (a *tail*, great circle x path factor). Between the cities the
   measured RTT is used if there is one, else the shortest path over all links. One-way delays are half of RTTs.
3. If an end is beyond the access radius of every city, the great circle x path factor between the ends is computed too,
   and the smaller delay is used. If no path exists, only the great circle remains.

`FibreDelay.basis` is the weakest basis on the path.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from bentpipe.errors import UserError, shown, unknown_name
from bentpipe.records import Items, Name, Record, Text
from bentpipe.scenarios.tables import packaged_text

#: Mean radius of the Earth [km], IUGG R1. Great circles on this sphere are within 0.56 % of WGS84 geodesics.
MEAN_RADIUS_KM = 6371.0088

Basis = Literal["table", "cable", "great-circle"]
#: Strongest first.
_STRENGTH: tuple[Basis, ...] = ("table", "cable", "great-circle")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class FibreDelay:
    """One-way delay between two points.

    Attributes:
        one_way_ms: The delay [ms].
        basis: ``"table"`` for published RTTs, ``"cable"`` if some part uses published cable lengths, ``"great-circle"``
            if some long part is a stretched great circle.
        detail: One line for display and provenance: the cities, the sources, the tails.

    """

    one_way_ms: float
    basis: Basis
    detail: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link of the graph: one-way delay [ms], basis, and key of its source."""

    one_way_ms: float
    basis: Basis
    source: str


@dataclass(frozen=True, slots=True)
class FibreTable:
    """The graph of ``fibre.toml``.

    Attributes:
        speed_km_per_ms: Signal speed in fibre.
        path_factor: Ratio of fibre path to great circle, where no better value is known.
        access_radius_km: Largest distance at which an end counts as in a city.
        sources: Key → source of the values.
        cities: Name → (lat_deg, lon_deg).
        links: City → neighbour → link; symmetric.

    """

    speed_km_per_ms: float
    path_factor: float
    access_radius_km: float
    sources: Mapping[str, str]
    cities: Mapping[str, Point]
    links: Mapping[str, Mapping[str, Link]]

    def stretched_ms(self, distance_km: float) -> float:
        """Return the one-way delay [ms] over a great-circle distance, stretched by the path factor."""
        return distance_km * self.path_factor / self.speed_km_per_ms


@cache
def load_fibre() -> FibreTable:
    """Return the packaged table."""
    return parse_fibre(packaged_text("fibre.toml"), "fibre.toml")


def great_circle_km(a: Point, b: Point) -> float:
    """Return the haversine distance [km] between (lat_deg, lon_deg) points on a sphere of `MEAN_RADIUS_KM`."""
    lat_a, lat_b = math.radians(a[0]), math.radians(b[0])
    half_lat = (lat_b - lat_a) / 2.0
    half_lon = math.radians(b[1] - a[1]) / 2.0
    h = math.sin(half_lat) ** 2 + math.cos(lat_a) * math.cos(lat_b) * math.sin(half_lon) ** 2
    return 2.0 * MEAN_RADIUS_KM * math.asin(min(1.0, math.sqrt(h)))


def fibre_one_way_ms(a: Point, b: Point, fibre: FibreTable | None = None) -> FibreDelay:
    """Return the one-way fibre delay between two points; it is the same in both directions.

    The module's docstring describes the rule.

    Args:
        a: Latitude and longitude of one point [deg].
        b: Latitude and longitude of the other point [deg].
        fibre: The table; default: the packaged one.

    Example:
        >>> delay = fibre_one_way_ms((-33.87, 151.21), (35.68, 139.76))  # Sydney to Tokyo
        >>> delay.basis, round(delay.one_way_ms) > 50
        ('table', True)
    """
    table = load_fibre() if fibre is None else fibre
    direct_km = great_circle_km(a, b)
    direct = FibreDelay(
        table.stretched_ms(direct_km), "great-circle", f"great circle {direct_km:.0f} km x {table.path_factor:g}"
    )
    if direct_km <= table.access_radius_km:
        return direct
    city_a, tail_a_km = _nearest_city(table, a)
    city_b, tail_b_km = _nearest_city(table, b)
    route = _route(table, city_a, city_b)
    if route is None:
        return direct
    total_ms = table.stretched_ms(tail_a_km) + sum(link.one_way_ms for _, link in route) + table.stretched_ms(tail_b_km)
    cities = " - ".join([city_a, *(city for city, _ in route)])
    stretched = f"great circle x {table.path_factor:g}"
    bases = [stretched if link.basis == "great-circle" else link.source for _, link in route]
    sources = ", ".join(dict.fromkeys(bases)) or "same city"
    tails = f"{tail_a_km:.0f} km to the first city and {tail_b_km:.0f} km from the last x {table.path_factor:g}"
    detail = f"{cities} ({sources}), with {tails}"
    if max(tail_a_km, tail_b_km) > table.access_radius_km:
        far = f"{cities} ({sources}), and the weakest part: {stretched}, {tail_a_km:.0f} km to the first city and "
        reached = FibreDelay(total_ms, "great-circle", f"{far}{tail_b_km:.0f} km from the last")
        return min(direct, reached, key=lambda delay: delay.one_way_ms)
    if not route:
        detail = f"{cities}, {stretched}: {tail_a_km:.0f} km to the city and {tail_b_km:.0f} km from it"
    weakest = max((_STRENGTH.index(link.basis) for _, link in route), default=len(_STRENGTH) - 1)
    return FibreDelay(total_ms, _STRENGTH[weakest], detail)


def _nearest_city(table: FibreTable, point: Point) -> tuple[str, float]:
    distance_km = {name: great_circle_km(point, at) for name, at in table.cities.items()}
    name = min(distance_km, key=lambda n: (distance_km[n], n))
    return name, distance_km[name]


def _route(table: FibreTable, start: str, end: str) -> list[tuple[str, Link]] | None:
    """Return hops (city, link): the direct measurement, else the shortest path, None without a path."""
    if start == end:
        return []
    direct = table.links[start].get(end)
    if direct is not None and direct.basis == "table":
        return [(end, direct)]
    best_ms = {start: 0.0}
    previous: dict[str, str] = {}
    queue = [(0.0, start)]
    while queue:
        so_far_ms, city = heapq.heappop(queue)
        if city == end:
            break
        if so_far_ms > best_ms[city]:
            continue
        for neighbour, link in table.links[city].items():
            reached_ms = so_far_ms + link.one_way_ms
            if reached_ms < best_ms.get(neighbour, math.inf):
                best_ms[neighbour] = reached_ms
                previous[neighbour] = city
                heapq.heappush(queue, (reached_ms, neighbour))
    if end not in previous:
        return None
    cities = [end]
    while cities[-1] != start:
        cities.append(previous[cities[-1]])
    cities.reverse()
    return [(there, table.links[here][there]) for here, there in pairwise(cities)]


def parse_fibre(text: str, where: str) -> FibreTable:
    """Read TOML text shaped like ``fibre.toml``; `where` names it in messages. Raise `UserError`."""
    file = FibreFile.from_toml(text, where)
    cities = {name: (city.lat_deg, city.lon_deg) for name, city in file.cities.items()}
    builder = _Graph(where, file, cities)
    for number, block in enumerate(file.measured):
        builder.measured(block, f"measured[{number}]")
    for number, entry in enumerate(file.links.single):
        builder.single(entry, f"links.single[{number}]")
    links = MappingProxyType({name: MappingProxyType(near) for name, near in builder.links.items()})
    return FibreTable(
        file.speed_km_per_ms,
        file.path_factor,
        file.access_radius_km,
        MappingProxyType(dict(file.sources)),
        MappingProxyType(cities),
        links,
    )


def _number_or_none(value: object) -> object:
    """Convert ``nan``, which TOML has for no value, to None."""
    return None if isinstance(value, float) and math.isnan(value) else value


Rtt = Annotated[float, Field(ge=0.1, le=2000)]
"""A published RTT [ms]."""


class City(Record):
    """A city of the graph; `region` is its name in the source."""

    lat_deg: Annotated[float, Field(ge=-90, le=90)]
    lon_deg: Annotated[float, Field(ge=-180, le=180)]
    region: Text | None = None


class MeasuredRow(Record):
    """RTTs from one city [ms]; ``nan``: no value."""

    start: Annotated[Text, Field(alias="from")]
    rtt_ms: Items[Annotated[Rtt | None, BeforeValidator(_number_or_none)]]


class MeasuredBlock(Record):
    """RTTs between cities, from one source."""

    source: Text
    to: Items[Text]
    rows: Annotated[Items[MeasuredRow], Field(min_length=1)]


class SingleLink(Record):
    """A link: an RTT, a cable length with its land ends, or, without either, a great circle."""

    a: Text
    b: Text
    source: Text
    rtt_ms: Rtt | None = None
    cable_km: Annotated[float, Field(ge=1, le=50_000)] | None = None
    land_km: Annotated[float, Field(ge=0, le=20_000)] | None = None


class SingleLinks(Record):
    """The table ``links``."""

    single: Annotated[Items[SingleLink], Field(min_length=1)]


class FibreFile(Record):
    """``fibre.toml``; the attributes of `FibreTable`, and links by source."""

    speed_km_per_ms: Annotated[float, Field(ge=100, le=299.792458)]
    path_factor: Annotated[float, Field(ge=1, le=10)]
    access_radius_km: Annotated[float, Field(ge=0, le=20_000)]
    sources: dict[Name, Text] = Field(default_factory=dict)
    cities: Annotated[dict[Name, City], Field(min_length=1)]
    measured: Annotated[Items[MeasuredBlock], Field(min_length=1)]
    links: SingleLinks


class _Graph:
    """Collects links from a file; refuses unknown names, repeated pairs, and delays below that of light in fibre."""

    def __init__(self, where: str, file: FibreFile, cities: Mapping[str, Point]) -> None:
        self._where, self._file, self._cities = where, file, cities
        self.links: dict[str, dict[str, Link]] = {name: {} for name in cities}

    def measured(self, block: MeasuredBlock, place: str) -> None:
        """Add the RTTs from each row's city to the cities of `to`."""
        source = self._source(block.source, place)
        to = [self._known(name, place) for name in block.to]
        for number, row in enumerate(block.rows):
            inside = f"{place}.rows[{number}]"
            start = self._known(row.start, inside)
            if len(row.rtt_ms) > len(to):
                raise UserError(
                    f"{len(row.rtt_ms)} RTTs",
                    where=f"{self._where}: {inside}",
                    expected=f"at most {len(to)}, one for each city of `to`",
                )
            for end, rtt_ms in zip(to, row.rtt_ms, strict=False):
                if rtt_ms is not None:
                    self._add(inside, start, end, Link(rtt_ms / 2.0, "table", source))

    def single(self, entry: SingleLink, place: str) -> None:
        """Add one link: an RTT, a cable length with its land ends, or a great circle."""
        source = self._source(entry.source, place)
        a, b = self._known(entry.a, place), self._known(entry.b, place)
        factor, speed_km_per_ms = self._file.path_factor, self._file.speed_km_per_ms
        if entry.rtt_ms is not None:
            link = Link(entry.rtt_ms / 2.0, "table", source)
        elif entry.cable_km is not None:
            length_km = entry.cable_km + (entry.land_km or 0.0) * factor
            link = Link(length_km / speed_km_per_ms, "cable", source)
        else:
            length_km = great_circle_km(self._cities[a], self._cities[b]) * factor
            link = Link(length_km / speed_km_per_ms, "great-circle", source)
        self._add(place, a, b, link)

    def _source(self, key: str, place: str) -> str:
        if key not in self._file.sources:
            known = self._file.sources
            raise unknown_name("source", key, known, "sources are the keys of [sources]", f"{self._where}: {place}")
        return key

    def _known(self, name: str, place: str) -> str:
        if name not in self._cities:
            raise unknown_name("city", name, self._cities, "cities are the keys of [cities]", f"{self._where}: {place}")
        return name

    def _add(self, place: str, a: str, b: str, link: Link) -> None:
        where = f"{self._where}: {place}"
        if a == b:
            raise UserError(f"link from {shown(a)} to itself", where=where, expected="two cities")
        if b in self.links[a]:
            raise UserError(f"{a} to {b} is given twice", where=where, expected="it once")
        distance_km = great_circle_km(self._cities[a], self._cities[b])
        least_ms = distance_km / self._file.speed_km_per_ms
        if link.one_way_ms < least_ms:
            raise UserError(
                f"{a} to {b} takes {link.one_way_ms:g} ms one way; light in fibre needs {least_ms:.1f} ms for "
                f"{distance_km:.0f} km",
                where=where,
            )
        self.links[a][b] = link
        self.links[b][a] = link
