"""Estimate a terminal's orientation: the rotation that matches painted pixels to satellites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.serving.candidates import Sky
from bentpipe.measurements.serving.tracks import Track

Floats = NDArray[np.float64]

#: Steps of the search over azimuth, tilt and rotation about the boresight [deg], and the largest tilt. Chosen here:
#: the refinement converges from twice as far, and terminals point to an elevation of 63 degrees or more (LEOViz, May
#: 2025).
GRID_DEG, MAX_TILT_DEG = 6.0, 42.0
#: Number of slots in the search and in the refinement, spread over the record. Chosen here: enough for one estimate.
SEARCHED, REFINED = 40, 400
#: Smallest number of slots: fewer can fit by chance. Each sighting must be at most `SHORT_S` long. Chosen here.
MIN_SLOTS, SHORT_S = 12, 2.5
#: A slot fits if a satellite is this near [deg]; an orientation is accepted if this share of the slots fits. Chosen
#: here, between the share at Louvain (93 %) and the share there with elements of another time (4 %).
FIT_DEG, MIN_FIT_SHARE = 2.0, 0.5

#: Largest correction of the terminal's own attitude [deg]: the worst attitude uncertainty in published dumps is
#: 7.4.
MAX_CORRECTION_DEG = 8.0
#: Each step of the refinement uses the slots with a satellite this near [deg]: from the grid, and from the terminal's
#: own attitude.
_FROM_FAR_DEG = (12.0, 8.0, 5.0, 3.0, FIT_DEG, FIT_DEG, FIT_DEG)
_NEAR_DEG = (4.0, 3.0, FIT_DEG, FIT_DEG)


@dataclass(frozen=True)
class Orientation:
    """Orientation of a stationary terminal.

    Attributes:
        axes: Axes of the map (up, right, out) in ground coordinates (north, east, up), one a row; shape (3, 3). Their
            handedness is -1 for maps viewed from the other side, as FRAME_UT is.
        fitting: Share of the slots in which a satellite is within `FIT_DEG`.
    """

    axes: Floats
    fitting: float

    def turn(self, vectors: Floats, _unix_ns: NDArray[np.int64]) -> Floats:
        """Rotate vectors of the map to ground coordinates."""
        turned: Floats = vectors @ self.axes
        return turned

    @property
    def boresight(self) -> Floats:
        """Direction of the boresight in ground coordinates."""
        out: Floats = self.axes[2]
        return out


def find_orientation(tracks: Sequence[Track], skies: Sequence[Sky]) -> Orientation:
    """Find the orientation that fits most slots.

    Args:
        tracks: Sightings of each slot, in the map's frame.
        skies: Candidate satellites of the same slots.

    Raises:
        UserError: There are too few slots, or no orientation fits enough of them.
    """
    usable = [
        (t, s)
        for t, s in zip(tracks, skies, strict=True)
        if t.is_short(SHORT_S) and len(t.vectors) > 2 and len(s.index)
    ]
    if len(usable) < MIN_SLOTS:
        raise UserError(
            f"the terminal's attitude is not in the data, and {len(usable)} slots with short sightings are too few;"
            f" expected {MIN_SLOTS}, or maps in FRAME_EARTH, or the terminal's quaternions"
        )
    few = [match_pairs(t, s) for t, s in _spread(usable, SEARCHED)]
    many = [match_pairs(t, s) for t, s in _spread(usable, REFINED)]
    grid = _grid()
    best = max(
        (refine_orientation(axes, many) for axes in _search(grid, few)), key=lambda orientation: orientation.fitting
    )
    if best.fitting < MIN_FIT_SHARE:
        raise UserError(
            f"the terminal's attitude is not in the data, and the best one fits {best.fitting:.0%} of the slots: "
            "place, time or elements may be wrong"
        )
    return best


def correct_orientation(tracks: Sequence[Track], skies: Sequence[Sky]) -> Orientation | None:
    """Find the rotation that corrects the terminal's own attitude; None if the satellites do not determine it.

    Args:
        tracks: Sightings of each slot, in ground coordinates by the terminal's attitude.
        skies: Candidate satellites of the same slots.
    """
    usable = [
        (t, s)
        for t, s in zip(tracks, skies, strict=True)
        if t.is_short(SHORT_S) and len(t.vectors) > 2 and len(s.index)
    ]
    if len(usable) < MIN_SLOTS:
        return None
    orientation = refine_orientation(np.eye(3), [match_pairs(t, s) for t, s in _spread(usable, REFINED)], _NEAR_DEG)
    rotation_deg = np.degrees(np.arccos(np.clip((np.trace(orientation.axes) - 1) / 2, -1.0, 1.0)))
    return orientation if orientation.fitting >= MIN_FIT_SHARE and rotation_deg <= MAX_CORRECTION_DEG else None


def refine_orientation(
    axes: Floats, pairs: Sequence[tuple[Floats, Floats]], steps_deg: tuple[float, ...] = _FROM_FAR_DEG
) -> Orientation:
    """Refine an orientation by least squares over the slots that fit (Kabsch, Acta Cryst. A32 (1976) 922)."""
    mirror = np.sign(np.linalg.det(axes))
    for within_deg in steps_deg:
        sightings, matches = [], []
        for vectors, directions in pairs:
            apart = _rms_deg(vectors @ axes, directions)
            nearest = int(apart.argmin())
            if apart[nearest] <= within_deg:
                sightings.append(vectors)
                matches.append(directions[nearest])
        if len(sightings) < 3:
            break
        u, _, vt = np.linalg.svd(np.concatenate(sightings).T @ np.concatenate(matches))
        axes = u @ np.diag([1.0, 1.0, mirror * np.linalg.det(u @ vt)]) @ vt
    near = [_rms_deg(vectors @ axes, directions).min() for vectors, directions in pairs]
    return Orientation(axes, float(np.mean(np.array(near) <= FIT_DEG)))


def match_pairs(track: Track, sky: Sky) -> tuple[Floats, Floats]:
    """Return up to five sightings of a slot, (n, 3), and the satellites' directions then, (satellites, n, 3)."""
    some = np.unique(np.linspace(0, len(track.vectors) - 1, 5).astype(int))
    return track.vectors[some], sky.at((track.begin_s[some] + track.end_s[some]) / 2)


def _rms_deg(vectors: Floats, directions: Floats) -> Floats:
    apart: Floats = np.degrees(np.sqrt(((directions - vectors) ** 2).sum(axis=2).mean(axis=1)))
    return apart


def _spread(slots: list[tuple[Track, Sky]], count: int) -> list[tuple[Track, Sky]]:
    return [slots[i] for i in np.unique(np.linspace(0, len(slots) - 1, count).astype(int))]


def _search(grid: Floats, pairs: Sequence[tuple[Floats, Floats]], keep: int = 8) -> Floats:
    """Return the rotations of a grid with which most slots have a satellite near, best first; shape (keep, 3, 3)."""
    scores = np.zeros(len(grid))
    for vectors, directions in pairs:
        # Mean cosine between rotated vectors and tracks: a product of 9 numbers each.
        both = np.einsum("nk,mnc->mkc", vectors, directions).reshape(len(directions), 9) / len(vectors)
        for first in range(0, len(grid), 16384):
            part = slice(first, first + 16384)
            nearest = (grid[part].reshape(-1, 9) @ both.T).max(axis=1)
            apart = np.degrees(np.sqrt(np.maximum(2 - 2 * nearest, 0.0)))
            scores[part] += np.exp(-0.5 * (apart / (GRID_DEG * 0.75)) ** 2)
    return grid[np.argsort(-scores, kind="stable")[:keep]]


def _grid() -> Floats:
    """Return candidate axes: both hands, all azimuths, tilts up to `MAX_TILT_DEG`, all rotations of the image."""
    circle, tilts = np.arange(0.0, 360.0, GRID_DEG), np.arange(0.0, MAX_TILT_DEG + 1, GRID_DEG)
    azimuth, tilt, spin = (a.ravel() for a in np.radians(np.meshgrid(circle, tilts, circle, indexing="ij")))
    one, none = np.ones_like(azimuth), np.zeros_like(azimuth)

    def about_up(angle: Floats) -> Floats:
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([np.stack([c, s, none], -1), np.stack([-s, c, none], -1), np.stack([none, none, one], -1)], -2)

    c, s = np.cos(tilt), np.sin(tilt)
    lean = np.stack([np.stack([c, none, -s], -1), np.stack([none, one, none], -1), np.stack([s, none, c], -1)], -2)
    turned = about_up(spin) @ lean @ about_up(azimuth)
    return np.concatenate([turned, np.diag([1.0, -1.0, 1.0]) @ turned])
