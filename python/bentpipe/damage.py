"""Tables that may be damaged or hostile, read by Polars: whatever it makes of their bytes is one line of ours.

On some damaged bytes Polars panics. That is no `Exception`, and by the time Python hears of it the threads of Polars
have printed messages and back traces where nobody asked for them: on file descriptor 2.
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
    """How much a Parquet file may hold: `rows` in any case, and `rows_per_byte` of a larger file.

    Real tables have less than one row in a byte: there is noise in what is measured. `values`, of the column with the
    most, are more than rows where rows hold lists.
    """

    rows: int
    rows_per_byte: float
    values: int = 100_000_000


#: Of measured tables. Chosen here: a day of 100 pings a second in any case, some 1 GB of memory.
MEASURED_BOUND = Bound(10_000_000, 2.0)
#: Largest file that is held in memory while it is read [bytes]. Chosen here: two days of 100 pings a second.
HELD_BYTES = 256 << 20
#: Unpacked bytes in any case, and in each byte of a larger file. Chosen here: real tables unpack to four times.
_UNPACKED_BYTES, _UNPACKED_PER_BYTE = 512 << 20, 64

#: A process has one descriptor 2.
_HOLDING = threading.RLock()
#: One panic ends other threads', which print theirs a moment later: until none did for so long, at most so often.
_QUIET_S, _MOST_WAITS = 0.02, 25


def guarded(read: Callable[[], T], refused: Callable[[str], UserError]) -> T:
    """`read()`; what else it raises is raised as `refused` of the reason, and what a panic prints is not seen.

    What others print on descriptor 2 meanwhile comes out when `read` has ended, unless it ends in a panic.

    Raises:
        UserError: The bytes are no such table.
    """
    try:
        with _HOLDING, _panics_unseen():
            return read()
    except UserError:
        raise
    except (Exception, PanicException) as error:  # noqa: BLE001 - damaged bytes can raise anything
        reason = str(error).partition("\n")[0].strip() or type(error).__name__
        if isinstance(error, PanicException):
            reason = "Polars gives it up: bytes inside are damaged"
        raise refused(reason) from None


def scan_parquet(path: Path, bound: Bound = MEASURED_BOUND, *, held: bool = False) -> pl.LazyFrame:
    """A Parquet file as a lazy table; its name is a name, whatever ``[`` and ``*`` are in it.

    Args:
        path: The file.
        bound: How much it may hold.
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
    """The table in the bytes of a Parquet file.

    Raises:
        ValueError: They are no Parquet file, or would unpack to more than `bound`.
    """
    check_size(data, bound)
    return pl.read_parquet(io.BytesIO(data))


def check_size(data: bytes, bound: Bound) -> None:
    """Raises `ValueError` where the bytes are no Parquet file, or would unpack to more than `bound`."""
    _check_size(lambda place, count: data[place : place + count], len(data), bound)


def _check_size(read_at: Callable[[int, int], bytes], file_bytes: int, bound: Bound) -> None:
    try:
        size = parquet_size(read_at, file_bytes)
    except IndexError:
        raise ValueError("its footer is cut off") from None
    for found, most, what in (
        (size.rows, max(bound.rows, int(bound.rows_per_byte * file_bytes)), "rows"),
        (size.values, max(bound.values, int(bound.rows_per_byte * file_bytes)), "values in a column"),
        (size.unpacked_bytes, max(_UNPACKED_BYTES, _UNPACKED_PER_BYTE * file_bytes), "unpacked bytes"),
    ):
        if found > most:
            raise ValueError(f"{found} {what} in a file of {file_bytes} bytes; wanted at most {most}")


def gone_through(
    scan: Callable[[], pl.LazyFrame], refused: Callable[[str], UserError], columns: Sequence[str] = ()
) -> pl.LazyFrame:
    """A lazy table of files whose pages were decoded once, in pieces: their damage would show else where it is used.

    Args:
        scan: Makes the table.
        refused: As in `guarded`.
        columns: Those that will be read, as far as it has them; empty: all.

    Raises:
        UserError: A file does not read.
    """

    def read() -> pl.LazyFrame:
        table = scan()
        there = [name for name in columns if name in table.collect_schema()]
        table.select((pl.col(there) if there else pl.all()).null_count()).collect(engine="streaming")
        return table

    return guarded(read, refused)


@contextlib.contextmanager
def _panics_unseen() -> Iterator[None]:
    """Keeps what is printed on descriptor 2 and prints it afterwards; with a panic all of it goes.

    A child that another thread starts meanwhile keeps the memory as its descriptor 2: what it says there is not seen.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):  # none, or closed
        sys.stderr.flush()
    try:
        real = os.dup(2)
    except OSError:  # a process without one
        yield
        return
    try:
        held = os.memfd_create("held", os.MFD_CLOEXEC)
    except OSError:  # no descriptor left: a panic is seen, and nothing is called damaged for that
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
        said = b"" if panicked else os.pread(held, os.fstat(held).st_size, 0)
        os.close(held)
        if said:
            with contextlib.suppress(OSError):
                os.write(2, said)


def _until_quiet(file: int) -> None:
    size = -1
    for _ in range(_MOST_WAITS):
        if size == (size := os.fstat(file).st_size):
            return
        time.sleep(_QUIET_S)
