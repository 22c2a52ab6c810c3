"""Tables of people: users, tokens, join tokens of nodes, used logins, answers that may be repeated, the audit."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from bentpipe.testbed.orchestrator.database.base import AtMs, Key, Reference, Table


class UserRow(Table):
    """A person."""

    __tablename__ = "users"
    id: Mapped[Key]
    name: Mapped[str] = mapped_column(String(64), unique=True)
    subject: Mapped[str | None] = mapped_column(String(400), unique=True)
    """The person's name at an identity provider."""
    disabled: Mapped[bool]
    created_at_ms: Mapped[AtMs]


class TokenRow(Table):
    """A token of a user: a hash, never the token."""

    __tablename__ = "tokens"
    id: Mapped[Key]
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), index=True)
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(String(64))
    expires_at_ms: Mapped[AtMs | None]
    revoked: Mapped[bool]
    created_at_ms: Mapped[AtMs]


class JoinTokenRow(Table):
    """A token with which one node joins, once."""

    __tablename__ = "join_tokens"
    id: Mapped[Key]
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    node_role: Mapped[str | None] = mapped_column(String(16))
    """The role that the node must have; null: any."""
    node_name: Mapped[str | None] = mapped_column(String(64))
    """The name that the node must have; null: any."""
    owner_id: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    expires_at_ms: Mapped[AtMs]
    used_key: Mapped[str | None] = mapped_column(String(64))
    """Hash of the public key that used it."""
    node_id: Mapped[Reference | None]
    certificate_pem: Mapped[str | None]
    """The answer, for a node that did not get it."""
    created_at_ms: Mapped[AtMs]


class LoginStateRow(Table):
    """The ``state`` of a login at an identity provider that was used."""

    __tablename__ = "login_states"
    state: Mapped[str] = mapped_column(String(64), primary_key=True)
    until_at_ms: Mapped[AtMs] = mapped_column(index=True)
    """When the login is too late in any case."""


class IdempotencyRow(Table):
    """The answer to a request with the header Idempotency-Key."""

    __tablename__ = "idempotency"
    user_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    request_hash: Mapped[str] = mapped_column(String(64))
    status: Mapped[int | None]
    """Status of the answer; null: the request is under way."""
    body: Mapped[str]
    created_at_ms: Mapped[AtMs] = mapped_column(index=True)


class AuditRow(Table):
    """Who did what."""

    __tablename__ = "audit"
    id: Mapped[Key]
    at_ms: Mapped[AtMs]
    who: Mapped[str] = mapped_column(String(100))
    action: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(String(400))
    detail: Mapped[dict[str, Any]]
    __table_args__ = (Index("ix_audit_at_ms", "at_ms"),)
