"""Orbital elements: read from files or made for a built-in constellation.

Times are nanoseconds since 1970-01-01T00:00:00Z (`bentpipe.times.parse_utc`).
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bentpipe._native import Satellites
from bentpipe.errors import UserError
from bentpipe.files import read_bytes, unpacked
from bentpipe.scenarios.shells import Constellation, load_constellation
from bentpipe.times import DEFAULT_START_UTC, format_utc, parse_utc

#: Largest file of elements after unpacking [bytes]; the native readers refuse the same.
MAX_ELEMENTS_BYTES = 256 * 2**20
#: When plane 0 of every built-in shell stands at right ascension 0. Any instant would do; this is the midnight before
#: the start that a Profile has unless one is given.
BUILT_IN_EPOCH_UTC = "2026-05-10T00:00:00Z"
#: Farther than this from that epoch [years] a warning says that nobody knows what flies then. Chosen here: a satellite
#: of these shells is designed for about five.
BUILT_IN_YEARS = 5
#: The built-in constellation of `sky` and `schedule`: what a terminal sees.
DEFAULT_SKY = "starlink-gen1"
#: The built-in constellation of `route`: one shell with its links.
DEFAULT_ROUTE = "starlink-s1"
_NANOS = 10**9
_DAY_NS = 86_400 * _NANOS
_END_OF_TIME_NS = 2**63 - 1

OnProgress = Callable[[float], object]
Floats = NDArray[np.float64]


class OrbitWarning(UserWarning):
    """Something about the satellites that does not stop the work but changes what it is worth."""


class StaleElementsWarning(OrbitWarning):
    """The elements are far from the asked time; the message says how far and what it costs."""


def read_elements(
    path: str | os.PathLike[str], at_unix_ns: int | None = None, *, every_set: bool = False
) -> Satellites:
    """The satellites of a file: TLE (2 or 3 lines), OMM CSV, OMM JSON or OMM XML, plain or gzipped.

    Of several element sets of one satellite (one catalogue number, and one international designator or name) the one
    nearest to `at_unix_ns` counts. Sets that share a number but not that, or an epoch but not their elements, are of
    different satellites, and all stay; so do those numbered 0 or 99999, which stand for no number.

    Args:
        path: The file.
        at_unix_ns: When the satellites are wanted [ns since 1970]; by default at the end of time, so that the newest
            counts.
        every_set: Take every element set as a satellite: the file is a grid, whose places count.

    Warns:
        OrbitWarning: Element sets were left out for nearer ones.

    Raises:
        UserError: The file is missing, too large, damaged or of another kind; or holds a satellite that is none. The
            message says where (line or satellite of the file). A bad satellite is never left out silently.
    """
    data = read_bytes(path, MAX_ELEMENTS_BYTES)
    nearest_to = None if every_set else _END_OF_TIME_NS if at_unix_ns is None else at_unix_ns
    satellites = Satellites.read(
        unpacked(data, path, MAX_ELEMENTS_BYTES), str(path), nearest_to, hashlib.sha256(data).hexdigest()
    )
    if satellites.superseded:
        chosen = "the newest" if at_unix_ns is None else f"the one nearest to {format_utc(at_unix_ns)}"
        warnings.warn(
            f"{Path(path).name}: {satellites.superseded} element sets left out: of several of one satellite {chosen} "
            f"counts ({len(satellites)} satellites remain)",
            OrbitWarning,
            stacklevel=2,
        )
    return satellites


def load_satellites(
    elements: str | os.PathLike[str] | None,
    constellation: str | None,
    at_unix_ns: int,
    *,
    default: str = DEFAULT_SKY,
    every_set: bool = False,
) -> Satellites:
    """The satellites of a file of elements, or of a built-in constellation.

    Built-in shells all fly from one epoch, `BUILT_IN_EPOCH_UTC`: where a satellite is at a moment does not depend on
    the span it is asked for in. A geostationary satellite is held at its longitude: see `built_in_epoch_unix_ns`.

    Args:
        elements: A file; see `read_elements`.
        constellation: A name of `bentpipe.scenarios.constellation_names`; not together with `elements`.
        at_unix_ns: When they are wanted. Of several element sets of a satellite the nearest counts; elements far from
            it are warned about.
        default: The built-in constellation where neither is given.
        every_set: As in `read_elements`.

    Warns:
        StaleElementsWarning: The elements are days away from `at_unix_ns`, or a built-in shell's epoch is more than
            `BUILT_IN_YEARS` away.
        OrbitWarning: Satellites cannot be propagated to `at_unix_ns` (decayed); they are never used. Or as
            `read_elements`.

    Raises:
        UserError: Both are given, or as `read_elements`, or there is no such constellation.
    """
    if elements is not None and constellation is not None:
        raise UserError("elements and a constellation are given; wanted one of them")
    if elements is None:
        shells = load_constellation(constellation or default)
        years = abs(at_unix_ns - built_in_epoch_unix_ns(shells, at_unix_ns)) / (365.25 * _DAY_NS)
        if years > BUILT_IN_YEARS:
            warnings.warn(
                f"{shells.name} flies as filed from {BUILT_IN_EPOCH_UTC[:10]}, {years:.0f} years from the asked time: "
                "what flies then is not known, and only the shape of the shells is shown",
                StaleElementsWarning,
                stacklevel=2,
            )
        return _built_in(shells, at_unix_ns)
    satellites = read_elements(elements, at_unix_ns, every_set=every_set)
    stale = satellites.age_warning(at_unix_ns)
    if stale is not None:
        warnings.warn(f"{Path(elements).name}: {stale}", StaleElementsWarning, stacklevel=2)
    failures = satellites.failures(at_unix_ns)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        warnings.warn(f"{Path(elements).name}: left out: {failures[0]}{more}", OrbitWarning, stacklevel=2)
    return satellites


def built_in_epoch_unix_ns(shells: Constellation, at_unix_ns: int) -> int:
    """From when the satellites of a built-in constellation fly [ns since 1970].

    `BUILT_IN_EPOCH_UTC`; where all of them are geostationary, the midnight before `at_unix_ns`. Those are station-kept:
    without manoeuvres SGP4 lets them drift off their longitude, below the horizon within a year, while from one
    midnight to the next they move by 0.01 degrees.
    """
    if all(shell.slot_longitude_deg is not None for shell in shells.shells):
        return _midnight_before(at_unix_ns)
    return parse_utc(BUILT_IN_EPOCH_UTC)


def default_start_unix_ns(elements: str | os.PathLike[str] | None) -> int:
    """When things begin if nobody says [ns since 1970]: `DEFAULT_START_UTC`, never the clock.

    Raises:
        UserError: There are elements, whose satellites are right only near their epoch.
    """
    if elements is not None:
        raise UserError("start (--start): needed with elements, whose satellites are right only near their epoch")
    return parse_utc(DEFAULT_START_UTC)


def _built_in(shells: Constellation, at_unix_ns: int) -> Satellites:
    """A constellation's satellites, numbered from 1, plane 0 of each shell at right ascension 0 at the epoch."""
    rows: list[dict[str, Any]] = []
    first = 1
    for shell in shells.shells:
        name = f"{shells.name}-{shell.name}" if len(shells.shells) > 1 else shells.name
        if shell.slot_longitude_deg is not None:
            rows.append({"geostationary": {"name": name, "norad_id": first, "longitude_deg": shell.slot_longitude_deg}})
        else:
            walker = {
                "name": name,
                "raan_spread_deg": shell.raan_spread_deg,
                "altitude_km": shell.altitude_km,
                "inclination_deg": shell.inclination_deg,
                "planes": shell.planes,
                "per_plane": shell.satellites_per_plane,
                "phasing": float(shell.phasing),
                "first_raan_deg": 0.0,
                "first_norad_id": first,
            }
            rows.append({"walker": {"shell": walker, "linked": shell.isl == "grid"}})
        first += shell.satellites
    return Satellites.shells(json.dumps(rows), parse_utc(BUILT_IN_EPOCH_UTC), _midnight_before(at_unix_ns))


def _midnight_before(at_unix_ns: int) -> int:
    return at_unix_ns // _DAY_NS * _DAY_NS
