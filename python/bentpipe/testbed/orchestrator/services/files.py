"""Files that users bring: Profiles for emulated paths, by hash; container images, by review."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.tables import ExperimentRow, ImageRow, PlanRow, ProfileRow, UserRow
from bentpipe.testbed.orchestrator.services import audit
from bentpipe.testbed.orchestrator.services.refusals import ConflictError, NotFoundError, TooLargeError
from bentpipe.testbed.schemas.views import ImagePage, ImageView, ProfilePage, ProfileView

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction
    from bentpipe.testbed.orchestrator.security.roles import Caller
    from bentpipe.testbed.schemas.views import ImageReview

LARGEST_PROFILE = 64 * 1024 * 1024
"""Largest Profile [bytes]."""
MOST_PROFILE_BYTES = 16 * LARGEST_PROFILE
"""Bytes of all Profiles of a user: 1 GB, which is years of links."""
PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


async def put_profile(orchestrator: Orchestrator, caller: Caller, name: str, content: bytes) -> ProfileView:
    """Store a Profile's file under a name, once.

    Raises:
        UserError: A bad name, or no Parquet file.
        ConflictError: Another file has the name.
        TooLargeError: The user's Profiles have too many bytes.
    """
    if PROFILE_NAME.match(name) is None:
        raise UserError(shown(name), where="name", expected="letters, digits, . _ -; at most 64")
    if content[:4] != b"PAR1" or content[-4:] != b"PAR1":
        raise UserError("no Parquet file", where="body", expected="a file of `bentpipe profile make`")
    sha256 = hashlib.sha256(content).hexdigest()
    async with orchestrator.read() as reading:
        await _check_profile(reading, caller, name, sha256, len(content))
    await orchestrator.storage.put(f"files/{sha256}", content)
    async with orchestrator.write() as transaction:
        row = await _check_profile(transaction, caller, name, sha256, len(content))
        created_at_ms = transaction.now_ms
        if row is None:
            try:
                await transaction.execute(
                    insert(ProfileRow).values(
                        name=name,
                        sha256=sha256,
                        bytes=len(content),
                        owner_id=caller.user,
                        created_at_ms=created_at_ms,
                    )
                )
            except IntegrityError:
                raise ConflictError(f"a Profile named {name!r} exists", code="name_taken") from None
            await audit.record(transaction, caller.name, "profile.put", name, sha256=sha256)
    return ProfileView(name=name, sha256=sha256, bytes=len(content), owner=caller.name, created_at_ms=created_at_ms)


async def _check_profile(transaction: Transaction, caller: Caller, name: str, sha256: str, size_bytes: int) -> Any:  # noqa: ANN401 - a row
    """Return the row of a Profile; None: it is new. Raises `ConflictError`, `TooLargeError`."""
    row = await transaction.first(select(ProfileRow.sha256).where(ProfileRow.name == name))
    if row is not None and row.sha256 != sha256:
        raise ConflictError(f"a Profile named {name!r} exists; try another name", code="name_taken")
    if row is None:
        used = await transaction.scalar(select(func.sum(ProfileRow.bytes)).where(ProfileRow.owner_id == caller.user))
        if int(used or 0) + size_bytes > MOST_PROFILE_BYTES:
            raise TooLargeError(f"your Profiles have {used} bytes; expected at most {MOST_PROFILE_BYTES} with this one")
    return row


async def list_profiles(orchestrator: Orchestrator, after: str, limit: int) -> ProfilePage:
    """List Profiles by name."""
    statement = (
        select(*ProfileRow.__table__.c, UserRow.name.label("owner"))
        .join(UserRow, UserRow.id == ProfileRow.owner_id)
        .where(ProfileRow.name > after)
        .order_by(ProfileRow.name)
        .limit(limit + 1)
    )
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    items = tuple(
        ProfileView(name=row.name, sha256=row.sha256, bytes=row.bytes, owner=row.owner, created_at_ms=row.created_at_ms)
        for row in rows[:limit]
    )
    return ProfilePage(items=items, next=items[-1].name if len(rows) > limit else None)


async def file_for_node(orchestrator: Orchestrator, node: str, sha256: str) -> bytes:
    """Return a Profile that a run of this node needs. Raises `NotFoundError`."""
    statement = (
        select(ExperimentRow.work)
        .join(PlanRow, PlanRow.experiment_id == ExperimentRow.id)
        .where((PlanRow.node_id == node) | (PlanRow.server_id == node))
    )
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    if not any(row.work.get("profile_sha256") == sha256 for row in rows):
        raise NotFoundError("no run of this node needs that file")
    content = await orchestrator.storage.get(f"files/{sha256}")
    if content is None:
        raise NotFoundError("the file is not in the store")
    return content


async def request_image(orchestrator: Orchestrator, caller: Caller, reference: str) -> ImageView:
    """Ask for the review of an image."""
    async with orchestrator.write() as transaction:
        if await transaction.scalar(select(ImageRow.state).where(ImageRow.reference == reference)) is None:
            await transaction.execute(
                insert(ImageRow).values(
                    reference=reference,
                    state="requested",
                    reason="",
                    requested_by=caller.user,
                    reviewed_by=None,
                    changed_at_ms=transaction.now_ms,
                )
            )
            await audit.record(transaction, caller.name, "image.request", reference)
    return await show_image(orchestrator, reference)


async def review_image(orchestrator: Orchestrator, caller: Caller, review: ImageReview) -> ImageView:
    """Approve or refuse an image. Raises `NotFoundError`: nobody asked for it."""
    async with orchestrator.write() as transaction:
        changed = await transaction.change(
            update(ImageRow)
            .where(ImageRow.reference == review.reference)
            .values(
                state=review.state,
                reason=review.reason,
                reviewed_by=caller.user,
                changed_at_ms=transaction.now_ms,
            )
        )
        if not changed:
            raise NotFoundError(f"nobody asked for {shown(review.reference)}")
        await audit.record(transaction, caller.name, f"image.{review.state}", review.reference, reason=review.reason)
    return await show_image(orchestrator, review.reference)


async def show_image(orchestrator: Orchestrator, reference: str) -> ImageView:
    """Return an image. Raises `NotFoundError`."""
    page = await list_images(orchestrator, "", 1, reference)
    if not page.items:
        raise NotFoundError(f"no image {shown(reference)}")
    return page.items[0]


async def list_images(orchestrator: Orchestrator, after: str, limit: int, reference: str | None = None) -> ImagePage:
    """List images by reference."""
    reviewer = aliased(UserRow)
    statement = (
        select(*ImageRow.__table__.c, UserRow.name.label("asker"), reviewer.name.label("reviewer"))
        .join(UserRow, UserRow.id == ImageRow.requested_by)
        .outerjoin(reviewer, reviewer.id == ImageRow.reviewed_by)
        .where(ImageRow.reference > after)
        .order_by(ImageRow.reference)
        .limit(limit + 1)
    )
    if reference is not None:
        statement = statement.where(ImageRow.reference == reference)
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    items = tuple(
        ImageView(
            reference=row.reference,
            state=row.state,
            reason=row.reason,
            requested_by=row.asker,
            reviewed_by=row.reviewer,
        )
        for row in rows[:limit]
    )
    return ImagePage(items=items, next=items[-1].reference if len(rows) > limit else None)
