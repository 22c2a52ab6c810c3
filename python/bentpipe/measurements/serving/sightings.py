"""Where a terminal heard its satellite, slot by slot: what is new from one obstruction map to the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.dish.obstruction import RIM_DEG
from bentpipe.measurements.dish.slots import SLOT_NS, SLOT_PHASE_NS

#: Two maps farther apart say nothing about a slot [s]: in more than two slots two satellites or more painted.
MOST_APART_S = 30.0
#: Share of the painted pixels that must be gone for a map to have been cleared. Chosen here: clearing takes all, but
#: one or two may be painted again before the next look; a terminal also drops single pixels for no reason that is
#: known (LEOViz, Victoria, May 2025).
CLEARED = 0.5
#: More new pixels than a satellite and a turning terminal paint: so many, and so many a second. Chosen here: twice the
#: most in those maps, 10 in 0.6 s.
BURST, BURST_PER_S = 40, 34.0


@dataclass
class SlotPixels:
    """What was painted in one slot.

    Attributes:
        start_unix_ns: The slot's begin.
        row: Pixels; shape (n,). `column` likewise.
        begin_s, end_s: Painted after one and until the other [s since the slot's begin]; they may lie outside of it.
        looked: Begin and end [s since the slot's begin] of the times between two maps that are near enough.
        seen: The map as it was before, True where it was painted: what is painted again there is not new.
    """

    start_unix_ns: int
    row: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    looked: list[tuple[float, float]] = field(default_factory=list)
    seen: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Painted:
    """The slots of a series of maps, and what its maps are.

    Attributes:
        slots: In order of time; only those in which something was painted.
        shape: Rows and columns of the maps.
        rim_deg: Angle from the middle to the rim.
        silent: Slots that were watched and in which nothing new was painted.
        bursts: Times between two maps in which more was painted than a satellite can paint; left out.
    """

    slots: list[SlotPixels]
    shape: tuple[int, int]
    rim_deg: float = RIM_DEG
    silent: int = 0
    bursts: int = 0


def painted(maps: Iterable[tuple[int, NDArray[np.float32]]], rim_deg: float = RIM_DEG) -> Painted:
    """The differences of a series of maps.

    Handles clearing (the new map then counts whole), maps of another size (likewise), maps that did not change, single
    pixels that vanish, values that are no number (not seen), and times that go backwards (such a map is left out).

    Args:
        maps: Time [ns since 1970] and map, negative where nothing was seen, as from
            `bentpipe.measurements.dish.recording.maps`.
        rim_deg: As in `Painted`.
    """
    slots: dict[int, SlotPixels] = {}
    watched: set[int] = set()
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
        gone, there = int((before & ~now).sum()), int(before.sum())
        base = np.zeros_like(now) if there and gone > CLEARED * there else before
        if apart_s <= MOST_APART_S:
            row, column = np.nonzero(now & ~base)
            burst = len(row) > BURST + BURST_PER_S * apart_s
            bursts += burst
            for number in range((last_ns - SLOT_PHASE_NS) // SLOT_NS, (t_unix_ns - 1 - SLOT_PHASE_NS) // SLOT_NS + 1):
                watched.add(number)
                if burst:
                    continue
                start = number * SLOT_NS + SLOT_PHASE_NS
                slot = slots.setdefault(number, SlotPixels(start))
                if slot.seen is None or slot.seen.shape != base.shape or base is not before:
                    slot.seen = base
                begin_s, end_s = (last_ns - start) / 1e9, (t_unix_ns - start) / 1e9
                slot.looked.append((begin_s, end_s))
                slot.row += row.tolist()
                slot.column += column.tolist()
                slot.begin_s += [begin_s] * len(row)
                slot.end_s += [end_s] * len(row)
        before, last_ns = now, t_unix_ns
    found = [slots[number] for number in sorted(slots) if slots[number].row]
    shape = (0, 0) if before is None else (before.shape[0], before.shape[1])
    return Painted(found, shape, rim_deg, silent=len(watched) - len(found), bursts=bursts)


def pointed(
    unix_ns: NDArray[np.int64], row: NDArray[np.int64], column: NDArray[np.int64], shape: tuple[int, int]
) -> Painted:
    """As `painted`, of a table that says which pixel was painted last at each time, as published tables do.

    A slot that begins with the pixel in which the one before ended shows nothing new until another comes: for seconds
    after a change of satellite the table still has the old one's (Louvain, July 2024: 67137 s and 67857 s of the day).

    Args:
        unix_ns: Increasing.
        row: Of the pixel, from the top.
        column: Of the pixel, from the left.
        shape: Rows and columns of the maps.
    """
    slots: dict[int, SlotPixels] = {}
    before_ns = np.concatenate([unix_ns[:1] - 10**9, unix_ns[:-1]])
    before_ns = np.maximum(before_ns, unix_ns - 10**9)  # a row's pixel is of the second before it
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
        slot.looked.append((begin_s, end_s))
        slot.row.append(y)
        slot.column.append(x)
        slot.begin_s.append(begin_s)
        slot.end_s.append(end_s)
    return Painted([slots[number] for number in sorted(slots)], shape)
