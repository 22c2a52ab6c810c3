"""Obstruction map of the simulated terminal, painted second by second along the serving satellite's track."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.dish.obstruction import RIM_DEG, SIDE, directions_to_pixels
from bentpipe.measurements.dish.simulation.environment import DishEnvironment

#: Points painted per second, so that a satellite overhead (1 degree in a second at 550 km) leaves no gaps between
#: pixels of 1.3 degrees.
_POINTS_PER_S = 2


class SimulatedMap:
    """A map in FRAME_EARTH: clear along the satellite's track, 0 while the Profile has an obstruction.

    Attributes:
        quality: Shape (SIDE, SIDE).
        since_s: Time of the last clearing [s since the Profile's first start].
        painted: Number of painted pixels.
        blocked: Number of painted pixels that are 0.
    """

    def __init__(self, world: DishEnvironment, since_s: int) -> None:
        """Start with an empty map."""
        self._seconds = world.seconds
        self._pixels = _pixels(world)
        second = np.arange(world.seconds)
        self._obstructed = np.zeros(world.seconds, dtype=bool)
        for loss in world.losses:
            if loss.cause == "OBSTRUCTED":
                self._obstructed |= (second >= loss.start_s - 0.5) & (second < loss.start_s + loss.duration_s)
        self._obstructed_before = np.concatenate([[0], np.cumsum(self._obstructed)])
        self.clear(since_s)

    def clear(self, now_s: int) -> None:
        """Clear the map."""
        self.quality: NDArray[np.float32] = np.full((SIDE, SIDE), -1.0, dtype=np.float32)
        self.since_s = self._painted_s = now_s
        self.painted = self.blocked = 0

    def paint_to(self, now_s: int) -> None:
        """Paint the track until now."""
        # Earlier repetitions painted the same pixels.
        first = max(self._painted_s, now_s - self._seconds)
        if first >= now_s:
            return
        within = np.arange(first, now_s) % self._seconds
        pixels = self._pixels[within]
        values = np.broadcast_to(np.where(self._obstructed[within], 0.0, 1.0)[:, None], pixels.shape)
        self.quality.ravel()[pixels[pixels >= 0]] = values[pixels >= 0]
        self.painted = int(np.count_nonzero(self.quality >= 0))
        self.blocked = self.painted - int(np.count_nonzero(self.quality > 0))
        self._painted_s = now_s

    def seconds_blocked(self) -> int:
        """Return the obstructed time since the map was cleared [s]."""
        return self._obstructed_until(self._painted_s) - self._obstructed_until(self.since_s)

    def wedges(self) -> list[float]:
        """Return the blocked share of painted pixels in twelve wedges of 30 degrees, from north to the east."""
        row, column = np.nonzero(self.quality >= 0)
        north, east = (SIDE - 1) / 2 - row, column - (SIDE - 1) / 2
        wedge = (np.degrees(np.arctan2(east, north)) % 360.0 // 30).astype(int)
        painted = np.bincount(wedge, minlength=12)
        blocked = np.bincount(wedge, weights=self.quality[row, column] <= 0, minlength=12)
        parts: list[float] = (blocked / np.maximum(painted, 1)).tolist()
        return parts

    def _obstructed_until(self, at_s: int) -> int:
        turns, within = divmod(at_s, self._seconds)
        return turns * int(self._obstructed_before[-1]) + int(self._obstructed_before[within])


def _pixels(world: DishEnvironment) -> NDArray[np.int64]:
    """Return the flat pixel indices that each second of the Profile paints, -1 for none; shape (seconds, points)."""
    azimuth, elevation = world.track
    after = np.minimum(np.arange(world.seconds) + 1, world.seconds - 1)
    continues = world.serving == world.serving[after]
    turn = np.where(continues, (azimuth[after] - azimuth + 180.0) % 360.0 - 180.0, 0.0)
    climb = np.where(continues, elevation[after] - elevation, 0.0)
    points = np.full((world.seconds, _POINTS_PER_S), -1, dtype=np.int64)
    for part in range(_POINTS_PER_S):
        az, el = azimuth + turn * part / _POINTS_PER_S, elevation + climb * part / _POINTS_PER_S
        visible = np.flatnonzero(el >= 90.0 - RIM_DEG)
        row, column = directions_to_pixels(az[visible], el[visible])
        points[visible, part] = row * SIDE + column
    return points
