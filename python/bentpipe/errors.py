"""The exceptions of bentpipe.

Every deliberate error is a `BentpipeError`, so one ``except`` catches them all. Errors that the user can fix (a wrong
name, a malformed value, an unreadable file) are `UserError`: the command line prints the message as one line and exits
with code 2.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class BentpipeError(Exception):
    """Base of every deliberate error.

    Attributes:
        code: Stable name of the kind of error, for programs.
        exit_code: Exit code of the command line.

    Example:
        >>> import bentpipe as bp
        >>> try:
        ...     path = bp.Profile.read("nowhere.parquet")
        ... except bp.BentpipeError as error:
        ...     error.code, error.exit_code
        ('invalid', 2)
    """

    code = "failed"
    exit_code = 1


class UserError(BentpipeError, ValueError):
    """The user's mistake, in one line: ``where: found; expected …; try …``.

    A place that is a parameter of the called function is its bare name (``seeds``), and a parameter in another part is
    in backquotes; the command line prints the flag instead (``--seeds``).

    Attributes:
        where: The place: a parameter, or a file with the key or line; empty: none.
        found: The problem there, usually with the value.
        expected: The accepted values; empty: `found` says it.
        hint: What the user can try; empty: nothing beyond what is expected.

    Example:
        >>> error = UserError("0", where="seeds", expected="at least 1")
        >>> str(error), error.expected
        ('seeds: 0; expected at least 1', 'at least 1')
    """

    code = "invalid"
    exit_code = 2

    def __init__(
        self, found: str = "", *, where: str = "", expected: str = "", hint: str = "", code: str | None = None
    ) -> None:
        """Build the message; `code` replaces that of the class."""
        super().__init__(one_line(found, where, expected, hint))
        self.found, self.where, self.expected, self.hint = found, where, expected, hint
        if code is not None:
            self.code = code

    def within(self, place: str) -> UserError:
        """Return the same error with `place` before its own."""
        where = f"{place}: {self.where}" if self.where else place
        outer = UserError(self.found, where=where, expected=self.expected, hint=self.hint, code=self.code)
        for note in getattr(self, "__notes__", ()):
            outer.add_note(note)
        return outer


def one_line(found: str, where: str = "", expected: str = "", hint: str = "") -> str:
    """Return the message of an error with these parts; empty ones are left out."""
    place = f"{where}: " if where else ""
    return place + found + (f"; expected {expected}" if expected else "") + (f"; try {hint}" if hint else "")


class ControllerError(UserError):
    """A Python controller or application raised, or did something invalid: its Run fails, others continue."""

    code = "controller_failed"


class StoppedError(BentpipeError):
    """Ctrl-C, with the stored results: exit code 130, as shells report a process ended by SIGINT."""

    code = "interrupted"
    exit_code = 130


class StoreError(BentpipeError):
    """A write failed without a user's mistake (a full or failing disk): exit code 1."""

    code = "cannot_write"


class DiskFullError(StoreError):
    """The disk, or the user's quota on it, is full: the same write may succeed later."""

    code = "disk_full"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or an empty string if none is near."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str, where: str = "") -> UserError:
    """Return the error for an unknown name, with the nearest known name and a hint.

    `where` is the file and entry with the name, if it comes from a file.
    """
    problem = f"unknown {kind} {shown(name)}{did_you_mean(name, known)} ({hint})"
    return UserError(problem, where=where, code="unknown_name")


#: Largest number of characters of foreign text in a message; these suffice to recognise the problem.
SHOWN_CHARS = 80


def shown(value: object) -> str:
    """Format `value` for a message: one line, quoted if it is text, cut to `SHOWN_CHARS` characters."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


#: C0 controls except tab and line feed, DEL, C1 controls, and surrogates, which no encoding has.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """Replace characters that a terminal may interpret as a command by U+FFFD.

    Names and versions come from files and devices; an escape sequence could set the terminal's title or clipboard.
    """
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
