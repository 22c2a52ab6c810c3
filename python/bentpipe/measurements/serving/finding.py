"""Which satellite served in each slot: the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bentpipe import _native
from bentpipe.measurements.serving.aligning import Standing, corrected, find_standing
from bentpipe.measurements.serving.candidates import Sky, skies
from bentpipe.measurements.serving.confidence import posteriors
from bentpipe.measurements.serving.frames import Attitudes, Floats
from bentpipe.measurements.serving.sightings import Painted
from bentpipe.measurements.serving.tracks import distances, tracks
from bentpipe.scenarios.sites import Place
from bentpipe.times import format_utc

OnProgress = Callable[[float], object]

#: Lowest elevation of a candidate [deg] unless one is given. Starlink's terminals use 25 and more (arXiv:2307.00402); 5
#: less, for a terminal that does not know exactly how it stands.
MIN_ELEVATION_DEG = 20.0


@dataclass(frozen=True)
class Answer:
    """Who served in one slot.

    Attributes:
        slot_start_unix_ns: The slot's begin.
        norad_id: Catalogue number of the most probable satellite; None: none of the elements.
        name: Its name.
        confidence: Probability that this is right.
        runner_up: Catalogue number of the satellite that is most probable after it; None: there is nobody else.
        runner_up_confidence: Its probability.
        distance_deg: Root mean square distance of what was painted from the way of the most probable satellite, at most
            `bentpipe.measurements.serving.tracks.CAP_DEG`, or of the nearest where none is named; None without maps or
            satellites.
    """

    slot_start_unix_ns: int
    norad_id: int | None
    name: str | None
    confidence: float
    runner_up: int | None
    runner_up_confidence: float
    distance_deg: float | None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
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
    painted: Painted,
    frame: str,
    satellites: _native.Satellites,
    place: Place,
    *,
    attitudes: Attitudes | None = None,
    min_elevation_deg: float = MIN_ELEVATION_DEG,
    on_progress: OnProgress = lambda _: None,
) -> tuple[list[Answer], Standing | None]:
    """The serving satellites of the slots in which something was painted, and the standing that was found or corrected.

    Args:
        painted: The differences of the maps.
        frame: FRAME_EARTH, FRAME_UT or FRAME_UNKNOWN.
        satellites: Who may have served.
        place: Where the terminal stood.
        attitudes: How it stood, for FRAME_UT; without them it must have stood still, and is found.
        min_elevation_deg: Lowest elevation of a candidate.
        on_progress: Called with the part done, 0 to 1.

    Raises:
        UserError: The standing is needed and not found.
    """
    standing, still = None, frame != "FRAME_EARTH" and (frame != "FRAME_UT" or attitudes is None)
    if frame == "FRAME_EARTH" or still:
        found = tracks(painted, lambda vectors, _: vectors)
    else:
        assert attitudes is not None
        found = tracks(painted, attitudes.turn)
    up: list[Sky] = []
    for sky in skies(satellites, place, [track.start_unix_ns for track in found], min_elevation_deg):
        up.append(sky)
        on_progress(0.6 * len(up) / len(found))
    if still:
        standing = find_standing(found, up)
        found = tracks(painted, standing.turn)
    elif frame == "FRAME_EARTH" and (standing := corrected(found, up)) is not None:
        found = tracks(painted, standing.turn)
    elements = satellites.elements()
    apart = []
    for track, sky in zip(found, up, strict=True):
        apart.append(distances(track, sky))
        on_progress(0.6 + 0.4 * len(apart) / len(found))
    answers = [
        answer(track.start_unix_ns, sky, probability, elements, slot.nearest_deg)
        for track, sky, probability, slot in zip(found, up, posteriors(apart), apart, strict=True)
    ]
    return answers, standing


def answer(
    start_unix_ns: int, sky: Sky, probability: Floats, elements: dict[str, Any], rms_deg: Floats | None = None
) -> Answer:
    """The most probable of a slot and the satellite after it; the last of `probability` is none of them."""
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
