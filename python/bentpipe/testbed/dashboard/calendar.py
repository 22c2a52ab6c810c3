"""The calendar page: a row per node over time, drawn as SVG without scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.testbed.dashboard.states import mark_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.schemas.page_views import BookingView

WIDTH, LEFT, TOP, ROW, LANE = 1200.0, 150.0, 28.0, 12.0, 22.0
"""Of the drawing: width, space for names, space for times, space between nodes, height of a lane."""
PAST = "off"
"""Colour of a run that has ended: grey."""
LEAST_WIDTH = 14.0
"""Least width of a booking, for its letter, and so that it can be pointed at."""
HOURS = (1, 3, 12, 48, 168)
"""Lengths of time that one can choose [h]."""


@dataclass(frozen=True)
class Block:
    """A booking in the drawing.

    Attributes:
        booking: It.
        x: Left edge.
        y: Upper edge.
        width: Width.
        letter: Letter of its state.
        tone: Colour of its state; grey: it has ended.
        label: Name of the experiment, if it fits in.
    """

    booking: BookingView
    x: float
    y: float
    width: float
    letter: str
    tone: str
    label: str


@dataclass(frozen=True)
class NodeRow:
    """A node's row.

    Attributes:
        name: Name of the node.
        y: Upper edge.
        height: Height.
        blocks: Its bookings.
    """

    name: str
    y: float
    height: float
    blocks: list[Block]


@dataclass(frozen=True)
class Drawing:
    """The calendar.

    Attributes:
        rows: Nodes.
        ticks: x and time [ms since 1970] of its vertical lines.
        now_x: x of the present; None: it is outside.
        height: Height.
    """

    rows: list[NodeRow]
    ticks: list[tuple[float, int]]
    now_x: float | None
    height: float


def draw(nodes: Sequence[str], bookings: Sequence[BookingView], from_at_ms: int, to_at_ms: int, now_ms: int) -> Drawing:
    """Return the calendar of nodes: bookings that overlap are stacked."""
    scale = (WIDTH - LEFT) / (to_at_ms - from_at_ms)

    def x_of(at_ms: int) -> float:
        return round(LEFT + (min(max(at_ms, from_at_ms), to_at_ms) - from_at_ms) * scale, 1)

    rows: list[NodeRow] = []
    y = TOP
    for node in nodes:
        lanes: list[float] = []
        blocks = []
        for booking in (each for each in bookings if each.node == node):
            left = x_of(booking.from_at_ms)
            width = max(LEAST_WIDTH, round(x_of(booking.to_at_ms) - left, 1))
            lane = next((index for index, end in enumerate(lanes) if end <= left), len(lanes))
            lanes[lane : lane + 1] = [left + width]
            mark = mark_of(booking.state)
            room = int((width - 22) / 7.5)
            name = booking.experiment
            label = "" if room < 3 else name if len(name) <= room else name[: room - 1] + "…"
            tone = mark.tone if booking.live else PAST
            blocks.append(Block(booking, left, y + lane * LANE + 3, width, mark.letter, tone, label))
        height = max(1, len(lanes)) * LANE + 6
        rows.append(NodeRow(node, y, height, blocks))
        y += height + ROW
    step_ms = _step_ms(to_at_ms - from_at_ms)
    first = -(-from_at_ms // step_ms) * step_ms
    ticks = [(x_of(at_ms), at_ms) for at_ms in range(first, to_at_ms, step_ms)]
    now_x = x_of(now_ms) if from_at_ms <= now_ms <= to_at_ms else None
    return Drawing(rows, ticks, now_x, y)


def _step_ms(length_ms: int) -> int:
    """Return a round step of at most ten ticks."""
    minutes = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880)
    return next((each for each in minutes if length_ms <= each * 600_000), 2880) * 60_000
