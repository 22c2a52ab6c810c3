"""Reading of tables that may be damaged or hostile with Polars: every failure becomes a one-line error.

On some damaged bytes Polars panics. A panic is no `Exception`, and before Python receives it the threads of Polars have
printed messages and backtraces on file descriptor 2.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import polars as pl
from polars.exceptions import PanicException

from bentpipe.errors import UserError
from bentpipe.parquet_size import parquet_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


@dataclass(frozen=True)
class Bound:
    """Limit on the size of a Parquet file: `rows` in any case, and `rows_per_byte` of a larger file.

    Real tables have less than one row per byte, because measurements are noisy. `values` limits the largest column,
    which has more values than rows if its rows are lists.
    """

    rows: int
    rows_per_byte: float
    values: int = 100_000_000


#: Limit of measured tables. Chosen here: a day of 100 pings a second in any case, about 1 GB of memory.
MEASURED_BOUND = Bound(10_000_000, 2.0)
#: Largest file that is kept in memory while it is read [bytes]. Chosen here: two days of 100 pings a second.
HELD_BYTES = 256 << 20
#: Limit of unpacked bytes in any case, and per byte of a larger file. Chosen here: real tables unpack to four times.
_UNPACKED_BYTES, _UNPACKED_PER_BYTE = 512 << 20, 64
#: Limit of the values of all columns in any case, and per byte of a larger file. Chosen here: 16 bytes a value are some
#: 0.6 GB of memory; tables of a million rows have up to 20 columns.
_CELLS, _CELLS_PER_BYTE = 40_000_000, 8

#: Lock, because a process has only one descriptor 2.
_HOLDING = threading.RLock()
#: After a panic, other threads print theirs a moment later: wait until none has for this long, at most this often.
_QUIET_S, _MOST_WAITS = 0.02, 25


def guarded(read: Callable[[], T], refused: Callable[[str], UserError]) -> T:
    """Return `read()`; raise other errors as `refused(reason)`, and suppress the output of a panic.

    Other output on descriptor 2 is delayed until `read` has ended. It is lost if `read` panics.

    Raises:
        UserError: The bytes are no such table.
    """
    try:
        with _HOLDING, _panic_output_suppressed():
            return read()
    except UserError:
        raise
    except (Exception, PanicException) as error:  # noqa: BLE001 - damaged bytes can raise anything
        reason = str(error).partition("\n")[0].strip() or type(error).__name__
        if isinstance(error, PanicException):
            reason = "Polars cannot decode it: its bytes are damaged"
        raise refused(reason) from None


def scan_parquet(path: Path, bound: Bound = MEASURED_BOUND, *, held: bool = False) -> pl.LazyFrame:
    """Open a Parquet file as a lazy table; ``[`` and ``*`` in its name have no special meaning.

    Args:
        path: The file.
        bound: Limit on its size.
        held: Keep its bytes in memory, if they are at most `HELD_BYTES`: another program may cut or replace the file
            before the table is read, on which Polars panics.

    Raises:
        ValueError: It is no Parquet file, or would unpack to more than `bound`.
        OSError: It does not read.
    """
    with path.open("rb") as file:
        number = file.fileno()
        size = os.fstat(number).st_size
        if held and size <= HELD_BYTES:
            data = file.read()
            check_size(data, bound)
            return pl.scan_parquet(io.BytesIO(data))
        _check_size(lambda place, count: os.pread(number, count, place), size, bound)
    return pl.scan_parquet(path, glob=False)


def read_parquet(data: bytes, bound: Bound = MEASURED_BOUND) -> pl.DataFrame:
    """Read the table in the bytes of a Parquet file.

    Raises:
        ValueError: They are no Parquet file, or would unpack to more than `bound`.
    """
    check_size(data, bound)
    return pl.read_parquet(io.BytesIO(data))


def check_size(data: bytes, bound: Bound) -> None:
    """Raise `ValueError` if the bytes are no Parquet file, or would unpack to more than `bound`."""
    _check_size(lambda place, count: data[place : place + count], len(data), bound)


def _check_size(read_at: Callable[[int, int], bytes], file_bytes: int, bound: Bound) -> None:
    try:
        size = parquet_size(read_at, file_bytes)
    except IndexError:
        raise ValueError("its footer is truncated") from None
    for count, most, unit in (
        (size.rows, max(bound.rows, int(bound.rows_per_byte * file_bytes)), "rows"),
        (size.values, max(bound.values, int(bound.rows_per_byte * file_bytes)), "values in a column"),
        (size.cells, max(_CELLS, _CELLS_PER_BYTE * file_bytes), "values in all columns"),
        (size.unpacked_bytes, max(_UNPACKED_BYTES, _UNPACKED_PER_BYTE * file_bytes), "unpacked bytes"),
    ):
        if count > most:
            raise ValueError(f"{count} {unit} in a file of {file_bytes} bytes; expected at most {most}")


def decoded_scan(
    scan: Callable[[], pl.LazyFrame], refused: Callable[[str], UserError], columns: Sequence[str] = ()
) -> pl.LazyFrame:
    """Return a lazy table of files after decoding all pages once, so that damage is detected here and not later.

    Args:
        scan: Makes the table.
        refused: As in `guarded`.
        columns: The columns that will be read, as far as they exist; empty: all.

    Raises:
        UserError: A file does not read.
    """

    def read() -> pl.LazyFrame:
        table = scan()
        present = [name for name in columns if name in table.collect_schema()]
        table.select((pl.col(present) if present else pl.all()).null_count()).collect(engine="streaming")
        return table

    return guarded(read, refused)


@contextlib.contextmanager
def _panic_output_suppressed() -> Iterator[None]:
    """Buffer output on descriptor 2 and print it afterwards; discard it after a panic.

    A child process that another thread starts meanwhile inherits the buffer as its descriptor 2; its output is lost.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):  # no stderr, or a closed one
        sys.stderr.flush()
    try:
        real = os.dup(2)
    except OSError:  # a process without one
        yield
        return
    try:
        held = os.memfd_create("held", os.MFD_CLOEXEC)
    except OSError:  # no descriptor left: a panic's output is visible, but the read can still succeed
        os.close(real)
        yield
        return
    panicked = False
    try:
        os.dup2(held, 2)
        yield
    except PanicException:
        panicked = True
        _until_quiet(held)
        raise
    finally:
        os.dup2(real, 2)
        os.close(real)
        output = b"" if panicked else os.pread(held, os.fstat(held).st_size, 0)
        os.close(held)
        if output:
            with contextlib.suppress(OSError):
                os.write(2, output)


def _until_quiet(file: int) -> None:
    size = -1
    for _ in range(_MOST_WAITS):
        if size == (size := os.fstat(file).st_size):
            return
        time.sleep(_QUIET_S)
