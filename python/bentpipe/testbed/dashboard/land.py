"""Outlines of the continents for the map, from TopoJSON to GeoJSON and SVG.

Source: the TopoJSON specification, "Positions" and "Arcs": coordinates are differences of integers, scaled.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

Ring = list[tuple[float, float]]


@cache
def rings() -> list[list[Ring]]:
    """Return the polygons of the land: rings of (longitude, latitude) [degrees], the outer one first."""
    text = files("bentpipe.testbed.dashboard").joinpath("vendor/worldatlas/land-110m.json").read_text("utf-8")
    topology = json.loads(text)
    arcs = [_arc(arc, topology["transform"]) for arc in topology["arcs"]]
    polygons = []
    for geometry in topology["objects"]["land"]["geometries"]:
        parts = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
        polygons += [[_ring(ring, arcs) for ring in part] for part in parts]
    return polygons


def _arc(arc: list[list[int]], transform: dict[str, Any]) -> Ring:
    (x_scale, y_scale), (x_offset, y_offset) = transform["scale"], transform["translate"]
    x = y = 0
    points = []
    for step_x, step_y, *_ in arc:
        x, y = x + step_x, y + step_y
        points.append((round(x * x_scale + x_offset, 2), round(y * y_scale + y_offset, 2)))
    return points


def _ring(indices: list[int], arcs: list[Ring]) -> Ring:
    points: Ring = []
    for index in indices:
        arc = arcs[index] if index >= 0 else arcs[~index][::-1]
        points += arc[1:] if points else arc
    return _unwrapped(points)


def _unwrapped(ring: Ring) -> Ring:
    """Return a ring without jumps at the date line: longitudes go on beyond 180°. One around a pole is closed there.

    Example:
        >>> _unwrapped([(179.0, 1.0), (-179.0, 1.0), (-179.0, 0.0), (179.0, 1.0)])
        [(179.0, 1.0), (181.0, 1.0), (181.0, 0.0), (179.0, 1.0)]
    """
    points = [ring[0]]
    for longitude, latitude in ring[1:]:
        turns = round((points[-1][0] - longitude) / 360)
        points.append((round(longitude + 360 * turns, 2), latitude))
    (first, _), (last, _) = points[0], points[-1]
    if first != last:
        pole = -90.0 if ring[0][1] < 0 else 90.0
        points += [(last, pole), (first, pole), points[0]]
    # The middle of the ring is within 180°, as are its holes.
    shift = -360.0 * round(sum(longitude for longitude, _ in points) / len(points) / 360)
    return [(round(longitude + shift, 2), latitude) for longitude, latitude in points]


def land_geojson() -> bytes:
    """Return the land as GeoJSON."""
    geometry = {"type": "MultiPolygon", "coordinates": rings()}
    return json.dumps({"type": "Feature", "properties": {}, "geometry": geometry}, separators=(",", ":")).encode()


def map_point(longitude_deg: float, latitude_deg: float) -> tuple[float, float]:
    """Return a place on the drawn map of 720 by 360 (equirectangular).

    Example:
        >>> map_point(0.0, 0.0), map_point(-180.0, 90.0)
        ((360.0, 180.0), (0.0, 0.0))
    """
    return round((longitude_deg + 180) * 2, 1), round((90 - latitude_deg) * 2, 1)


def land_svg() -> bytes:
    """Return the land as a picture of 720 by 360, for pages without scripts; across the date line it is there twice."""
    path = []
    for polygon in rings():
        for ring in polygon:
            longitudes = [longitude for longitude, _ in ring]
            for shift in (-360.0, 0.0, 360.0):
                if min(longitudes) + shift < 180 and max(longitudes) + shift > -180:
                    points = (map_point(longitude + shift, latitude) for longitude, latitude in ring)
                    path.append(f"M{'L'.join(f'{x:g} {y:g}' for x, y in points)}Z")
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 360">'
        f'<path fill="#8a949e" fill-opacity=".45" d="{"".join(path)}"/></svg>'
    ).encode()
