"""Tunables of controllers, as their programs in the kernel read them."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from bentpipe import _native

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUM_FACTOR = 0x9E3779B97F4A7C15
"""Factor of the sum over all words (`BP_SUM_FACTOR` in bpf/core/options.h)."""


def option_words(name: str, options: Mapping[str, float | str]) -> bytes:
    """Return a controller's options as its program reads them: those given, and the defaults of the others.

    Raises:
        UserError: An unknown option, or one out of range.

    Example:
        >>> from bentpipe.kernel.tunables import option_words
        >>> option_words("bbr3-leo", {}) == option_words("bbr3-leo", {"max_rto_ms": 0})
        False
    """
    return _native.option_words(name, json.dumps(dict(options)))


def stored_words(generation: int, words: bytes) -> bytes:
    """Return the value of a map of options: the words with their generation, and the sum over all."""
    whole = struct.pack("<Q", generation) + words[8:]
    total = 0
    for (word,) in struct.iter_unpack("<Q", whole):
        total = (total + word) * _SUM_FACTOR & 2**64 - 1
    return whole + struct.pack("<Q", total)
