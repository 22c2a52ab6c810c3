"""One way out for every command: an error is one line and an exit code, never a traceback.

0: done. 1: our fault. 2: the user's mistake. 130: Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from bentpipe.cli import console
from bentpipe.errors import BentpipeError
from bentpipe.files import is_full, reason_of

OURS, USERS, INTERRUPTED = 1, 2, 130
# What the system refuses of a path is for who gave the path, but for a disk that is full or fails.
THEIRS = (
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EROFS,
    errno.ELOOP,
)
NOBODYS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
PACKAGE = str(Path(__file__).resolve().parent.parent)
#: Where to report what is our fault.
REPORT = "this is a fault in bentpipe: run again with --debug and report the output with the command"


class ReportingGroup(TyperGroup):
    """The root of all commands; it turns whatever they raise into one line and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,  # noqa: ANN401 - as the base class
    ) -> Any:  # noqa: ANN401 - as the base class
        """Runs the command line and ends the process with its exit code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        given = list(sys.argv[1:] if args is None else args)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = _show_warning
                result = super().main(given, prog_name, complete_var, False, windows_expand_args, **extra)
            console.flush()
        except BrokenPipeError:
            # Whoever read our output has enough (`| head`); nothing more can be said there.
            console.drop_output()
            sys.exit(0)
        except BaseException as error:  # noqa: BLE001 - the last resort of the process
            sys.exit(report(error, debug="--debug" in given or os.environ.get("BENTPIPE_DEBUG", "") not in ("", "0")))
        if result == INTERRUPTED:  # Typer turns Ctrl-C into this code and says nothing
            console.error("interrupted")
        sys.exit(result if isinstance(result, int) else 0)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """What the library warns of, as one line; what Python warns programmers of is not for users."""
    if issubclass(category, UserWarning):
        console.warn(str(message))


def report(error: BaseException, *, debug: bool) -> int:
    """Prints `error` as one line on stderr (with its traceback if it is ours and `debug`); returns the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else OURS
    if isinstance(error, KeyboardInterrupt | typer.Abort):  # Ctrl-C outside a command
        console.error("interrupted")
        return INTERRUPTED
    if isinstance(error, BentpipeError):
        console.error(str(error))
        for line in getattr(error, "__notes__", []):
            console.hint(line)
        return error.exit_code
    if isinstance(error, typer.TyperException):
        console.error(error.format_message())
        context = getattr(error, "ctx", None)
        if context is not None:
            console.hint(f"{context.command_path} --help")
        return USERS
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and (found := _of_the_system(error)) is not None:
        message, code = found
        console.error(message)
        return code
    reason = str(error).partition("\n")[0]
    console.error(f"{type(error).__name__}: {reason}" if reason else type(error).__name__)
    console.hint(REPORT)
    return OURS


def _of_the_system(error: OSError) -> tuple[str, int] | None:
    """A message and an exit code for what the system refused; None: it is our fault."""
    if isinstance(error.filename, str | bytes) and error.errno in (*THEIRS, *NOBODYS):
        file = os.fsdecode(error.filename)
        if file.startswith(PACKAGE):  # a file of ours that is missing is our fault
            return None
        reason = reason_of(error) if is_full(error) else error.strerror
        return f"{file}: {reason}", OURS if error.errno in NOBODYS else USERS
    if error.errno in NOBODYS:
        console.drop_output()
        return f"standard output or a file cannot be written: {reason_of(error)}", OURS
    return None
