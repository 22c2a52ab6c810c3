"""What the program itself said: its standard output, kept beside the Run and, of known tools, on the Run's clock."""

from bentpipe.runs.printed.kept import FILE, RAW, Parsed, parse
from bentpipe.runs.printed.opened import OutputFlow, ProgramOutput, program_output
from bentpipe.runs.printed.tee import Tee

__all__ = ["FILE", "RAW", "OutputFlow", "Parsed", "ProgramOutput", "Tee", "parse", "program_output"]
