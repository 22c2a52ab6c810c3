"""Emulation: real programs on a real kernel behind a Profile."""

from bentpipe.execution.emulation.engine import (
    CAPTURES,
    AtEnd,
    EmulationError,
    EmulationResult,
    Internet,
    Spec,
    emulate,
)

__all__ = ["CAPTURES", "AtEnd", "EmulationError", "EmulationResult", "Internet", "Spec", "emulate"]
