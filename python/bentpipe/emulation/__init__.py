"""Emulation: real programs on a real kernel behind a Profile."""

from bentpipe.emulation.engine import AtEnd, Emulated, EmulationError, Spec, emulate

__all__ = ["AtEnd", "Emulated", "EmulationError", "Spec", "emulate"]
