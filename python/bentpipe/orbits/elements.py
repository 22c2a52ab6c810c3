"""Orbital elements: read from files, or generated for a built-in constellation.

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
#: Epoch at which plane 0 of every built-in shell is at right ascension 0. Any instant would do; this is the midnight
#: before the default start of a Profile.
BUILT_IN_EPOCH_UTC = "2026-05-10T00:00:00Z"
#: Farther than this from that epoch [years] there is a warning that the constellation is unknown. Chosen here: the
#: design life of a satellite of these shells is about five years.
BUILT_IN_YEARS = 5
#: Default constellation of `sky` and `schedule`.
DEFAULT_SKY = "starlink-gen1"
#: Default constellation of `route`: one shell with inter-satellite links.
DEFAULT_ROUTE = "starlink-s1"
_NANOS = 10**9
_DAY_NS = 86_400 * _NANOS
_END_OF_TIME_NS = 2**63 - 1

OnProgress = Callable[[float], object]
Floats = NDArray[np.float64]


class OrbitWarning(UserWarning):
    """A problem with the satellites that makes results less reliable."""


class StaleElementsWarning(OrbitWarning):
    """The epochs are far from the requested time; the message gives the age and the position error."""


def read_elements(
    path: str | os.PathLike[str], at_unix_ns: int | None = None, *, every_set: bool = False
) -> Satellites:
    """Read satellites from a file: TLE (2 or 3 lines), OMM CSV, OMM JSON or OMM XML, plain or gzipped.

    If a satellite (same catalogue number, and same international designator or name) has several element sets, the one
    nearest to `at_unix_ns` is used. Sets with the same number but another designator and name, or with the same epoch
    but other elements, are different satellites, and all are used. Numbers 0 and 99999 mean "no number".

    Args:
        path: The file, at most 256 MiB unpacked.
        at_unix_ns: Time of interest [ns since 1970]; default: the newest element sets.
        every_set: Use every element set as a satellite, for grids in which the order counts.

    Warns:
        OrbitWarning: Element sets were left out because nearer ones exist.

    Raises:
        UserError: The file is missing, too large, damaged or of another kind, or contains an invalid satellite. The
            message names the line or satellite. An invalid satellite is never left out silently.

    Example:
        >>> import os, tempfile
        >>> line_1 = "1 25544U 98067A   08264.51782528 -.00002182  00000-0 -11606-4 0  2927"
        >>> line_2 = "2 25544  51.6416 247.4627 0006703 130.5360 325.0288 15.72125391563537"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "iss.tle")
        ...     _ = path.write_text(os.linesep.join([line_1, line_2]))
        ...     len(read_elements(path))
        1
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
            f"is used ({len(satellites)} satellites remain)",
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
    """Load the satellites of a file of elements, or of a built-in constellation.

    All built-in shells start from one epoch, `BUILT_IN_EPOCH_UTC`, so that a satellite's position at a time does not
    depend on the requested span. A geostationary satellite keeps its longitude: see `built_in_epoch_unix_ns`.

    Args:
        elements: A file; see `read_elements`.
        constellation: A name of `bentpipe.scenarios.constellation_names`; not together with `elements`.
        at_unix_ns: Time of interest [ns since 1970]. Of several element sets of a satellite the nearest is used;
            distant epochs give a warning.
        default: The built-in constellation if neither is given.
        every_set: As in `read_elements`.

    Warns:
        StaleElementsWarning: The elements are days away from `at_unix_ns`, or a built-in shell's epoch is more than
            `BUILT_IN_YEARS` away.
        OrbitWarning: Satellites cannot be propagated to `at_unix_ns` (decayed) and are not used; or as
            `read_elements`.

    Raises:
        UserError: Both are given, the constellation is unknown, or as `read_elements`.

    Example:
        >>> len(load_satellites(None, "starlink-s1", parse_utc("2026-05-10T00:00:00Z")))
        1584
    """
    if elements is not None and constellation is not None:
        raise UserError("elements and a constellation are given; expected one of them")
    if elements is None:
        shells = load_constellation(constellation or default)
        years = abs(at_unix_ns - built_in_epoch_unix_ns(shells, at_unix_ns)) / (365.25 * _DAY_NS)
        if years > BUILT_IN_YEARS:
            warnings.warn(
                f"{shells.name} flies as filed from {BUILT_IN_EPOCH_UTC[:10]}, {years:.0f} years from the given time: "
                "the real constellation then is unknown, and only the shape of the shells is used",
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
    """Return the epoch of a built-in constellation [ns since 1970].

    It is `BUILT_IN_EPOCH_UTC`, or the midnight before `at_unix_ns` if all satellites are geostationary. Real ones are
    kept at their longitude by manoeuvres. Without them SGP4 drifts below the horizon within a year, but only 0.01
    degrees from one midnight to the next.
    """
    if all(shell.slot_longitude_deg is not None for shell in shells.shells):
        return _midnight_before(at_unix_ns)
    return parse_utc(BUILT_IN_EPOCH_UTC)


def default_start_unix_ns(elements: str | os.PathLike[str] | None) -> int:
    """Return the default start [ns since 1970]: `DEFAULT_START_UTC`, never the current time.

    Raises:
        UserError: Elements are given, whose positions are accurate only near their epoch.
    """
    if elements is not None:
        raise UserError(
            "none given", where="start", expected="a time, as positions of elements are accurate only near their epoch"
        )
    return parse_utc(DEFAULT_START_UTC)


def _built_in(shells: Constellation, at_unix_ns: int) -> Satellites:
    """Return a constellation's satellites, numbered from 1, with plane 0 of each shell at right ascension 0."""
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
            rows.append({"walker": {"shell": walker, "links": shell.isl}})
        first += shell.satellites
    return Satellites.shells(json.dumps(rows), parse_utc(BUILT_IN_EPOCH_UTC), _midnight_before(at_unix_ns))


def _midnight_before(at_unix_ns: int) -> int:
    return at_unix_ns // _DAY_NS * _DAY_NS
