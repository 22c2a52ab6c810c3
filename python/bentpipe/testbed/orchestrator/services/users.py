"""Users and their tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.testbed.orchestrator.database.tables import TokenRow, UserRow
from bentpipe.testbed.orchestrator.security.roles import ROLES, Caller
from bentpipe.testbed.orchestrator.security.secrets import hash_of, new_secret
from bentpipe.testbed.orchestrator.services import audit
from bentpipe.testbed.orchestrator.services.refusals import NotFoundError, UnauthenticatedError
from bentpipe.testbed.schemas.identifiers import new_id
from bentpipe.testbed.schemas.views import TokenPage, TokenView, UserPage, UserView

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction

NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}\Z")
TOKEN_DAYS = 365
"""How long a user's token is valid [days]."""
DAY_MS = 86_400_000


async def ensure_first(orchestrator: Orchestrator) -> str | None:
    """Make the user ``admin`` with a token if there is no user yet; return the token once, None later."""
    try:
        async with orchestrator.write() as transaction:
            if await transaction.scalar(select(func.count()).select_from(UserRow)):
                return None
            return (await issue(transaction, "admin", "admin", who="first start"))[0]
    except IntegrityError:
        return None  # another process made it at the same moment


async def issue(
    transaction: Transaction, name: str, role: str, *, who: str, days: float = TOKEN_DAYS
) -> tuple[str, str]:
    """Make a token for a user, who is made if unknown. Return the token, which nobody sees again, and its id.

    Raises:
        UserError: An unknown role, or a bad name.
    """
    if role not in ROLES:
        raise UserError(shown(role) + did_you_mean(role, ROLES), where="role", expected=", ".join(ROLES))
    if NAME.match(name) is None:
        raise UserError(shown(name), where="name", expected="lower-case letters, digits, . _ @ -; at most 64")
    if not 0 < days <= 3660:
        raise UserError(f"{days:g}", where="days", expected="more than 0, at most 3660")
    user = await transaction.scalar(select(UserRow.id).where(UserRow.name == name))
    if user is None:
        user = await add_user(transaction, name)
    until_at_ms = transaction.now_ms + round(days * DAY_MS)
    token, token_id = await add_token(transaction, user, role, name, until_at_ms)
    await audit.record(transaction, who, "token.issue", name, role=role, token=token_id)
    return token, token_id


async def add_user(transaction: Transaction, name: str, subject: str | None = None) -> str:
    """Add a user, whose name at an identity provider is `subject`; return the id."""
    user = new_id(transaction.now_ms)
    await transaction.execute(
        insert(UserRow).values(id=user, name=name, subject=subject, disabled=False, created_at_ms=transaction.now_ms)
    )
    return user


async def add_token(transaction: Transaction, user: str, role: str, name: str, until_at_ms: int) -> tuple[str, str]:
    """Add a token of a user; return it and its id."""
    token, token_id = new_secret("bpu"), new_id(transaction.now_ms)
    await transaction.execute(
        insert(TokenRow).values(
            id=token_id,
            user_id=user,
            hash=hash_of(token),
            role=role,
            name=name,
            expires_at_ms=until_at_ms,
            revoked=False,
            created_at_ms=transaction.now_ms,
        )
    )
    return token, token_id


async def authenticate(orchestrator: Orchestrator, token: str) -> Caller:
    """Return who has a token. Raises `UnauthenticatedError`: nobody, or it is expired or revoked."""
    return await _caller(orchestrator, TokenRow.hash == hash_of(token))


async def authenticate_id(orchestrator: Orchestrator, token_id: str) -> Caller:
    """Return who has a token, by the id in a session. Raises as `authenticate`."""
    return await _caller(orchestrator, TokenRow.id == token_id)


async def _caller(orchestrator: Orchestrator, condition: ColumnElement[bool]) -> Caller:
    statement = (
        select(TokenRow.id, TokenRow.role, TokenRow.expires_at_ms, UserRow.id.label("user"), UserRow.name)
        .join(UserRow, UserRow.id == TokenRow.user_id)
        .where(condition, TokenRow.revoked.is_(False), UserRow.disabled.is_(False))
    )
    async with orchestrator.read() as transaction:
        row = await transaction.first(statement)
        if row is None or (row.expires_at_ms is not None and row.expires_at_ms <= transaction.now_ms):
            raise UnauthenticatedError("the token is unknown, expired or revoked; expected Authorization: Bearer TOKEN")
    return Caller(row.user, row.name, row.role, row.id)


async def revoke(orchestrator: Orchestrator, caller: Caller, token_id: str) -> None:
    """Revoke a token: an own one, or as admin any. Raises `NotFoundError`."""
    statement = update(TokenRow).where(TokenRow.id == token_id).values(revoked=True)
    if not caller.is_admin:
        statement = statement.where(TokenRow.user_id == caller.user)
    async with orchestrator.write() as transaction:
        if not await transaction.change(statement):
            raise NotFoundError(f"no token {shown(token_id)}")
        await audit.record(transaction, caller.name, "token.revoke", token_id)


async def list_tokens(orchestrator: Orchestrator, caller: Caller, after: str, limit: int) -> TokenPage:
    """List own tokens, oldest first; as admin all."""
    statement = (
        select(
            TokenRow.id,
            TokenRow.role,
            TokenRow.expires_at_ms,
            TokenRow.revoked,
            TokenRow.created_at_ms,
            UserRow.name,
        )
        .join(UserRow, UserRow.id == TokenRow.user_id)
        .where(TokenRow.id > after)
        .order_by(TokenRow.id)
        .limit(limit + 1)
    )
    if not caller.is_admin:
        statement = statement.where(TokenRow.user_id == caller.user)
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    items = tuple(
        TokenView(
            id=row.id,
            name=row.name,
            role=row.role,
            expires_at_ms=row.expires_at_ms,
            revoked=row.revoked,
            created_at_ms=row.created_at_ms,
        )
        for row in rows[:limit]
    )
    return TokenPage(items=items, next=items[-1].id if len(rows) > limit else None)


async def list_users(orchestrator: Orchestrator, after: str, limit: int) -> UserPage:
    """List users by name."""
    statement = select(UserRow).where(UserRow.name > after).order_by(UserRow.name).limit(limit + 1)
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    items = tuple(_user(row) for row in rows[:limit])
    return UserPage(items=items, next=items[-1].name if len(rows) > limit else None)


def _user(row: Any) -> UserView:  # noqa: ANN401 - a row
    return UserView(id=row.id, name=row.name, disabled=row.disabled, created_at_ms=row.created_at_ms)


async def change_user(orchestrator: Orchestrator, caller: Caller, name: str, *, disabled: bool) -> UserView:
    """Refuse all tokens of a user, or accept them. Raises `NotFoundError`, `UserError`: the caller itself."""
    if name == caller.name and disabled:
        raise UserError(shown(name), where="name", expected="another user than yourself")
    async with orchestrator.write() as transaction:
        if not await transaction.change(update(UserRow).where(UserRow.name == name).values(disabled=disabled)):
            raise NotFoundError(f"no user {shown(name)}")
        await audit.record(transaction, caller.name, "user.change", name, disabled=disabled)
        row = await transaction.first(select(UserRow).where(UserRow.name == name))
    return _user(row)
