"""Quality of experience of a player, from when its chunks were requested and when they arrived."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STALL_WEIGHT = 4.3
"""Weight of a second of stall [Mbit/s] (Pensieve, section 5.1: the highest bitrate)."""


@dataclass(frozen=True)
class Chunk:
    """A chunk as the player saw it.

    Attributes:
        quality: Its quality, from 0.
        bitrate_mbps: Nominal bitrate of the quality [Mbit/s].
        download_s: Time from the request until the last byte [s].
        stall_s: Time that the picture stood until it came [s]; of the first chunk 0: that is the start-up.
        buffer_s: Playing time in the buffer once it was there [s].
    """

    quality: int
    bitrate_mbps: float
    download_s: float
    stall_s: float
    buffer_s: float


@dataclass(frozen=True)
class Experience:
    """What a viewer had. The first chunk counts for none but the start-up.

    Attributes:
        qoe_mean: Mean over chunks of bitrate − 4.3 · stall − |change of bitrate| [Mbit/s, s].
        bitrate_mbps: Mean bitrate [Mbit/s].
        stall_s: Sum of stalls [s].
        switches: Changes of quality.
        startup_s: Time from the begin until the first chunk was there [s].
    """

    qoe_mean: float
    bitrate_mbps: float
    stall_s: float
    switches: int
    startup_s: float


def play(
    qualities: Sequence[int],
    requested_s: Sequence[float],
    arrived_s: Sequence[float],
    rates_bps: Sequence[int],
    chunk_s: float,
) -> list[Chunk]:
    """Play the chunks of a Run.

    Args:
        qualities: Quality of each chunk.
        requested_s: When each was requested [s].
        arrived_s: When each arrived [s].
        rates_bps: Bitrate of each quality [bit/s].
        chunk_s: Playing time of a chunk [s].

    Example:
        >>> chunks = play([0, 0], [0.0, 1.0], [1.0, 7.0], [1_000_000], 4.0)
        >>> chunks[1].stall_s, chunks[1].buffer_s
        (2.0, 4.0)
    """
    chunks: list[Chunk] = []
    buffer_s, at_s = 0.0, arrived_s[0] if arrived_s else 0.0
    for quality, requested, arrived in zip(qualities, requested_s, arrived_s, strict=True):
        gap_s = arrived - at_s
        stall_s = max(0.0, gap_s - buffer_s)
        buffer_s, at_s = max(0.0, buffer_s - gap_s) + chunk_s, arrived
        chunks.append(Chunk(quality, rates_bps[quality] / 1e6, arrived - requested, stall_s, buffer_s))
    return chunks


def experience(chunks: Sequence[Chunk], startup_s: float) -> Experience:
    """Return the experience of at least two chunks.

    Example:
        >>> chunks = play([0, 1], [0.0, 1.0], [1.0, 2.0], [1_000_000, 3_000_000], 4.0)
        >>> experience(chunks, 1.0).qoe_mean
        1.0
    """
    changes = [now.bitrate_mbps - before.bitrate_mbps for before, now in itertools.pairwise(chunks)]
    rest = chunks[1:]
    terms = [
        chunk.bitrate_mbps - STALL_WEIGHT * chunk.stall_s - abs(change)
        for chunk, change in zip(rest, changes, strict=True)
    ]
    return Experience(
        qoe_mean=sum(terms) / len(terms),
        bitrate_mbps=sum(chunk.bitrate_mbps for chunk in rest) / len(rest),
        stall_s=sum(chunk.stall_s for chunk in rest),
        switches=sum(change != 0 for change in changes),
        startup_s=startup_s,
    )
