"""Look angles of satellites from a place, and its serving schedule.

Conventions (``docs/concepts/geometry.md``): SGP4 with WGS72 constants, IAU 1982 sidereal time with UTC as UT1, no polar
motion, places on the WGS84 ellipsoid, elevation from the plane normal to it without refraction. Times are nanoseconds
since 1970-01-01T00:00:00Z (`bentpipe.times.parse_utc`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bentpipe import _native
from bentpipe._native import Satellites
from bentpipe.errors import UserError, shown
from bentpipe.orbits.elements import _NANOS, Floats, OnProgress
from bentpipe.scenarios.places import PlaceLike, as_place
from bentpipe.scenarios.sites import Place

#: Default scheduling policy.
DEFAULT_POLICY = "starlink-like"


class LookAngles(NamedTuple):
    """Azimuth, elevation [deg] and range [km], each of shape (satellites, times); NaN where propagation fails."""

    azimuth_deg: Floats
    elevation_deg: Floats
    range_km: Floats


def sky(
    satellites: Satellites, place: PlaceLike, at_unix_ns: int, *, min_elevation_deg: float = 25.0
) -> list[dict[str, Any]]:
    """Return the satellites above a minimum elevation at a place and time, highest first.

    Args:
        satellites: From `read_elements` or `load_satellites`.
        place: The observer.
        at_unix_ns: Time [ns since 1970].
        min_elevation_deg: Minimum elevation [deg].

    Returns:
        A list of ``{norad_id, name, azimuth_deg, elevation_deg, range_km, sunlit}``: azimuth clockwise from north,
        elevation from the ellipsoid's horizontal plane; sunlit means outside the Earth's umbra.

    Raises:
        UserError: The elevation is outside -90 to 90.

    Example:
        >>> from bentpipe.orbits.elements import load_satellites
        >>> from bentpipe.times import parse_utc
        >>> at_unix_ns = parse_utc("2026-05-10T00:00:00Z")
        >>> visible = sky(load_satellites(None, "starlink-gen1", at_unix_ns), "london", at_unix_ns)
        >>> visible[0]["elevation_deg"] >= visible[-1]["elevation_deg"] >= 25.0
        True
    """
    return satellites.sky(_point(place), at_unix_ns, min_elevation_deg)


def look_angles(satellites: Satellites, place: PlaceLike, times_unix_ns: ArrayLike) -> LookAngles:
    """Compute the look angles of every satellite at every time with SGP4, on all cores.

    This needs 24 bytes for each satellite and time; `look_angle_blocks` needs less.

    Args:
        satellites: From `read_elements` or `load_satellites`.
        place: The observer.
        times_unix_ns: Times [integer ns since 1970]; shape (n,).
    """
    times = _times(times_unix_ns)
    out = LookAngles(*(np.empty((len(satellites), times.size)) for _ in range(3)))
    satellites.look_angles(_point(place), times, 0, *out)
    return out


def look_angle_blocks(
    satellites: Satellites, place: PlaceLike, times_unix_ns: ArrayLike, *, satellites_per_block: int = 128
) -> Iterator[tuple[slice, LookAngles]]:
    """Yield `look_angles` in blocks: a slice of the satellites, and their angles.

    All blocks share the same memory to avoid allocation: use or copy the arrays before the next block.
    """
    if satellites_per_block < 1:
        raise UserError(f"satellites_per_block is {satellites_per_block}; expected 1 or more")
    times = _times(times_unix_ns)
    arrays = [np.empty((min(satellites_per_block, len(satellites)), times.size)) for _ in range(3)]
    for first in range(0, len(satellites), satellites_per_block):
        count = min(satellites_per_block, len(satellites) - first)
        block = LookAngles(*(array[:count] for array in arrays))
        satellites.look_angles(_point(place), times, first, *block)
        yield slice(first, first + count), block


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
    isl: str = "never",
    track: str | None = None,
    on_progress: OnProgress | None = None,
) -> str:
    """Choose serving satellite and gateway of a terminal for each slot, with the geometry of all links.

    A satellite is a candidate in a slot if it is above the minimum elevation and clear of the geostationary arc at the
    slot's begin and end, and a gateway sees it at both, or one sees a satellite that inter-satellite links connect to
    it. A slot without candidates is an outage. The choice for a slot depends on slot, satellites, policy and seed, not
    on the start of the schedule.

    Args:
        satellites: The constellation.
        place: The terminal.
        gateways: Name, place and one-way delay to the PoP [ms] of each gateway.
        start_unix_ns: Start [ns since 1970].
        duration_ns: Duration [ns].
        min_elevation_deg: Minimum elevation at the terminal [deg].
        gateway_min_elevation_deg: Minimum elevation at the gateways [deg].
        gso_exclusion_deg: Smallest angle to the geostationary arc at the terminal [deg]; Starlink uses 18 to 22
            (arXiv 2307.00402); 0: no exclusion.
        slot_s: Period of the slots and their phase [s]; default: 15 and 12, that is edges at :12, :27, :42 and :57.
        policy: One of `policies`.
        seed: Seed of the policy's random choices.
        isl: Inter-satellite links: ``never``; ``auto``: in slots in which no candidate sees a gateway; ``always``:
            wherever they shorten the path to the PoP.
        track: Points of a moving terminal as JSON (`bentpipe.orbits.tracks`); `place` is then where it starts.
        on_progress: Called with the fraction done, 0 to 1.

    Returns:
        A serving schedule as JSON, for ``bentpipe._native.build_profile`` (``docs/concepts/geometry.md``).

    Raises:
        UserError: An unknown policy, a length that is not above zero, an angle out of range.
    """
    known = policies()
    if policy not in known:
        raise UserError(f"policy: {shown(policy)} is unknown; expected {', '.join(known)}")
    if duration_ns <= 0:
        raise UserError(f"duration: {duration_ns / _NANOS:g} s; expected more than 0")
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
            raise UserError(f"slot: period {slot_s[0]:g} s, phase {slot_s[1]:g} s; expected 0 or more")
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
        isl,
        track,
        on_progress,
    )


def policies() -> dict[str, str]:
    """Return the scheduling policies: name → one line with the source."""
    return dict(_native.scheduling_policies())


def _times(times_unix_ns: ArrayLike) -> NDArray[np.int64]:
    times = np.ascontiguousarray(times_unix_ns)
    if times.ndim != 1 or times.dtype.kind not in "iu":
        raise UserError(
            f"times: {times.ndim}-dimensional {times.dtype}; expected one dimension of integer nanoseconds since 1970"
        )
    return times.astype(np.int64)


def _point(given: PlaceLike) -> tuple[float, float, float]:
    place = as_place(given)
    return place.lat_deg, place.lon_deg, place.alt_m
