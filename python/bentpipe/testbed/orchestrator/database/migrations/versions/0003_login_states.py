"""States of logins at an identity provider that were used: at no process on the database do they work again."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Change the tables."""
    op.create_table(
        "login_states",
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("until_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("state", name=op.f("pk_login_states")),
    )
    op.create_index(op.f("ix_login_states_until_at_ms"), "login_states", ["until_at_ms"], unique=False)
