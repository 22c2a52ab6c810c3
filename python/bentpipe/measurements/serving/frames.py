"""Directions: of a map's pixels, in the frame of the map and over the ground.

Vectors are rows. Over the ground their axes are north, east and up. In a map's frame they are up in the image, right in
the image, and out of the terminal; in FRAME_EARTH that is the same, for its maps have north up and east right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Longest time between two attitudes that one between them is interpolated over [s]. Chosen here: a terminal on the
#: move turns by tens of degrees in that time (LEOViz, Victoria, May 2025: polled every 0.8 s, at worst 3.8 s apart).
MOST_BETWEEN_S = 5.0


def of_sky(azimuth_deg: Floats, elevation_deg: Floats) -> Floats:
    """Unit vectors over the ground; shape of the arguments, and 3."""
    azimuth, elevation = np.radians(azimuth_deg), np.radians(elevation_deg)
    flat = np.cos(elevation)
    return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=-1)


def to_sky(vectors: Floats) -> tuple[Floats, Floats]:
    """Azimuth 0 to 360 and elevation [deg]."""
    azimuth = np.degrees(np.arctan2(vectors[..., 1], vectors[..., 0])) % 360.0
    return azimuth, np.degrees(np.arcsin(np.clip(vectors[..., 2], -1.0, 1.0)))


def of_pixels(row: NDArray[np.int64], column: NDArray[np.int64], shape: tuple[int, int], rim_deg: float) -> Floats:
    """Unit vectors in the map's frame of the middles of pixels; shape (pixels, 3).

    Args:
        row: From 0 at the image's top.
        column: From 0 at the left.
        shape: Rows and columns of the map.
        rim_deg: Angle from the middle to the rim, which touches the map's edges.
    """
    up, right = (shape[0] - 1) / 2 - row, column - (shape[1] - 1) / 2
    away = np.radians(np.hypot(up, right) * rim_deg / (max(shape) / 2))
    around = np.arctan2(right, up)
    return np.stack([np.sin(away) * np.cos(around), np.sin(away) * np.sin(around), np.cos(away)], axis=-1)


def to_pixels(vectors: Floats, shape: tuple[int, int], rim_deg: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of unit vectors in the map's frame; beyond the rim they are outside of the map."""
    away = np.degrees(np.arccos(np.clip(vectors[..., 2], -1.0, 1.0))) * (max(shape) / 2) / rim_deg
    around = np.arctan2(vectors[..., 1], vectors[..., 0])
    row = np.rint((shape[0] - 1) / 2 - away * np.cos(around)).astype(np.int64)
    return row, np.rint((shape[1] - 1) / 2 + away * np.sin(around)).astype(np.int64)


@dataclass(frozen=True)
class Attitudes:
    """How a terminal stood: quaternions that turn its axes to north, east and down.

    The third axis is the boresight. In a FRAME_UT map the first is left in the image and the second up: of the eight
    ways to lay an image on two axes the only one that puts satellites where the maps of a moving terminal have them
    (LEOViz, Victoria, May 2025; ``docs/concepts/serving.md``).

    Attributes:
        unix_ns: When, not decreasing; shape (n,).
        quaternion: Scalar, x, y, z; shape (n, 4).
    """

    unix_ns: NDArray[np.int64]
    quaternion: Floats

    def turn(self, vectors: Floats, unix_ns: NDArray[np.int64]) -> Floats:
        """Vectors of a FRAME_UT map over the ground, each at its time; NaN where the attitude is not known then."""
        at = np.searchsorted(self.unix_ns, unix_ns).clip(1, len(self.unix_ns) - 1)
        before, after = self.unix_ns[at - 1], self.unix_ns[at]
        first, second = self.quaternion[at - 1], self.quaternion[at]
        second = second * np.where((first * second).sum(axis=1) < 0, -1.0, 1.0)[:, None]
        part = ((unix_ns - before) / np.maximum(after - before, 1)).clip(0.0, 1.0)[:, None]
        q = first * (1 - part) + second * part
        q /= np.linalg.norm(q, axis=1, keepdims=True)
        known = (np.minimum(abs(unix_ns - before), abs(unix_ns - after)) <= MOST_BETWEEN_S * 1e9) & (
            (after - before <= MOST_BETWEEN_S * 1e9) | (part[:, 0] <= 0) | (part[:, 0] >= 1)
        )
        body = np.stack([-vectors[:, 1], vectors[:, 0], vectors[:, 2]], axis=1)
        scalar, axis = q[:, :1], q[:, 1:]
        crossed = 2 * np.cross(axis, body)
        turned: Floats = body + scalar * crossed + np.cross(axis, crossed)
        turned[:, 2] *= -1.0  # down to up
        turned[~known] = np.nan
        return turned
