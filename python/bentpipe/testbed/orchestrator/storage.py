"""The store of results and files: a local folder or S3."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logging.getLogger("bentpipe.testbed")
PART_BYTES = 8 * 1024 * 1024
"""Bytes of one part of an upload to the store."""


class Storage:
    """A store of objects that are written once."""

    def __init__(self, store: Any, address: str) -> None:  # noqa: ANN401 - a store of obstore
        """Take a store of obstore."""
        self._store = store
        self.address = address

    @classmethod
    def open(cls, address: str) -> Storage:
        """Open a store.

        Args:
            address: A folder, or ``s3://BUCKET/PREFIX``; keys and region of S3 are in the usual variables (``AWS_…``).

        Raises:
            UserError: A folder that cannot be made, or an address of another kind.
        """
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, S3Store

        if address.startswith("s3://"):
            try:
                return cls(S3Store.from_url(address), address)
            except BaseError as error:
                reason = " ".join(str(error).split())[:200]
                raise UserError(f"{address}: {reason}", where="store", expected="s3://BUCKET/PREFIX") from None
        if "://" in address:
            raise UserError(address, where="store", expected="a folder or s3://BUCKET/PREFIX")
        folder = Path(address)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror}", where="store", expected="a folder") from None
        return cls(LocalStore(prefix=folder.resolve()), str(folder.resolve()))

    async def put(self, path: str, content: bytes | Path) -> None:
        """Write an object; one that exists already is left as it is (it was written by an earlier try)."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            if isinstance(content, Path) and content.stat().st_size > PART_BYTES:
                await self._put_large(path, content)
            else:
                data = content.read_bytes() if isinstance(content, Path) else content
                await obstore.put_async(self._store, path, data, mode="create")
        except AlreadyExistsError:
            log.info("%s is in the store already", path)

    async def _put_large(self, path: str, content: Path) -> None:
        """Write a large object in parts: a multipart upload has no mode ``create``, so look first."""
        import obstore

        if await self.size(path) == content.stat().st_size:
            return
        with content.open("rb") as file:
            await obstore.put_async(self._store, path, file, chunk_size=PART_BYTES)

    async def size(self, path: str) -> int | None:
        """Return the size of an object; None: there is none."""
        import obstore

        try:
            return int((await obstore.head_async(self._store, path))["size"])
        except FileNotFoundError:
            return None

    async def get(self, path: str) -> bytes | None:
        """Return an object; None: there is none."""
        import obstore

        try:
            return bytes(await (await obstore.get_async(self._store, path)).bytes_async())
        except FileNotFoundError:
            return None

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """Yield an object in parts. Raises FileNotFoundError."""
        import obstore

        result = await obstore.get_async(self._store, path)
        async for part in result.stream(min_chunk_size=256 * 1024):
            yield bytes(part)
