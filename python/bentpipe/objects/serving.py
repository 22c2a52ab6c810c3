"""The serving satellite of each slot, from a terminal's obstruction maps or from RTTs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from bentpipe.errors import UserError
from bentpipe.measurements.serving.elements import MAX_DAYS, load_elements
from bentpipe.measurements.serving.frames import vectors_to_sky
from bentpipe.measurements.serving.inputs import read_maps, read_pings
from bentpipe.measurements.serving.matching import MIN_ELEVATION_DEG, Answer, by_map
from bentpipe.measurements.serving.rtt import by_rtt
from bentpipe.objects import arguments
from bentpipe.scenarios.places import as_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import polars as pl

    from bentpipe.objects.arguments import FileLike
    from bentpipe.scenarios.places import PlaceLike
    from bentpipe.scenarios.sites import Place

    OnProgress = Callable[[float], None]


@dataclass(frozen=True)
class Serving:
    """The serving satellite of each slot with usable data.

    Attributes:
        answers: One for each slot with usable data, in order.
        notes: Facts about the data, one line each.
    """

    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()

    def to_polars(self) -> pl.DataFrame:
        """Return one row for each slot: start, satellite, confidence, runner-up."""
        import polars as pl

        return pl.DataFrame([answer.to_dict() for answer in self.answers], infer_schema_length=None)

    def __iter__(self) -> Iterator[Answer]:
        """Iterate over the slots."""
        return iter(self.answers)

    def __len__(self) -> int:
        """Return the number of slots."""
        return len(self.answers)

    def __repr__(self) -> str:
        """Return one line: slots and satellites."""
        named = [answer for answer in self.answers if answer.norad_id is not None]
        mean = sum(answer.confidence for answer in named) / max(len(named), 1)
        return f"<Serving: {len(self.answers)} slots, a satellite named in {len(named)}, mean confidence {mean:.2f}>"


def serving(
    data: FileLike,
    elements: FileLike,
    *,
    method: Literal["obstruction-map", "rtt"] = "obstruction-map",
    site: PlaceLike | None = None,
    gateways: Sequence[PlaceLike] = (),
    min_elevation: float | None = None,
    on_progress: Callable[[float], object] | None = None,
) -> Serving:
    """Identify each slot's serving satellite, with its confidence and the runner-up.

    Args:
        data: A dish recording, a measured Run, maps or pings (``docs/reference/serving.md``).
        elements: Orbital elements of the day: TLE or OMM, plain or gzipped.
        method: Data to infer the satellite from: the terminal's obstruction maps, or RTTs.
        site: Place of the terminal; needed with ``rtt``, and where the maps have none.
        gateways: With ``rtt``: places of gateways.
        min_elevation: With maps: lowest elevation of a candidate [deg]; default: 20.
        on_progress: Called with the share done, 0 to 1.

    Warns:
        UserWarning: The data are not to be trusted, or slots are too far from the elements' epoch.

    Raises:
        UserError: There is no such data, or an argument is wrong.

    Example:
        >>> import bentpipe as bp
        >>> slots = bp.serving("recording/", "starlink.tle.gz")  # doctest: +SKIP
        >>> slots.to_polars()["satellite", "confidence"]  # doctest: +SKIP
    """
    path, elements_file = arguments.file(data, "data"), arguments.file(elements, "elements")
    place = None if site is None else as_place(site)
    progress = arguments.callback(on_progress, "on_progress")
    if arguments.choice(method, "method", ("obstruction-map", "rtt")) == "rtt":
        if min_elevation is not None:
            raise UserError(
                "rtt with a minimum elevation, but it has the terminals' own",
                where="method",
                expected="obstruction-map",
            )
        return _by_rtt(path, elements_file, place, [as_place(each) for each in gateways], progress)
    if gateways:
        raise UserError("obstruction-map with gateways, which it does not need", where="method", expected="rtt")
    lowest_deg = MIN_ELEVATION_DEG if min_elevation is None else arguments.number(min_elevation, "min_elevation")
    return _by_map(path, elements_file, place, lowest_deg, progress)


def _by_map(
    data: Path, elements: Path, place: Place | None, min_elevation_deg: float, on_progress: OnProgress
) -> Serving:
    maps = read_maps(data)
    for line in maps.warnings:
        warnings.warn(line, UserWarning, stacklevel=3)
    place = place or maps.place
    if place is None:
        raise UserError("has no place of the terminal", where=str(data), expected="`site`")
    slots = maps.painted.slots
    if not slots:
        raise UserError(
            "no map adds a track to the previous one", where=str(data), expected="maps that are reset now and then"
        )
    satellites, near = load_elements(elements, [slot.start_unix_ns for slot in slots])
    _warn_of_distant(int((~near).sum()), "slots")
    painted = replace(maps.painted, slots=[slot for slot, is_near in zip(slots, near, strict=True) if is_near])
    answers, standing = by_map(
        painted,
        maps.frame,
        satellites,
        place,
        attitudes=maps.attitudes,
        min_elevation_deg=min_elevation_deg,
        on_progress=on_progress,
    )
    notes = []
    if standing is not None:
        azimuth, elevation = vectors_to_sky(standing.boresight)
        notes.append(f"the map's centre points to azimuth {azimuth:.1f}, elevation {elevation:.1f} degrees")
    if maps.painted.silent:
        notes.append(f"{maps.painted.silent} slots without a new track in the map are excluded")
    return Serving(tuple(answers), tuple(notes))


def _by_rtt(
    data: Path, elements: Path, place: Place | None, gateways: Sequence[Place], on_progress: OnProgress
) -> Serving:
    if place is None:
        raise UserError("none given", where="site", expected="the terminal's place, which pings do not record")
    pings = read_pings(data)
    satellites, near = load_elements(elements, pings.times_unix_ns)
    _warn_of_distant(int((~near).sum()), "probes")
    answers = by_rtt(pings.only(near), satellites, place, gateways=gateways, on_progress=on_progress)
    return Serving(tuple(answers))


def _warn_of_distant(count: int, kind: str) -> None:
    if count:
        warnings.warn(
            f"{count} {kind} are more than {MAX_DAYS:g} days from the elements' epoch and are excluded",
            UserWarning,
            stacklevel=4,
        )
