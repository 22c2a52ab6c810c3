"""Alembic's environment: it runs on the connection that `migrate` gives it."""

from alembic import context

from bentpipe.testbed.orchestrator.database.tables import Table

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Table.metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
