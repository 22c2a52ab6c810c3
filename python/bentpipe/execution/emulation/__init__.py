"""Emulation: real programs on a real kernel behind a Profile."""

from bentpipe.execution.emulation.engine import CAPTURES, AtEnd, Emulated, EmulationError, Internet, Spec, emulate

__all__ = ["CAPTURES", "AtEnd", "Emulated", "EmulationError", "Internet", "Spec", "emulate"]
