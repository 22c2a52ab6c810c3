"""Tool output: a program's standard output, stored beside the Run and, for known tools, parsed on the Run's clock."""

from bentpipe.measurements.tool_output.parsed import FILE, RAW, Parsed, parse
from bentpipe.measurements.tool_output.stored import OutputFlow, ProgramOutput, program_output
from bentpipe.measurements.tool_output.tee import Tee

__all__ = ["FILE", "RAW", "OutputFlow", "Parsed", "ProgramOutput", "Tee", "parse", "program_output"]
