"""Results that wait for their upload: one folder each, sent oldest first, resumed after every interruption.

``spool/<run>-<end>/`` holds ``commit.json`` and ``files/``. A result is moved here in one step, so there is no half
one. It is removed when the orchestrator has committed it, and never before.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from typing import TYPE_CHECKING, Literal

from bentpipe.records import Record
from bentpipe.testbed.agent.connection import RefusedRequestError, UnreachableError
from bentpipe.testbed.agent.identity import write_private
from bentpipe.testbed.agent.result_files import LEFT_OUT, committed_files, sha256_of
from bentpipe.testbed.schemas.agent_protocol import (
    CommitRequest,
    CommittedFile,
)
from bentpipe.testbed.schemas.desired import End
from bentpipe.testbed.schemas.identifiers import Id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bentpipe.testbed.agent.connection import Orchestrator

PART_BYTES = 128 * 1024
"""Bytes sent at a time: the household's use of the link is looked at before each part."""
COMMIT = "commit.json"
FILES = "files"
SENT = "~sent"
FinalState = Literal["done", "failed", "preempted", "canceled", "missed"]


class SpooledResult(Record):
    """``commit.json``: whose result it is, and what it says."""

    run: Id
    """Run."""
    end: End
    """End."""
    request: CommitRequest
    """Commit."""


class Spool:
    """The folder of results that wait."""

    def __init__(
        self,
        folder: Path,
        on_note: Callable[[str], object] = lambda _: None,
        *,
        limit_bytes: Callable[[], int] | None = None,
        why_wait: Callable[[int], str | None] = lambda _: None,
        on_sent: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Open it; what a kill left is finished if it has all files, else removed.

        Args:
            folder: The folder.
            on_note: Called with one-line notes.
            limit_bytes: Most bytes that wait; the oldest are given up, with a reason.
            why_wait: Returns why so many bytes may not be sent now; None: they may.
            on_sent: Called with the bytes of each part that was sent.
        """
        self.folder = folder
        self._on_note = on_note
        self._limit_bytes, self._why_wait, self._on_sent = limit_bytes, why_wait, on_sent
        self.sent_bytes = 0
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for half in folder.glob(".*"):
            whole = half.with_name(half.name.removeprefix("."))
            is_whole = not half.name.endswith(SENT) and not whole.exists()
            if is_whole and (half / COMMIT).exists() and (half / FILES).exists():
                half.rename(whole)
            shutil.rmtree(half, ignore_errors=True)
        self.changed = asyncio.Event()

    async def add(self, run: str, end: End, fence: int, state: FinalState, reason: str, results: Path | None) -> None:
        """Take a folder of results; it is moved, so it must be on the same disk.

        What cannot be sent is left out, and named in the result (`bentpipe.testbed.agent.result_files`).

        Raises:
            OSError: The disk is full. Nothing was moved.
        """
        half, whole = self.folder / f".{run}-{end}", self.folder / f"{run}-{end}"
        if whole.exists():  # it was moved the last time, and what came after it failed
            return
        files, left_out = ([], 0) if results is None else await asyncio.to_thread(committed_files, results)
        if left_out:
            note = f"{left_out} not sent: see {LEFT_OUT}"
            reason = f"{reason[:400]}; {note}" if reason else note
        request = CommitRequest(fence=fence, state=state, reason=reason[:500], files=tuple(files))
        half.mkdir(mode=0o700, exist_ok=True)
        # First what may fail, on a full disk; then moves: what a kill leaves of them is finished at the next start.
        write_private(half / COMMIT, SpooledResult(run=run, end=end, request=request).model_dump_json().encode())
        if results is not None:
            results.rename(half / FILES)
        half.rename(whole)
        self._keep_within()
        self.changed.set()

    def _keep_within(self) -> None:
        """Give up the files of the oldest results while more bytes wait than may; their runs are told why."""
        if self._limit_bytes is None:
            return
        limit, size = self._limit_bytes(), self.size_bytes()
        if size <= limit:
            return
        for folder in self.folder.glob("*~damaged"):
            shutil.rmtree(folder, ignore_errors=True)
        size = self.size_bytes()
        for result in self.waiting():
            if size <= limit:
                return
            if not result.request.files:
                continue
            size -= sum(file.bytes for file in result.request.files)
            folder = self.folder / f"{result.run}-{result.end}"
            reason = f"its result was given up: more than {limit / 1e6:.0f} MB waited (disk_bytes of the host's policy)"
            state: FinalState = "failed" if result.request.state == "done" else result.request.state
            request = result.request.replace(files=(), state=state, reason=reason)
            write_private(folder / COMMIT, result.replace(request=request).model_dump_json().encode())
            shutil.rmtree(folder / FILES, ignore_errors=True)
            self._on_note(f"run {result.run} ({result.end}): {reason}")

    def waiting(self) -> list[SpooledResult]:
        """Return the results that wait, oldest first. A damaged one is set aside and noted."""
        results: list[tuple[float, SpooledResult]] = []
        for folder in self.folder.iterdir():
            if folder.name.startswith(".") or folder.name.endswith("~damaged"):
                continue
            try:
                record = SpooledResult.model_validate_json((folder / COMMIT).read_bytes())
                results.append((folder.stat().st_mtime, record))
            except (OSError, ValueError):
                with contextlib.suppress(OSError):
                    folder.rename(folder.with_name(f"{folder.name}~damaged"))
                self._on_note(f"a damaged result is set aside: {folder.name}")
        return [record for _, record in sorted(results, key=lambda pair: pair[0])]

    def size_bytes(self) -> int:
        """Return the size of all that wait [bytes]."""
        total = 0
        for path in self.folder.rglob("*"):
            with contextlib.suppress(OSError):
                total += path.stat().st_size if path.is_file() and not path.is_symlink() else 0
        return total

    async def send(self, orchestrator: Orchestrator, result: SpooledResult) -> str:
        """Send one result and remove it; return its location, or why it was given up.

        Raises:
            UnreachableError: Try again later; what has arrived stays there.
        """
        folder = self.folder / f"{result.run}-{result.end}"
        try:
            try:
                for file in result.request.files:
                    await self._send_file(orchestrator, result, folder / FILES / file.path, file)
            except RefusedRequestError as error:
                if error.code != "committed":  # a kill came between the commit and the removal here
                    raise
            location = (await orchestrator.commit(result.run, result.end, result.request)).location
        except RefusedRequestError as error:
            # 401: the certificate is expired; it may be renewed.
            if error.code == "incomplete" or error.status == 401:
                raise UnreachableError(str(error)) from None
            # The orchestrator dropped a file; unless it is damaged here, it comes anew.
            if error.code == "other_hash" and await asyncio.to_thread(_is_whole, folder / FILES, result):
                raise UnreachableError(str(error)) from None
            location = f"refused: {error}"
            self._on_note(f"the result of run {result.run} ({result.end}) was refused: {error}")
            await asyncio.to_thread(_set_aside, folder)
            return location
        gone = folder.with_name(f".{folder.name}{SENT}")  # at once: half a folder would be a damaged one
        folder.rename(gone)
        await asyncio.to_thread(shutil.rmtree, gone)
        return location

    async def _send_file(
        self, orchestrator: Orchestrator, result: SpooledResult, path: Path, file: CommittedFile
    ) -> None:
        offset = await orchestrator.offset(result.run, result.end, file.path)
        if offset > file.bytes:
            raise UnreachableError(f"{file.path}: {offset} bytes arrived of {file.bytes}")
        while offset < file.bytes or (file.bytes == 0 and offset == 0):
            part = await asyncio.to_thread(_part, path, offset)
            if part and (reason := self._why_wait(len(part))) is not None:
                raise UnreachableError(f"results wait: {reason}")
            self.sent_bytes += len(part)
            self._on_sent(len(part))
            arrived = await orchestrator.put(result.run, result.end, file.path, offset, part)
            if arrived == offset and file.bytes > 0:
                raise UnreachableError(f"{file.path}: nothing arrived at offset {offset}")
            offset = arrived
            if file.bytes == 0:
                break


def _is_whole(folder: Path, result: SpooledResult) -> bool:
    """Return whether the files still are what they were when they were put here."""
    return all(sha256_of(folder / file.path) == file.sha256 for file in result.request.files)


def _set_aside(folder: Path) -> None:
    target = folder.with_name(f"{folder.name}~refused~damaged")
    shutil.rmtree(target, ignore_errors=True)
    folder.rename(target)


def _part(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(PART_BYTES)
