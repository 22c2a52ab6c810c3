"""Names and ids.

Users give names (of nodes, experiments); the orchestrator and agents make ids: 32 hexadecimal digits. An id that has to
be the same whoever makes it (a firing, a retried run) is a hash of its parts.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Annotated

from pydantic import Field

Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$")]
"""A name of a node or an experiment, or a tag: lower-case letters, digits, ``-``, ``_``; at most 64."""

Id = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""An id of a run, plan, experiment or trigger."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256, in hexadecimal digits."""

_PART = r"[A-Za-z0-9_+=~-][A-Za-z0-9._+=~-]*"
FilePath = Annotated[str, Field(pattern=rf"^{_PART}(/{_PART}){{0,7}}$", max_length=300)]
"""A path of a result file: relative, at most eight parts, none of which begins with a dot."""

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
