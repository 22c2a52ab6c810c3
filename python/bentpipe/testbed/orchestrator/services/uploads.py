"""Results as they arrive: parts of files at offsets, resumable, then a commit that is believed when it is checked.

A part is on the disk before it is answered. Partial files have names that are hashes, in a folder of their own, so no
path of a node reaches the file system. What arrived is the size of the file: no table can say anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.tables import ExperimentRow, NodeRow, RunEndRow, RunRow
from bentpipe.testbed.orchestrator.metrics import COMMITS, UPLOADED
from bentpipe.testbed.orchestrator.services.refusals import (
    BusyError,
    ConflictError,
    NotFoundError,
    QuotaError,
    StaleFenceError,
    TooLargeError,
)
from bentpipe.testbed.orchestrator.services.result_checks import check_result
from bentpipe.testbed.orchestrator.services.run_states import set_end
from bentpipe.testbed.schemas.agent_protocol import LARGEST_PART, LARGEST_RESULT, MOST_FILES, CommitAnswer
from bentpipe.testbed.schemas.states import FINAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.services.run_states import EndRow
    from bentpipe.testbed.schemas.agent_protocol import CommitRequest, CommittedFile


SERVER = "server"
"""Folder of the server's end in that of the client's end."""
MOST_PARTIAL_BYTES = 3 * LARGEST_RESULT
"""Bytes of a node that are not committed: agents send results one after another, so a few of the largest suffice."""
FORGOTTEN_S = 14 * 86_400.0
"""Age of parts that are removed [s]: agents keep results for two days without contact, and longer in their spool."""


@dataclass
class Uploads:
    """Results on their way from nodes to the store."""

    orchestrator: Orchestrator
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    def folder(self, node: str, run: str, end: str) -> Path:
        """Return the folder of the partial files of an end: in that of its node, whose bytes are limited."""
        return self.orchestrator.folder / "uploads" / node / f"{run}-{end}"

    @contextlib.asynccontextmanager
    async def _turn(self, run: str, end: str) -> AsyncIterator[None]:
        """Let one request at a time change the files of an end."""
        key = f"{run}-{end}"
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield
        if not lock.locked() and not lock._waiters:
            self._locks.pop(key, None)

    async def forget_old(self) -> None:
        """Remove parts that nobody completed for two weeks."""
        await asyncio.to_thread(_remove_old, self.orchestrator.folder / "uploads", time.time() - FORGOTTEN_S)

    async def offset(self, node: str, run: str, end: str, path: str) -> int:
        """Return the bytes of a file that have arrived. Raises `NotFoundError`."""
        await self._end(node, run, end)
        return await asyncio.to_thread(_size, self.folder(node, run, end) / _name(path))

    async def put(self, node: str, run: str, end: str, path: str, offset: int, part: bytes) -> int:
        """Append a part to a file; return the bytes that have arrived.

        Raises:
            NotFoundError: No such run at this node.
            ConflictError: Another offset, or the result is committed.
            TooLargeError: Too many files or bytes.
            BusyError: Too many bytes of this node are not committed.
            QuotaError: The node's results would exceed its quota with this part; the node keeps them.
        """
        if len(part) > LARGEST_PART:
            raise TooLargeError(f"a part of {len(part)} bytes; expected at most {LARGEST_PART}")
        row = await self._end(node, run, end)
        if row.files is not None:
            raise ConflictError("the result is committed", code="committed")
        folder = self.folder(node, run, end)
        async with self._turn(run, end):
            await self._check_quota(node, await asyncio.to_thread(_partial_bytes, folder.parent) + len(part))
            size = await asyncio.to_thread(_append, folder, _name(path), offset, part)
        UPLOADED.inc(len(part))
        return size

    async def commit(self, node: str, run: str, end: str, request: CommitRequest) -> CommitAnswer:
        """Check a result, move it into the store, and believe its state. The same commit again: the same answer.

        Raises:
            NotFoundError: No such run at this node.
            StaleFenceError: An older assignment.
            ConflictError: Another commit came before.
            UserError: A file is missing, or another than was sent.
            QuotaError: The node's results would exceed its quota with this one; nothing was moved, the node keeps it.
        """
        row = await self._end(node, run, end)
        if row.fence != request.fence:
            raise StaleFenceError(f"fence {request.fence}; expected {row.fence}: the run was assigned anew")
        commit_hash = hashlib.sha256(json.dumps(request.to_dict(), sort_keys=True).encode()).hexdigest()
        location = _location(row, end)
        if row.files is not None:
            if row.commit_hash == commit_hash:
                return CommitAnswer(location=location)
            raise ConflictError("another commit of this end came before", code="committed")
        _check_list(request.files, end)
        async with self._turn(run, end):
            folder = self.folder(node, run, end)
            await asyncio.to_thread(_verify, folder, request.files)
            await self._check_quota(node, sum(each.bytes for each in request.files))
            state, reason = request.state, request.reason
            if state == "done" and end == "client":
                problem = await check_result({each.path: folder / _name(each.path) for each in request.files})
                if problem is not None:
                    state, reason = "failed", f"the result is damaged: {problem}"
            for each in request.files:
                await self.orchestrator.storage.put(f"{location}/{each.path}", folder / _name(each.path))
            await self._believe(row, request, state, reason, commit_hash, location)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        self.orchestrator.figures.begin(run, location, end, [each.path for each in request.files])
        COMMITS.labels(state).inc()
        return CommitAnswer(location=location)

    async def _believe(
        self, row: EndRow, request: CommitRequest, state: str, reason: str, commit_hash: str, location: str
    ) -> None:
        """Set the final state, if the assignment is still the same."""
        async with self.orchestrator.write() as transaction:
            is_here = (RunEndRow.run_id == row.run_id, RunEndRow.end == row.end)
            before = await transaction.scalar(select(RunEndRow.commit_hash).where(*is_here))
            changed = await transaction.change(
                update(RunEndRow)
                .where(
                    *is_here,
                    RunEndRow.fence == request.fence,
                    RunEndRow.commit_hash.is_(None) | (RunEndRow.commit_hash == commit_hash),
                )
                .values(files=[each.to_dict() for each in request.files], commit_hash=commit_hash)
            )
            if not changed:
                raise StaleFenceError("the run was assigned anew while its result was checked")
            size_bytes = sum(each.bytes for each in request.files) if before is None else 0  # counted once
            await transaction.execute(
                update(NodeRow).where(NodeRow.id == row.node_id).values(stored_bytes=NodeRow.stored_bytes + size_bytes)
            )
            now = await transaction.scalar(
                select(RunEndRow.state).where(RunEndRow.run_id == row.run_id, RunEndRow.end == row.end)
            )
            if now not in FINAL:
                current = {**row._mapping, "state": now}
                await set_end(transaction, _Plain(current), state, reason, up_bytes=None, down_bytes=None)
            folder = location if row.end == "client" else location.removesuffix(f"/{SERVER}")
            await transaction.execute(update(RunRow).where(RunRow.id == row.run_id).values(location=folder))
            transaction.touch([row.node_id])
            transaction.wakes_planner = True

    async def _check_quota(self, node: str, more_bytes: int) -> None:
        """Raise `QuotaError` if a node's results have no room for more bytes; none at all always have."""
        quota = self.orchestrator.node_bytes
        if not quota or not more_bytes:
            return
        async with self.orchestrator.read() as transaction:
            stored = int(await transaction.scalar(select(NodeRow.stored_bytes).where(NodeRow.id == node)) or 0)
        if stored + more_bytes > quota:
            raise QuotaError(
                f"the quota of this node's results is full: {stored} bytes are stored and {more_bytes} more came; "
                f"expected at most {quota} (testbed up --node-bytes); keep the result, it is taken once there is room"
            )

    async def _end(self, node: str, run: str, end: str) -> Any:  # noqa: ANN401 - a row
        """Return an end of this node. Raises `NotFoundError`."""
        statement = (
            select(
                *RunEndRow.__table__.c,
                RunRow.start_at_ms,
                RunRow.location,
                RunRow.plan_id,
                ExperimentRow.name.label("experiment"),
                NodeRow.name.label("client"),
            )
            .join(RunRow, RunRow.id == RunEndRow.run_id)
            .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
            .join(NodeRow, NodeRow.id == RunRow.node_id)
            .where(RunEndRow.run_id == run, RunEndRow.end == end, RunEndRow.node_id == node)
        )
        async with self.orchestrator.read() as transaction:
            row = await transaction.first(statement)
        if row is None:
            raise NotFoundError(f"this node has no {shown(end)} end of a run {shown(run)}")
        return row


def _remove_old(folder: Path, limit_s: float) -> None:
    for each in folder.glob("**/*-*"):
        if each.stat(follow_symlinks=False).st_mtime < limit_s:
            shutil.rmtree(each, ignore_errors=True)


class _Plain:
    """A row whose state was read anew."""

    def __init__(self, values: Any) -> None:  # noqa: ANN401 - a mapping
        self.__dict__.update(values)


def _name(path: str) -> str:
    """Return the name of a partial file: a hash, so that no path reaches the file system."""
    return hashlib.sha256(path.encode()).hexdigest()


def _location(row: Any, end: str) -> str:  # noqa: ANN401 - a row
    """Return the folder of a result in the store."""
    from datetime import UTC, datetime

    if row.location is not None:  # the other end came first; the run's start may have changed since
        return str(row.location) if end == "client" else f"{row.location}/{SERVER}"
    start = datetime.fromtimestamp(row.start_at_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = f"{row.experiment}/{row.client}/{start}/{row.run_id}"
    return folder if end == "client" else f"{folder}/{SERVER}"


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _append(folder: Path, name: str, offset: int, part: bytes) -> int:
    """Append to a file and flush it to the disk. Raises `ConflictError`, `TooLargeError`, `BusyError`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder)}
    present = sizes.get(name, 0)
    if offset != present:
        raise ConflictError(f"offset {offset}; expected {present}", code="wrong_offset", extra={"offset": present})
    if name not in sizes and len(sizes) >= MOST_FILES:
        raise TooLargeError(f"more than {MOST_FILES} files; expected at most that")
    if sum(sizes.values()) + len(part) > LARGEST_RESULT:
        raise TooLargeError(f"more than {LARGEST_RESULT} bytes; expected at most that")
    if _partial_bytes(folder.parent) + len(part) > MOST_PARTIAL_BYTES:
        raise BusyError(f"more than {MOST_PARTIAL_BYTES} bytes of this node are not committed; try again later")
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(folder / name, flags, 0o600)
    try:
        written = 0
        while written < len(part):
            written += os.write(descriptor, part[written:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, present)  # a full disk: the part is sent anew
        raise
    finally:
        os.close(descriptor)
    return present + len(part)


def _partial_bytes(folder: Path) -> int:
    """Return the bytes of all results of a node that are not committed."""
    total = 0
    if not folder.is_dir():
        return 0
    for result in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # committed meanwhile
            total += sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(result))
    return total


def _check_list(files: Sequence[CommittedFile], end: str) -> None:
    if len(files) > MOST_FILES:
        raise TooLargeError(f"{len(files)} files; expected at most {MOST_FILES}")
    paths = [each.path for each in files]
    if end == "client" and any(path.partition("/")[0] == SERVER for path in paths):
        raise UserError(f"files in {SERVER}/", where="files", expected="none there: it is the folder of the other end")
    if len(set(paths)) != len(paths):
        raise UserError("a path stands twice", where="files", expected="each path once")
    folders = {"/".join(path.split("/")[:count]) for path in paths for count in range(1, path.count("/") + 1)}
    if clash := folders & set(paths):
        raise UserError(f"{shown(min(clash))} is a file and a folder", where="files", expected="one of the two")
    if sum(each.bytes for each in files) > LARGEST_RESULT:
        raise TooLargeError(f"more than {LARGEST_RESULT} bytes; expected at most that")


def _verify(folder: Path, files: Sequence[CommittedFile]) -> None:
    """Compare what arrived with what was sent. Raises `UserError`; a file that differs is dropped and comes anew."""
    for each in files:
        file = folder / _name(each.path)
        if each.bytes == 0 and not file.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.touch(mode=0o600)
        if (size := _size(file)) != each.bytes:
            raise UserError(
                f"{shown(each.path)} has {size} bytes here", where="files", expected=str(each.bytes), code="incomplete"
            )
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if digest != each.sha256:
            file.unlink()
            raise UserError(
                f"{shown(each.path)} has another hash here; it was dropped",
                where="files",
                expected=each.sha256,
                hint="send it anew",
                code="other_hash",
            )
