"""Final table of a probing command: a row for each target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bentpipe.measurements.probing.spec import Method
from bentpipe.measurements.runs.store import MeasuredRun

_PROBED = ("target", "sent", "lost", "median ms", "p95 ms", "p99 ms", "max ms", "late p99 ms")
#: Columns by method.
COLUMNS: Mapping[Method, tuple[str, ...]] = {
    "ping": _PROBED,
    "tcp": _PROBED,
    "owd": (*_PROBED, "up ms", "down ms", "clocks"),
    "trace": ("target", "rounds", "reached", "late p99 ms"),
}


def rows(run: MeasuredRun) -> list[list[Any]]:
    """Return the cells of `COLUMNS` from the summary."""
    method, late = run.summary["method"], _short(run.summary["lateness_ms"]["p99"])
    return [_row(method, target, late) for target in run.summary["targets"]]


def _row(method: str, target: Mapping[str, Any], late: float | None) -> list[Any]:
    if method == "trace":
        return [target["name"], target["rounds"], target["reached"], late]
    rtt = target["rtt_ms"]
    lost = "–" if target["loss"] is None else f"{target['loss']:.2%}"
    quantiles = [_short(rtt[name]) for name in ("median", "p95", "p99", "max")]
    cells = [target["name"], target["probes"], lost, *quantiles, late]
    if method == "owd":
        known = (target["clocks"] or {}).get("known")
        cells += [_short(target["up_ms"]["median"]), _short(target["down_ms"]["median"]), known]
    return cells


def _short(value: float | None) -> float | None:
    """Round milliseconds to microseconds for display."""
    return None if value is None else round(value, 3)
