"""Tracks of moving terminals, such as ships: CSV files of time, latitude, longitude and, if wanted, altitude."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path

from bentpipe import _native
from bentpipe.errors import UserError, shown
from bentpipe.files import read_bytes, text_of
from bentpipe.measurements.readers.checked import ALTITUDE_RANGE_M
from bentpipe.scenarios.sites import Place, normalised_lon_deg
from bentpipe.times import parse_utc

#: Size limit of a track [bytes]: a day at one point a second has 4 MB.
MAX_TRACK_BYTES = 32 << 20
#: Largest number of points. Chosen here: a Profile stores its track, and a week has 10,080 minutes.
MAX_POINTS = 20_000

_COLUMNS = ("time", "lat", "lon", "alt")
_BOUNDS = {"lat": (-90.0, 90.0), "lon": (-180.0, 360.0), "alt": ALTITUDE_RANGE_M}


@dataclass(frozen=True, slots=True)
class Track:
    """Positions of a moving terminal over time.

    Attributes:
        name: Name of the file without its suffix.
        points: The points as JSON, for the native module.
        start_unix_ns: Time of the first point [ns since 1970].
    """

    name: str
    points: str
    start_unix_ns: int

    def place_at(self, unix_ns: int) -> Place:
        """Return the position at a time: on the great circle between two points; at the ends before and after them."""
        lat_deg, lon_deg, alt_m = _native.track_position(self.points, unix_ns)
        return Place(name=self.name, lat_deg=lat_deg, lon_deg=lon_deg, alt_m=alt_m)


def read_track(path: str | os.PathLike[str]) -> Track:
    """Read a track: CSV with the header ``time,lat,lon`` or ``time,lat,lon,alt``, in any order of columns.

    Times are ISO-8601 and increase; latitude and longitude are in degrees, altitude in metres. Between points the
    terminal moves along great circles, at most at 400 m/s.

    Raises:
        UserError: The file is missing or no such track; the message names file and line.
    """
    text = text_of(read_bytes(path, MAX_TRACK_BYTES), path)
    rows = list(csv.reader(io.StringIO(text, newline="")))
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if sorted(header) not in (sorted(_COLUMNS), sorted(_COLUMNS[:3])):
        raise UserError(
            f"the first line is {shown(','.join(header))}",
            where=f"{path}:1",
            expected="time,lat,lon or time,lat,lon,alt",
        )
    points = [
        _point(dict(zip(header, row, strict=True)), f"{path}:{line}")
        for line, row in _filled(rows[1:], len(header), path)
    ]
    if len(points) > MAX_POINTS:
        raise UserError(f"{len(points)} points", where=str(path), expected=f"at most {MAX_POINTS}")
    track = json.dumps(points)
    try:
        _native.track_position(track, 0)
    except UserError as error:
        raise UserError(str(error).removeprefix("track: "), where=str(path)) from None
    return Track(Path(path).stem, track, int(points[0]["at_unix_ns"]))


def _filled(rows: list[list[str]], columns: int, path: str | os.PathLike[str]) -> list[tuple[int, list[str]]]:
    """Return the rows that are not empty with their line numbers."""
    filled = [(line, row) for line, row in enumerate(rows, 2) if any(cell.strip() for cell in row)]
    for line, row in filled:
        if len(row) != columns:
            raise UserError(f"{len(row)} columns", where=f"{path}:{line}", expected=f"{columns}, as in the first line")
    return filled


def _point(row: dict[str, str], where: str) -> dict[str, int | float]:
    lat_deg, lon_deg = (_number(row[name], name, where) for name in ("lat", "lon"))
    return {
        "at_unix_ns": parse_utc(row["time"], f"{where}: time"),
        "lat_deg": lat_deg,
        "lon_deg": normalised_lon_deg(lon_deg),
        "alt_m": _number(row["alt"], "alt", where) if "alt" in row else 0.0,
    }


def _number(text: str, name: str, where: str) -> float:
    least, most = _BOUNDS[name]
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise UserError(f"{name} is {shown(text)}", where=where, expected=f"a number from {least:g} to {most:g}")
    return value
