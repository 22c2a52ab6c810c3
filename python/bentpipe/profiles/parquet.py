"""Read and write a Profile or a Network as one Parquet file: the long table, and JSON in the key-value metadata.

``docs/reference/profile-format.md`` describes the file. Polars, pandas and DuckDB read it without bentpipe.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import dataclass

import polars as pl
from typing_extensions import TypeIs

from bentpipe._native import Network, Profile
from bentpipe.damage import Bound, check_size, guarded, read_parquet
from bentpipe.errors import UserError
from bentpipe.files import atomic_write, read_bytes
from bentpipe.profiles.table import network_from_frame, profile_from_frame, profile_to_frame

#: Newest metadata format this build reads. The native module writes it, or 1 where all queues are drop-tail; a test
#: checks that both agree.
FORMAT = 2
#: Size limit of a Profile. Chosen here: 4 million rows take 0.7 GB of memory; a computed Profile of a day has 40
#: million in 160 MB.
BOUND = Bound(4_000_000, 0.5)
#: Keys in the file's metadata.
PROFILE_KEY = "bentpipe.profile"
NETWORK_KEY = "bentpipe.network"
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
    _write(profile, PROFILE, path)


def write_network(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a network to a Parquet file, as `write_profile` does."""
    _write(network, NETWORK, path)


@dataclass(frozen=True)
class _Kind:
    """A kind of file: its name, the key of its metadata, the newest known format, and the command that writes it."""

    name: str
    key: str
    format: int
    command: str


PROFILE = _Kind("Profile", PROFILE_KEY, FORMAT, "bentpipe profile make")
NETWORK = _Kind("Network", NETWORK_KEY, 1, "bentpipe network make")


def _write(content: Profile | Network, kind: _Kind, path: str | os.PathLike[str]) -> None:
    buffer = io.BytesIO()
    metadata = {kind.key: content.metadata_json(), HASH_KEY: content.content_hash()}
    profile_to_frame(content).write_parquet(buffer, compression="zstd", metadata=metadata)
    data = buffer.getvalue()
    try:
        check_size(data, BOUND)
    except ValueError as error:
        raise UserError(
            f"the {kind.name} is too long to be read again: {error}; make a shorter one", where=str(path)
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
    content = _read(path, PROFILE)
    assert isinstance(content, Profile)  # of that kind
    return content


def read_network(path: str | os.PathLike[str]) -> Network:
    """Read a network from a Parquet file, as `read_profile` does."""
    content = _read(path, NETWORK)
    assert isinstance(content, Network)  # of that kind
    return content


def read_either(path: str | os.PathLike[str]) -> Profile | Network:
    """Read a Profile or a network, whichever the file holds, as `read_profile` does."""
    return _read(path, PROFILE, NETWORK)


def is_network(content: Profile | Network) -> TypeIs[Network]:
    """Tell whether a file's content is a network."""
    return isinstance(content, Network)


def _read(path: str | os.PathLike[str], *kinds: _Kind) -> Profile | Network:
    names = " or a ".join(kind.name for kind in kinds)
    data = read_bytes(path)
    if not data:
        raise UserError("is empty", where=str(path), expected=f"a {names} (Parquet)")
    if not data.startswith(_MAGIC):
        raise UserError(
            "is not a Parquet file",
            where=str(path),
            expected=f"a {names}, as `{kinds[0].command}` writes it",
        )
    if not data.endswith(_MAGIC) or len(data) < 12:
        raise UserError(f"the Parquet file is cut short ({len(data)} bytes): {_AGAIN}", where=str(path))
    if not _checksum_holds(data):
        if not any(kind.key.encode() in data for kind in (PROFILE, NETWORK)):
            raise UserError(
                f"is a Parquet file but not a {names}, or only part of one (no {kinds[0].key} in it)", where=str(path)
            )
        for kind in kinds:
            _refuse_newer_or_rewritten(path, data, kind)
        raise UserError(f"its bytes do not match their checksum: {_AGAIN}", where=str(path))
    stored = guarded(
        lambda: pl.read_parquet_metadata(io.BytesIO(data)),
        lambda reason: UserError(f"Parquet cannot read it ({reason}): {_AGAIN}", where=str(path)),
    )
    kind = next((kind for kind in (*kinds, PROFILE, NETWORK) if kind.key in stored), kinds[0])
    if kind not in kinds:
        raise UserError(f"holds a {kind.name}", where=str(path), expected=f"a {names}", hint=_HINTS[kind.name])
    metadata = stored.get(kind.key, "")
    _check_format(path, metadata, kind)
    frame = guarded(
        lambda: read_parquet(data, BOUND),
        lambda reason: UserError(f"Parquet cannot read it: {reason}", where=str(path)),
    )
    make = profile_from_frame if kind is PROFILE else network_from_frame
    try:
        content: Profile | Network = make(frame, metadata)
    except UserError as error:
        raise UserError(f"{error}", where=str(path)) from None
    if content.content_hash() != stored.get(HASH_KEY):
        raise UserError(f"its content does not match its hash: {_AGAIN}", where=str(path))
    return content


_HINTS = {
    "Network": "`bentpipe network show` it, `bentpipe race` it, or take one path with `bentpipe network path`",
    "Profile": "`bentpipe profile show`, or make a Network by `bentpipe network make`",
}


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


def _refuse_newer_or_rewritten(path: str | os.PathLike[str], data: bytes, kind: _Kind) -> None:
    """Raise if a file without our checksum is of a newer format or was rewritten by another program.

    This searches the footer as bytes, because Polars may fail on a damaged file.
    """
    footer = data[_footer_start(data) : -8]
    _, key, after = footer.partition(kind.key.encode())
    text = after[after.find(b"{") :].decode("utf-8", "replace")
    try:
        metadata, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    if key and isinstance(metadata, dict) and "format" in metadata:
        _check_format(path, json.dumps(metadata), kind)
        if _CREATED_BY not in footer:
            raise UserError(
                "was rewritten by another program, which dropped the checksum; use the original file, or "
                "write its table and metadata as csv and convert that (docs/reference/converters.md)",
                where=str(path),
            )


def _check_format(path: str | os.PathLike[str], metadata: str, kind: _Kind) -> None:
    """Refuse a newer format before the table is read, so that it does not look like damage."""
    try:
        version = json.loads(metadata)["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"its metadata is not a {kind.name}'s JSON: {_AGAIN}", where=str(path)) from None
    if isinstance(version, int) and version > kind.format:
        raise UserError(
            f"has format {version}, this bentpipe reads up to {kind.format}: install a newer bentpipe", where=str(path)
        )
