"""Parsed tool output on the Run's clock: `program.json`, and its summary for `run.json`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.measurements.readers.tools import read, recognise
from bentpipe.measurements.tool_output.tee import KEPT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.measurements.readers.reading import Column, Flow, Reading
    from bentpipe.measurements.tool_output.tee import Tee

FORMAT = 1
"""Format of `program.json`; a reader refuses a larger number."""

FILE = "program.json"
RAW = "program.out"
WHERE = "standard output"

PER_FLOW = ("rtt", "owd_up", "owd_down")
"""Columns [ms] of samples or intervals whose median and 95th percentile are in the summary."""


@dataclass(frozen=True)
class Parsed:
    """A program's output, parsed.

    Attributes:
        summary: `program_output` of `run.json`.
        document: `program.json`; None: not of a known tool, or unusable.
        note: One line on unusable output; None: no problem.
    """

    summary: dict[str, Any]
    document: bytes | None
    note: str | None


def parse(tee: Tee, clock_unix_ns: int) -> Parsed | None:
    """Parse the output of a program through `tee`; the Run's clock was 0 at `clock_unix_ns`. None: no output."""
    if not tee.total_bytes:
        return None
    parsed = _parse(tee, clock_unix_ns)
    if tee.not_passed_on is None:
        return parsed
    refused = f"{WHERE} refused part of the program's output: {tee.not_passed_on.strerror}"
    note = f"{refused}; {parsed.note}" if parsed.note else refused
    return replace(parsed, note=note, summary={**parsed.summary, "not_passed_on": tee.not_passed_on.strerror})


def _parse(tee: Tee, clock_unix_ns: int) -> Parsed:
    if tee.failed is not None:
        note = f"{WHERE} is not stored, because it could not be stored completely: {tee.failed.strerror}"
        return Parsed({"raw": None, "written_bytes": tee.total_bytes, "tool": None, "note": note}, None, note)
    data = tee.kept.read_bytes()
    summary: dict[str, Any] = {
        "raw": RAW,
        "raw_bytes": len(data),
        "raw_sha256": hashlib.sha256(data).hexdigest(),
        "written_bytes": tee.total_bytes,
    }
    tool = recognise(data)
    if tee.total_bytes > len(data):
        limit = f"expected at most {KEPT_BYTES >> 20} MiB"
        note = f"only {len(data)} of {tee.total_bytes} bytes of {WHERE} are stored, and not parsed: {limit}"
        return Parsed({**summary, "tool": tool, "note": note}, None, note)
    if tool is None:
        return Parsed({**summary, "tool": None}, None, None)
    try:
        reading = read(tool, data, WHERE, tee.arrivals)
        document = _document(reading, clock_unix_ns)
        # The tool's own summary may have NaN or infinity, which JSON lacks.
        written = json.dumps(document, allow_nan=False).encode() + b"\n"
    except (UserError, ValueError, RecursionError) as error:
        note = f"output of {tool} is not stored in {FILE}: {error}"
        return Parsed({**summary, "tool": tool, "note": note}, None, note)
    summary |= {
        "tool": reading.tool,
        "version": reading.version,
        "file": FILE,
        "sha256": hashlib.sha256(written).hexdigest(),
        "flows": [_summary(flow, columns) for flow, columns in zip(reading.flows, document["flows"], strict=True)],
        "notes": list(reading.notes),
    }
    return Parsed(summary, written, "; ".join(reading.notes) or None)


def _document(reading: Reading, clock_unix_ns: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "tool": reading.tool,
        "version": reading.version,
        "clock_unix_ns": clock_unix_ns,
        "flows": [_on_run_clock(flow, clock_unix_ns) for flow in reading.flows],
        "notes": list(reading.notes),
        "tool_summary": reading.tool_summary,
    }


def _on_run_clock(flow: Flow, clock_unix_ns: int) -> dict[str, Any]:
    """Return a flow with times on the Run's clock; null if the output has no times."""
    start_s = None if flow.start_unix_ns is None else (flow.start_unix_ns - clock_unix_ns) / 1e9

    def shifted(columns: Mapping[str, Column]) -> dict[str, Column]:
        moved = {name: list(column) for name, column in columns.items()}
        if "t_s" in moved:
            moved["t_s"] = [
                None if start_s is None or not isinstance(t, int | float) else round(start_s + t, 9)
                for t in moved["t_s"]
            ]
        return moved

    return {
        "name": flow.name,
        "protocol": flow.protocol,
        "direction": {True: "up", False: "down", None: None}[flow.sends],
        "start_s": start_s,
        # The program started after the clock.
        "start_early_s": flow.start_early_s if start_s is None else min(flow.start_early_s, max(start_s, 0.0)),
        "counts": dict(flow.counts),
        "intervals": shifted(flow.intervals),
        "samples": shifted(flow.samples),
    }


def _summary(flow: Flow, placed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a flow for `run.json`."""
    summary: dict[str, Any] = {
        key: placed[key] for key in ("name", "protocol", "direction", "start_s", "start_early_s")
    }
    summary |= flow.counts
    for name in PER_FLOW:
        for table in (flow.samples, flow.intervals):
            values = sorted(value for value in table.get(f"{name}_ms", []) if isinstance(value, float))
            if values:
                summary[f"{name}_median_ms"], summary[f"{name}_p95_ms"] = median(values), _p95(values)
    return summary


def _p95(ordered: Sequence[float]) -> float:
    """Return the smallest value that 95 % of the values do not exceed."""
    return ordered[-(-95 * len(ordered) // 100) - 1]
