"""A video in chunks: from a manifest or files of sizes, or the built-in one, whose sizes are generated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

PENSIEVE_KBPS = (300, 750, 1200, 1850, 2850, 4300)
"""Bitrates of the Pensieve video [kbit/s] (Mao, Netravali and Alizadeh, SIGCOMM 2017, section 5.1)."""

PENSIEVE_CHUNKS = 49
"""Chunks of the Pensieve video (`TOTAL_VIDEO_CHUNCK` of its simulator, and the first)."""

CHUNK_S = 4.0
"""Playing time of a chunk of the Pensieve video [s]."""

SPREAD = 0.1
"""Standard deviation of generated sizes over their mean: the encoded Pensieve video has 0.07 to 0.11."""

COMMON = 0.85
"""Correlation of generated sizes between qualities: the encoded Pensieve video has 0.67 to 0.95."""

SEED = 2017
"""Seed of generated sizes."""


@dataclass(frozen=True)
class VideoDescription:
    """A video.

    Attributes:
        name: Its name.
        rates_bps: Nominal bitrate of each quality, rising [bit/s].
        chunk_bytes: Size of each chunk [bytes], for each quality.
        chunk_s: Playing time of a chunk [s].
        is_generated: Whether the sizes are generated.
    """

    name: str
    rates_bps: tuple[int, ...]
    chunk_bytes: tuple[tuple[int, ...], ...]
    chunk_s: float
    is_generated: bool = False

    @property
    def chunks(self) -> int:
        """Number of its chunks."""
        return len(self.chunk_bytes[0])


def generated_sizes(rates_bps: Sequence[int], chunks: int, chunk_s: float) -> tuple[tuple[int, ...], ...]:
    """Return sizes of chunks around the nominal bitrates: log-normal, alike at all qualities, always the same.

    Args:
        rates_bps: Bitrates [bit/s].
        chunks: Number of chunks.
        chunk_s: Playing time of each [s].

    Example:
        >>> sizes = generated_sizes([1_000_000], 1000, 4.0)
        >>> round(sum(sizes[0]) / 1000 / 500_000, 2)
        1.0
    """
    draws = np.random.default_rng(SEED)
    common = draws.standard_normal(chunks)
    sizes = []
    for bps in rates_bps:
        own = draws.standard_normal(chunks)
        factor = np.exp(SPREAD * (np.sqrt(COMMON) * common + np.sqrt(1 - COMMON) * own))
        sizes.append(tuple(int(each) for each in np.maximum(bps * chunk_s / 8 * factor / factor.mean(), 24)))
    return tuple(sizes)


def pensieve() -> VideoDescription:
    """Return a video with the bitrates and the length of Pensieve's, and generated sizes.

    Example:
        >>> video = pensieve()
        >>> len(video.rates_bps), video.chunks, video.chunk_s
        (6, 49, 4.0)
    """
    rates = tuple(kbps * 1000 for kbps in PENSIEVE_KBPS)
    sizes = generated_sizes(rates, PENSIEVE_CHUNKS, CHUNK_S)
    return VideoDescription("pensieve", rates, sizes, CHUNK_S, is_generated=True)


def check_video(video: VideoDescription) -> VideoDescription:
    """Return a video that a player can play. Raises `UserError`."""
    rates = video.rates_bps
    if not 1 <= len(rates) <= 16:
        raise UserError(f"{len(rates)} qualities", where=video.name, expected="1 to 16")
    if rates[0] <= 0 or any(low >= high for low, high in itertools.pairwise(rates)):
        raise UserError(f"bitrates {', '.join(map(str, rates))} bit/s", where=video.name, expected="each another one")
    if not all(len(sizes) == video.chunks > 0 for sizes in video.chunk_bytes):
        counts = ", ".join(str(len(sizes)) for sizes in video.chunk_bytes)
        raise UserError(f"{counts} chunks", where=video.name, expected="as many at each quality, at least one")
    if video.chunks > 100_000:
        raise UserError(f"{video.chunks} chunks", where=video.name, expected="at most 100,000")
    if any(not 24 <= size <= 2**40 for sizes in video.chunk_bytes for size in sizes):
        raise UserError("a chunk of less than 24 bytes, or of a terabyte", where=video.name, expected="sizes in bytes")
    return video
