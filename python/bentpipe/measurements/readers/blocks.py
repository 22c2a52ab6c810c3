"""Long texts in blocks of whole lines, so that a file need not fit into memory."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

#: Size of a block [bytes]; chosen here: its columns take about ten times as much, and a log of ten minutes has two.
BLOCK_BYTES = 2 << 20
#: Blocks parsed in parallel; chosen here: four saturate the memory bandwidth.
WORKERS = min(4, os.cpu_count() or 1)
#: Longest line accepted [bytes]; chosen here: ten times what any tool prints.
LINE_BYTES = 64 << 10


def blocks(file: IO[bytes], size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield blocks of about `size` bytes that end with a newline; the last block may lack it."""
    rest = b""
    while data := file.read(size):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) <= LINE_BYTES:
            rest = data
            continue
        end = end or len(data)  # the format's parser refuses text without lines
        yield data[:end]
        rest = data[end:]
    if rest:
        yield rest


def blocks_of(data: bytes) -> Iterator[bytes]:
    """Yield `blocks` of a text in memory."""
    return blocks(io.BytesIO(data))


def lines_of(block: bytes) -> pl.Series:
    """Return the lines of a block without newlines; invalid UTF-8 becomes U+FFFD."""
    text = block.decode("utf-8", "replace")
    return pl.Series("line", [text.removesuffix("\n")]).str.split("\n").explode()


def without_cut(data: bytes) -> tuple[bytes, str | None]:
    """Return `data` without a truncated last line, and a note on it.

    A log that is still being written ends in such a line. Part of a number looks like a number, so the line cannot be
    trusted. A text of a single line is returned as it is.
    """
    whole, end, rest = data.rpartition(b"\n")
    if not rest.strip() or not whole.strip():
        return data, None
    return whole + end, cut_note(data.count(b"\n") + 1)


def cut_note(line: int) -> str:
    """Return the note on a truncated last line."""
    return f"line {line} is truncated (nothing ends it); left out"


class Growing:
    """Columns that grow by appending. Room is allocated ahead, which avoids fragmentation and a second copy."""

    def __init__(self, kinds: Mapping[str, type[np.generic]]) -> None:
        """Start with empty columns; `kinds` has their types by name."""
        self._whole: dict[str, NDArray[Any]] = {name: np.empty(0, kind) for name, kind in kinds.items()}
        self._count = 0

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Append the same number of rows to each column."""
        more = self._count + next(iter(rows.values())).size
        for name, new in rows.items():
            column = self._whole[name]
            if more > column.size:
                larger = np.empty(max(more, 2 * column.size), column.dtype)  # untouched pages take no memory
                larger[: self._count] = column[: self._count]
                self._whole[name] = column = larger
            column[self._count : more] = new
        self._count = more

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all appended rows, and drop the references to them here, so that the caller can free each column."""
        whole = {name: column[: self._count] for name, column in self._whole.items()}
        self._whole.clear()
        return whole
