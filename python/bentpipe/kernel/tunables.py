"""Tunables of controllers, as their programs in the kernel read them."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from bentpipe import _native
from bentpipe.kernel import libbpf, owned
from bentpipe.kernel.libbpf import FIRST_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUM_FACTOR = 0x9E3779B97F4A7C15
"""Factor of the sum over all words (`BP_SUM_FACTOR` in bpf/core/options.h)."""
_STORED_BYTES = (2 + 64 + 1) * 8
"""Generation, which are set, the words (`BP_MAX_OPTIONS`), and the sum."""


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


def maps_of(registration: libbpf.MapInfo) -> list[libbpf.MapInfo]:
    """Return the map with a registration's tunables; none if another version of bentpipe loaded it."""
    return owned.maps_of(registration, "bpo_", (libbpf.ARRAY, len(FIRST_KEY), _STORED_BYTES))


def stored_in(registration: libbpf.MapInfo) -> bytes | None:
    """Return what a registration's map of tunables has; None: as `maps_of`. Raises `KernelRefusedError`."""
    for info in maps_of(registration):
        with libbpf.open_map(info.id) as file:
            return libbpf.value_of(file, FIRST_KEY, info.value_bytes)
    return None


def values_of(name: str, stored: bytes) -> dict[str, float | str] | None:
    """Return the tunables that a map has; None: not written by this version of bentpipe.

    Example:
        >>> from bentpipe.kernel.tunables import option_words, stored_words, values_of
        >>> values_of("hybla", stored_words(1, option_words("hybla", {"rtt0_ms": 20})))
        {'rtt0_ms': 20.0, 'counts': 'acks'}
    """
    if len(stored) != _STORED_BYTES or stored != stored_words(struct.unpack_from("<Q", stored)[0], stored[:-8]):
        return None
    return _native.option_values(name, stored[:-8])


def is_of_another_version(stored: bytes, words: bytes) -> bool:
    """Return whether a map has the tunables of another version of bentpipe, to which these `words` are other tunables.

    Example:
        >>> from bentpipe.kernel.tunables import is_of_another_version, option_words, stored_words
        >>> is_of_another_version(stored_words(1, option_words("bbr3", {})), option_words("bbr3-leo", {}))
        True
    """
    is_whole = stored == stored_words(struct.unpack_from("<Q", stored)[0], stored[:-8])
    return is_whole and stored[-16:-8] != words[-8:]  # the last word marks their names and order


def changed(name: str, values: Mapping[str, float | str]) -> dict[str, float | str]:
    """Return those of a controller's tunables that differ from their defaults.

    Example:
        >>> from bentpipe.kernel.tunables import changed
        >>> changed("hybla", {"rtt0_ms": 20.0, "counts": "acks"})
        {'rtt0_ms': 20.0}
    """
    (entry,) = (each for each in _native.controllers() if each["name"] == name)
    defaults = {each["name"]: each["default"] for each in entry["tunables"]}
    return {each: value for each, value in values.items() if value != defaults[each]}
