"""What hosts' policies, as their nodes reported them, say of starts: the node itself decides, this foretells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from bentpipe.testbed.orchestrator.database.tables import NodeRow
from bentpipe.testbed.orchestrator.services.slots import PREPARE_MS
from bentpipe.testbed.schemas.policy import HostPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.testbed.orchestrator.context import Transaction
    from bentpipe.testbed.orchestrator.services.selection import Candidate

DAY_MS, MINUTE_MS = 86_400_000, 60_000


@dataclass(frozen=True)
class NodeHours:
    """When one node may run experiments.

    Attributes:
        name: Its name.
        policy: Its host's policy.
        utc_offset_s: Its local time less UTC [s].
    """

    name: str
    policy: HostPolicy
    utc_offset_s: int

    def starts(self, earliest_at_ms: int, latest_at_ms: int, duration_ms: int) -> list[tuple[int, int]]:
        """Return the first and the last start of each time in which a run may be prepared, begin and end.

        Example:
            >>> policy = HostPolicy.check({"schema": "bentpipe.policy/1", "hours": ["22:00-02:00"]}, "policy")
            >>> starts = NodeHours("attic", policy, 0).starts(0, 86_400_000, duration_ms=1_800_000)
            >>> [(first / 3.6e6, last / 3.6e6) for first, last in starts]
            [(0.0, 1.5), (22.002777777777776, 24.0)]
        """
        offset_ms = self.utc_offset_s * 1000
        days = range((earliest_at_ms + offset_ms) // DAY_MS - 1, (latest_at_ms + offset_ms) // DAY_MS + 3)
        spans = [(begin * MINUTE_MS - offset_ms, end * MINUTE_MS - offset_ms) for begin, end in self.policy.spans(days)]
        bounded = [
            (max(begin + PREPARE_MS, earliest_at_ms), min(end - max(duration_ms, 1), latest_at_ms))
            for begin, end in spans
        ]
        return [(first, last) for first, last in bounded if first <= last]

    def __str__(self) -> str:
        """Return whose hours they are, and which."""
        return f"{self.name}'s host ({', '.join(self.policy.hours)} local time)"


@dataclass(frozen=True)
class Hours:
    """When all nodes of a run may run experiments.

    Attributes:
        nodes: Nodes whose hosts have hours, and whose local time is known.
    """

    nodes: tuple[NodeHours, ...] = ()

    @classmethod
    def of(cls, candidates: Iterable[Candidate | None]) -> Hours:
        """Return the hours of nodes that were chosen."""
        reports = [(each.name, each.report) for each in candidates if each is not None]
        return cls(
            tuple(
                NodeHours(name, report.policy, report.utc_offset_s)
                for name, report in reports
                if report.policy.hours and report.utc_offset_s is not None
            )
        )

    def starts(self, earliest_at_ms: int, latest_at_ms: int, duration_ms: int) -> list[tuple[int, int]]:
        """Return the first and the last start of each time in which a run may begin and end, sorted."""
        windows = [(earliest_at_ms, latest_at_ms)] if earliest_at_ms <= latest_at_ms else []
        for node in self.nodes:
            both = [
                (max(first, other_first), min(last, other_last))
                for first, last in windows
                for other_first, other_last in node.starts(earliest_at_ms, latest_at_ms, duration_ms)
            ]
            windows = [(first, last) for first, last in both if first <= last]
        return windows

    def refusal(self, earliest_at_ms: int, latest_at_ms: int, duration_ms: int) -> str:
        """Return why hosts let no run begin in a time; empty: they do."""
        times = earliest_at_ms, latest_at_ms, duration_ms
        if earliest_at_ms > latest_at_ms or self.starts(*times):
            return ""
        closed = [node for node in self.nodes if not node.starts(*times)]
        return f"outside of the hours of {' and '.join(map(str, closed or self.nodes))}"


async def load_hours(transaction: Transaction, nodes: Sequence[str | None]) -> Hours:
    """Return the hours of nodes by their ids."""
    statement = select(NodeRow.name, NodeRow.report).where(NodeRow.id.in_([node for node in nodes if node is not None]))
    known = []
    for row in await transaction.rows(statement.order_by(NodeRow.name)):
        offset_s = row.report.get("utc_offset_s")
        if row.report["policy"].get("hours") and offset_s is not None:
            known.append(NodeHours(row.name, HostPolicy.model_validate(row.report["policy"]), offset_s))
    return Hours(tuple(known))


def pause_of(candidate: Candidate) -> str:
    """Return by whom a node is paused; empty: it is not."""
    if candidate.report.policy.paused:
        return f"{candidate.name} is paused by its host"
    return f"{candidate.name} is paused" if candidate.settings.paused else ""
