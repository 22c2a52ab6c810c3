"""Convert between map pixels, directions in the map's frame, and directions in ground coordinates.

Vectors are rows. Axes of ground coordinates are north, east and up. Axes of a map's frame are up in the image, right in
the image, and out of the terminal; in FRAME_EARTH both agree, because its maps have north up and east right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Longest time between two attitudes that are interpolated [s]. Chosen here: a terminal on the
#: move turns by tens of degrees in that time (LEOViz, Victoria, May 2025: polled every 0.8 s, at worst 3.8 s apart).
MAX_INTERPOLATION_S = 5.0


def sky_to_vectors(azimuth_deg: Floats, elevation_deg: Floats) -> Floats:
    """Convert azimuth and elevation [deg] to unit vectors in ground coordinates; shape (..., 3)."""
    azimuth, elevation = np.radians(azimuth_deg), np.radians(elevation_deg)
    flat = np.cos(elevation)
    return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=-1)


def vectors_to_sky(vectors: Floats) -> tuple[Floats, Floats]:
    """Convert unit vectors to azimuth (0 to 360) and elevation [deg]."""
    azimuth = np.degrees(np.arctan2(vectors[..., 1], vectors[..., 0])) % 360.0
    return azimuth, np.degrees(np.arcsin(np.clip(vectors[..., 2], -1.0, 1.0)))


def pixels_to_vectors(
    row: NDArray[np.int64], column: NDArray[np.int64], shape: tuple[int, int], rim_deg: float
) -> Floats:
    """Convert pixel centres to unit vectors in the map's frame; shape (pixels, 3).

    Args:
        row: Row, from 0 at the top.
        column: Column, from 0 at the left.
        shape: Rows and columns of the map.
        rim_deg: Angle from the middle to the rim, which touches the map's edges.
    """
    up, right = (shape[0] - 1) / 2 - row, column - (shape[1] - 1) / 2
    away = np.radians(np.hypot(up, right) * rim_deg / (max(shape) / 2))
    around = np.arctan2(right, up)
    return np.stack([np.sin(away) * np.cos(around), np.sin(away) * np.sin(around), np.cos(away)], axis=-1)


def vectors_to_pixels(
    vectors: Floats, shape: tuple[int, int], rim_deg: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Convert unit vectors in the map's frame to rows and columns; beyond the rim they are outside the map."""
    away = np.degrees(np.arccos(np.clip(vectors[..., 2], -1.0, 1.0))) * (max(shape) / 2) / rim_deg
    around = np.arctan2(vectors[..., 1], vectors[..., 0])
    row = np.rint((shape[0] - 1) / 2 - away * np.cos(around)).astype(np.int64)
    return row, np.rint((shape[1] - 1) / 2 + away * np.sin(around)).astype(np.int64)


@dataclass(frozen=True)
class Attitudes:
    """Attitudes of a terminal over time: quaternions that rotate its axes to north, east and down.

    The third axis is the boresight. In a FRAME_UT map the first is left in the image and the second up: of the eight
    possible assignments the only one that matches satellites to the maps of a moving terminal (LEOViz, Victoria, May
    2025; ``docs/concepts/serving.md``).

    Attributes:
        unix_ns: Times [ns since 1970], not decreasing; shape (n,).
        quaternion: Scalar, x, y, z; shape (n, 4).
    """

    unix_ns: NDArray[np.int64]
    quaternion: Floats

    def turn(self, vectors: Floats, unix_ns: NDArray[np.int64]) -> Floats:
        """Rotate vectors of a FRAME_UT map to ground coordinates, each at its time; NaN: unknown attitude."""
        at = np.searchsorted(self.unix_ns, unix_ns).clip(1, len(self.unix_ns) - 1)
        before, after = self.unix_ns[at - 1], self.unix_ns[at]
        first, second = self.quaternion[at - 1], self.quaternion[at]
        second = second * np.where((first * second).sum(axis=1) < 0, -1.0, 1.0)[:, None]
        part = ((unix_ns - before) / np.maximum(after - before, 1)).clip(0.0, 1.0)[:, None]
        q = first * (1 - part) + second * part
        q /= np.linalg.norm(q, axis=1, keepdims=True)
        known = (np.minimum(abs(unix_ns - before), abs(unix_ns - after)) <= MAX_INTERPOLATION_S * 1e9) & (
            (after - before <= MAX_INTERPOLATION_S * 1e9) | (part[:, 0] <= 0) | (part[:, 0] >= 1)
        )
        body = np.stack([-vectors[:, 1], vectors[:, 0], vectors[:, 2]], axis=1)
        scalar, axis = q[:, :1], q[:, 1:]
        crossed = 2 * np.cross(axis, body)
        turned: Floats = body + scalar * crossed + np.cross(axis, crossed)
        turned[:, 2] *= -1.0  # down to up
        turned[~known] = np.nan
        return turned
