"""Estimate the serving satellite of the current slot from successive obstruction maps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe import _native
from bentpipe.measurements.dish.display import ServingSatellite
from bentpipe.measurements.dish.obstruction import RIM_DEG, ObstructionMap
from bentpipe.measurements.dish.slots import slot_of
from bentpipe.measurements.serving.candidates import Sky, skies
from bentpipe.measurements.serving.confidence import NONE_SHARE, evidence, posterior
from bentpipe.measurements.serving.frames import Attitudes, Floats
from bentpipe.measurements.serving.matching import MIN_ELEVATION_DEG, answer
from bentpipe.measurements.serving.sightings import painted
from bentpipe.measurements.serving.tracks import distances, tracks
from bentpipe.scenarios.sites import Place

Quaternion = tuple[float, float, float, float]


class LiveEstimator:
    """Estimates the serving satellite of the current slot from the pixels painted so far, like `by_map` for a record.

    A record also gives the share of slots without a known satellite, and the along-track errors of the elements. Here
    the defaults of `bentpipe.measurements.serving.confidence` are used. A map in the terminal's frame needs its
    quaternion; maps in an unknown frame give no estimate.
    """

    def __init__(
        self, satellites: _native.Satellites, place: Place, min_elevation_deg: float = MIN_ELEVATION_DEG
    ) -> None:
        """Start without maps."""
        self._satellites, self._place, self._min_elevation_deg = satellites, place, min_elevation_deg
        self._elements = satellites.elements()
        self._maps: list[tuple[int, NDArray[np.float32]]] = []
        self._attitudes: list[tuple[int, Quaternion]] = []
        self._slot = -1
        self._sky: Sky | None = None
        self._estimate: ServingSatellite | None = None

    def update(
        self, t_unix_ns: int, obstruction_map: ObstructionMap, quaternion: Quaternion | None
    ) -> ServingSatellite | None:
        """Return the serving satellite according to this map and earlier ones of the slot; None if unknown.

        Args:
            t_unix_ns: Time of the map [ns since 1970].
            obstruction_map: The map.
            quaternion: Attitude of the terminal: scalar, x, y, z; None: not reported.
        """
        slot = slot_of(t_unix_ns)
        if slot != self._slot:
            self._slot, self._sky, self._estimate = slot, None, None
            self._maps, self._attitudes = self._maps[-1:], self._attitudes[-1:]
        self._maps.append((t_unix_ns, obstruction_map.quality))
        if quaternion is not None:
            self._attitudes.append((t_unix_ns, quaternion))
        turn = self._to_ground
        if obstruction_map.frame == "FRAME_EARTH":
            turn = _unchanged
        elif obstruction_map.frame != "FRAME_UT" or len(self._attitudes) < 2:
            return None
        slots = painted(self._maps, obstruction_map.max_theta_deg or RIM_DEG)
        here = [track for track in tracks(slots, turn) if slot_of(track.start_unix_ns) == slot]
        if not here:
            return self._estimate
        if self._sky is None:
            (self._sky,) = skies(self._satellites, self._place, [here[0].start_unix_ns], self._min_elevation_deg)
        apart = distances(here[0], self._sky)
        estimate = answer(
            here[0].start_unix_ns,
            self._sky,
            posterior(evidence(apart), NONE_SHARE),
            self._elements,
            apart.nearest_deg,
        )
        self._estimate = None
        if estimate.norad_id is not None and estimate.name is not None:
            self._estimate = ServingSatellite(estimate.name, estimate.norad_id, estimate.confidence)
        return self._estimate

    def _to_ground(self, vectors: Floats, unix_ns: NDArray[np.int64]) -> Floats:
        times, quaternions = zip(*self._attitudes, strict=True)
        return Attitudes(np.array(times), np.array(quaternions)).turn(vectors, unix_ns)


def _unchanged(vectors: Floats, unix_ns: NDArray[np.int64]) -> Floats:
    del unix_ns
    return vectors
