"""Requests that may be repeated: the header ``Idempotency-Key`` gives the answer of the first one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.tables import IdempotencyRow
from bentpipe.testbed.orchestrator.services.refusals import ConflictError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bentpipe.testbed.orchestrator.context import Orchestrator

KEPT_MS = 86_400_000
"""How long an answer is kept [ms]."""
STUCK_MS = 600_000
"""Time after which a request that never ended may be repeated [ms]."""


async def once(
    orchestrator: Orchestrator,
    user: str,
    key: str | None,
    request: bytes,
    act: Callable[[], Awaitable[tuple[int, str]]],
) -> tuple[int, str]:
    """Act once for a key of a user; later, return the same status and body.

    Raises:
        ConflictError: The key belongs to another request, or that one is under way.
        UserError: A bad key.
    """
    if key is None:
        return await act()
    if not 1 <= len(key) <= 200 or not key.isascii() or not key.isprintable():
        raise UserError(shown(key), where="Idempotency-Key", expected="1 to 200 printable characters")
    request_hash = hashlib.sha256(request).hexdigest()
    answer = await _reserve(orchestrator, user, key, request_hash)
    if answer is not None:
        return answer
    mine = (IdempotencyRow.user_id == user) & (IdempotencyRow.key == key)
    try:
        status, body = await act()
    except BaseException:
        async with orchestrator.write() as transaction:
            await transaction.execute(delete(IdempotencyRow).where(mine))
        raise
    async with orchestrator.write() as transaction:
        await transaction.execute(update(IdempotencyRow).where(mine).values(status=status, body=body))
    return status, body


async def _reserve(orchestrator: Orchestrator, user: str, key: str, request_hash: str) -> tuple[int, str] | None:
    """Return the answer of an earlier request; None: this one is the first."""
    try:
        async with orchestrator.write() as transaction:
            row = await transaction.first(
                select(*IdempotencyRow.__table__.c).where(IdempotencyRow.user_id == user, IdempotencyRow.key == key)
            )
            if row is not None and row.status is None and row.created_at_ms < transaction.now_ms - STUCK_MS:
                await transaction.execute(
                    delete(IdempotencyRow).where(IdempotencyRow.user_id == user, IdempotencyRow.key == key)
                )
                row = None
            if row is None:
                await transaction.execute(
                    insert(IdempotencyRow).values(
                        user_id=user,
                        key=key,
                        request_hash=request_hash,
                        status=None,
                        body="",
                        created_at_ms=transaction.now_ms,
                    )
                )
                return None
    except IntegrityError:
        raise ConflictError("the first request with this key is under way; try again", code="idempotency") from None
    if row.request_hash != request_hash:
        raise ConflictError("the key was used for another request; expected a new key", code="idempotency")
    if row.status is None:
        raise ConflictError("the first request with this key is under way; try again", code="idempotency")
    return row.status, row.body


async def forget_old(orchestrator: Orchestrator) -> None:
    """Drop answers of yesterday."""
    async with orchestrator.write() as transaction:
        await transaction.execute(
            delete(IdempotencyRow).where(IdempotencyRow.created_at_ms < transaction.now_ms - KEPT_MS)
        )
