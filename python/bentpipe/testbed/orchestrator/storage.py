"""The store of results and files: a local folder or S3."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.services.refusals import ConflictError

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
        """Write an object. The same content again changes nothing: it was written by an earlier try.

        An object with other content is of a try that ended before its commit: it is kept with a suffix.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError

        size = content.stat().st_size if isinstance(content, Path) else len(content)
        present = await self.size(path)
        if present is not None:
            digest, present_digest = await asyncio.to_thread(_sha256, content), await self._sha256(path)
            if (present, present_digest) == (size, digest):
                log.info("%s is in the store already", path)
                return
            aside = f"{path}.other-{present_digest[:12]}"
            log.warning("%s is in the store with other content, which is now %s", path, aside)
            await obstore.rename_async(self._store, path, aside)
        if isinstance(content, Path) and size > PART_BYTES:  # in parts, which has no mode `create`
            with content.open("rb") as file:
                await obstore.put_async(self._store, path, file, chunk_size=PART_BYTES)
            return
        data = content.read_bytes() if isinstance(content, Path) else content
        try:
            await obstore.put_async(self._store, path, data, mode="create")
        except AlreadyExistsError:  # another process, at the same moment
            if await self._sha256(path) != hashlib.sha256(data).hexdigest():
                raise ConflictError(f"{path} was written by another process meanwhile; try again") from None

    async def _sha256(self, path: str) -> str:
        """Return the hash of an object. Raises FileNotFoundError."""
        digest = hashlib.sha256()
        async for part in self.stream(path):
            digest.update(part)
        return digest.hexdigest()

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


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
