"""What became of all runs: what must not be is counted."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.schemas.states import ENDED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.validation.testbed_faults.world import World

FAULTS = {
    "lost": "results of runs that are done, not whole in the store",
    "doubled": "due times with two runs that are done, and runs that began twice",
    "overlaps": "runs that overlap an exclusive one",
    "booked_twice": "exclusive bookings that overlap another",
    "without_end": "runs that did not end",
    "without_reason": "runs that ended otherwise, without a reason",
    "unknown_results": "results of runs that the orchestrator does not know",
    "left": "results that stayed in the node's spool, or were set aside there",
}
"""What must not be."""


def judge(world: World, before_ms: float, bookings: Sequence[str] = ()) -> dict[str, Any]:
    """Count what must not be, among runs that were to start before a time; `bookings`: those that overlapped."""
    store = world.folder / "home" / "store"
    runs = world.runs(before_ms)
    ended = [run for run in runs if run.state in ENDED]
    done = [run for run in ended if run.state == "done"]
    results = {path.parent.name: path.parent for path in store.glob("*/*/*/*/testbed.json")}
    records = {run: json.loads((folder / "testbed.json").read_text()) for run, folder in results.items()}
    by_due = Counter((run.plan, run.due_at_ms) for run in done)
    twice = [f"{plan} {due}" for (plan, due), count in by_due.items() if count > 1]
    known = {run.id for run in world.client.runs()}
    spool = world.folder / "node" / "spool"
    kinds = {name: record["work"]["booking_class"] for name, record in records.items()}
    reasons = Counter(f"{run.state}: {run.reason}" for run in ended if run.state != "done")
    return {
        "runs": len(runs),
        "states": dict(Counter(run.state for run in runs)),
        "lost": [run.id for run in done if not _is_whole(world, run.id, results.get(run.id))],
        "doubled": twice + [run.id for run in runs if _starts(world, run) > 1],
        "overlaps": _overlaps(
            (record["began_at_ms"], record["ended_at_ms"], kinds[run], run)
            for run, record in records.items()
            if record["began_at_ms"] is not None
        ),
        "booked_twice": list(bookings),
        "without_end": [f"{run.id} {run.state}" for run in runs if run.state not in ENDED],
        "without_reason": [run.id for run in ended if run.state != "done" and not run.reason],
        "unknown_results": [name for name in results if name not in known],
        "left": [path.name for path in spool.iterdir()] if spool.exists() else [],
        "reasons": dict(reasons.most_common(20)),
    }


def _is_whole(world: World, run: str, folder: Path | None) -> bool:
    """Whether all files of a run that is done are in the store, as the node made them."""
    if folder is None or not (folder / "run.json").exists():
        return False
    (end,) = world.client.run(run).ends
    return all((folder / file).is_file() for file in end.files) and len(end.files) > 2


def _starts(world: World, run: Any) -> int:  # noqa: ANN401 - a view
    """Return how often a run began, as its node said."""
    if run.state in ("missed", "canceled", "planned", "assigned"):
        return 0
    events = world.client.run(run.id).events
    return sum(event.kind == "state" and event.body.get("state") == "running" for event in events)


def _overlaps(spans: Any) -> Sequence[str]:  # noqa: ANN401 - tuples
    ordered = sorted(spans)
    overlaps = []
    for number, (_, end, kind, run) in enumerate(ordered):
        for other_begin, _, other_kind, other in ordered[number + 1 :]:
            if other_begin >= end:
                break
            if "exclusive" in (kind, other_kind):
                overlaps.append(f"{run} {other}")
    return overlaps


def overlapping_bookings(world: World) -> list[str]:
    """Return pairs of runs whose bookings hold one node's time and lane, as the database has them now."""
    query = (
        "SELECT a.run_id, b.run_id FROM bookings a JOIN bookings b ON a.node_id = b.node_id AND a.id < b.id"
        " AND a.from_at_ms < b.to_at_ms AND b.from_at_ms < a.to_at_ms"
        " AND a.first_lane < b.end_lane AND b.first_lane < a.end_lane WHERE a.live AND b.live"
    )
    if world.server is not None:
        return world.server.query(query)
    with sqlite3.connect(f"file:{world.folder / 'home' / 'testbed.db'}?mode=ro", uri=True) as db:
        return [" ".join(row) for row in db.execute(query)]
