"""The database: tables, connections to SQLite and PostgreSQL, migrations."""
