"""Emulation: real programs on a real kernel behind a Profile."""

from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.execution.emulation.spec import CAPTURES, AtEnd, EmulationError, Internet, Spec

__all__ = ["CAPTURES", "AtEnd", "EmulationError", "EmulationResult", "Internet", "Spec", "emulate"]
