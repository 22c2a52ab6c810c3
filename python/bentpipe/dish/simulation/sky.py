"""The simulated terminal's obstruction map: painted second by second along the serving satellite's track."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe.dish.obstruction import RIM_DEG, SIDE, pixels_of
from bentpipe.dish.simulation.world import World

#: Seconds that are painted at once; bounds the memory after a long time without a question.
_CHUNK_S = 3600
#: Points painted per second, so that a satellite overhead (1 degree in a second at 550 km) leaves no gaps between
#: pixels of 1.3 degrees.
_POINTS_PER_S = 2


class PaintedMap:
    """A map in FRAME_EARTH. Clear where a satellite was heard, 0 where it was while the Profile says OBSTRUCTED.

    Attributes:
        quality: Shape (SIDE, SIDE).
        since_s: When it was last cleared [s since the Profile's first start].
        seen: Pixels that are painted; `blocked`: those of them that are 0.
        seconds_blocked: How long the Profile said OBSTRUCTED meanwhile.
    """

    def __init__(self, world: World, since_s: int) -> None:
        """An empty map."""
        self._world = world
        self._blocked = [
            (loss.start_s, loss.start_s + loss.duration_s) for loss in world.losses if loss.cause == "OBSTRUCTED"
        ]
        self.clear(since_s)

    def clear(self, now_s: int) -> None:
        """Forgets everything."""
        self.quality: NDArray[np.float32] = np.full((SIDE, SIDE), -1.0, dtype=np.float32)
        self.since_s = self._painted_s = now_s
        self.seconds_blocked = self.seen = self.blocked = 0

    def paint_to(self, now_s: int) -> None:
        """Adds what was seen until now."""
        # What repeats paints the same pixels again.
        first = max(self._painted_s, now_s - 2 * self._world.seconds)
        if first >= now_s:
            return
        for begin in range(first, now_s, _CHUNK_S):
            self._paint(np.arange(begin, min(begin + _CHUNK_S, now_s)))
        self.seen = int(np.count_nonzero(self.quality >= 0))
        self.blocked = self.seen - int(np.count_nonzero(self.quality > 0))
        self._painted_s = max(self._painted_s, now_s)

    def wedges(self) -> list[float]:
        """The part of what was seen that is blocked, in twelve wedges of 30 degrees from north to the east."""
        row, column = np.nonzero(self.quality >= 0)
        north, east = (SIDE - 1) / 2 - row, column - (SIDE - 1) / 2
        wedge = (np.degrees(np.arctan2(east, north)) % 360.0 // 30).astype(int)
        seen = np.bincount(wedge, minlength=12)
        blocked = np.bincount(wedge, weights=self.quality[row, column] <= 0, minlength=12)
        parts: list[float] = (blocked / np.maximum(seen, 1)).tolist()
        return parts

    def _paint(self, seconds: NDArray[np.int64]) -> None:
        within = seconds % self._world.seconds
        azimuth, elevation = self._world.track[:, within]
        same = self._world.serving[within]
        after = (within + 1) % self._world.seconds
        goes_on = (same == self._world.serving[after]) & (after > within)
        turn = (self._world.track[0, after] - azimuth + 180.0) % 360.0 - 180.0
        climb = self._world.track[1, after] - elevation
        blocked = np.zeros(len(within), dtype=bool)
        for begin, end in self._blocked:
            blocked |= (within >= begin - 0.5) & (within < end)
        self.seconds_blocked += int(blocked.sum())
        for part in range(_POINTS_PER_S):
            share = part / _POINTS_PER_S
            keep = ~np.isnan(azimuth) & (goes_on | (part == 0))
            az = (azimuth + share * np.where(keep, turn, 0.0))[keep] if part else azimuth[keep]
            el = (elevation + share * np.where(keep, climb, 0.0))[keep] if part else elevation[keep]
            inside = el >= 90.0 - RIM_DEG
            row, column = pixels_of(az[inside], el[inside])
            self.quality[row, column] = np.where(blocked[keep][inside], 0.0, 1.0)
