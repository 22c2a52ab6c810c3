"""Read and write a Profile as one Parquet file: the long table, and JSON in the file's key-value metadata.

``docs/reference/profile-format.md`` describes the file. Polars, pandas and DuckDB read it without bentpipe.
"""

from __future__ import annotations

import hashlib
import io
import json
import os

import polars as pl

from bentpipe._native import Profile
from bentpipe.damage import Bound, check_size, guarded, read_parquet
from bentpipe.errors import UserError
from bentpipe.files import atomic_write, read_bytes
from bentpipe.profiles.table import profile_from_frame, profile_to_frame

#: Newest metadata format this build reads. The native module writes it, or 1 where all queues are drop-tail; a test
#: checks that both agree.
FORMAT = 2
#: Size limit of a Profile. Chosen here: 4 million rows take 0.7 GB of memory; a computed Profile of a day has 40
#: million in 160 MB.
BOUND = Bound(4_000_000, 0.5)
#: Keys in the file's metadata.
PROFILE_KEY = "bentpipe.profile"
HASH_KEY = "bentpipe.hash"

_MAGIC = b"PAR1"
_AGAIN = "the file is damaged, make it again"
#: Name that the writer's library leaves in the footer (Parquet's `created_by`).
_CREATED_BY = b"Polars"


def write_profile(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write a Profile to a Parquet file, atomically: after a failure the old file is unchanged.

    Raises:
        UserError: `path` cannot be written (no such directory, no permission), or the Profile has too many rows.
        StoreError: The disk is full or fails.

    Example:
        >>> import tempfile
        >>> from bentpipe.profiles import preset_profile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_profile(preset_profile("dumbbell", 10.0), f"{folder}/P.parquet")
        ...     read_profile(f"{folder}/P.parquet").duration_s
        10.0
    """
    buffer = io.BytesIO()
    metadata = {PROFILE_KEY: profile.metadata_json(), HASH_KEY: profile.content_hash()}
    profile_to_frame(profile).write_parquet(buffer, compression="zstd", metadata=metadata)
    data = buffer.getvalue()
    try:
        check_size(data, BOUND)
    except ValueError as error:
        raise UserError(
            f"the Profile is too long to be read again: {error}; make a shorter one", where=str(path)
        ) from None
    split = _footer_start(data)
    with atomic_write(path) as file:
        file.write(data[:split])
        file.write(hashlib.sha256(data).digest())
        file.write(data[split:])


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a Profile from a Parquet file, and check its checksum and content hash.

    Args:
        path: A file that `write_profile` or ``bentpipe profile make`` wrote.

    Raises:
        UserError: The file is missing, not Parquet, not a Profile, of a newer format, or damaged; one line says which.

    Example:
        See `write_profile`.
    """
    data = read_bytes(path)
    if not data:
        raise UserError("is empty", where=str(path), expected="a Profile (Parquet)")
    if not data.startswith(_MAGIC):
        raise UserError(
            "is not a Parquet file", where=str(path), expected="a Profile, as `bentpipe profile make` writes it"
        )
    if not data.endswith(_MAGIC) or len(data) < 12:
        raise UserError(f"the Parquet file is cut short ({len(data)} bytes): {_AGAIN}", where=str(path))
    if not _checksum_holds(data):
        if PROFILE_KEY.encode() not in data:
            raise UserError(
                f"is a Parquet file but not a Profile, or only part of one (no {PROFILE_KEY} in it)", where=str(path)
            )
        _refuse_newer_or_rewritten(path, data)
        raise UserError(f"its bytes do not match their checksum: {_AGAIN}", where=str(path))
    stored = guarded(
        lambda: pl.read_parquet_metadata(io.BytesIO(data)),
        lambda reason: UserError(f"Parquet cannot read it ({reason}): {_AGAIN}", where=str(path)),
    )
    metadata = stored.get(PROFILE_KEY, "")
    _check_format(path, metadata)
    frame = guarded(
        lambda: read_parquet(data, BOUND),
        lambda reason: UserError(f"Parquet cannot read it: {reason}", where=str(path)),
    )
    try:
        profile = profile_from_frame(frame, metadata)
    except UserError as error:
        raise UserError(f"{error}", where=str(path)) from None
    if profile.content_hash() != stored.get(HASH_KEY):
        raise UserError(f"its content does not match its hash: {_AGAIN}", where=str(path))
    return profile


def _footer_start(data: bytes) -> int:
    """Return the offset of the footer; its length is in the four bytes before the last magic."""
    return max(0, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))


def _checksum_holds(data: bytes) -> bool:
    """Return whether the file is undamaged.

    Polars reads some damaged files without complaint and prints a panic's back-trace for others, so nothing is
    decoded before this holds. The checksum (SHA-256 of the file without it) stands just before the footer, where
    Parquet readers, which go by the offsets in the footer, never look.
    """
    end = _footer_start(data)
    start = end - hashlib.sha256().digest_size
    return start > 0 and hashlib.sha256(data[:start] + data[end:]).digest() == data[start:end]


def _refuse_newer_or_rewritten(path: str | os.PathLike[str], data: bytes) -> None:
    """Raise if a file without our checksum is of a newer format or was rewritten by another program.

    This searches the footer as bytes, because Polars may fail on a damaged file.
    """
    footer = data[_footer_start(data) : -8]
    _, key, after = footer.partition(PROFILE_KEY.encode())
    text = after[after.find(b"{") :].decode("utf-8", "replace")
    try:
        metadata, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    if key and isinstance(metadata, dict) and "format" in metadata:
        _check_format(path, json.dumps(metadata))
        if _CREATED_BY not in footer:
            raise UserError(
                "was rewritten by another program, which dropped the checksum; use the original file, or "
                "write its table and metadata as csv and convert that (docs/reference/converters.md)",
                where=str(path),
            )


def _check_format(path: str | os.PathLike[str], metadata: str) -> None:
    """Refuse a newer format before the table is read, so that it does not look like damage."""
    try:
        version = json.loads(metadata)["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"its metadata is not a Profile's JSON: {_AGAIN}", where=str(path)) from None
    if isinstance(version, int) and version > FORMAT:
        raise UserError(
            f"has format {version}, this bentpipe reads up to {FORMAT}: install a newer bentpipe", where=str(path)
        )
