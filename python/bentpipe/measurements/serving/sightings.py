"""Newly painted pixels of each slot: differences of successive obstruction maps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.dish.obstruction import RIM_DEG
from bentpipe.measurements.dish.slots import SLOT_NS, SLOT_PHASE_NS

#: Largest time between two compared maps [s]: over more than two slots, two or more satellites painted.
MAX_APART_S = 30.0
#: A map counts as cleared if this share of its painted pixels is gone. Chosen here: clearing removes all, but a few may
#: be painted again before the next map; terminals also drop single pixels for unknown reasons (LEOViz, Victoria, May
#: 2025).
CLEARED = 0.5
#: New pixels beyond what one satellite and a turning terminal paint: a constant, and a number per second. Chosen here:
#: twice the maximum in those maps, 10 in 0.6 s.
BURST, BURST_PER_S = 40, 34.0


@dataclass
class SlotPixels:
    """Newly painted pixels of one slot.

    Attributes:
        start_unix_ns: Begin of the slot [ns since 1970].
        row: Rows of the pixels; shape (n,).
        column: Columns of the pixels; shape (n,).
        begin_s, end_s: Interval in which each was painted [s since the slot's begin]; it may exceed the slot.
        observed: Begin and end [s since the slot's begin] of the intervals between compared maps.
        earlier: The map before the slot, True where painted: repainting there is invisible.
    """

    start_unix_ns: int
    row: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    observed: list[tuple[float, float]] = field(default_factory=list)
    earlier: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class PaintedSlots:
    """Slots with newly painted pixels, and the geometry of the maps.

    Attributes:
        slots: Slots with newly painted pixels, by time.
        shape: Rows and columns of the maps.
        rim_deg: Angle from the middle to the rim [deg].
        silent: Number of observed slots without newly painted pixels.
        bursts: Number of ignored intervals with more new pixels than a satellite can paint.
    """

    slots: list[SlotPixels]
    shape: tuple[int, int]
    rim_deg: float = RIM_DEG
    silent: int = 0
    bursts: int = 0


def painted(maps: Iterable[tuple[int, NDArray[np.float32]]], rim_deg: float = RIM_DEG) -> PaintedSlots:
    """Return the newly painted pixels of each slot from a series of maps.

    A cleared map, or one of another size, counts as new. Unchanged maps and vanishing single pixels are allowed; NaN
    means not observed; maps with times that go backwards are ignored.

    Args:
        maps: Time [ns since 1970] and map, negative where not observed, as from
            `bentpipe.measurements.dish.recording.maps`.
        rim_deg: Angle from the middle to the rim [deg].
    """
    slots: dict[int, SlotPixels] = {}
    compared: set[int] = set()
    before: NDArray[np.bool_] | None = None
    last_ns, bursts = 0, 0
    for t_unix_ns, quality in maps:
        now = quality >= 0  # NaN is not
        if before is None:
            before, last_ns = now, t_unix_ns
            continue
        if t_unix_ns <= last_ns:
            continue
        if now.shape != before.shape:
            before = np.zeros_like(now)
        apart_s = (t_unix_ns - last_ns) / 1e9
        vanished, before_count = int((before & ~now).sum()), int(before.sum())
        base = np.zeros_like(now) if before_count and vanished > CLEARED * before_count else before
        if apart_s <= MAX_APART_S:
            row, column = np.nonzero(now & ~base)
            burst = len(row) > BURST + BURST_PER_S * apart_s
            bursts += burst
            for number in range((last_ns - SLOT_PHASE_NS) // SLOT_NS, (t_unix_ns - 1 - SLOT_PHASE_NS) // SLOT_NS + 1):
                compared.add(number)
                if burst:
                    continue
                start = number * SLOT_NS + SLOT_PHASE_NS
                slot = slots.setdefault(number, SlotPixels(start))
                if slot.earlier is None or slot.earlier.shape != base.shape or base is not before:
                    slot.earlier = base
                begin_s, end_s = (last_ns - start) / 1e9, (t_unix_ns - start) / 1e9
                slot.observed.append((begin_s, end_s))
                slot.row += row.tolist()
                slot.column += column.tolist()
                slot.begin_s += [begin_s] * len(row)
                slot.end_s += [end_s] * len(row)
        before, last_ns = now, t_unix_ns
    painted_slots = [slots[number] for number in sorted(slots) if slots[number].row]
    shape = (0, 0) if before is None else (before.shape[0], before.shape[1])
    return PaintedSlots(painted_slots, shape, rim_deg, silent=len(compared) - len(painted_slots), bursts=bursts)


def painted_from_pixels(
    unix_ns: NDArray[np.int64], row: NDArray[np.int64], column: NDArray[np.int64], shape: tuple[int, int]
) -> PaintedSlots:
    """Return the same from a table of the last painted pixel at each time, as published tables have it.

    If a slot begins with the last pixel of the slot before, that pixel is ignored until another one follows: for
        seconds after a handover the table still has the old satellite's pixel (Louvain, July 2024: 67137 s and 67857 s
        of the day).

    Args:
        unix_ns: Times, increasing [ns since 1970].
        row: Row of the pixel, from the top.
        column: Column of the pixel, from the left.
        shape: Rows and columns of the maps.
    """
    slots: dict[int, SlotPixels] = {}
    before_ns = np.concatenate([unix_ns[:1] - 10**9, unix_ns[:-1]])
    before_ns = np.maximum(before_ns, unix_ns - 10**9)  # a row's pixel belongs to the second before it
    ended: tuple[int, int] | None = None
    here, pixel = -1, (-1, -1)
    for number, last, t, y, x in zip(
        ((unix_ns - SLOT_PHASE_NS) // SLOT_NS).tolist(), before_ns, unix_ns, row.tolist(), column.tolist(), strict=True
    ):
        if number != here:
            here, ended = number, pixel
        pixel = (y, x)
        if pixel == ended:
            continue
        ended = None
        start = number * SLOT_NS + SLOT_PHASE_NS
        slot = slots.setdefault(number, SlotPixels(start))
        begin_s, end_s = max((int(last) - start) / 1e9, 0.0), (int(t) - start) / 1e9
        slot.observed.append((begin_s, end_s))
        slot.row.append(y)
        slot.column.append(x)
        slot.begin_s.append(begin_s)
        slot.end_s.append(end_s)
    return PaintedSlots([slots[number] for number in sorted(slots)], shape)
