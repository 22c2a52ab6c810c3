"""Metrics for Prometheus: counters of what happens, gauges read when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import func, select

from bentpipe.testbed.orchestrator.database.tables import NodeRow, RunRow
from bentpipe.testbed.schemas.agent_protocol import LOST_S

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator

REGISTRY = CollectorRegistry()
HEARTBEATS = Counter("bentpipe_heartbeats_total", "Heartbeats of nodes", registry=REGISTRY)
EVENTS = Counter("bentpipe_events_total", "Events of nodes that were stored", registry=REGISTRY)
UPLOADED = Counter("bentpipe_uploaded_bytes_total", "Bytes of results that arrived", registry=REGISTRY)
COMMITS = Counter("bentpipe_commits_total", "Results that were committed", ["state"], registry=REGISTRY)
REQUESTS = Histogram(
    "bentpipe_request_seconds",
    "Time of requests of users",
    ["method", "status"],
    registry=REGISTRY,
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0),
)
NODES = Gauge("bentpipe_nodes", "Nodes by state", ["state"], registry=REGISTRY)
STREAMS = Gauge("bentpipe_streams", "Open streams of nodes", registry=REGISTRY)
RUNS = Gauge("bentpipe_runs", "Runs that have not ended, by state", ["state"], registry=REGISTRY)
OPEN_STATES = ("planned", "assigned", "preparing", "ready", "running", "uploading", "lost")


async def exposition(orchestrator: Orchestrator) -> bytes:
    """Return all metrics as text."""
    async with orchestrator.read() as transaction:
        limit = transaction.now_ms - round(LOST_S * 1000)
        online = await transaction.scalar(
            select(func.count()).where(NodeRow.state == "active", NodeRow.seen_at_ms > limit)
        )
        active = await transaction.scalar(select(func.count()).where(NodeRow.state == "active"))
        rows = await transaction.rows(
            select(RunRow.state, func.count().label("runs")).where(RunRow.state.in_(OPEN_STATES)).group_by(RunRow.state)
        )
    NODES.labels("online").set(online)
    NODES.labels("offline").set(active - online)
    STREAMS.set(orchestrator.wakeups.streams())
    counts = {row.state: row.runs for row in rows}
    for state in OPEN_STATES:
        RUNS.labels(state).set(counts.get(state, 0))
    return generate_latest(REGISTRY)
