"""Requests that may be repeated: the header ``Idempotency-Key`` gives the answer of the first one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.tables import IdempotencyRow
from bentpipe.testbed.orchestrator.services.refusals import ConflictError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction

KEPT_MS = 86_400_000
"""How long an answer is kept [ms]."""
STUCK_MS = 60_000
"""Time after which a request that never ended may be repeated [ms]: its process was killed."""
Note: TypeAlias = "Callable[[Transaction, str], Awaitable[None]]"
"""Called in the transaction in which a request creates something, with its id: a repeated request then shows it."""


async def note_nothing(_: Transaction, __: str) -> None:
    """Be the `Note` of a request that is not repeated."""


async def once(
    orchestrator: Orchestrator,
    user: str,
    key: str | None,
    request: bytes,
    act: Callable[[Note], Awaitable[tuple[int, str]]],
    show: Callable[[str], Awaitable[tuple[int, str]]] | None = None,
) -> tuple[int, str]:
    """Act once for a key of a user; later, return the same status and body.

    Args:
        orchestrator: The orchestrator.
        user: The user.
        key: The key; None: act.
        request: The request.
        act: Acts, and notes what it creates.
        show: Returns the answer for what was noted, if a kill came between its commit and the answer.

    Raises:
        ConflictError: The key belongs to another request, or that one is under way.
        UserError: A bad key.
    """
    if key is None:
        return await act(note_nothing)
    if not 1 <= len(key) <= 200 or not key.isascii() or not key.isprintable():
        raise UserError(shown(key), where="Idempotency-Key", expected="1 to 200 printable characters")
    request_hash = hashlib.sha256(request).hexdigest()
    row, stamp = await _reserve(orchestrator, user, key, request_hash)
    mine = (IdempotencyRow.user_id == user) & (IdempotencyRow.key == key) & (IdempotencyRow.created_at_ms == stamp)
    if row is not None and row.status is not None:
        return row.status, row.body

    async def note(transaction: Transaction, created: str) -> None:
        if not await transaction.change(update(IdempotencyRow).where(mine).values(body=created)):
            raise ConflictError("the request took too long and was repeated meanwhile", code="idempotency")

    try:
        status, body = await act(note) if row is None or show is None else await show(row.body)
    except BaseException:
        async with orchestrator.write() as transaction:
            await transaction.execute(delete(IdempotencyRow).where(mine, IdempotencyRow.body == ""))
        raise
    async with orchestrator.write() as transaction:
        await transaction.execute(update(IdempotencyRow).where(mine).values(status=status, body=body))
    return status, body


async def _reserve(orchestrator: Orchestrator, user: str, key: str, request_hash: str) -> tuple[Any, int]:
    """Return the row of an earlier request that was answered, or created something; None: act. And its time."""
    its = (IdempotencyRow.user_id == user) & (IdempotencyRow.key == key)
    try:
        async with orchestrator.write() as transaction:
            now_ms = transaction.now_ms
            row = await transaction.first(select(*IdempotencyRow.__table__.c).where(its))
            if row is not None and row.status is None and not row.body and row.created_at_ms < now_ms - STUCK_MS:
                await transaction.execute(delete(IdempotencyRow).where(its))
                row = None
            if row is None:
                await transaction.execute(
                    insert(IdempotencyRow).values(
                        user_id=user, key=key, request_hash=request_hash, status=None, body="", created_at_ms=now_ms
                    )
                )
                return None, now_ms
    except IntegrityError:
        raise ConflictError("the first request with this key is under way; try again", code="idempotency") from None
    if row.request_hash != request_hash:
        raise ConflictError("the key was used for another request; expected a new key", code="idempotency")
    if row.status is None and not row.body:
        raise ConflictError("the first request with this key is under way; try again", code="idempotency")
    return row, row.created_at_ms


async def forget_unfinished(orchestrator: Orchestrator) -> None:
    """Drop requests that a kill ended before they created anything. Only the one process on a database may do so."""
    async with orchestrator.write() as transaction:
        unfinished = IdempotencyRow.status.is_(None) & (IdempotencyRow.body == "")
        await transaction.execute(delete(IdempotencyRow).where(unfinished))


async def forget_old(orchestrator: Orchestrator) -> None:
    """Drop answers of yesterday."""
    async with orchestrator.write() as transaction:
        await transaction.execute(
            delete(IdempotencyRow).where(IdempotencyRow.created_at_ms < transaction.now_ms - KEPT_MS)
        )
