"""The fleet page: nodes on a map and in a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.dashboard.formats import plain
from bentpipe.testbed.dashboard.land import map_point
from bentpipe.testbed.schemas.quantities import budget_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.schemas.views import NodeView


@dataclass(frozen=True)
class BudgetBar:
    """How much of a byte budget is used.

    Attributes:
        label: The budget, as ``2GB/day``.
        used_bytes: Used of it.
        size_bytes: Its size.
    """

    label: str
    used_bytes: int
    size_bytes: int

    @property
    def percent(self) -> int:
        """The used share [%]."""
        return min(100, round(100 * self.used_bytes / max(1, self.size_bytes)))


@dataclass(frozen=True)
class MapPoint:
    """A node on the map.

    Attributes:
        name: Its name.
        online: Whether it was seen lately.
        x: Column on the drawn map.
        y: Row on the drawn map.
        longitude_deg: East of Greenwich [degrees].
        latitude_deg: North of the equator [degrees].
    """

    name: str
    online: bool
    x: float
    y: float
    longitude_deg: float
    latitude_deg: float


def budget_bars(node: NodeView) -> list[BudgetBar]:
    """Return the byte budgets of a node's host and their use."""
    used = node.status.used_bytes
    labels = [(budget_text(budget), budget.size_bytes) for budget in node.report.policy.bytes]
    return [BudgetBar(label, used.get(label, 0), size_bytes) for label, size_bytes in labels]


def map_points(nodes: Sequence[NodeView]) -> list[MapPoint]:
    """Return the nodes that say where they are: a place that their host blurred."""
    points = []
    for node in nodes:
        place = node.report.place
        if place is not None and node.state == "active":
            x, y = map_point(place.longitude_deg, place.latitude_deg)
            points.append(MapPoint(node.name, node.online, x, y, place.longitude_deg, place.latitude_deg))
    return points


def map_data(points: Sequence[MapPoint]) -> list[dict[str, Any]]:
    """Return what the map's script needs."""
    return [
        {"name": plain(point.name), "online": point.online, "at": [point.longitude_deg, point.latitude_deg]}
        for point in points
    ]


def summary(nodes: Sequence[NodeView]) -> str:
    """Return the fleet in one sentence, which screen readers say when it changes."""
    online = sum(node.online for node in nodes)
    runs = sum(len(node.status.runs) for node in nodes if node.online)
    yielding = sum(node.status.scavenger == "yielding" for node in nodes if node.online)
    parts = [f"{online} of {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} online"]
    parts.append(f"{runs} {'run' if runs == 1 else 'runs'} under way")
    if yielding:
        parts.append(f"{yielding} yielding to {'its household' if yielding == 1 else 'their households'}")
    return ", ".join(parts)
