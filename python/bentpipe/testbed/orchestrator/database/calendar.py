"""Tables of the calendar: experiments, plans, runs, their ends, bookings."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy import text as sql
from sqlalchemy.orm import Mapped, mapped_column

from bentpipe.testbed.orchestrator.database.base import AtMs, Bytes, Key, Reference, Table
from bentpipe.testbed.orchestrator.database.overlaps import LONGEST_BOOKING_MS

ALL_LANES = 1024
"""Upper bound of an exclusive booking's lanes: more than any node has."""


class ExperimentRow(Table):
    """An experiment."""

    __tablename__ = "experiments"
    id: Mapped[Key]
    owner_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    name: Mapped[str] = mapped_column(String(64))
    text: Mapped[str]
    """The file."""
    record: Mapped[dict[str, Any]]
    """The file, checked."""
    work: Mapped[dict[str, Any]]
    """What a run does, as agents get it."""
    work_hash: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16))
    """``active``, ``ended`` or ``canceled``."""
    reason: Mapped[str] = mapped_column(String(500))
    priority: Mapped[int]
    until_at_ms: Mapped[AtMs]
    created_at_ms: Mapped[AtMs]
    __table_args__ = (
        Index(
            "uq_experiments_active_name",
            "owner_id",
            "name",
            unique=True,
            sqlite_where=sql("state = 'active'"),
            postgresql_where=sql("state = 'active'"),
        ),
        Index("ix_experiments_created_at_ms", "created_at_ms"),
    )


class PlanRow(Table):
    """An experiment at a client node."""

    __tablename__ = "plans"
    id: Mapped[Key]
    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), index=True)
    node_id: Mapped[str] = mapped_column(ForeignKey("nodes.id"), index=True)
    server_id: Mapped[str | None] = mapped_column(ForeignKey("nodes.id"), index=True)
    state: Mapped[str] = mapped_column(String(16))
    """``active`` or ``ended``."""
    next_due_at_ms: Mapped[AtMs | None]
    """The first due time that has no run yet; null: none is left."""
    runs: Mapped[int]
    """Runs that were planned or started."""
    key: Mapped[str] = mapped_column(String(64))
    """Key of the sessions of its two ends."""
    fence: Mapped[int] = mapped_column(BigInteger)
    """The newest fence; 1 is that of its trigger and its grants."""
    __table_args__ = (Index("ix_plans_state_next_due_at_ms", "state", "next_due_at_ms"),)


class RunRow(Table):
    """A run."""

    __tablename__ = "runs"
    id: Mapped[Key]
    plan_id: Mapped[str] = mapped_column(ForeignKey("plans.id"))
    experiment_id: Mapped[Reference]
    node_id: Mapped[Reference]
    server_id: Mapped[Reference | None]
    due_at_ms: Mapped[AtMs]
    attempt: Mapped[int]
    cause: Mapped[str] = mapped_column(String(16))
    """``schedule``, ``trigger`` or ``retry``."""
    first_run_id: Mapped[Reference]
    """The run of which it is another attempt; itself: the first."""
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(500))
    start_at_ms: Mapped[AtMs]
    latest_start_at_ms: Mapped[AtMs]
    end_at_ms: Mapped[AtMs]
    """When it ends at the latest."""
    changed_at_ms: Mapped[AtMs]
    """When its state changed."""
    reserved_bytes: Mapped[Bytes]
    """Bytes that it may use."""
    up_bytes: Mapped[Bytes]
    down_bytes: Mapped[Bytes]
    wants_retry: Mapped[bool]
    """Whether it was preempted and has no further attempt yet."""
    location: Mapped[str | None] = mapped_column(String(400))
    """Folder of its result in the store."""
    __table_args__ = (
        UniqueConstraint("plan_id", "due_at_ms", "attempt"),
        Index("ix_runs_experiment_id_start_at_ms", "experiment_id", "start_at_ms"),
        Index("ix_runs_node_id_start_at_ms", "node_id", "start_at_ms"),
        Index("ix_runs_state_end_at_ms", "state", "end_at_ms"),
        Index(
            "ix_runs_wants_retry",
            "node_id",
            sqlite_where=sql("wants_retry = 1"),
            postgresql_where=sql("wants_retry"),
        ),
    )


class RunEndRow(Table):
    """One end of a run."""

    __tablename__ = "run_ends"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    end: Mapped[str] = mapped_column(String(8), primary_key=True)
    node_id: Mapped[Reference]
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(500))
    fence: Mapped[int] = mapped_column(BigInteger)
    files: Mapped[list[dict[str, Any]] | None]
    """Committed files; null: nothing is committed."""
    commit_hash: Mapped[str | None] = mapped_column(String(64))


class BookingRow(Table):
    """Time of a node for an end of a run."""

    __tablename__ = "bookings"
    id: Mapped[Key]
    node_id: Mapped[Reference]
    run_id: Mapped[Reference] = mapped_column(index=True)
    end: Mapped[str] = mapped_column(String(8))
    from_at_ms: Mapped[AtMs]
    to_at_ms: Mapped[AtMs]
    first_lane: Mapped[int]
    end_lane: Mapped[int]
    """The lane after its last; a background booking has none: both are 0."""
    live: Mapped[bool]
    """Whether it holds."""
    priority: Mapped[int]
    __table_args__ = (
        CheckConstraint(
            f"from_at_ms < to_at_ms AND to_at_ms - from_at_ms <= {LONGEST_BOOKING_MS}", name="ck_bookings_times"
        ),
        CheckConstraint("first_lane <= end_lane", name="ck_bookings_lanes"),
        Index(
            "ix_bookings_live",  # all that free time needs: bookings of a node are far apart in the table
            "node_id",
            "from_at_ms",
            "to_at_ms",
            "first_lane",
            "end_lane",
            sqlite_where=sql("live = 1"),
            postgresql_where=sql("live"),
        ),
    )
