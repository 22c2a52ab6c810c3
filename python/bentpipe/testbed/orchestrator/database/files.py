"""Tables of files that users bring."""

from __future__ import annotations

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from bentpipe.testbed.orchestrator.database.base import AtMs, Bytes, Table


class ProfileRow(Table):
    """A Profile that was uploaded, for emulated paths."""

    __tablename__ = "profiles"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    bytes: Mapped[Bytes]
    owner_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    created_at_ms: Mapped[AtMs]


class ImageRow(Table):
    """A container image that somebody asked for or reviewed."""

    __tablename__ = "images"
    reference: Mapped[str] = mapped_column(String(300), primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    """``requested``, ``approved`` or ``refused``."""
    reason: Mapped[str] = mapped_column(String(500))
    requested_by: Mapped[str] = mapped_column(ForeignKey("users.id"))
    reviewed_by: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    changed_at_ms: Mapped[AtMs]
