"""When the network may change a terminal's satellite."""

from __future__ import annotations

from bentpipe.times import SLOT_PHASE_S, SLOT_S

SLOT_NS, SLOT_PHASE_NS = SLOT_S * 10**9, SLOT_PHASE_S * 10**9


def next_edge_s(unix_ns: int) -> float:
    """Until the next slot begins [s]."""
    return (SLOT_NS - (unix_ns - SLOT_PHASE_NS) % SLOT_NS) / 1e9


def slot_of(unix_ns: int) -> int:
    """The number of the slot that a moment lies in."""
    return (unix_ns - SLOT_PHASE_NS) // SLOT_NS
