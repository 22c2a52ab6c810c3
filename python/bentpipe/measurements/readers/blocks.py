"""Long texts in pieces of whole lines, so that no file need be in memory as a whole."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

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


def without_cut(data: bytes) -> tuple[bytes, str | None]:
    """`data` without a last line that has no end, as a log that is still written has, and a note on it.

    What is left of a number is a number, too. A text of one line is as it is.
    """
    whole, end, rest = data.rpartition(b"\n")
    if not rest.strip() or not whole.strip():
        return data, None
    return whole + end, cut_note(data.count(b"\n") + 1)


def cut_note(line: int) -> str:
    """What is said of it."""
    return f"line {line} is cut off (nothing ends it); left out"


class Growing:
    """Columns that get longer and longer. Room is made ahead, so that memory has neither holes nor two copies."""

    def __init__(self, kinds: Mapping[str, type[np.generic]]) -> None:
        """Nothing in them yet; `kinds`: their types, by name."""
        self._whole: dict[str, NDArray[Any]] = {name: np.empty(0, kind) for name, kind in kinds.items()}
        self._count = 0

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """As many more of each."""
        more = self._count + next(iter(rows.values())).size
        for name, new in rows.items():
            column = self._whole[name]
            if more > column.size:
                larger = np.empty(max(more, 2 * column.size), column.dtype)  # not touched, it takes no memory
                larger[: self._count] = column[: self._count]
                self._whole[name] = column = larger
            column[self._count : more] = new
        self._count = more

    def columns(self) -> dict[str, NDArray[Any]]:
        """All that was appended. Takes it away from here, so that each can be let go."""
        found = {name: column[: self._count] for name, column in self._whole.items()}
        self._whole.clear()
        return found
