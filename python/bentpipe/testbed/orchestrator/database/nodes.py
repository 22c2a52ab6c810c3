"""Tables of nodes and of what they say."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from bentpipe.testbed.orchestrator.database.base import AtMs, Key, Reference, Table


class NodeRow(Table):
    """A node."""

    __tablename__ = "nodes"
    id: Mapped[Key]
    name: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    owner_id: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    state: Mapped[str] = mapped_column(String(16))
    """``active`` or ``revoked``."""
    report: Mapped[dict[str, Any]]
    settings: Mapped[dict[str, Any]]
    max_parallel: Mapped[int]
    serial: Mapped[str] = mapped_column(String(50))
    """Serial number of its newest certificate, hexadecimal."""
    key_hash: Mapped[str] = mapped_column(String(64))
    """Hash of its public key."""
    older_key_hash: Mapped[str | None] = mapped_column(String(64))
    """The key before, valid until the new one is used."""
    boot_id: Mapped[str | None] = mapped_column(String(32))
    """Id of the agent's newest start."""
    boot_at_ms: Mapped[AtMs | None]
    seen_at_ms: Mapped[AtMs | None]
    lost: Mapped[bool]
    """Whether it is silent for too long."""
    status: Mapped[dict[str, Any]]
    version: Mapped[int] = mapped_column(BigInteger)
    """Version of its wanted state."""
    stored_bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Bytes of its committed results."""
    created_at_ms: Mapped[AtMs]


class BootRow(Table):
    """A start of an agent, so that an older one is known as such."""

    __tablename__ = "boots"
    node_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    boot_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    first_at_ms: Mapped[AtMs]
    next_seq: Mapped[int]
    """Number of its first event that has not arrived."""
    noted_at_ms: Mapped[AtMs]
    """When it was last noted that it still calls although a newer one does."""


class RunEventRow(Table):
    """An event, as an agent sent it."""

    __tablename__ = "run_events"
    node_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    boot_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    at_ms: Mapped[AtMs]
    received_at_ms: Mapped[AtMs]
    kind: Mapped[str] = mapped_column(String(16))
    run_id: Mapped[Reference | None]
    waits: Mapped[bool]
    """Whether it is about a run that is not known yet."""
    body: Mapped[dict[str, Any]]
    __table_args__ = (
        Index("ix_run_events_run_id", "run_id"),
        Index("ix_run_events_node_id_received_at_ms", "node_id", "received_at_ms"),
    )


class TriggerRow(Table):
    """A condition that arms a plan at its node."""

    __tablename__ = "triggers"
    id: Mapped[Key]
    plan_id: Mapped[str] = mapped_column(ForeignKey("plans.id"), unique=True)
    node_id: Mapped[Reference] = mapped_column(index=True)
    expression: Mapped[str]
    state: Mapped[str] = mapped_column(String(16))
    """``armed`` or ``ended``."""


class FiringRow(Table):
    """A trigger fired."""

    __tablename__ = "firings"
    id: Mapped[Key]
    trigger_id: Mapped[str] = mapped_column(ForeignKey("triggers.id"))
    node_id: Mapped[Reference]
    window_end_at_ms: Mapped[AtMs]
    values: Mapped[dict[str, Any]]
    run_id: Mapped[Reference | None]
    reason: Mapped[str] = mapped_column(String(500))
    __table_args__ = (Index("ix_firings_trigger_id_window_end_at_ms", "trigger_id", "window_end_at_ms"),)
