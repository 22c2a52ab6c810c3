"""Small measured Runs of each kind of table, for tests of what reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.measurements.runs.store import Source, write_measured

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.measurements.runs.store import MeasuredRun

START = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z
SECOND = 10**9


def pings(kind: str = "icmp", target: str = "192.0.2.1", count: int = 20) -> pl.DataFrame:
    """Pings every 0.1 s of 30, 31, … ms; the fifth is lost."""
    rtt_ms = [None if i == 4 else 30.0 + i for i in range(count)]
    columns = {"unix_ns": [START + i * SECOND // 10 for i in range(count)], "rtt_ms": rtt_ms}
    return pl.DataFrame(columns).with_columns(
        pl.lit("attic").alias("site"), pl.lit(target).alias("target"), pl.lit(kind).alias("kind")
    )


def routes() -> pl.DataFrame:
    """Two traceroutes over two hops; the first hop does not answer in the second."""
    rows = [(START, 1, "192.0.2.9", 1.0), (START, 2, "192.0.2.1", 30.0), (START + 3 * SECOND, 1, None, None)]
    rows.append((START + 3 * SECOND, 2, "192.0.2.1", 34.0))
    return pl.DataFrame(rows, schema=["unix_ns", "ttl", "address", "rtt_ms"], orient="row").with_columns(
        pl.lit("icmp").alias("probe"), pl.lit("192.0.2.1").alias("target")
    )


def transfers(flows: int = 1) -> pl.DataFrame:
    """Three seconds of a download of 8 Mbit/s in each flow."""
    rows = [
        {"unix_ns": START + t * SECOND, "t_s": t + 1.0, "duration_s": 1.0, "test": 0, "flow": flow, "bytes": 10**6}
        for t in range(3)
        for flow in range(flows)
    ]
    return pl.DataFrame(rows).with_columns(
        pl.lit("down").alias("direction"), pl.lit(8e6).alias("goodput_bps"), pl.lit("iperf3.json").alias("source")
    )


def telemetry() -> pl.DataFrame:
    """Three seconds of a terminal."""
    return pl.DataFrame(
        {
            "t_unix_ns": [START + i * SECOND for i in range(3)],
            "pop_ping_latency_ms": [25.0, 26.0, 27.0],
            "pop_ping_drop_rate": [0.0, 0.0, 1.0],
            "downlink_throughput_bps": [1e6, 2e6, 3e6],
            "uplink_throughput_bps": [1e5, 2e5, 3e5],
        }
    )


def write(folder: Path, tables: dict[str, pl.DataFrame], name: str = "a") -> MeasuredRun:
    """Write a measured Run."""
    return write_measured(folder, tables, [Source(name=name, format="test")], site="attic")
