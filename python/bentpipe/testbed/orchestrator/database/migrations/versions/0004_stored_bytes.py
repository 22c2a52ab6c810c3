"""Bytes of a node's committed results, for its quota; those of before are counted."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Change the tables."""
    with op.batch_alter_table("nodes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("stored_bytes", sa.BigInteger(), server_default="0", nullable=False))
    connection = op.get_bind()
    totals: dict[str, int] = {}
    for node, files in connection.execute(sa.text("SELECT node_id, files FROM run_ends WHERE files IS NOT NULL")):
        values = json.loads(files) if isinstance(files, str) else files
        totals[node] = totals.get(node, 0) + sum(int(each["bytes"]) for each in values)
    for node, total in totals.items():
        values = {"node": node, "total": total}
        connection.execute(sa.text("UPDATE nodes SET stored_bytes = :total WHERE id = :node"), values)
