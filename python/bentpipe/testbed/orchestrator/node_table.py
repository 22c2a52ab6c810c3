"""Nodes in memory: what a heartbeat needs, without a query. A commit updates it, and a poll."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from bentpipe.testbed.orchestrator.database.tables import BootRow, NodeRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection


@dataclass(slots=True)
class KnownNode:
    """A node.

    Attributes:
        node: Id.
        name: Name.
        role: Role.
        active: Whether it may call.
        key_hash: Hash of its public key.
        older_key_hash: Hash of the key before, until the new one is used.
        version: Version of its wanted state.
        boot_id: Id of the agent's newest start.
        next_seq: Number of the first event of that start that has not arrived; None: unknown here.
    """

    node: str
    name: str
    role: str
    active: bool
    key_hash: str
    older_key_hash: str | None
    version: int
    boot_id: str | None
    next_seq: int | None = None


_COLUMNS = (
    NodeRow.id,
    NodeRow.name,
    NodeRow.role,
    NodeRow.state,
    NodeRow.key_hash,
    NodeRow.older_key_hash,
    NodeRow.version,
    NodeRow.boot_id,
    BootRow.next_seq,
)
_NEWEST = (BootRow.node_id == NodeRow.id) & (BootRow.boot_id == NodeRow.boot_id)


ROWS_AT_ONCE = 500
"""Rows of one query: requests are answered between two."""


async def _rows(connection: AsyncConnection, nodes: Sequence[str] | None) -> AsyncIterator[Any]:
    """Yield the rows of nodes, or of all."""
    statement = select(*_COLUMNS).outerjoin(BootRow, _NEWEST)
    if nodes is not None:
        for first in range(0, len(nodes), ROWS_AT_ONCE):
            some = statement.where(NodeRow.id.in_(nodes[first : first + ROWS_AT_ONCE]))
            for row in (await connection.execute(some)).all():
                yield row
        return
    last = ""
    while rows := (
        await connection.execute(statement.where(NodeRow.id > last).order_by(NodeRow.id).limit(ROWS_AT_ONCE))
    ).all():
        for row in rows:
            yield row
        last = rows[-1].id


@dataclass
class NodeTable:
    """All nodes, by id."""

    _nodes: dict[str, KnownNode] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self._nodes)

    def get(self, node: str) -> KnownNode | None:
        """Return a node; None: unknown."""
        return self._nodes.get(node)

    async def load(self, connection: AsyncConnection, nodes: Collection[str] | None = None) -> set[str]:
        """Read nodes from the database; None: all. Return those whose version is another than in memory."""
        before, present, changed = set(self._nodes), set(), set()
        async for row in _rows(connection, None if nodes is None else sorted(nodes)):
            present.add(row.id)
            known = self._nodes.get(row.id)
            if known is not None and known.version < row.version:
                changed.add(row.id)
            self._set(row)
        if nodes is None:
            for gone in before - present:
                del self._nodes[gone]
        return changed

    def _set(self, row: Any) -> None:  # noqa: ANN401 - a row
        """Take a row. A node that is known stays the same object: requests hold it."""
        known = self._nodes.get(row.id)
        if known is None:
            self._nodes[row.id] = KnownNode(
                row.id,
                row.name,
                row.role,
                row.state == "active",
                row.key_hash,
                row.older_key_hash,
                row.version,
                row.boot_id,
                row.next_seq,
            )
            return
        if row.version < known.version:
            return  # read before the newest commit, which may have revoked the node
        if known.boot_id == row.boot_id:
            known.next_seq = max(known.next_seq or 0, row.next_seq or 0) or None
        else:
            known.boot_id, known.next_seq = row.boot_id, row.next_seq
        known.active, known.version = row.state == "active", max(row.version, known.version)
        known.key_hash, known.older_key_hash = row.key_hash, row.older_key_hash

    async def read_versions(self, connection: AsyncConnection, nodes: Collection[str]) -> Mapping[str, Any]:
        """Return the rows of nodes that a transaction changed, before its commit."""
        return {row.id: row async for row in _rows(connection, sorted(nodes))}

    def set_versions(self, rows: Mapping[str, Any]) -> None:
        """Take these rows, after the commit."""
        for row in rows.values():
            self._set(row)

    def set_next_seqs(self, numbers: Mapping[tuple[str, str], int]) -> None:
        """Take numbers of first events that have not arrived, after the commit."""
        for (node, boot_id), number in numbers.items():
            known = self._nodes.get(node)
            if known is not None and known.boot_id == boot_id:
                known.next_seq = max(number, known.next_seq or 0)
