"""The map of a network: satellites, links in use and their load, as one page without scripts."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError, shown
from bentpipe.files import atomic_write
from bentpipe.orbits.elements import load_satellites
from bentpipe.profiles.networks.show import check_time, route_at, route_nodes, summarise
from bentpipe.report.render import environment
from bentpipe.times import format_utc

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from bentpipe._native import Network, Satellites

WIDTH, HEIGHT = 1440, 720
"""Size of the drawing: four units for a degree."""
_STEP_DEG = 30

Point = tuple[float, float]
"""Longitude and latitude [deg]."""


@dataclass(frozen=True)
class Line:
    """A link of the drawing: its lines (two across the date line), its name, and the number of paths that use it."""

    d: str
    name: str
    paths: int
    kind: str


@dataclass(frozen=True)
class Dot:
    """A satellite or a place of the drawing."""

    x: float
    y: float
    name: str
    in_use: bool


def write_map(
    network: Network,
    out: Path,
    at_s: float = 0.0,
    *,
    elements: str | os.PathLike[str] | None = None,
) -> None:
    """Write the page of a network at a time: one HTML file that loads nothing.

    Args:
        network: The network.
        out: The file.
        at_s: Time in the network [s].
        elements: The file of elements that it was made from; built-in constellations need none.

    Raises:
        UserError: The time is outside the network's duration, the elements are missing or other ones, or `out` cannot
            be written.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from bentpipe.profiles.networks.make import make_network, parse_pairs
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_map(make_network(parse_pairs("LON-JNB"), duration_s=15.0), Path(folder, "map.html"))
        ...     "LON-JNB" in Path(folder, "map.html").read_text(encoding="utf-8")
        True
    """
    check_time(network, at_s)
    metadata = json.loads(network.metadata_json())
    try:
        html = _page(network, metadata, at_s, elements)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"the recipe of the Network does not fit its nodes ({shown(str(error))})",
            where="map",
            expected="a Network that `bentpipe network make` made",
        ) from None
    with atomic_write(out) as file:
        file.write(html.encode())


def _page(network: Network, metadata: Mapping[str, Any], at_s: float, elements: str | os.PathLike[str] | None) -> str:
    settings = metadata["provenance"]["recipe"]["settings"]
    at_unix_ns = network.start_unix_ns + round(at_s * 1e9)
    places = {place["name"]: (place["site"]["lon_deg"], place["site"]["lat_deg"]) for place in settings["places"]}
    satellites = _positions(_satellites(settings["origin"], network.start_unix_ns, elements), at_unix_ns)
    nodes = {
        name: satellites[name.removeprefix("sat:")] if name.startswith("sat:") else places[name.partition(":")[2]]
        for name in metadata["nodes"]
    }
    users: Counter[int] = Counter()
    used: set[str] = set()
    routes = []
    for path in metadata["paths"]:
        hops = route_at(path, at_s)
        users.update(path["hops"][hop]["link"] for hop in hops)
        names = [metadata["nodes"][node] for node in route_nodes(path, metadata["hops"], hops)]
        used |= set(names)
        routes.append(_polyline([nodes[name] for name in names]))
    lines = [_link(metadata["hops"][link], metadata["nodes"], nodes, count) for link, count in users.items()]
    summary = summarise(network, at_s)
    page = environment("bentpipe.report", "pages").get_template("network.html")
    return page.render(
        title=f"Network {network.name}",
        summary=summary,
        when=format_utc(at_unix_ns),
        width=WIDTH,
        height=HEIGHT,
        grid=[*_meridians(), *_parallels()],
        links=sorted(lines, key=lambda line: line.paths),
        most=max(users.values(), default=0),
        satellites=[_dot(name, point, f"sat:{name}" in used) for name, point in satellites.items()],
        places=[_dot(name, point, in_use=True) for name, point in places.items()],
        rows=list(zip(summary["paths"], routes, strict=True)),
    )


def _satellites(origin: Mapping[str, Any], start_unix_ns: int, elements: str | os.PathLike[str] | None) -> Satellites:
    if "constellation" in origin:
        if elements is not None:
            raise UserError("the Network is of a built-in constellation", where="elements", expected="none")
        return load_satellites(None, origin["constellation"]["name"], start_unix_ns)
    if elements is None:
        raise UserError(
            f"the Network was made from {origin['elements']['file']}",
            where="elements",
            expected="that file, which has the satellites' positions",
        )
    satellites = load_satellites(elements, None, start_unix_ns)
    if satellites.sha256 != origin["elements"]["sha256"]:
        raise UserError(
            "is another file than that of the Network",
            where=str(elements),
            expected=f"SHA-256 {origin['elements']['sha256'][:12]}",
        )
    return satellites


def _positions(satellites: Satellites, at_unix_ns: int) -> dict[str, Point]:
    """Return the points below the satellites, by catalogue number, without those that have none."""
    lat, lon = satellites.ground_points(at_unix_ns)
    numbers = satellites.elements()["norad_id"]
    points = zip(numbers.tolist(), lon.tolist(), lat.tolist(), strict=True)
    return {str(number): (x, y) for number, x, y in points if not math.isnan(x)}


def _link(link: Mapping[str, Any], names: list[str], nodes: Mapping[str, Point], paths: int) -> Line:
    ends = [nodes[names[end]] for end in link["ends"]]
    return Line(_polyline(ends), link["name"], paths, "isl" if link["name"].startswith("isl:") else "ground")


def _dot(name: str, point: Point, in_use: bool) -> Dot:
    x, y = _place(point)
    return Dot(x, y, name, in_use)


def _place(point: Point) -> tuple[float, float]:
    return round((point[0] + 180) * WIDTH / 360, 1), round((90 - point[1]) * HEIGHT / 180, 1)


def _polyline(points: Iterable[Point]) -> str:
    """Return lines between points as an SVG path, the shorter way around the Earth: cut where it crosses 180°."""
    parts = []
    for (lon, lat), (to_lon, to_lat) in itertools.pairwise(points):
        turn = 360 if lon - to_lon > 180 else -360 if to_lon - lon > 180 else 0
        ends = [((lon, lat), (to_lon + turn, to_lat))]
        if turn:
            ends.append(((lon - turn, lat), (to_lon, to_lat)))
        for start, end in ends:
            (x, y), (u, v) = _place(start), _place(end)
            parts.append(f"M{x} {y}L{u} {v}")
    return "".join(parts)


def _meridians() -> Iterable[tuple[str, float, float, str]]:
    for lon in range(-180 + _STEP_DEG, 180, _STEP_DEG):
        x, _ = _place((lon, 0))
        yield f"M{x} 0V{HEIGHT}", x, HEIGHT - 6, f"{abs(lon)}°{'' if lon == 0 else 'E' if lon > 0 else 'W'}"


def _parallels() -> Iterable[tuple[str, float, float, str]]:
    for lat in range(-90 + _STEP_DEG, 90, _STEP_DEG):
        _, y = _place((0, lat))
        yield f"M0 {y}H{WIDTH}", 14, y - 4, f"{abs(lat)}°{'' if lat == 0 else 'N' if lat > 0 else 'S'}"
