"""Error reporting of all commands: one line and an exit code, never a traceback.

0: success. 1: a fault in bentpipe. 2: the user's mistake. 130: Ctrl-C.
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

from bentpipe.cli import console, flags
from bentpipe.errors import BentpipeError
from bentpipe.files import is_full, reason_of

FAULT, MISTAKE, INTERRUPTED = 1, 2, 130
# System errors about a path are the user's mistake, except a full or failing disk.
PATH_ERRORS = (
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EROFS,
    errno.ELOOP,
)
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
PACKAGE = str(Path(__file__).resolve().parent.parent)
#: Hint below a fault in bentpipe.
REPORT = "this is a fault in bentpipe: run again with --debug and report the output with the command"


class ReportingGroup(TyperGroup):
    """The root of all commands. It turns every exception into one line and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,  # noqa: ANN401 - as the base class
    ) -> Any:  # noqa: ANN401 - as the base class
        """Run the command line and end the process with its exit code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = _show_warning
                result = super().main(arguments, prog_name, complete_var, False, windows_expand_args, **extra)
            console.flush()
        except BaseException as error:  # noqa: BLE001 - the last resort of the process
            if _is_broken_pipe(error):
                # The reader of our output closed the pipe (`| head`); nothing more can be written to it.
                console.drop_output()
                sys.exit(0)
            own = arguments[: arguments.index("--")] if "--" in arguments else arguments  # not the program's
            debug = "--debug" in own or os.environ.get("BENTPIPE_DEBUG", "") not in ("", "0")
            sys.exit(report(error, debug=debug, as_json="--json" in own))
        if result == INTERRUPTED:  # Typer turns Ctrl-C into this code without a message
            console.error("interrupted")
        sys.exit(result if isinstance(result, int) else 0)


def _is_broken_pipe(error: BaseException) -> bool:
    """Tell whether this is an error of a broken pipe itself, which Typer turns into an exit, and no later one."""
    return isinstance(error, BrokenPipeError) or (
        isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)
    )


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a UserWarning as one line. Other categories are for programmers, not for users."""
    if issubclass(category, UserWarning):
        console.warn(flags.with_flags(str(message)))


def report(error: BaseException, *, debug: bool, as_json: bool = False) -> int:
    """Print `error` as one line on stderr and return the exit code.

    With `debug`, a fault in bentpipe is printed with its traceback; with `as_json`, an error of bentpipe as an object.
    """
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAULT
    if isinstance(error, KeyboardInterrupt | typer.Abort):  # Ctrl-C outside a command
        console.error("interrupted")
        return INTERRUPTED
    if isinstance(error, BentpipeError):
        _print(error, as_json=as_json)
        return error.exit_code
    if isinstance(error, typer.TyperException):
        _print_usage(error, as_json=as_json)
        return MISTAKE
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and (reported := _system_error(error)) is not None:
        message, code = reported
        console.error(message)
        return code
    reason = str(error).partition("\n")[0]
    console.error(f"{type(error).__name__}: {reason}" if reason else type(error).__name__)
    console.hint(REPORT)
    return FAULT


def _print(error: BentpipeError, *, as_json: bool) -> None:
    if as_json:
        console.error_json(flags.as_json(error))
        return
    console.error(flags.message(error))
    for line in getattr(error, "__notes__", []):
        console.hint(line)


def _print_usage(error: typer.TyperException, *, as_json: bool) -> None:
    if as_json:
        console.error_json(flags.usage(error.format_message()))
        return
    console.error(error.format_message())
    context = getattr(error, "ctx", None)
    if context is not None:
        console.hint(f"{context.command_path} --help")


def _system_error(error: OSError) -> tuple[str, int] | None:
    """Return a message and an exit code for an error of the system; None: a fault in bentpipe."""
    if isinstance(error.filename, str | bytes) and error.errno in (*PATH_ERRORS, *DISK_ERRORS):
        file = os.fsdecode(error.filename)
        if file.startswith(PACKAGE):  # a missing file of the package is a fault in bentpipe
            return None
        reason = reason_of(error) if is_full(error) else error.strerror
        return f"{file}: {reason}", FAULT if error.errno in DISK_ERRORS else MISTAKE
    if error.errno in DISK_ERRORS:
        console.drop_output()
        return f"standard output or a file cannot be written: {reason_of(error)}", FAULT
    return None
