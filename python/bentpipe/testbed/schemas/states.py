"""States of a run, and which may follow which."""

from __future__ import annotations

from typing import Literal

RunState = Literal[
    "planned",
    "assigned",
    "preparing",
    "ready",
    "running",
    "uploading",
    "done",
    "failed",
    "missed",
    "canceled",
    "preempted",
    "lost",
]
"""``planned``: in the calendar; ``assigned``: the node has it; ``missed``: it could not start in time; ``preempted``:
the household used its link; ``lost``: the node was not heard of any more, which a late result turns into ``done``."""

FINAL: frozenset[str] = frozenset({"done", "failed", "missed", "canceled", "preempted"})
"""States that a run does not leave."""

ENDED: frozenset[str] = FINAL | {"lost"}
"""States in which a run takes no time in the calendar any more."""

_ORDER = ("planned", "assigned", "preparing", "ready", "running", "uploading", "done")


def may_follow(old: str, new: str) -> bool:
    """Return whether a run may go from one state to another.

    A run goes forward, and may leave out states: an agent that acted alone reports several at once. It may fail, be
    canceled, missed, preempted or lost from any state that is not final. A lost one may still do all that.

    Example:
        >>> may_follow("assigned", "running"), may_follow("done", "running"), may_follow("lost", "done")
        (True, False, True)
    """
    if old in FINAL or new == old:
        return False
    if new not in _ORDER:
        return new != "missed" or old not in ("running", "uploading")
    return old == "lost" or _ORDER.index(new) > _ORDER.index(old)
