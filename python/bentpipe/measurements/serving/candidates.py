"""Candidate satellites of each slot: those above the minimum elevation, with their tracks across the sky."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bentpipe import _native
from bentpipe.measurements.serving.frames import sky_to_vectors
from bentpipe.orbits import sky
from bentpipe.scenarios.sites import Place
from bentpipe.times import SLOT_S

Floats = NDArray[np.float64]

#: Number of slots computed at once: an hour of them, some 100 MB for 10,000 satellites.
BATCH = 240
#: Times of a slot at which SGP4 is evaluated [s]. Between them positions follow a parabola: at worst 0.01 degrees off,
#: for a satellite at 550 km in the zenith (a third of the cube of 7.5 s times the third derivative of atan(v t / h)).
KNOTS_S = (0.0, SLOT_S / 2, float(SLOT_S))


@dataclass(frozen=True)
class Sky:
    """Candidate satellites of one slot.

    Attributes:
        index: Indices of the satellites; shape (n,).
        knots: Unit vectors in ground coordinates at `KNOTS_S`; shape (n, 3, 3): satellite, knot, axis.
        range_km: Distances [km] at `KNOTS_S`; shape (n, 3).
    """

    index: NDArray[np.int64]
    knots: Floats
    range_km: Floats

    def at(self, t_s: Floats, which: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """Return unit vectors of the satellites `which` at times since the slot's begin [s]; shape (n, times, 3)."""
        path: Floats = np.matmul(weights(t_s), self.knots[which])
        path /= np.linalg.norm(path, axis=2, keepdims=True)
        return path


def weights(t_s: Floats) -> Floats:
    """Return the weights of the knots of the parabola at each time; shape (times, 3)."""
    x = np.asarray(t_s) / KNOTS_S[1]
    return np.stack([(x - 1) * (x - 2) / 2, x * (2 - x), x * (x - 1) / 2], axis=-1)


def skies(
    satellites: _native.Satellites, place: Place, starts_unix_ns: Sequence[int], min_elevation_deg: float
) -> Iterator[Sky]:
    """Yield the candidates of each slot, in order: satellites above `min_elevation_deg` in its middle."""
    for first in range(0, len(starts_unix_ns), BATCH):
        starts = np.asarray(starts_unix_ns[first : first + BATCH], dtype=np.int64)
        knot_times = starts[:, None] + np.round(np.array(KNOTS_S) * 1e9).astype(np.int64)
        times, place_of = np.unique(knot_times, return_inverse=True)
        place_of = place_of.reshape(knot_times.shape)
        blocks: list[list[NDArray[Any]]] = []
        for block, angles in sky.look_angle_blocks(satellites, place, times):
            up, slot = np.nonzero(angles.elevation_deg[:, place_of[:, 1]] >= min_elevation_deg)
            at = place_of[slot]
            chosen = [a[up[:, None], at] for a in angles]
            blocks.append([slot, up + block.start, *chosen])
        slot, index, azimuth, elevation, range_km = (np.concatenate(part) for part in zip(*blocks, strict=True))
        whole = np.isfinite(elevation).all(axis=1)
        slot, index, azimuth, elevation, range_km = (a[whole] for a in (slot, index, azimuth, elevation, range_km))
        order = np.argsort(slot, kind="stable")
        cuts = np.searchsorted(slot[order], np.arange(1, len(starts)))
        vectors = sky_to_vectors(azimuth, elevation)
        for here in np.split(order, cuts):
            yield Sky(index[here], vectors[here], range_km[here])
