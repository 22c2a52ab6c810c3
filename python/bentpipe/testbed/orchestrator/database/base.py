"""Base of the tables, and the types of columns that both databases have."""

from __future__ import annotations

from typing import Annotated, Any

from sqlalchemy import JSON, BigInteger, MetaData, String
from sqlalchemy.orm import DeclarativeBase, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
"""Names of constraints, so that migrations can name them."""

Key = Annotated[str, mapped_column(String(32), primary_key=True)]
"""An id as primary key."""
Reference = Annotated[str, mapped_column(String(32))]
"""An id of a row of another table."""
AtMs = Annotated[int, mapped_column(BigInteger)]
"""A point in time [ms since 1970, UTC]."""
Bytes = Annotated[int, mapped_column(BigInteger)]
"""A number of bytes."""


_JSON = JSON(none_as_null=True)


class Table(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's
        dict[str, Any]: _JSON,
        list[str]: _JSON,
        list[dict[str, Any]]: _JSON,
    }
