"""The simulated terminal's obstruction map: painted second by second along the serving satellite's track."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.dish.obstruction import RIM_DEG, SIDE, pixels_of
from bentpipe.measurements.dish.simulation.world import World

#: Points painted per second, so that a satellite overhead (1 degree in a second at 550 km) leaves no gaps between
#: pixels of 1.3 degrees.
_POINTS_PER_S = 2


class PaintedMap:
    """A map in FRAME_EARTH. Clear where a satellite was heard, 0 where it was while the Profile says OBSTRUCTED.

    Attributes:
        quality: Shape (SIDE, SIDE).
        since_s: When it was last cleared [s since the Profile's first start].
        seen: Pixels that are painted; `blocked`: those of them that are 0.
    """

    def __init__(self, world: World, since_s: int) -> None:
        """An empty map."""
        self._seconds = world.seconds
        self._pixels = _pixels(world)
        second = np.arange(world.seconds)
        self._hidden = np.zeros(world.seconds, dtype=bool)
        for loss in world.losses:
            if loss.cause == "OBSTRUCTED":
                self._hidden |= (second >= loss.start_s - 0.5) & (second < loss.start_s + loss.duration_s)
        self._hidden_before = np.concatenate([[0], np.cumsum(self._hidden)])
        self.clear(since_s)

    def clear(self, now_s: int) -> None:
        """Forgets everything."""
        self.quality: NDArray[np.float32] = np.full((SIDE, SIDE), -1.0, dtype=np.float32)
        self.since_s = self._painted_s = now_s
        self.seen = self.blocked = 0

    def paint_to(self, now_s: int) -> None:
        """Adds what was seen until now."""
        # What is a turn older painted the same pixels.
        first = max(self._painted_s, now_s - self._seconds)
        if first >= now_s:
            return
        within = np.arange(first, now_s) % self._seconds
        pixels = self._pixels[within]
        values = np.broadcast_to(np.where(self._hidden[within], 0.0, 1.0)[:, None], pixels.shape)
        self.quality.ravel()[pixels[pixels >= 0]] = values[pixels >= 0]
        self.seen = int(np.count_nonzero(self.quality >= 0))
        self.blocked = self.seen - int(np.count_nonzero(self.quality > 0))
        self._painted_s = now_s

    def seconds_blocked(self) -> int:
        """For how long the Profile said OBSTRUCTED since it was cleared."""
        return self._hidden_until(self._painted_s) - self._hidden_until(self.since_s)

    def wedges(self) -> list[float]:
        """The part of what was seen that is blocked, in twelve wedges of 30 degrees from north to the east."""
        row, column = np.nonzero(self.quality >= 0)
        north, east = (SIDE - 1) / 2 - row, column - (SIDE - 1) / 2
        wedge = (np.degrees(np.arctan2(east, north)) % 360.0 // 30).astype(int)
        seen = np.bincount(wedge, minlength=12)
        blocked = np.bincount(wedge, weights=self.quality[row, column] <= 0, minlength=12)
        parts: list[float] = (blocked / np.maximum(seen, 1)).tolist()
        return parts

    def _hidden_until(self, at_s: int) -> int:
        turns, within = divmod(at_s, self._seconds)
        return turns * int(self._hidden_before[-1]) + int(self._hidden_before[within])


def _pixels(world: World) -> NDArray[np.int64]:
    """Places in the flat map that each second of the Profile paints, -1 for none; shape (seconds, points)."""
    azimuth, elevation = world.track
    after = np.minimum(np.arange(world.seconds) + 1, world.seconds - 1)
    goes_on = world.serving == world.serving[after]
    turn = np.where(goes_on, (azimuth[after] - azimuth + 180.0) % 360.0 - 180.0, 0.0)
    climb = np.where(goes_on, elevation[after] - elevation, 0.0)
    points = np.full((world.seconds, _POINTS_PER_S), -1, dtype=np.int64)
    for part in range(_POINTS_PER_S):
        az, el = azimuth + turn * part / _POINTS_PER_S, elevation + climb * part / _POINTS_PER_S
        shown = np.flatnonzero(el >= 90.0 - RIM_DEG)
        row, column = pixels_of(az[shown], el[shown])
        points[shown, part] = row * SIDE + column
    return points
