"""Which satellite serves now: one obstruction map after the other, while the slot is under way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe import _native
from bentpipe.measurements.dish.obstruction import RIM_DEG, ObstructionMap
from bentpipe.measurements.dish.slots import slot_of
from bentpipe.measurements.dish.watching import Named
from bentpipe.measurements.serving.candidates import Sky, skies
from bentpipe.measurements.serving.confidence import NONE_SHARE, evidence, posterior
from bentpipe.measurements.serving.finding import MIN_ELEVATION_DEG, answer
from bentpipe.measurements.serving.frames import Attitudes, Floats
from bentpipe.measurements.serving.sightings import painted
from bentpipe.measurements.serving.tracks import distances, tracks
from bentpipe.scenarios.sites import Place

Quaternion = tuple[float, float, float, float]


class Watching:
    """Answers for the slot that is under way as `by_map` does for those of a record, from what was painted so far.

    A record knows more: how often none of the elements serves, and how far satellites are ahead of theirs. Here the
    shares of `bentpipe.measurements.serving.confidence` stand for that. A map in the terminal's own frame needs its
    quaternion; of a frame that is not known nothing is said.
    """

    def __init__(
        self, satellites: _native.Satellites, place: Place, min_elevation_deg: float = MIN_ELEVATION_DEG
    ) -> None:
        """Nothing was seen yet."""
        self._satellites, self._place, self._least_deg = satellites, place, min_elevation_deg
        self._elements = satellites.elements()
        self._maps: list[tuple[int, NDArray[np.float32]]] = []
        self._stood: list[tuple[int, Quaternion]] = []
        self._slot = -1
        self._sky: Sky | None = None
        self._named: Named | None = None

    def look(self, t_unix_ns: int, seen: ObstructionMap, quaternion: Quaternion | None) -> Named | None:
        """The satellite that serves, as far as this map and those before it in the slot tell; None: none that is known.

        Args:
            t_unix_ns: When the map was asked for.
            seen: It.
            quaternion: How the terminal stood then: scalar, x, y, z; None: it does not say.
        """
        slot = slot_of(t_unix_ns)
        if slot != self._slot:
            self._slot, self._sky, self._named = slot, None, None
            self._maps, self._stood = self._maps[-1:], self._stood[-1:]
        self._maps.append((t_unix_ns, seen.quality))
        if quaternion is not None:
            self._stood.append((t_unix_ns, quaternion))
        turn = self._over_the_ground
        if seen.frame == "FRAME_EARTH":
            turn = _as_it_is
        elif seen.frame != "FRAME_UT" or len(self._stood) < 2:
            return None
        found = painted(self._maps, seen.max_theta_deg or RIM_DEG)
        here = [track for track in tracks(found, turn) if slot_of(track.start_unix_ns) == slot]
        if not here:
            return self._named
        if self._sky is None:
            (self._sky,) = skies(self._satellites, self._place, [here[0].start_unix_ns], self._least_deg)
        apart = distances(here[0], self._sky)
        told = answer(
            here[0].start_unix_ns,
            self._sky,
            posterior(evidence(apart), NONE_SHARE),
            self._elements,
            apart.nearest_deg,
        )
        self._named = None
        if told.norad_id is not None and told.name is not None:
            self._named = Named(told.name, told.norad_id, told.confidence)
        return self._named

    def _over_the_ground(self, vectors: Floats, unix_ns: NDArray[np.int64]) -> Floats:
        times, stood = zip(*self._stood, strict=True)
        return Attitudes(np.array(times), np.array(stood)).turn(vectors, unix_ns)


def _as_it_is(vectors: Floats, unix_ns: NDArray[np.int64]) -> Floats:
    del unix_ns
    return vectors
