"""The errors a user of bentpipe may see.

Every error bentpipe raises on purpose is a `BentpipeError`, so one ``except`` catches them all. Those that the user
can put right (a wrong name, a malformed value, an unreadable file) are `UserError`: the command line prints the
message as one line and ends with exit code 2.
"""

from __future__ import annotations

import re


class BentpipeError(Exception):
    """Base of every error bentpipe raises on purpose; the command line ends with its `exit_code`."""

    exit_code = 1


class UserError(BentpipeError, ValueError):
    """The user's mistake: one line that says where, what was found, what was wanted and what to do."""

    exit_code = 2


class ControllerError(UserError):
    """A controller in Python that raised, or answered with what is no window or rate: its Run ends, others go on."""


class StoppedError(BentpipeError):
    """Ctrl-C, with what is kept: exit code 130, as shells report a process that SIGINT ended."""

    exit_code = 130


class StoreError(BentpipeError):
    """What could not be written through nobody's mistake (a full or failing disk): exit code 1."""


class DiskFullError(StoreError):
    """The disk, or the user's quota on it, is full: the same write may succeed later."""


#: Most characters of foreign text that a message shows: what is wrong with a longer one is seen in these.
SHOWN_CHARS = 80


def shown(value: object) -> str:
    """`value` as it appears in a message: one line, quoted if it is text, cut to `SHOWN_CHARS` characters."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


#: C0 controls but for tab and line feed, DEL, C1 controls, and surrogates, which no encoding has.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """Return `text` without what a terminal may take for a command; U+FFFD stands for each such character.

    Names and versions come from files and devices: an escape sequence could set the terminal's title or clipboard.
    """
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
