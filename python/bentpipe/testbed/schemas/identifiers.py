"""Names and ids.

Users give names (of nodes, experiments); the orchestrator and agents make ids: 32 hexadecimal digits. An id that has to
be the same whoever makes it (a firing, a retried run) is a hash of its parts.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$")]
"""A name of a node or an experiment, or a tag: lower-case letters, digits, ``-``, ``_``; at most 64."""

Id = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""An id of a run, plan, experiment or trigger."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256, in hexadecimal digits."""

MOST_PARTS, LONGEST_PART, LONGEST_PATH = 8, 240, 600
"""Bounds of a result file's path: parts, and bytes in UTF-8; a file system takes 255, a key of S3 1024."""
_PUNCTUATION = frozenset(" ._+=~,()[]@-")


def is_file_path(text: str) -> bool:
    r"""Return whether a text can be the path of a result file, on every disk and store.

    Parts have letters and digits of any script, spaces between them, and ``._+=~,()[]@-``.

    Example:
        >>> [is_file_path(text) for text in (".cache/x", "a b.csv", "résumé.txt", "../x", "a/", "a?b", "a\nb")]
        [True, True, True, False, False, False, False]
    """
    parts = text.split("/")
    try:
        sizes = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:  # bytes that were no UTF-8
        return False
    fits = len(parts) <= MOST_PARTS and max(sizes) <= LONGEST_PART and sum(sizes) <= LONGEST_PATH
    return fits and all(_is_part(part) for part in parts)


def _is_part(part: str) -> bool:
    if part in ("", ".", "..") or part != part.strip():
        return False
    return all(each in _PUNCTUATION or unicodedata.category(each)[0] in "LMN" for each in part)


def _check_file_path(text: str) -> str:
    if not is_file_path(text):
        raise ValueError(FILE_PATH_RULE)
    return text


FILE_PATH_RULE = "a relative path of at most eight parts of letters, digits, spaces and ._+=~,()[]@-"
FilePath = Annotated[str, Field(max_length=LONGEST_PATH), AfterValidator(_check_file_path)]
"""A path of a result file: relative; `is_file_path` says which."""

ImageReference = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._/:-]{0,200}@sha256:[0-9a-f]{64}$")]
"""A container image by digest: ``name@sha256:…``; a tag may change."""


def new_id(now_ms: int) -> str:
    """Return a new id that sorts by time: 48 bits of milliseconds, 80 random ones."""
    return f"{now_ms & (2**48 - 1):012x}{secrets.token_hex(10)}"


def derived_id(*parts: object) -> str:
    """Return the id of something that is identified by these parts.

    Example:
        >>> derived_id("firing", "a", 7) == derived_id("firing", "a", 7)
        True
    """
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def is_id(text: str) -> bool:
    """Return whether a text is an id."""
    return re.fullmatch(r"[0-9a-f]{32}", text) is not None
