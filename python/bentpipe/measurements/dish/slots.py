"""Slots: the network may change a terminal's satellite at their edges."""

from __future__ import annotations

from bentpipe.times import SLOT_PHASE_S, SLOT_S

SLOT_NS, SLOT_PHASE_NS = SLOT_S * 10**9, SLOT_PHASE_S * 10**9


def next_edge_s(unix_ns: int) -> float:
    """Return the time to the next slot edge [s]."""
    return (SLOT_NS - (unix_ns - SLOT_PHASE_NS) % SLOT_NS) / 1e9


def slot_of(unix_ns: int) -> int:
    """Return the number of the slot that contains a time."""
    return (unix_ns - SLOT_PHASE_NS) // SLOT_NS
