"""What the program itself said: its standard output, kept beside the Run and, of known tools, on the Run's clock."""

from bentpipe.measurements.tool_output.parsed import FILE, RAW, Parsed, parse
from bentpipe.measurements.tool_output.stored import OutputFlow, ProgramOutput, program_output
from bentpipe.measurements.tool_output.tee import Tee

__all__ = ["FILE", "RAW", "OutputFlow", "Parsed", "ProgramOutput", "Tee", "parse", "program_output"]
