"""What a board reports of its feeds and triggers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

FeedState = Literal["starting", "fresh", "stale", "failed", "ended"]


@dataclass
class FeedStatus:
    """State of a feed.

    Attributes:
        name: Its name.
        state: ``fresh``: its newest sample is the present; ``stale``: it is older; ``failed``: it raised, and is tried
            again after a pause.
        samples: Samples so far.
        refused: Values so far that were not plausible.
        failures: How often it failed.
        trouble: The newest error, in one line; empty: none since its newest sample.
        note: What users of its signals should know, in one line; empty: nothing.
        age_s: Age of its newest sample [s]; None: none.
    """

    name: str
    state: FeedState = "starting"
    samples: int = 0
    refused: int = 0
    failures: int = 0
    trouble: str = ""
    note: str = ""
    age_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class TriggerStatus:
    """State of an armed trigger.

    Attributes:
        id: Its id.
        expression: Its condition.
        evaluations: Windows that were evaluated.
        missing: Windows without a sample that was needed.
        firings: How often it fired.
        fired_at_ms: When it fired last [ms since 1970]; None: never.
        absent: Signals that it needs and no feed gives now.
    """

    id: str
    expression: str
    evaluations: int
    missing: int
    firings: int
    fired_at_ms: int | None
    absent: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class NodeFiring:
    """A firing of a trigger on a node.

    Attributes:
        id: ``derived_id("firing", trigger, node, window end)``: the same for every delivery of the same firing.
        trigger_id: The trigger.
        node_id: The node.
        window_end_at_ms: End of the window in which the condition came to hold [ms since 1970].
        values: Means of the signals in that window.
    """

    id: str
    trigger_id: str
    node_id: str
    window_end_at_ms: int
    values: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)
