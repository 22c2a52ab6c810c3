"""Reading and writing of files. A failure is one clear line and never leaves half a file."""

from __future__ import annotations

import errno
import os
import stat
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO

from bentpipe.errors import DiskFullError, StoreError, UserError

GZIP_MAGIC = b"\x1f\x8b"
#: Errors of the disk, not of the file's name.
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces `path` at the end of the ``with`` block, or leaves it unchanged.

    Data are written to a temporary file beside `path`, flushed to the disk, and renamed. If anything fails (a full
    disk, an exception inside the block, Ctrl-C), the temporary file is removed.

    Raises:
        UserError: The directory is missing or not writable, or `path` is not a file.
        StoreError: The disk is full or fails.
    """
    target = Path(os.path.realpath(path))  # `resolve` raises RuntimeError on circular links
    if target.is_dir():
        raise UserError(f"{path}: is a directory; expected the name of a file to write")
    if target.exists() and not target.is_file():
        raise UserError(f"{path}: is not an ordinary file; expected the name of a file to write")
    if not target.parent.is_dir():
        raise UserError(f"{path}: the directory {target.parent} does not exist; make it first")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync_directory(target.parent)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def replace_file(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Write `data` to `path` in one step. Raises as `atomic_write`.

    Tables are written to memory first: Polars panics if the disk is full while it writes a file.
    """
    with atomic_write(path) as file:
        file.write(data)


def write_error(path: str | os.PathLike[str], error: OSError) -> UserError | StoreError:
    """Return the exception for a failed write of `path`: the user's mistake, or the disk's fault."""
    kind = DiskFullError if is_full(error) else StoreError if error.errno in _DISK else UserError
    return kind(f"{path}: cannot be written: {reason_of(error)}")


def reason_of(error: OSError) -> str:
    """Describe the system's reason; a full disk is named as such, followed by the system's words."""
    words = (error.strerror or str(error)).lower()
    return f"the disk is full ({words})" if is_full(error) else words


def is_full(error: OSError) -> bool:
    """Tell whether the disk, or the user's quota on it, is full."""
    return error.errno in _FULL


#: Largest file that is read whole [bytes]: 2 GiB. Chosen here: more than any useful input, and small enough for a
#: laptop's memory.
MAX_BYTES = 2 << 30


def read_bytes(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """Read the whole file after checking its type: a device or a pipe may never end.

    Raises:
        UserError: It is missing, not an ordinary file, larger than `limit` [bytes] or unreadable.
    """
    with open_input(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise UserError(f"{path}: is too large ({size} bytes); expected at most {limit} bytes")
        try:
            return file.read()
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {reason_of(error)}") from error


def open_input(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file for reading after checking its type: a device or a pipe may never end.

    Raises:
        UserError: It is missing, not an ordinary file or unreadable.
    """
    source = Path(path)
    try:
        status = source.stat()
        if stat.S_ISDIR(status.st_mode):
            raise UserError(f"{path}: is a directory; expected a file")
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path}: is not an ordinary file; expected a file")
        return source.open("rb")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {reason_of(error)}") from error


def read_unpacked(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """Read the whole file, unpacked if it is gzip, up to `limit` bytes, whatever size the file claims.

    Raises:
        UserError: As `read_bytes`; or the gzip file is damaged, truncated, or unpacks to more than `limit` [bytes].
    """
    return unpacked(read_bytes(path, limit), path, limit)


#: Limits of unpacking: bytes in any case, and multiples of the packed size. Chosen here: real logs and results unpack
#: to 5 to 40 times their size, a hostile gzip file to 1,000 times.
_ANY_UNPACKED_BYTES, _UNPACKED_TIMES = 64 << 20, 100


def unpacked_limit(packed_bytes: int) -> int:
    """Return the largest number of bytes that a packed measurement may unpack to."""
    return min(MAX_BYTES, max(_ANY_UNPACKED_BYTES, _UNPACKED_TIMES * packed_bytes))


def unpacked(data: bytes, path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file, unpacked if they are gzip; `path` names it in messages.

    Raises:
        UserError: The gzip file is damaged, truncated, or unpacks to more than `limit` [bytes].
    """
    if not data.startswith(GZIP_MAGIC):
        return data
    parts: list[bytes] = []
    total = 0
    while data:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            part = unpacker.decompress(data, limit - total + 1)
        except zlib.error as error:
            raise UserError(f"{path}: is damaged: {error}; get the file again") from None
        total += len(part)
        if total > limit:
            raise UserError(f"{path}: unpacks to more than {limit} bytes; expected at most that")
        if not unpacker.eof:
            raise UserError(f"{path}: the gzip file is truncated; get the file again")
        parts.append(part)
        data = unpacker.unused_data.lstrip(b"\0")
    return b"".join(parts)


def read_text(path: str | os.PathLike[str]) -> str:
    """Read the whole file as UTF-8 text, with or without a byte-order mark.

    Raises:
        UserError: As `read_bytes`; or the file is not text (the line is named).
    """
    return text_of(read_bytes(path), path)


def text_of(data: bytes, path: str | os.PathLike[str]) -> str:
    """Decode the bytes of a file as UTF-8, with or without a byte-order mark; `path` names it in messages.

    Raises:
        UserError: They are not UTF-8 (the line is named).
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: is not UTF-8 text (byte 0x{data[error.start]:02x})") from None


def _sync_directory(directory: Path) -> None:
    """Sync a directory, so that a rename survives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
