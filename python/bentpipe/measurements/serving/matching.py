"""Identify the serving satellite of each slot from obstruction maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bentpipe import _native
from bentpipe.measurements.serving.candidates import Sky, skies
from bentpipe.measurements.serving.confidence import slot_posteriors
from bentpipe.measurements.serving.frames import Attitudes, Floats
from bentpipe.measurements.serving.orientation import Orientation, correct_orientation, find_orientation
from bentpipe.measurements.serving.sightings import PaintedSlots
from bentpipe.measurements.serving.tracks import distances, tracks
from bentpipe.scenarios.sites import Place
from bentpipe.times import format_utc

OnProgress = Callable[[float], object]

#: Default minimum elevation of a candidate [deg]. Starlink's terminals use 25 and more (arXiv:2307.00402); 5
#: less, because the terminal's attitude is inexact.
MIN_ELEVATION_DEG = 20.0


@dataclass(frozen=True)
class Answer:
    """The serving satellite of one slot.

    Attributes:
        slot_start_unix_ns: Begin of the slot [ns since 1970].
        norad_id: Catalogue number of the most probable satellite; None: none of the elements.
        name: Its name.
        confidence: Probability that this is right.
        runner_up: Catalogue number of the next most probable satellite; None: there is no other.
        runner_up_confidence: Its probability.
        distance_deg: Root mean square distance of the painted pixels from the track of the most probable satellite (at
            most `bentpipe.measurements.serving.tracks.CAP_DEG`), or of the nearest if none is identified; None without
            maps or satellites.
    """

    slot_start_unix_ns: int
    norad_id: int | None
    name: str | None
    confidence: float
    runner_up: int | None
    runner_up_confidence: float
    distance_deg: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer ready for JSON."""
        return {
            "slot_start": format_utc(self.slot_start_unix_ns),
            "norad_id": self.norad_id,
            "confidence": round(self.confidence, 4),
            "runner_up": self.runner_up,
            "runner_up_confidence": round(self.runner_up_confidence, 4),
            "name": self.name,
            "distance_deg": None if self.distance_deg is None else round(self.distance_deg, 2),
        }


def by_map(
    painted: PaintedSlots,
    frame: str,
    satellites: _native.Satellites,
    place: Place,
    *,
    attitudes: Attitudes | None = None,
    min_elevation_deg: float = MIN_ELEVATION_DEG,
    on_progress: OnProgress = lambda _: None,
) -> tuple[list[Answer], Orientation | None]:
    """Identify the serving satellite of each slot with newly painted pixels.

    Args:
        painted: Newly painted pixels of each slot.
        frame: FRAME_EARTH, FRAME_UT or FRAME_UNKNOWN.
        satellites: The candidates.
        place: Place of the terminal.
        attitudes: Attitudes for FRAME_UT; without them the terminal must be stationary, and its orientation is
            estimated.
        min_elevation_deg: Minimum elevation of a candidate [deg].
        on_progress: Called with the fraction done, 0 to 1.

    Returns:
        The answers by slot, and the estimated or corrected orientation of the terminal, if any.

    Raises:
        UserError: The orientation is needed and cannot be estimated.
    """
    orientation, is_stationary = None, frame != "FRAME_EARTH" and (frame != "FRAME_UT" or attitudes is None)
    if frame == "FRAME_EARTH" or is_stationary:
        slots = tracks(painted, lambda vectors, _: vectors)
    else:
        assert attitudes is not None
        slots = tracks(painted, attitudes.turn)
    up: list[Sky] = []
    for sky in skies(satellites, place, [track.start_unix_ns for track in slots], min_elevation_deg):
        up.append(sky)
        on_progress(0.6 * len(up) / len(slots))
    if is_stationary:
        orientation = find_orientation(slots, up)
        slots = tracks(painted, orientation.turn)
    elif frame == "FRAME_EARTH" and (orientation := correct_orientation(slots, up)) is not None:
        slots = tracks(painted, orientation.turn)
    elements = satellites.elements()
    apart = []
    for track, sky in zip(slots, up, strict=True):
        apart.append(distances(track, sky))
        on_progress(0.6 + 0.4 * len(apart) / len(slots))
    answers = [
        answer(track.start_unix_ns, sky, probability, elements, slot.nearest_deg)
        for track, sky, probability, slot in zip(slots, up, slot_posteriors(apart), apart, strict=True)
    ]
    return answers, orientation


def answer(
    start_unix_ns: int, sky: Sky, probability: Floats, elements: dict[str, Any], rms_deg: Floats | None = None
) -> Answer:
    """Return the most probable satellite of a slot and the next one; the last of `probability` is "none"."""
    none = len(probability) - 1
    first = int(probability.argmax())
    others = np.argsort(-probability[:none], kind="stable")
    second = next((int(k) for k in others if k != first), None)
    nearest = None if rms_deg is None or not len(rms_deg) else float(rms_deg[first] if first != none else rms_deg.min())
    return Answer(
        start_unix_ns,
        None if first == none else int(elements["norad_id"][sky.index[first]]),
        None if first == none else str(elements["name"][sky.index[first]]).strip(),
        float(probability[first]),
        None if second is None else int(elements["norad_id"][sky.index[second]]),
        0.0 if second is None else float(probability[second]),
        nearest,
    )
