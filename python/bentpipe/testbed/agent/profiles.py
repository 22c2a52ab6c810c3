"""Files of Profiles at the node: fetched by hash, kept while there is room."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.testbed.agent.connection import Orchestrator

KEPT_BYTES = 500_000_000
"""Size of all that are kept [bytes]; the one that was used longest ago goes first."""


class ProfileFiles:
    """A folder of Profiles."""

    def __init__(self, folder: Path, orchestrator: Orchestrator) -> None:
        """Make the folder."""
        self._folder, self._orchestrator = folder, orchestrator
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for half in folder.glob(".*"):
            half.unlink()
        self._lock = asyncio.Lock()

    async def get(self, sha256: str) -> Path:
        """Return the file with this hash; fetched if it is missing.

        Raises:
            BentpipeError: It cannot be fetched, or has another hash.
        """
        path = self._folder / f"{sha256}.parquet"
        async with self._lock:
            if path.exists():
                path.touch()
                return path
            half = self._folder / f".{sha256}"
            await self._orchestrator.download(sha256, half)
            digest = hashlib.sha256(half.read_bytes()).hexdigest()
            if digest != sha256:
                half.unlink()
                raise BentpipeError(f"the Profile {sha256[:12]} arrived with the hash {digest[:12]}")
            half.rename(path)
            self._tidy()
        return path

    def _tidy(self) -> None:
        files = sorted(self._folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime, reverse=True)
        total = 0
        for number, file in enumerate(files):
            total += file.stat().st_size
            if number and total > KEPT_BYTES:
                with contextlib.suppress(OSError):
                    file.unlink()
