"""Refuse bookings of one node that overlap in time and lanes: in the database itself, so that no race passes."""

from __future__ import annotations

POSTGRESQL = (
    "CREATE EXTENSION IF NOT EXISTS btree_gist",
    """
    ALTER TABLE bookings ADD CONSTRAINT no_overlap EXCLUDE USING gist (
        node_id WITH =, int8range(from_at_ms, to_at_ms) WITH &&, int4range(first_lane, end_lane) WITH &&
    ) WHERE (live)
    """,
)
"""An exclusion constraint; an empty range of lanes overlaps nothing."""

LONGEST_BOOKING_MS = 25 * 3600 * 1000
"""Longest booking [ms]: a day and its margins. It bounds how far back a search for overlaps looks."""

_OVERLAP = f"""
    SELECT RAISE(ABORT, 'no_overlap') WHERE NEW.live AND EXISTS (
        SELECT 1 FROM bookings AS other
        WHERE other.node_id = NEW.node_id AND other.live = 1 AND other.id <> NEW.id
          AND other.from_at_ms < NEW.to_at_ms AND other.from_at_ms > NEW.from_at_ms - {LONGEST_BOOKING_MS}
          AND other.to_at_ms > NEW.from_at_ms
          AND other.first_lane < NEW.end_lane AND NEW.first_lane < other.end_lane
    );
"""

SQLITE = tuple(
    f"CREATE TRIGGER no_overlap_{name} BEFORE {event} ON bookings BEGIN {_OVERLAP} END"
    for name, event in (
        ("insert", "INSERT"),
        ("update", "UPDATE OF live, node_id, from_at_ms, to_at_ms, first_lane, end_lane"),
    )
)
"""Two triggers."""
