"""How a terminal stands, found from what it painted: the one turn that puts satellites where it heard them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.serving.candidates import Sky
from bentpipe.measurements.serving.tracks import Track

Floats = NDArray[np.float64]

#: Steps of the search over azimuth, tilt and turn about the boresight [deg], and the largest tilt. Chosen here: the
#: refinement finds the best from twice as far off, and terminals are told to look 63 degrees high or higher (LEOViz,
#: May 2025).
GRID_DEG, MOST_TILT_DEG = 6.0, 42.0
#: Slots that the search uses, and that the refinement uses, spread over the record. Chosen here: enough for one answer.
SEARCHED, REFINED = 40, 400
#: Fewer slots than this are not searched: with few, chance fits them. Sightings must not have taken longer than
#: `SHORT_S` there. Chosen here.
FEWEST, SHORT_S = 12, 2.5
#: A slot fits if a satellite is this near [deg], and a standing is found if so large a part of the slots fit. Chosen
#: here, between what is found at Louvain (93 %) and what is found there with elements of another time (4 %).
FIT_DEG, FITTING = 2.0, 0.5

#: A terminal's own idea is corrected by no more than this [deg]: the worst attitude uncertainty in published dumps is
#: 7.4.
MOST_CORRECTED_DEG = 8.0
#: Which slots count in each step of the refinement: those with a satellite so near [deg]. From the grid, and from a
#: terminal's own idea.
_FROM_FAR_DEG = (12.0, 8.0, 5.0, 3.0, FIT_DEG, FIT_DEG, FIT_DEG)
_NEAR_DEG = (4.0, 3.0, FIT_DEG, FIT_DEG)


@dataclass(frozen=True)
class Standing:
    """A terminal that does not move.

    Attributes:
        axes: The axes of its map over the ground, one a row: up, right, out; shape (3, 3). Their handedness is -1 with
            directions to north, east and up where the map is seen from the other side, as FRAME_UT is.
        fitting: Part of the slots in which a satellite stands within `FIT_DEG`.
    """

    axes: Floats
    fitting: float

    def turn(self, vectors: Floats, _unix_ns: NDArray[np.int64]) -> Floats:
        """Vectors of the map over the ground."""
        turned: Floats = vectors @ self.axes
        return turned

    @property
    def boresight(self) -> Floats:
        """Where it looks."""
        out: Floats = self.axes[2]
        return out


def find_standing(tracks: Sequence[Track], skies: Sequence[Sky]) -> Standing:
    """The standing that fits most slots.

    Args:
        tracks: With vectors still in the map's frame.
        skies: Of the same slots.

    Raises:
        UserError: Too few slots, or none fits enough of them.
    """
    usable = [
        (t, s) for t, s in zip(tracks, skies, strict=True) if t.short(SHORT_S) and len(t.vectors) > 2 and len(s.index)
    ]
    if len(usable) < FEWEST:
        raise UserError(
            f"how the terminal stands is not in the data, and {len(usable)} slots of short looks are too few for it;"
            f" wanted {FEWEST}, or maps in FRAME_EARTH, or the terminal's quaternions"
        )
    few = [pairs_of(t, s) for t, s in _spread(usable, SEARCHED)]
    many = [pairs_of(t, s) for t, s in _spread(usable, REFINED)]
    grid = _grid()
    best = max((refined(turned, many) for turned in _search(grid, few)), key=lambda standing: standing.fitting)
    if best.fitting < FITTING:
        raise UserError(
            f"how the terminal stands is not in the data, and the best there is fits {best.fitting:.0%} of the slots: "
            "the place, the time or the elements are others"
        )
    return best


def corrected(tracks: Sequence[Track], skies: Sequence[Sky]) -> Standing | None:
    """What turns a terminal's own idea of north and up to the right one; None: its satellites do not show it.

    Args:
        tracks: Over the ground, as the terminal has it.
        skies: Of the same slots.
    """
    usable = [
        (t, s) for t, s in zip(tracks, skies, strict=True) if t.short(SHORT_S) and len(t.vectors) > 2 and len(s.index)
    ]
    if len(usable) < FEWEST:
        return None
    found = refined(np.eye(3), [pairs_of(t, s) for t, s in _spread(usable, REFINED)], _NEAR_DEG)
    turned_deg = np.degrees(np.arccos(np.clip((np.trace(found.axes) - 1) / 2, -1.0, 1.0)))
    return found if found.fitting >= FITTING and turned_deg <= MOST_CORRECTED_DEG else None


def refined(
    axes: Floats, pairs: Sequence[tuple[Floats, Floats]], steps_deg: tuple[float, ...] = _FROM_FAR_DEG
) -> Standing:
    """The least-squares turn of the slots that fit, from a first one (Kabsch, Acta Cryst. A32 (1976) 922)."""
    mirror = np.sign(np.linalg.det(axes))
    for within_deg in steps_deg:
        mine, theirs = [], []
        for vectors, ways in pairs:
            apart = _rms_deg(vectors @ axes, ways)
            nearest = int(apart.argmin())
            if apart[nearest] <= within_deg:
                mine.append(vectors)
                theirs.append(ways[nearest])
        if len(mine) < 3:
            break
        u, _, vt = np.linalg.svd(np.concatenate(mine).T @ np.concatenate(theirs))
        axes = u @ np.diag([1.0, 1.0, mirror * np.linalg.det(u @ vt)]) @ vt
    near = [_rms_deg(vectors @ axes, ways).min() for vectors, ways in pairs]
    return Standing(axes, float(np.mean(np.array(near) <= FIT_DEG)))


def pairs_of(track: Track, sky: Sky) -> tuple[Floats, Floats]:
    """Up to five sightings of a slot, (n, 3), and where each satellite was at their times, (satellites, n, 3)."""
    some = np.unique(np.linspace(0, len(track.vectors) - 1, 5).astype(int))
    return track.vectors[some], sky.at((track.begin_s[some] + track.end_s[some]) / 2)


def _rms_deg(vectors: Floats, ways: Floats) -> Floats:
    apart: Floats = np.degrees(np.sqrt(((ways - vectors) ** 2).sum(axis=2).mean(axis=1)))
    return apart


def _spread(found: list[tuple[Track, Sky]], most: int) -> list[tuple[Track, Sky]]:
    return [found[i] for i in np.unique(np.linspace(0, len(found) - 1, most).astype(int))]


def _search(grid: Floats, pairs: Sequence[tuple[Floats, Floats]], keep: int = 8) -> Floats:
    """The turns of a grid under which most slots have a satellite near, best first; shape (keep, 3, 3)."""
    scores = np.zeros(len(grid))
    for vectors, ways in pairs:
        # Mean cosine of turned vectors with ways: a product of 9 numbers each.
        both = np.einsum("nk,mnc->mkc", vectors, ways).reshape(len(ways), 9) / len(vectors)
        for first in range(0, len(grid), 16384):
            part = slice(first, first + 16384)
            nearest = (grid[part].reshape(-1, 9) @ both.T).max(axis=1)
            apart = np.degrees(np.sqrt(np.maximum(2 - 2 * nearest, 0.0)))
            scores[part] += np.exp(-0.5 * (apart / (GRID_DEG * 0.75)) ** 2)
    return grid[np.argsort(-scores, kind="stable")[:keep]]


def _grid() -> Floats:
    """Axes of a map over the ground: both hands, all azimuths, tilts up to `MOST_TILT_DEG`, all turns of the image."""
    circle, tilts = np.arange(0.0, 360.0, GRID_DEG), np.arange(0.0, MOST_TILT_DEG + 1, GRID_DEG)
    azimuth, tilt, spin = (a.ravel() for a in np.radians(np.meshgrid(circle, tilts, circle, indexing="ij")))
    one, none = np.ones_like(azimuth), np.zeros_like(azimuth)

    def about_up(angle: Floats) -> Floats:
        c, s = np.cos(angle), np.sin(angle)
        return np.stack([np.stack([c, s, none], -1), np.stack([-s, c, none], -1), np.stack([none, none, one], -1)], -2)

    c, s = np.cos(tilt), np.sin(tilt)
    lean = np.stack([np.stack([c, none, -s], -1), np.stack([none, one, none], -1), np.stack([s, none, c], -1)], -2)
    turned = about_up(spin) @ lean @ about_up(azimuth)
    return np.concatenate([turned, np.diag([1.0, -1.0, 1.0]) @ turned])
