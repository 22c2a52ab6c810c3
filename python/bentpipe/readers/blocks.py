"""Long texts in pieces of whole lines, so that no file need be in memory as a whole."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import IO

import polars as pl

#: Size of a piece [bytes]; chosen here: its columns take some ten times as much, and a log of ten minutes has two.
BLOCK_BYTES = 2 << 20
#: Pieces that are worked on at a time; chosen here: four are as fast as memory is.
WORKERS = min(4, os.cpu_count() or 1)
#: Longest line accepted [bytes]; chosen here: ten times what any tool prints.
LINE_BYTES = 64 << 10


def blocks(file: IO[bytes], size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Pieces of about `size` bytes that end with a line; the last may not."""
    rest = b""
    while data := file.read(size):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) <= LINE_BYTES:
            rest = data
            continue
        end = end or len(data)  # what has no lines is refused by who knows what they should be
        yield data[:end]
        rest = data[end:]
    if rest:
        yield rest


def blocks_of(data: bytes) -> Iterator[bytes]:
    """The same of a text that is in memory."""
    return blocks(io.BytesIO(data))


def lines_of(block: bytes) -> pl.Series:
    """The lines of a block without their ends; bytes that are not UTF-8 are replaced by U+FFFD."""
    text = block.decode("utf-8", "replace")
    return pl.Series("line", [text.removesuffix("\n")]).str.split("\n").explode()
