"""Satellites: who is up, where they stand, the shortest way through them, and which of them serves a terminal when.

Conventions (``docs/concepts/geometry.md``): SGP4 with WGS72 constants, IAU 1982 sidereal time with UTC as UT1, no polar
motion, places on the WGS84 ellipsoid, elevation from the plane normal to it without refraction, light straight at c in
vacuum. Times are nanoseconds since 1970-01-01T00:00:00Z (`bentpipe.times.parse_utc`).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bentpipe import _native
from bentpipe._native import Satellites
from bentpipe.errors import UserError, shown
from bentpipe.files import read_bytes, unpacked
from bentpipe.scenarios import Constellation, Place, PlaceLike, as_place, load_constellation
from bentpipe.times import DEFAULT_START_UTC, format_utc, parse_utc

__all__ = [
    "AllPairs",
    "LookAngles",
    "OrbitWarning",
    "Routes",
    "Satellites",
    "StaleElementsWarning",
    "built_in_epoch_unix_ns",
    "constellation",
    "load_satellites",
    "look_angle_blocks",
    "look_angles",
    "policies",
    "read_elements",
    "route",
    "schedule",
    "sky",
]

#: Largest file of elements after unpacking [bytes]; the native readers refuse the same.
MAX_ELEMENTS_BYTES = 256 * 2**20
#: Most steps of a series of routes or states. Chosen here, to catch slips of the keyboard: a week at one a second.
MAX_STEPS = 7 * 86_400
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
#: The scheduling policy unless one is given.
DEFAULT_POLICY = "starlink-like"

_GRID = re.compile(r"grid:([1-9][0-9]{0,4})x([1-9][0-9]{0,4})\Z")
_NANOS = 10**9
_DAY_NS = 86_400 * _NANOS
_END_OF_TIME_NS = 2**63 - 1

OnProgress = Callable[[float], object]
Floats = NDArray[np.float64]


class OrbitWarning(UserWarning):
    """Something about the satellites that does not stop the work but changes what it is worth."""


class StaleElementsWarning(OrbitWarning):
    """The elements are far from the asked time; the message says how far and what it costs."""


class LookAngles(NamedTuple):
    """Where satellites stand, each array of shape (satellites, times); NaN where one cannot be propagated."""

    azimuth_deg: Floats
    elevation_deg: Floats
    range_km: Floats


class AllPairs(NamedTuple):
    """Shortest paths between all places, each array of shape (times, places, places).

    Attributes:
        rtt_ms: Round-trip time; infinite where unreachable, 0 from a place to itself.
        hops: Links traversed one way; 0 where unreachable and from a place to itself.
    """

    rtt_ms: Floats
    hops: NDArray[np.uint32]


@dataclass(frozen=True)
class Routes:
    """The shortest way between two places, step by step.

    Attributes:
        t_s: Seconds since the start.
        rtt_ms: Twice the path at the speed of light; NaN where there is no way.
        hops: Links traversed one way: satellites + 1; 0 where there is no way, and from a place to itself.
        satellites: Catalogue numbers in order from the first place to the second.
    """

    t_s: Floats
    rtt_ms: Floats
    hops: NDArray[np.uint64]
    satellites: list[list[int]]

    def to_rows(self) -> list[dict[str, Any]]:
        """A list of ``{t_s, rtt_ms, hops, satellites}``; `rtt_ms` is None where there is no way."""
        return [
            {
                "t_s": float(t),
                "rtt_ms": None if math.isnan(rtt) else round(float(rtt), 6),
                "hops": int(hops),
                "satellites": satellites,
            }
            for t, rtt, hops, satellites in zip(self.t_s, self.rtt_ms, self.hops, self.satellites, strict=True)
        ]

    def to_csv(self) -> str:
        """``t_s,rtt_ms,hops,satellites`` with a header; `rtt_ms` with six decimals, empty where there is no way."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["t_s", "rtt_ms", "hops", "satellites"])
        for t, rtt, hops, satellites in zip(self.t_s, self.rtt_ms, self.hops, self.satellites, strict=True):
            shown = "" if math.isnan(rtt) else f"{rtt:.6f}"
            writer.writerow([f"{t:.9f}".rstrip("0").rstrip("."), shown, int(hops), " ".join(map(str, satellites))])
        return text.getvalue()


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


def sky(
    satellites: Satellites, place: PlaceLike, at_unix_ns: int, *, min_elevation_deg: float = 25.0
) -> list[dict[str, Any]]:
    """Who stands above `min_elevation_deg` at a place and moment, highest first.

    Returns:
        A list of ``{norad_id, name, azimuth_deg, elevation_deg, range_km, sunlit}``: azimuth clockwise from north,
        elevation from the ellipsoid's horizontal plane; sunlit is outside the Earth's umbra.

    Raises:
        UserError: An elevation outside -90 to 90.
    """
    return satellites.sky(_point(place), at_unix_ns, min_elevation_deg)


def look_angles(satellites: Satellites, place: PlaceLike, times_unix_ns: ArrayLike) -> LookAngles:
    """Where every satellite stands at every time, SGP4 at each step, on all cores.

    Args:
        satellites: As of `read_elements` or `load_satellites`.
        place: The observer.
        times_unix_ns: Integer nanoseconds since 1970, one-dimensional.

    24 bytes for each satellite and time are needed; `look_angle_blocks` needs less.
    """
    times = _times(times_unix_ns)
    out = LookAngles(*(np.empty((len(satellites), times.size)) for _ in range(3)))
    satellites.look_angles(_point(place), times, 0, *out)
    return out


def look_angle_blocks(
    satellites: Satellites, place: PlaceLike, times_unix_ns: ArrayLike, *, satellites_per_block: int = 128
) -> Iterator[tuple[slice, LookAngles]]:
    """`look_angles` in portions: which satellites, and theirs.

    The arrays are the same memory every time, so that nothing is allocated on the way: use or copy them before the
    next.
    """
    if satellites_per_block < 1:
        raise UserError(f"satellites_per_block is {satellites_per_block}; wanted 1 or more")
    times = _times(times_unix_ns)
    arrays = [np.empty((min(satellites_per_block, len(satellites)), times.size)) for _ in range(3)]
    for first in range(0, len(satellites), satellites_per_block):
        count = min(satellites_per_block, len(satellites) - first)
        block = LookAngles(*(array[:count] for array in arrays))
        satellites.look_angles(_point(place), times, first, *block)
        yield slice(first, first + count), block


def route(
    origin: PlaceLike,
    to: PlaceLike,
    *,
    start_unix_ns: int | None = None,
    duration_s: float = 6000.0,
    step_s: float = 1.0,
    elements: str | os.PathLike[str] | None = None,
    constellation: str | None = None,
    isl: str | None = None,
    min_elevation_deg: float = 25.0,
    on_progress: OnProgress | None = None,
) -> Routes:
    """The shortest way between two places through a constellation, at every step from the start until before the end.

    Args:
        origin: One end: a `Place`, a site's name, ``"lat,lon[,alt_m]"`` or ``(lat, lon)``.
        to: The other.
        start_unix_ns: The first step [ns since 1970, UTC]. Needed with `elements`; otherwise `DEFAULT_START_UTC`.
        duration_s: How long [s].
        step_s: Time between steps [s].
        elements: A file of elements; or
        constellation: a built-in constellation, by default `DEFAULT_ROUTE`.
        isl: Links: ``grid:PLANESxPER_PLANE`` over elements in plane-major order, or ``none``. By default a built-in
            constellation's own, and none for elements: then a way has one satellite.
        min_elevation_deg: Lowest elevation at which a place uses a satellite.
        on_progress: Called with the part done, 0 to 1.

    Warns:
        StaleElementsWarning, OrbitWarning: As `load_satellites`; and where no satellite sees both places and there are
            no links.

    Raises:
        UserError: A duration or step that is not above zero, an unreadable file, a grid of another size, a link that
            passes through the Earth.
    """
    if start_unix_ns is None:
        start_unix_ns = default_start_unix_ns(elements)
    times = _steps(start_unix_ns, duration_s, step_s)
    in_order = isl is not None and isl.startswith("grid:")
    satellites = _linked(
        load_satellites(elements, constellation, start_unix_ns, default=DEFAULT_ROUTE, every_set=in_order), isl
    )
    rtt_ms, hops, used = satellites.routes(_point(origin), _point(to), times, min_elevation_deg, on_progress)
    missing = int(np.isnan(rtt_ms).sum())
    if missing and isl is None and not satellites.has_links:
        warnings.warn(
            f"no way in {missing} of {times.size} steps: the satellites have no links, so one must see both places; "
            "isl grid:PLANESxPER_PLANE links them",
            OrbitWarning,
            stacklevel=2,
        )
    return Routes((times - start_unix_ns) / _NANOS, rtt_ms, hops, used)


def constellation(
    places: Sequence[PlaceLike],
    times_unix_ns: ArrayLike,
    satellites: Satellites,
    *,
    min_elevation_deg: float = 25.0,
    threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> AllPairs:
    """The state of a whole constellation: shortest paths between all pairs of places at each time.

    Args:
        places: The ground stations.
        times_unix_ns: Integer nanoseconds since 1970.
        satellites: With their links: `load_satellites` of a built-in constellation, or
            ``.with_grid(planes, per_plane)``.
        min_elevation_deg: Lowest elevation at which a place uses a satellite.
        threads: Cores to use; all of them by default.
        on_progress: Called with the part done, 0 to 1.

    Raises:
        UserError: A link that passes through the Earth, an elevation outside 0 to 90.
    """
    points = [_point(place) for place in places]
    return AllPairs(*satellites.all_pairs(points, _times(times_unix_ns), min_elevation_deg, threads, on_progress))


def schedule(
    satellites: Satellites,
    place: PlaceLike,
    gateways: Sequence[tuple[str, Place, float]],
    *,
    start_unix_ns: int,
    duration_ns: int,
    min_elevation_deg: float = 25.0,
    gateway_min_elevation_deg: float = 25.0,
    gso_exclusion_deg: float = 18.0,
    slot_s: tuple[float, float] | None = None,
    policy: str = DEFAULT_POLICY,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> str:
    """Which satellite and gateway serve a terminal, slot by slot, with the geometry of both legs.

    A satellite is a candidate in a slot if it stands above the mask and clear of the geostationary arc at the slot's
    begin and end, and a gateway sees it at both. A slot without candidates is an outage. The decision about a slot
    depends on the slot, the satellites, the policy and the seed: not on where the schedule begins.

    Args:
        satellites: The constellation.
        place: The terminal.
        gateways: Name, place and one-way delay to the point of presence [ms] of each.
        start_unix_ns: Begin.
        duration_ns: Length.
        min_elevation_deg: Mask at the terminal.
        gateway_min_elevation_deg: Mask at the gateways.
        gso_exclusion_deg: Smallest angle to the geostationary arc at the terminal; Starlink keeps 18 to 22
            (arXiv 2307.00402); 0 ignores it.
        slot_s: Length of a slot and its begin past a multiple of the length [s]; by default 15 and 12, that is :12,
            :27, :42 and :57.
        policy: One of `policies`.
        seed: Of the policy's draws.
        on_progress: Called with the part done, 0 to 1.

    Returns:
        A serving schedule as JSON, as ``bentpipe._native.build_profile`` takes it (``docs/concepts/geometry.md``).

    Raises:
        UserError: An unknown policy, a length that is not above zero, an angle out of range.
    """
    known = policies()
    if policy not in known:
        raise UserError(f"no scheduling policy {shown(policy)}; there are {', '.join(known)}")
    if duration_ns <= 0:
        raise UserError(f"duration: {duration_ns / _NANOS:g} s; wanted more than 0")
    rows = [
        {
            "name": name,
            "site": {"lat_deg": at.lat_deg, "lon_deg": at.lon_deg, "alt_m": at.alt_m},
            "min_elevation_deg": gateway_min_elevation_deg,
            "to_pop_ms": to_pop_ms,
        }
        for name, at, to_pop_ms in gateways
    ]
    slot_ns = None
    if slot_s is not None:
        if not all(0 <= s < 1e6 for s in slot_s):
            raise UserError(f"slot: period {slot_s[0]:g} s, phase {slot_s[1]:g} s; wanted 0 or more")
        slot_ns = (round(slot_s[0] * _NANOS), round(slot_s[1] * _NANOS))
    return satellites.schedule(
        _point(place),
        start_unix_ns,
        duration_ns,
        json.dumps(rows),
        min_elevation_deg,
        gso_exclusion_deg,
        slot_ns,
        policy,
        seed,
        on_progress,
    )


def default_start_unix_ns(elements: str | os.PathLike[str] | None) -> int:
    """When things begin if nobody says [ns since 1970]: `DEFAULT_START_UTC`, never the clock.

    Raises:
        UserError: There are elements, whose satellites are right only near their epoch.
    """
    if elements is not None:
        raise UserError("start (--start): needed with elements, whose satellites are right only near their epoch")
    return parse_utc(DEFAULT_START_UTC)


def policies() -> dict[str, str]:
    """The scheduling policies: name and one line with the source."""
    return dict(_native.scheduling_policies())


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


def _linked(satellites: Satellites, isl: str | None) -> Satellites:
    if isl is None:
        return satellites
    if isl == "none":
        return satellites.without_links()
    match = _GRID.match(isl)
    if match is None:
        raise UserError(f"isl: {shown(isl)}; wanted grid:PLANESxPER_PLANE such as grid:72x22, or none")
    return satellites.with_grid(int(match[1]), int(match[2]))


def _steps(start_unix_ns: int, duration_s: float, step_s: float) -> NDArray[np.int64]:
    for what, value in (("duration", duration_s), ("step", step_s)):
        if not 0 < value < math.inf:
            raise UserError(f"{what}: {value:g} s; wanted more than 0")
        if value * _NANOS >= _END_OF_TIME_NS:
            raise UserError(f"{what}: {value:g} s from the start is beyond the year 2262")
    steps = round(duration_s / step_s, 9)
    step_ns = round(step_s * _NANOS)
    if steps > MAX_STEPS or step_ns == 0:
        raise UserError(f"{duration_s:g} s in steps of {step_s:g} s are {steps:.10g} steps; wanted at most {MAX_STEPS}")
    count = math.ceil(steps)
    if start_unix_ns + count * step_ns >= 2**63:
        raise UserError(f"duration: {duration_s:g} s from the start is beyond the year 2262")
    return start_unix_ns + np.arange(max(count, 1), dtype=np.int64) * step_ns


def _times(times_unix_ns: ArrayLike) -> NDArray[np.int64]:
    times = np.ascontiguousarray(times_unix_ns)
    if times.ndim != 1 or times.dtype.kind not in "iu":
        raise UserError(
            f"times: {times.ndim}-dimensional {times.dtype}; wanted one dimension of integer nanoseconds since 1970"
        )
    return times.astype(np.int64)


def _point(given: PlaceLike) -> tuple[float, float, float]:
    place = as_place(given)
    return place.lat_deg, place.lon_deg, place.alt_m
