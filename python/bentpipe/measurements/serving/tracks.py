"""How far each satellite's way is from what was painted in a slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.serving.candidates import Sky
from bentpipe.measurements.serving.frames import of_pixels, to_pixels
from bentpipe.measurements.serving.sightings import Painted
from bentpipe.times import SLOT_S

Floats = NDArray[np.float64]
Turn = Callable[[Floats, NDArray[np.int64]], Floats]

#: Step along a way [s]: overhead half a degree, less than half a pixel.
STEP_S = 0.5
#: Distances count up to here [deg], so that single pixels that nobody serving painted do not decide. Chosen here: twice
#: what one day's age of the elements moves a satellite overhead (15 km, ``docs/concepts/geometry.md``), and two pixels.
CAP_DEG = 6.0
#: Most sightings of a slot that are used, spread over it: a turning terminal paints hundreds.
MOST_SIGHTINGS = 60

#: Satellites that stand farther than this from every sighting [deg] are out of question: nothing below can bring them
#: near.
FAR_DEG = 24.0
#: By how much a satellite may be ahead of its elements [s]: their error is along the track, 15 km or 2 s after a day
#: (``docs/concepts/geometry.md``), more while it manoeuvres. Clocks' errors are in it too.
AHEAD_S = np.array([-8.0, -5.5, -4.0, -3.0, -2.0, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 2.0, 3.0, 4.0, 5.5, 8.0])

STEPS_S = np.arange(0.0, SLOT_S + STEP_S / 2, STEP_S)


@dataclass(frozen=True)
class Before:
    """A map as it was.

    Attributes:
        near: True where it was painted, or next to that; shape (rows, columns).
        rim_deg: Angle from its middle to its rim.
        axes: Its axes over the ground, one a row; shape (3, 3).
    """

    near: NDArray[np.bool_]
    rim_deg: float
    axes: Floats

    def at(self, vectors: Floats) -> NDArray[np.bool_]:
        """Whether directions over the ground lie where it was painted."""
        shape = (self.near.shape[0], self.near.shape[1])
        row, column = to_pixels(vectors @ self.axes.T, shape, self.rim_deg)
        inside = (row >= 0) & (row < shape[0]) & (column >= 0) & (column < shape[1])
        found: NDArray[np.bool_] = inside & self.near[row.clip(0, shape[0] - 1), column.clip(0, shape[1] - 1)]
        return found


@dataclass(frozen=True)
class Track:
    """What was painted in one slot, over the ground.

    Attributes:
        start_unix_ns: The slot's begin.
        vectors: Unit vectors of the sightings; shape (n, 3).
        begin_s, end_s: Painted after one and until the other [s since the slot's begin]; shape (n,).
        asked: At which of `STEPS_S` the serving satellite must be near a sighting; shape (steps,).
        before: What was painted before the slot, where nothing new can be seen; None: nothing.
    """

    start_unix_ns: int
    vectors: Floats
    begin_s: Floats
    end_s: Floats
    asked: NDArray[np.bool_]
    before: Before | None = None

    def short(self, longest_s: float) -> bool:
        """Whether no sighting took longer than that."""
        return bool((self.end_s - self.begin_s <= longest_s).all())


@dataclass(frozen=True)
class Distances:
    """Of each satellite of a sky.

    Attributes:
        rms_deg: Root mean square distance, capped, of sightings from the way and of the way from sightings, with the
            satellite ahead of its elements by each of `AHEAD_S`; shape (n, shifts).
        weight: How many sightings and steps it stands on; shape (n, shifts).
    """

    rms_deg: Floats
    weight: Floats

    @property
    def nearest_deg(self) -> Floats:
        """With the satellite ahead by what fits best; shape (n,)."""
        nearest: Floats = self.rms_deg.min(axis=1)
        return nearest


def tracks(painted: Painted, turn: Turn) -> list[Track]:
    """Each slot's sightings over the ground; slots whose directions are not known are left out.

    Args:
        painted: The slots.
        turn: Vectors in the map's frame and when [ns since 1970] → vectors over the ground.
    """
    found = []
    for slot in painted.slots:
        begin_s, end_s = np.array(slot.begin_s), np.array(slot.end_s)
        pixels = of_pixels(np.array(slot.row), np.array(slot.column), painted.shape, painted.rim_deg)
        middle_ns = slot.start_unix_ns + np.round((begin_s + end_s) / 2 * 1e9).astype(np.int64)
        vectors = turn(pixels, middle_ns)
        known = np.isfinite(vectors).all(axis=1)
        if not known.any():
            continue
        asked = np.zeros(len(STEPS_S), dtype=bool)
        for begin, end in slot.looked:
            asked |= (
                (begin_s[known].min() <= STEPS_S)
                & (end_s[known].max() >= STEPS_S)
                & (begin <= STEPS_S)
                & (end >= STEPS_S)
            )
        before = None
        if slot.seen is not None and slot.seen.any():
            axes = turn(np.eye(3), np.full(3, slot.start_unix_ns + SLOT_S * 10**9 // 2))
            if np.isfinite(axes).all():
                before = Before(_grown(slot.seen), painted.rim_deg, axes)
        found.append(Track(slot.start_unix_ns, vectors[known], begin_s[known], end_s[known], asked, before))
    return found


def _grown(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """With the pixels next to it."""
    rows = mask.copy()
    rows[1:] |= mask[:-1]
    rows[:-1] |= mask[1:]
    grown = rows.copy()
    grown[:, 1:] |= rows[:, :-1]
    grown[:, :-1] |= rows[:, 1:]
    return grown


def distances(track: Track, sky: Sky) -> Distances:
    """Both ways: a sighting from the nearest place the satellite had then, a place from the nearest sighting by then.

    A sighting that may be of a neighbouring slot is not held against a satellite, only the other way round. Satellites
    that stand farther than `FAR_DEG` from all sightings are at the cap.

    Args:
        track: Of the slot.
        sky: Of the same slot.
    """
    keep = np.unique(np.linspace(0, len(track.vectors) - 1, min(len(track.vectors), MOST_SIGHTINGS)).astype(int))
    vectors, begin_s, end_s = track.vectors[keep], track.begin_s[keep], track.end_s[keep]
    within = (begin_s[:, None] - STEP_S / 2 <= STEPS_S) & (end_s[:, None] + STEP_S / 2 >= STEPS_S)
    own = (begin_s >= -2 * STEP_S) & (end_s <= SLOT_S + 2 * STEP_S) & within.any(axis=1)
    later = begin_s[:, None] - STEP_S / 2 <= STEPS_S
    rms = np.full((len(sky.index), len(AHEAD_S)), CAP_DEG)
    weight = np.full(rms.shape, float(own.sum()) + float(track.asked.sum()) * STEP_S)
    knots = np.einsum("nkc,jc->nkj", sky.knots, vectors).max(axis=(1, 2))
    near = np.flatnonzero(knots >= np.cos(np.radians(FAR_DEG)))
    for shift, ahead_s in enumerate(AHEAD_S) if len(near) else ():
        way = sky.at(STEPS_S + ahead_s, near)
        apart = np.minimum(_angle_deg(way, vectors), CAP_DEG)  # (satellite, sighting, step)
        from_way = np.where(within[own], apart[:, own], CAP_DEG).min(axis=2, initial=CAP_DEG) ** 2
        from_sightings = np.where(later, apart, CAP_DEG).min(axis=1, initial=CAP_DEG) ** 2
        asked = np.broadcast_to(track.asked, from_sightings.shape)
        if track.before is not None:
            asked = asked & ~track.before.at(way)
        steps = asked.sum(axis=1)
        there = from_way.mean(axis=1) if own.any() else np.zeros(len(near))
        back = np.where(asked, from_sightings, 0.0).sum(axis=1) / np.maximum(steps, 1)
        parts = float(own.any()) + (steps > 0)
        rms[near, shift] = np.where(parts > 0, np.sqrt((there + back) / np.maximum(parts, 1)), CAP_DEG)
        weight[near, shift] = own.sum() + steps * STEP_S
    return Distances(rms, weight)


def _angle_deg(way: Floats, vectors: Floats) -> Floats:
    """Between each sighting and each step of each way; shape (satellites, sightings, steps)."""
    cosine = np.matmul(vectors, way.transpose(0, 2, 1))
    apart: Floats = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    return apart
