"""First tables."""

import sqlalchemy as sa
from alembic import op

from bentpipe.testbed.orchestrator.database.overlaps import POSTGRESQL, SQLITE

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Change the tables."""
    op.create_table(
        "audit",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=100), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=400), nullable=False),
        sa.Column("detail", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.create_index("ix_audit_at_ms", ["at_ms"], unique=False)

    op.create_table(
        "bookings",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("end", sa.String(length=8), nullable=False),
        sa.Column("from_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("to_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("first_lane", sa.Integer(), nullable=False),
        sa.Column("end_lane", sa.Integer(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.CheckConstraint("first_lane <= end_lane", name="ck_bookings_lanes"),
        sa.CheckConstraint("from_at_ms < to_at_ms AND to_at_ms - from_at_ms <= 90000000", name="ck_bookings_times"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bookings")),
    )
    with op.batch_alter_table("bookings", schema=None) as batch_op:
        batch_op.create_index(
            "ix_bookings_live",
            ["node_id", "from_at_ms"],
            unique=False,
            sqlite_where=sa.text("live = 1"),
            postgresql_where=sa.text("live"),
        )
        batch_op.create_index(batch_op.f("ix_bookings_run_id"), ["run_id"], unique=False)

    op.create_table(
        "boots",
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("boot_id", sa.String(length=32), nullable=False),
        sa.Column("first_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("next_seq", sa.Integer(), nullable=False),
        sa.Column("noted_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "boot_id", name=op.f("pk_boots")),
    )
    op.create_table(
        "idempotency",
        sa.Column("user_id", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "key", name=op.f("pk_idempotency")),
    )
    with op.batch_alter_table("idempotency", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_idempotency_created_at_ms"), ["created_at_ms"], unique=False)

    op.create_table(
        "run_events",
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("boot_id", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("received_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=True),
        sa.Column("waits", sa.Boolean(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "boot_id", "seq", name=op.f("pk_run_events")),
    )
    with op.batch_alter_table("run_events", schema=None) as batch_op:
        batch_op.create_index("ix_run_events_node_id_received_at_ms", ["node_id", "received_at_ms"], unique=False)
        batch_op.create_index("ix_run_events_run_id", ["run_id"], unique=False)

    op.create_table(
        "users",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=400), nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
        sa.UniqueConstraint("subject", name=op.f("uq_users_subject")),
    )
    op.create_table(
        "experiments",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("record", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("work", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("work_hash", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("until_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_experiments_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_experiments")),
    )
    with op.batch_alter_table("experiments", schema=None) as batch_op:
        batch_op.create_index("ix_experiments_created_at_ms", ["created_at_ms"], unique=False)
        batch_op.create_index(
            "uq_experiments_active_name",
            ["owner_id", "name"],
            unique=True,
            sqlite_where=sa.text("state = 'active'"),
            postgresql_where=sa.text("state = 'active'"),
        )

    op.create_table(
        "images",
        sa.Column("reference", sa.String(length=300), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.Column("requested_by", sa.String(length=32), nullable=False),
        sa.Column("reviewed_by", sa.String(length=32), nullable=True),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["requested_by"], ["users.id"], name=op.f("fk_images_requested_by")),
        sa.ForeignKeyConstraint(["reviewed_by"], ["users.id"], name=op.f("fk_images_reviewed_by")),
        sa.PrimaryKeyConstraint("reference", name=op.f("pk_images")),
    )
    op.create_table(
        "join_tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("node_role", sa.String(length=16), nullable=True),
        sa.Column("node_name", sa.String(length=64), nullable=True),
        sa.Column("owner_id", sa.String(length=32), nullable=True),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("used_key", sa.String(length=64), nullable=True),
        sa.Column("node_id", sa.String(length=32), nullable=True),
        sa.Column("certificate_pem", sa.String(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_join_tokens_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_join_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_join_tokens_hash")),
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("owner_id", sa.String(length=32), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("max_parallel", sa.Integer(), nullable=False),
        sa.Column("serial", sa.String(length=50), nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("older_key_hash", sa.String(length=64), nullable=True),
        sa.Column("boot_id", sa.String(length=32), nullable=True),
        sa.Column("boot_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("lost", sa.Boolean(), nullable=False),
        sa.Column("status", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_nodes_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("name", name=op.f("uq_nodes_name")),
    )
    op.create_table(
        "profiles",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("owner_id", sa.String(length=32), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_profiles_owner_id")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_profiles")),
    )
    with op.batch_alter_table("profiles", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_profiles_sha256"), ["sha256"], unique=False)

    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=32), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    with op.batch_alter_table("tokens", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_tokens_user_id"), ["user_id"], unique=False)

    op.create_table(
        "plans",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("experiment_id", sa.String(length=32), nullable=False),
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("server_id", sa.String(length=32), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("next_due_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"], name=op.f("fk_plans_experiment_id")),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_plans_node_id")),
        sa.ForeignKeyConstraint(["server_id"], ["nodes.id"], name=op.f("fk_plans_server_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
    )
    with op.batch_alter_table("plans", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_plans_experiment_id"), ["experiment_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_plans_node_id"), ["node_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_plans_server_id"), ["server_id"], unique=False)
        batch_op.create_index("ix_plans_state_next_due_at_ms", ["state", "next_due_at_ms"], unique=False)

    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("plan_id", sa.String(length=32), nullable=False),
        sa.Column("experiment_id", sa.String(length=32), nullable=False),
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("server_id", sa.String(length=32), nullable=True),
        sa.Column("due_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("cause", sa.String(length=16), nullable=False),
        sa.Column("first_run_id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.Column("start_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("latest_start_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("reserved_bytes", sa.BigInteger(), nullable=False),
        sa.Column("up_bytes", sa.BigInteger(), nullable=False),
        sa.Column("down_bytes", sa.BigInteger(), nullable=False),
        sa.Column("wants_retry", sa.Boolean(), nullable=False),
        sa.Column("location", sa.String(length=400), nullable=True),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name=op.f("fk_runs_plan_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("plan_id", "due_at_ms", "attempt", name=op.f("uq_runs_plan_id_due_at_ms_attempt")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index("ix_runs_experiment_id_start_at_ms", ["experiment_id", "start_at_ms"], unique=False)
        batch_op.create_index("ix_runs_node_id_start_at_ms", ["node_id", "start_at_ms"], unique=False)
        batch_op.create_index("ix_runs_state_end_at_ms", ["state", "end_at_ms"], unique=False)
        batch_op.create_index(
            "ix_runs_wants_retry",
            ["node_id"],
            unique=False,
            sqlite_where=sa.text("wants_retry = 1"),
            postgresql_where=sa.text("wants_retry"),
        )

    op.create_table(
        "triggers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("plan_id", sa.String(length=32), nullable=False),
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("expression", sa.String(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name=op.f("fk_triggers_plan_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_triggers")),
        sa.UniqueConstraint("plan_id", name=op.f("uq_triggers_plan_id")),
    )
    with op.batch_alter_table("triggers", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_triggers_node_id"), ["node_id"], unique=False)

    op.create_table(
        "firings",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("trigger_id", sa.String(length=32), nullable=False),
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("window_end_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("values", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=True),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.ForeignKeyConstraint(["trigger_id"], ["triggers.id"], name=op.f("fk_firings_trigger_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_firings")),
    )
    with op.batch_alter_table("firings", schema=None) as batch_op:
        batch_op.create_index(
            "ix_firings_trigger_id_window_end_at_ms", ["trigger_id", "window_end_at_ms"], unique=False
        )

    op.create_table(
        "run_ends",
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("end", sa.String(length=8), nullable=False),
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("commit_hash", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_ends_run_id")),
        sa.PrimaryKeyConstraint("run_id", "end", name=op.f("pk_run_ends")),
    )
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)
