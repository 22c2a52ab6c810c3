"""Records of the testbed, as tests need them."""

from __future__ import annotations

from typing import Any

from bentpipe.testbed.schemas.desired import Assignment, Desired, NodeSettings, Peer, Work
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.policy import HostPolicy

KEY = "ab" * 32
START_MS = 1_764_000_000_000


def policy(**fields: Any) -> HostPolicy:
    return HostPolicy.check({"schema": "bentpipe.policy/1", **fields}, "policy")


def work(seconds: float = 10.0, booking_class: str = "normal", **fields: Any) -> Work:
    return Work.check(
        {
            "experiment": "e",
            "owner": "ada",
            "program": {"builtin": "ping", "args": {"target": "192.0.2.1", "seconds": seconds}},
            "booking_class": booking_class,
            "duration_s": seconds,
            "bytes_per_run": 1_000_000,
            **fields,
        },
        "work",
    )


def assignment(name: str, start_s: float, **fields: Any) -> Assignment:
    start_ms = round(START_MS + start_s * 1e3)
    return Assignment.check(
        {
            "run": derived_id(name),
            "plan": derived_id("plan"),
            "fence": 1,
            "end": "client",
            "work": "0" * 64,
            "due_at_ms": start_ms,
            "start_at_ms": start_ms,
            "latest_start_at_ms": start_ms + 60_000,
            **fields,
        },
        "assignment",
    )


def desired(assignments: list[Assignment] = (), works: dict[str, Work] | None = None, **fields: Any) -> Desired:
    return Desired(
        version=fields.pop("version", 1),
        node=derived_id("node"),
        issued_at_ms=START_MS,
        until_at_ms=START_MS + 48 * 3_600_000,
        settings=fields.pop("settings", NodeSettings(name="attic")),
        works=works or {"0" * 64: work()},
        assignments=tuple(assignments),
        **fields,
    )


def peer(address: str | None = None) -> Peer:
    return Peer(node="other", address=address, key=KEY)
