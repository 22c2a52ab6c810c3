"""Static files of the pages, and the vendored libraries with their hashes as the npm registry has them.

| file | library |
|---|---|
| ``htmx.min.js`` | htmx.org 4.0.1 (0BSD), partial updates |
| ``maplibre-gl.*`` | maplibre-gl 6.17.0 (BSD-3-Clause), the map |
| ``land.json``, ``land.svg`` | world-atlas 2.0.2 (ISC; Natural Earth, public domain), outlines of the continents |
| ``uPlot.*`` | uPlot 1.6.32 (MIT), the report's copy |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bentpipe.testbed.dashboard.land import land_geojson, land_svg

JAVASCRIPT = "text/javascript; charset=utf-8"
CSS = "text/css; charset=utf-8"

_HERE, _REPORT = "bentpipe.testbed.dashboard", "bentpipe.report"
_SOURCES = {
    "dashboard.css": (_HERE, "static/dashboard.css", CSS),
    "dashboard.js": (_HERE, "static/dashboard.js", JAVASCRIPT),
    "charts.js": (_HERE, "static/charts.js", JAVASCRIPT),
    "measured.js": (_HERE, "static/measured.js", JAVASCRIPT),
    "map.js": (_HERE, "static/map.js", JAVASCRIPT),
    "icon.svg": (_HERE, "static/icon.svg", "image/svg+xml"),
    "htmx.min.js": (_HERE, "vendor/htmx/htmx.min.js", JAVASCRIPT),
    "maplibre-gl.mjs": (_HERE, "vendor/maplibre/maplibre-gl.mjs", JAVASCRIPT),
    "maplibre-gl-worker.mjs": (_HERE, "vendor/maplibre/maplibre-gl-worker.mjs", JAVASCRIPT),
    "maplibre-gl.css": (_HERE, "vendor/maplibre/maplibre-gl.css", CSS),
    "uPlot.iife.min.js": (_REPORT, "vendor/uplot/uPlot.iife.min.js", JAVASCRIPT),
    "uPlot.min.css": (_REPORT, "vendor/uplot/uPlot.min.css", CSS),
}

VENDORED = {
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "maplibre-gl.mjs": "e02cb08c572fd0950a75343cd558099c2a1dbbaf67f26b0c96f115431962d1ae",
    "maplibre-gl-worker.mjs": "73d7a024a4efe1a46e49db193e18cfe33271e3ecc652ec7542c281a4ef5f0f04",
    "maplibre-gl.css": "a90798a1953017790e590f7e1bd35ff103a8a4263972cb47290b78adf86f8c20",
    "land-110m.json": "ead5f68119c49a9250902e7da303bcb209341bbb8fefe7369a439b48b704658a",
}
"""SHA-256 of the vendored files, unchanged from the registry; a test compares them."""


@dataclass(frozen=True)
class StaticFile:
    """A file that a page loads.

    Attributes:
        content: It.
        media_type: Its type.
        version: Hash of its content, as its address has it.
    """

    content: bytes
    media_type: str
    version: str


@cache
def static_file(name: str) -> StaticFile | None:
    """Return a static file by name; None: there is none.

    Example:
        >>> static_file("dashboard.css").media_type, static_file("../secret")
        ('text/css; charset=utf-8', None)
    """
    if name == "land.json":
        content, media_type = land_geojson(), "application/geo+json"
    elif name == "land.svg":
        content, media_type = land_svg(), "image/svg+xml"
    elif name in _SOURCES:
        package, path, media_type = _SOURCES[name]
        content = files(package).joinpath(path).read_bytes()
    else:
        return None
    return StaticFile(content, media_type, hashlib.sha256(content).hexdigest()[:16])


def address_of(name: str) -> str:
    """Return the address of a static file. Raises KeyError.

    Example:
        >>> address_of("dashboard.css").startswith("/static/dashboard.css?v=")
        True
    """
    file = static_file(name)
    if file is None:
        raise KeyError(name)
    return f"/static/{name}?v={file.version}"
