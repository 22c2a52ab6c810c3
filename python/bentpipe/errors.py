"""The exceptions of bentpipe.

Every deliberate error is a `BentpipeError`, so one ``except`` catches them all. Errors that the user can fix (a wrong
name, a malformed value, an unreadable file) are `UserError`: the command line prints the message as one line and exits
with code 2.
"""

from __future__ import annotations

import re


class BentpipeError(Exception):
    """Base of every deliberate error; the command line exits with its `exit_code`."""

    exit_code = 1


class UserError(BentpipeError, ValueError):
    """The user's mistake, in one line: place, problem, expected value and remedy."""

    exit_code = 2


class ControllerError(UserError):
    """A Python controller raised, or set an invalid window or rate: its Run fails, others continue."""


class StoppedError(BentpipeError):
    """Ctrl-C, with the stored results: exit code 130, as shells report a process ended by SIGINT."""

    exit_code = 130


class StoreError(BentpipeError):
    """A write failed without a user's mistake (a full or failing disk): exit code 1."""


class DiskFullError(StoreError):
    """The disk, or the user's quota on it, is full: the same write may succeed later."""


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
