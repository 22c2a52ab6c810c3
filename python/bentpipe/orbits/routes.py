"""Shortest paths through a constellation with inter-satellite links; light travels straight at c in vacuum."""

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

#: Most steps of a series of routes or states. Chosen here, to catch slips of the keyboard: a week at one a second.
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
