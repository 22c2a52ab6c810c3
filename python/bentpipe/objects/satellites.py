"""Satellites above a place, and the shortest path through a constellation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.objects import arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from bentpipe.objects.arguments import DurationLike, FileLike, TimeLike
    from bentpipe.orbits.routes import Routes
    from bentpipe.scenarios.places import PlaceLike


def sky(
    site: PlaceLike,
    at: TimeLike,
    *,
    elements: FileLike | None = None,
    constellation: str | None = None,
    min_elevation: float = 25.0,
) -> pl.DataFrame:
    """Return the satellites above a place at one time, highest first.

    Args:
        site: The observer: a name of `bentpipe.sites`, or ``(lat, lon)`` [deg].
        at: The time.
        elements: Orbital elements: TLE or OMM, plain or gzipped.
        constellation: A name of `bentpipe.constellations`; default: starlink-gen1. Not with `elements`.
        min_elevation: Lowest elevation of a listed satellite [deg].

    Returns:
        `norad_id`, `name`, `azimuth_deg` (clockwise from north), `elevation_deg`, `range_km`, `sunlit`.

    Raises:
        UserError: An unknown place or constellation, an unreadable file, or a value out of range.

    Example:
        >>> import bentpipe as bp
        >>> bp.sky("london", "2026-05-10T09:00Z", min_elevation=40)["elevation_deg"].min() >= 40
        True
    """
    import polars as pl

    from bentpipe.orbits.elements import load_satellites
    from bentpipe.orbits.sky import sky as satellites_above
    from bentpipe.scenarios.places import as_place

    at_unix_ns = arguments.unix_ns(at, "at")
    file = None if elements is None else arguments.file(elements, "elements")
    satellites = load_satellites(file, arguments.optional_text(constellation, "constellation"), at_unix_ns)
    lowest_deg = arguments.number(min_elevation, "min_elevation")
    return pl.DataFrame(
        satellites_above(satellites, as_place(site), at_unix_ns, min_elevation_deg=lowest_deg),
        schema={
            "norad_id": pl.Int64,
            "name": pl.String,
            "azimuth_deg": pl.Float64,
            "elevation_deg": pl.Float64,
            "range_km": pl.Float64,
            "sunlit": pl.Boolean,
        },
    )


def route(
    origin: PlaceLike,
    to: PlaceLike,
    *,
    start: TimeLike | None = None,
    duration: DurationLike = 6000.0,
    step: DurationLike = 1.0,
    constellation: str | None = None,
    elements: FileLike | None = None,
    isl: str | None = None,
    min_elevation: float = 25.0,
    on_progress: Callable[[float], object] | None = None,
) -> Routes:
    """Find the shortest path between two places through a constellation, at every step in [start, end).

    Args:
        origin: One end: a name of `bentpipe.sites`, or ``(lat, lon)`` [deg].
        to: The other end.
        start: The first step; default: 2026-05-10T09:00:00Z. Needed with `elements`.
        duration: Duration.
        step: Time between steps.
        constellation: A name of `bentpipe.constellations`; default: starlink-s1. Not with `elements`.
        elements: Orbital elements: TLE or OMM, plain or gzipped.
        isl: Inter-satellite links: ``grid:PLANESxPER_PLANE`` over elements in plane-major order, or ``none``. Default:
            those of the constellation, and none for elements.
        min_elevation: Lowest elevation at which a place uses a satellite [deg].
        on_progress: Called with the share done, 0 to 1.

    Returns:
        `t_s`, `rtt_ms` (NaN: no path), `hops`, and `satellites` of each step.

    Warns:
        UserWarning: Elements are days old, or no satellite without links sees both places.

    Raises:
        UserError: An unknown name, an unreadable file, or a value out of range.

    Example:
        >>> import bentpipe as bp
        >>> bp.route("london", (40.71, -74.01), duration=1).rtt_ms.round()[0] > 37
        np.True_
    """
    from bentpipe.orbits import routes

    return routes.route(
        origin,
        to,
        start_unix_ns=None if start is None else arguments.unix_ns(start, "start"),
        duration_s=arguments.seconds(duration, "duration"),
        step_s=arguments.seconds(step, "step"),
        elements=None if elements is None else arguments.file(elements, "elements"),
        constellation=arguments.optional_text(constellation, "constellation"),
        isl=arguments.optional_text(isl, "isl"),
        min_elevation_deg=arguments.number(min_elevation, "min_elevation"),
        on_progress=on_progress,
    )
