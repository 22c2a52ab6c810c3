"""Logs as JSON lines on stderr; a token is never in one."""

from __future__ import annotations

import logging
import re
import sys

_TOKEN = re.compile(r"\bbp[uj]_[A-Za-z0-9_-]{6,}")


def redact(text: str) -> str:
    """Replace tokens in a text.

    Example:
        >>> redact("Bearer bpu_abcdefgh")
        'Bearer bp…'
    """
    return _TOKEN.sub("bp…", text)


class _Redacting(logging.Filter):
    """Replaces tokens in records."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


def log_as_json(level: int = logging.INFO) -> None:
    """Send the testbed's log, and warnings of its libraries, to stderr as JSON lines."""
    from pythonjsonlogger.json import JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", rename_fields={"asctime": "at"})
    )
    handler.addFilter(_Redacting())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("bentpipe.testbed").setLevel(level)
