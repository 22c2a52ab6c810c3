"""A real program on the emulated path of a Profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.execution import program
from bentpipe.execution.emulation.terminal import restore_foreground
from bentpipe.objects.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe import _native


class Program:
    """The result of `Profile.run`.

    Attributes:
        exit_code: The program's exit code, as a shell reports it.
        run: The Run; None without a folder for it.
        valid: Whether the path was as requested: it is not if this machine was too busy.
        why_invalid: The reason if it was not.
        note: A note about output that was not parsed; None: none.
    """

    def __init__(self, result: program.ProgramRun) -> None:
        """Take the result of the execution; users call `Profile.run`."""
        self.exit_code = result.exit_code
        self.run = None if result.run is None else Run(result.run)
        self.why_invalid = result.emulated.why_invalid
        self.valid = self.why_invalid is None
        self.note = result.note

    def __repr__(self) -> str:
        """Return one line: exit code and validity."""
        valid = "" if self.valid else f", not valid: {self.why_invalid}"
        return f"<Program: exit code {self.exit_code}{valid}>"


def run_program(profile: _native.Profile, command: Sequence[str], **options: Any) -> Program:  # noqa: ANN401
    """Run a program with the options of `bentpipe.execution.program.run_program`, and give the terminal back."""
    with restore_foreground():
        return Program(program.run_program(profile, command, **options))
