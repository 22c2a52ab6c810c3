"""Logins at an identity provider: the user of an issuer and subject, a token for one session, the audit."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from bentpipe.testbed.orchestrator.database.tables import LoginStateRow, TokenRow, UserRow
from bentpipe.testbed.orchestrator.security.sessions import SESSION_MS
from bentpipe.testbed.orchestrator.services import audit, users
from bentpipe.testbed.orchestrator.services.refusals import ForbiddenError

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.security.oidc.attempts import Attempt
    from bentpipe.testbed.orchestrator.security.oidc.id_tokens import Identity

TOKEN_NAME = "OIDC login"
"""Name of the tokens that sessions of such logins have; nobody sees the tokens themselves."""
MOST_REFUSALS = 30
"""Lines of the audit about refusals a minute, at most: anybody can cause them."""
_MINUTE_MS = 60_000
KEPT_MS = 3_600_000
"""How long used states stay after they are too late: clocks of several orchestrators may differ [ms]."""


async def use(orchestrator: Orchestrator, attempt: Attempt) -> bool:
    """Note in the database that an attempt is used. Return False: it was used before, at whichever process."""
    try:
        async with orchestrator.write() as transaction:
            row = {"state": attempt.state, "until_at_ms": attempt.until_at_ms}
            await transaction.execute(insert(LoginStateRow).values(**row))
    except IntegrityError:
        return False
    return True


async def forget_old(orchestrator: Orchestrator) -> int:
    """Drop states that are too late in any case. Return their number."""
    async with orchestrator.write() as transaction:
        return await transaction.change(
            delete(LoginStateRow).where(LoginStateRow.until_at_ms < transaction.now_ms - KEPT_MS)
        )


async def log_in(orchestrator: Orchestrator, identity: Identity, role: str | None) -> str:
    """Return the id of a token for one session; the user is made at the first login.

    Args:
        orchestrator: The orchestrator.
        identity: Who it is. A user is found by issuer and subject, never by a name or an e-mail address.
        role: Role; None: none was granted.

    Raises:
        ForbiddenError: No role, or the user is disabled.
    """
    if role is None:
        raise ForbiddenError(
            f"you have no role in this testbed yet; an administrator must grant one to the subject {identity.subject}"
        )
    try:
        return await _log_in(orchestrator, identity, role)
    except IntegrityError:  # the first login of one person in two windows at once: now the user is there
        return await _log_in(orchestrator, identity, role)


async def _log_in(orchestrator: Orchestrator, identity: Identity, role: str) -> str:
    async with orchestrator.write() as transaction:
        user = await transaction.first(select(UserRow).where(UserRow.subject == identity.key))
        if user is not None and user.disabled:
            raise ForbiddenError(f"the user {user.name} is disabled; ask an administrator")
        name = name_of(identity) if user is None else user.name
        if user is None:
            user_id = await users.add_user(transaction, name, identity.key)
            await audit.record(transaction, name, "user.add", identity.key, role=role)
        else:
            user_id = user.id
        await transaction.execute(
            delete(TokenRow).where(
                TokenRow.user_id == user_id, TokenRow.name == TOKEN_NAME, TokenRow.expires_at_ms <= transaction.now_ms
            )
        )
        until_at_ms = transaction.now_ms + SESSION_MS
        _, token_id = await users.add_token(transaction, user_id, role, TOKEN_NAME, until_at_ms)
        await audit.record(transaction, name, "login.oidc", identity.key, role=role, token=token_id)
    return token_id


def name_of(identity: Identity) -> str:
    """Return the name of a new user: with a mark of issuer and subject, so that it is nobody else's.

    Example:
        >>> from bentpipe.testbed.orchestrator.security.oidc.id_tokens import Identity
        >>> name_of(Identity("https://id.example.org", "7", "Ada L.", {}))
        'ada-l.@6b49d79fc90a'
    """
    mark = hashlib.sha256(identity.key.encode()).hexdigest()[:12]
    readable = re.sub(r"[^a-z0-9._-]+", "-", identity.name.partition("@")[0].lower()).strip("-._ ")[:40]
    return f"{readable or 'user'}@{mark}"


@dataclass
class Refusals:
    """Writes refused logins into the audit, a bounded number a minute."""

    _minute: int = 0
    _count: int = 0

    async def note(self, orchestrator: Orchestrator, subject: str, reason: str) -> None:
        """Write a line; `subject` is empty if it is unknown."""
        minute = orchestrator.clock() // _MINUTE_MS
        if minute != self._minute:
            self._minute, self._count = minute, 0
        self._count += 1
        if self._count <= MOST_REFUSALS:
            async with orchestrator.write() as transaction:
                await audit.record(transaction, "oidc", "login.refuse", subject, reason=reason[:300])
