"""Shortest paths through a constellation with inter-satellite links, at the speed of light in vacuum."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bentpipe._native import Satellites
from bentpipe.errors import UserError, shown
from bentpipe.orbits.elements import (
    _END_OF_TIME_NS,
    _NANOS,
    DEFAULT_ROUTE,
    Floats,
    OnProgress,
    OrbitWarning,
    default_start_unix_ns,
    load_satellites,
)
from bentpipe.orbits.sky import _point, _times
from bentpipe.scenarios.places import PlaceLike

#: Largest number of steps of a series. Chosen here, to catch typing errors: a week at one a second.
MAX_STEPS = 7 * 86_400

_GRID = re.compile(r"grid:([1-9][0-9]{0,4})x([1-9][0-9]{0,4})\Z")


class AllPairs(NamedTuple):
    """Shortest paths between all places, each array of shape (times, places, places).

    Attributes:
        rtt_ms: RTT; infinite where unreachable, 0 from a place to itself.
        hops: Links traversed one way; 0 where unreachable and from a place to itself.
    """

    rtt_ms: Floats
    hops: NDArray[np.uint32]


@dataclass(frozen=True)
class Routes:
    """Shortest paths between two places over time.

    Attributes:
        t_s: Times [s since the start]; shape (n,).
        rtt_ms: RTT at the speed of light [ms]; NaN: no path; shape (n,).
        hops: Links traversed one way: satellites + 1; 0 without a path, and from a place to itself; shape (n,).
        satellites: Catalogue numbers from the first place to the second; one list a step.
    """

    t_s: Floats
    rtt_ms: Floats
    hops: NDArray[np.uint64]
    satellites: list[list[int]]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a list of ``{t_s, rtt_ms, hops, satellites}``; `rtt_ms` is None without a path."""
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
        """Return CSV ``t_s,rtt_ms,hops,satellites`` with a header; `rtt_ms` has six decimals, empty without a path."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["t_s", "rtt_ms", "hops", "satellites"])
        for t, rtt, hops, satellites in zip(self.t_s, self.rtt_ms, self.hops, self.satellites, strict=True):
            rtt_text = "" if math.isnan(rtt) else f"{rtt:.6f}"
            writer.writerow([f"{t:.9f}".rstrip("0").rstrip("."), rtt_text, int(hops), " ".join(map(str, satellites))])
        return text.getvalue()


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
    """Find the shortest path between two places through a constellation, at every step in [start, end).

    Args:
        origin: One end: a `Place`, a site's name, ``"lat,lon[,alt_m]"`` or ``(lat, lon)``.
        to: The other end.
        start_unix_ns: The first step [ns since 1970, UTC]. Required with `elements`; default: `DEFAULT_START_UTC`.
        duration_s: Duration [s].
        step_s: Time between steps [s].
        elements: A file of elements; not together with `constellation`.
        constellation: A built-in constellation; default: `DEFAULT_ROUTE`.
        isl: Inter-satellite links: ``grid:PLANESxPER_PLANE`` over elements in plane-major order, or ``none``. Default:
            those of the built-in constellation, and none for elements, where a path then has one satellite.
        min_elevation_deg: Minimum elevation at which a place uses a satellite [deg].
        on_progress: Called with the fraction done, 0 to 1.

    Returns:
        RTT [ms], hops and satellites at each step.

    Warns:
        StaleElementsWarning, OrbitWarning: As `load_satellites`; and if there are no links and no satellite sees both
            places.

    Raises:
        UserError: A duration or step that is not above zero, an unreadable file, a grid of another size, a link that
            passes through the Earth.

    Example:
        >>> result = route("london", "new-york", duration_s=2.0)
        >>> len(result.rtt_ms), bool(result.rtt_ms[0] > 37)
        (2, True)
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
            f"no path in {missing} of {times.size} steps: the satellites have no links, so one must see both places; "
            "try isl grid:PLANESxPER_PLANE",
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
    """Find the shortest paths between all pairs of places through a constellation, at each time.

    Args:
        places: The ground stations.
        times_unix_ns: Times [integer ns since 1970]; shape (n,).
        satellites: Satellites with links: `load_satellites` of a built-in constellation, or
            ``.with_grid(planes, per_plane)``.
        min_elevation_deg: Minimum elevation at which a place uses a satellite [deg].
        threads: Number of threads; default: one for each core.
        on_progress: Called with the fraction done, 0 to 1.

    Raises:
        UserError: A link that passes through the Earth, an elevation outside 0 to 90.
    """
    points = [_point(place) for place in places]
    return AllPairs(*satellites.all_pairs(points, _times(times_unix_ns), min_elevation_deg, threads, on_progress))


def _linked(satellites: Satellites, isl: str | None) -> Satellites:
    if isl is None:
        return satellites
    if isl == "none":
        return satellites.without_links()
    match = _GRID.match(isl)
    if match is None:
        raise UserError(f"isl: {shown(isl)}; expected grid:PLANESxPER_PLANE such as grid:72x22, or none")
    return satellites.with_grid(int(match[1]), int(match[2]))


def _steps(start_unix_ns: int, duration_s: float, step_s: float) -> NDArray[np.int64]:
    for label, value in (("duration", duration_s), ("step", step_s)):
        if not 0 < value < math.inf:
            raise UserError(f"{label}: {value:g} s; expected more than 0")
        if value * _NANOS >= _END_OF_TIME_NS:
            raise UserError(f"{label}: {value:g} s from the start is beyond the year 2262")
    steps = round(duration_s / step_s, 9)
    step_ns = round(step_s * _NANOS)
    if steps > MAX_STEPS or step_ns == 0:
        raise UserError(
            f"{duration_s:g} s in steps of {step_s:g} s are {steps:.10g} steps; expected at most {MAX_STEPS}"
        )
    count = math.ceil(steps)
    if start_unix_ns + count * step_ns >= 2**63:
        raise UserError(f"duration: {duration_s:g} s from the start is beyond the year 2262")
    return start_unix_ns + np.arange(max(count, 1), dtype=np.int64) * step_ns
