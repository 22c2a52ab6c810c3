"""Distance of each satellite's track from the painted pixels of a slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.serving.candidates import Sky
from bentpipe.measurements.serving.frames import pixels_to_vectors, vectors_to_pixels
from bentpipe.measurements.serving.sightings import PaintedSlots
from bentpipe.times import SLOT_S

Floats = NDArray[np.float64]
Turn = Callable[[Floats, NDArray[np.int64]], Floats]

#: Time step along a track [s]: half a degree overhead, less than half a pixel.
STEP_S = 0.5
#: Distances are capped here [deg], so that single stray pixels do not decide. Chosen here: twice the shift of a
#: satellite overhead by one day's age of the elements (15 km, ``docs/concepts/geometry.md``), and two pixels.
CAP_DEG = 6.0
#: Largest number of sightings used in a slot, spread over it: a turning terminal paints hundreds.
MAX_SIGHTINGS = 60

#: Satellites farther than this from every sighting [deg] are excluded: no shift below brings them near.
FAR_DEG = 24.0
#: Along-track shifts of a satellite relative to its elements [s]: the error is 15 km or 2 s after a day
#: (``docs/concepts/geometry.md``), more during manoeuvres. They also cover clock errors.
AHEAD_S = np.array([-8.0, -5.5, -4.0, -3.0, -2.0, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 2.0, 3.0, 4.0, 5.5, 8.0])

STEPS_S = np.arange(0.0, SLOT_S + STEP_S / 2, STEP_S)


@dataclass(frozen=True)
class EarlierMap:
    """The painted pixels before a slot.

    Attributes:
        near: True at painted pixels and their neighbours; shape (rows, columns).
        rim_deg: Angle from the middle to the rim [deg].
        axes: Axes of the map in ground coordinates, one a row; shape (3, 3).
    """

    near: NDArray[np.bool_]
    rim_deg: float
    axes: Floats

    def at(self, vectors: Floats) -> NDArray[np.bool_]:
        """Return whether directions in ground coordinates lie on painted pixels."""
        shape = (self.near.shape[0], self.near.shape[1])
        row, column = vectors_to_pixels(vectors @ self.axes.T, shape, self.rim_deg)
        inside = (row >= 0) & (row < shape[0]) & (column >= 0) & (column < shape[1])
        on_painted: NDArray[np.bool_] = inside & self.near[row.clip(0, shape[0] - 1), column.clip(0, shape[1] - 1)]
        return on_painted


@dataclass(frozen=True)
class Track:
    """Sightings of one slot in ground coordinates.

    Attributes:
        start_unix_ns: Begin of the slot [ns since 1970].
        vectors: Unit vectors of the sightings; shape (n, 3).
        begin_s, end_s: Interval in which each was painted [s since the slot's begin]; shape (n,).
        required: At which of `STEPS_S` the serving satellite must be near a sighting; shape (steps,).
        before: Pixels painted before the slot, where new ones are invisible; None: none.
    """

    start_unix_ns: int
    vectors: Floats
    begin_s: Floats
    end_s: Floats
    required: NDArray[np.bool_]
    before: EarlierMap | None = None

    def is_short(self, longest_s: float) -> bool:
        """Return whether every sighting interval is at most `longest_s`."""
        return bool((self.end_s - self.begin_s <= longest_s).all())


@dataclass(frozen=True)
class Distances:
    """Distances of each satellite of a sky.

    Attributes:
        rms_deg: Capped root mean square distance of sightings from the track and of the track from sightings, with each
            along-track shift of `AHEAD_S`; shape (n, shifts).
        weight: Number of sightings and steps it is based on; shape (n, shifts).
    """

    rms_deg: Floats
    weight: Floats

    @property
    def nearest_deg(self) -> Floats:
        """Distance with the best along-track shift; shape (n,)."""
        nearest: Floats = self.rms_deg.min(axis=1)
        return nearest


def tracks(painted: PaintedSlots, turn: Turn) -> list[Track]:
    """Return each slot's sightings in ground coordinates, without slots whose attitude is unknown.

    Args:
        painted: The slots.
        turn: Rotates vectors of the map's frame at times [ns since 1970] to ground coordinates.
    """
    result = []
    for slot in painted.slots:
        begin_s, end_s = np.array(slot.begin_s), np.array(slot.end_s)
        pixels = pixels_to_vectors(np.array(slot.row), np.array(slot.column), painted.shape, painted.rim_deg)
        middle_ns = slot.start_unix_ns + np.round((begin_s + end_s) / 2 * 1e9).astype(np.int64)
        vectors = turn(pixels, middle_ns)
        known = np.isfinite(vectors).all(axis=1)
        if not known.any():
            continue
        required = np.zeros(len(STEPS_S), dtype=bool)
        for begin, end in slot.observed:
            required |= (
                (begin_s[known].min() <= STEPS_S)
                & (end_s[known].max() >= STEPS_S)
                & (begin <= STEPS_S)
                & (end >= STEPS_S)
            )
        before = None
        if slot.earlier is not None and slot.earlier.any():
            axes = turn(np.eye(3), np.full(3, slot.start_unix_ns + SLOT_S * 10**9 // 2))
            if np.isfinite(axes).all():
                before = EarlierMap(_dilated(slot.earlier), painted.rim_deg, axes)
        result.append(Track(slot.start_unix_ns, vectors[known], begin_s[known], end_s[known], required, before))
    return result


def _dilated(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask with its neighbouring pixels."""
    rows = mask.copy()
    rows[1:] |= mask[:-1]
    rows[:-1] |= mask[1:]
    grown = rows.copy()
    grown[:, 1:] |= rows[:, :-1]
    grown[:, :-1] |= rows[:, 1:]
    return grown


def distances(track: Track, sky: Sky) -> Distances:
    """Return the distances between sightings and satellite tracks, in both directions.

    A sighting is compared with the nearest position of the satellite at its time, a position with the nearest sighting
    so far. A sighting that may belong to a neighbouring slot only counts in the second comparison. Satellites farther
    than `FAR_DEG` from all sightings are at the cap.

    Args:
        track: Sightings of the slot.
        sky: Candidates of the same slot.
    """
    keep = np.unique(np.linspace(0, len(track.vectors) - 1, min(len(track.vectors), MAX_SIGHTINGS)).astype(int))
    vectors, begin_s, end_s = track.vectors[keep], track.begin_s[keep], track.end_s[keep]
    within = (begin_s[:, None] - STEP_S / 2 <= STEPS_S) & (end_s[:, None] + STEP_S / 2 >= STEPS_S)
    own = (begin_s >= -2 * STEP_S) & (end_s <= SLOT_S + 2 * STEP_S) & within.any(axis=1)
    later = begin_s[:, None] - STEP_S / 2 <= STEPS_S
    rms = np.full((len(sky.index), len(AHEAD_S)), CAP_DEG)
    weight = np.full(rms.shape, float(own.sum()) + float(track.required.sum()) * STEP_S)
    knots = np.einsum("nkc,jc->nkj", sky.knots, vectors).max(axis=(1, 2))
    near = np.flatnonzero(knots >= np.cos(np.radians(FAR_DEG)))
    for shift, ahead_s in enumerate(AHEAD_S) if len(near) else ():
        path = sky.at(STEPS_S + ahead_s, near)
        apart = np.minimum(_angle_deg(path, vectors), CAP_DEG)  # (satellite, sighting, step)
        from_way = np.where(within[own], apart[:, own], CAP_DEG).min(axis=2, initial=CAP_DEG) ** 2
        from_sightings = np.where(later, apart, CAP_DEG).min(axis=1, initial=CAP_DEG) ** 2
        required = np.broadcast_to(track.required, from_sightings.shape)
        if track.before is not None:
            required = required & ~track.before.at(path)
        steps = required.sum(axis=1)
        there = from_way.mean(axis=1) if own.any() else np.zeros(len(near))
        back = np.where(required, from_sightings, 0.0).sum(axis=1) / np.maximum(steps, 1)
        parts = float(own.any()) + (steps > 0)
        rms[near, shift] = np.where(parts > 0, np.sqrt((there + back) / np.maximum(parts, 1)), CAP_DEG)
        weight[near, shift] = own.sum() + steps * STEP_S
    return Distances(rms, weight)


def _angle_deg(path: Floats, vectors: Floats) -> Floats:
    """Return the angle between each sighting and each step of each track; shape (satellites, sightings, steps)."""
    cosine = np.matmul(vectors, path.transpose(0, 2, 1))
    apart: Floats = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    return apart
