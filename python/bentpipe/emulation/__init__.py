"""Emulation: real programs on a real kernel behind a Profile."""

from bentpipe.emulation.engine import (
    CAPTURES,
    FEW_PACKETS,
    AtEnd,
    Emulated,
    EmulationError,
    Internet,
    Spec,
    emulate,
)

__all__ = ["CAPTURES", "FEW_PACKETS", "AtEnd", "Emulated", "EmulationError", "Internet", "Spec", "emulate"]
