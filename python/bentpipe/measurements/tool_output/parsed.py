"""A tool's output on the Run's clock: `program.json`, and its summary for `run.json`."""

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
"""Of `program.json`; a reader refuses a larger number."""

FILE = "program.json"
RAW = "program.out"
WHERE = "standard output"

PER_FLOW = ("rtt", "owd_up", "owd_down")
"""Columns [ms] of samples, or of intervals, whose median and 95th percentile the summary has."""


@dataclass(frozen=True)
class Parsed:
    """What became of an output.

    Attributes:
        summary: `program_output` of `run.json`.
        document: `program.json`; None: no known tool's, or not to be used.
        note: One line on what could not be used; None: nothing.
    """

    summary: dict[str, Any]
    document: bytes | None
    note: str | None


def parse(tee: Tee, clock_unix_ns: int) -> Parsed | None:
    """What a program wrote through `tee`; the Run's clock read 0 at `clock_unix_ns`. None: it wrote nothing."""
    if not tee.total_bytes:
        return None
    parsed = _parse(tee, clock_unix_ns)
    if tee.not_passed_on is None:
        return parsed
    refused = f"{WHERE} did not take all that the program wrote: {tee.not_passed_on.strerror}"
    note = f"{refused}; {parsed.note}" if parsed.note else refused
    return replace(parsed, note=note, summary={**parsed.summary, "not_passed_on": tee.not_passed_on.strerror})


def _parse(tee: Tee, clock_unix_ns: int) -> Parsed:
    if tee.failed is not None:
        note = f"{WHERE} is not kept, there was no way to keep all of it: {tee.failed.strerror}"
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
        why = f"expected at most {KEPT_BYTES >> 20} MiB"
        note = f"of {WHERE} only {len(data)} of {tee.total_bytes} bytes are kept, and not read: {why}"
        return Parsed({**summary, "tool": tool, "note": note}, None, note)
    if tool is None:
        return Parsed({**summary, "tool": None}, None, None)
    try:
        reading = read(tool, data, WHERE, tee.arrivals)
        document = _document(reading, clock_unix_ns)
        # Its own summary is passed on as it is, and JSON has no such numbers.
        written = json.dumps(document, allow_nan=False).encode() + b"\n"
    except (UserError, ValueError, RecursionError) as error:
        note = f"what {tool} says is not kept in {FILE}: {error}"
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
    """A flow with times of the Run; null where the tool's text does not tell when."""
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
        # The program was started after the clock.
        "start_early_s": flow.start_early_s if start_s is None else min(flow.start_early_s, max(start_s, 0.0)),
        "counts": dict(flow.counts),
        "intervals": shifted(flow.intervals),
        "samples": shifted(flow.samples),
    }


def _summary(flow: Flow, placed: Mapping[str, Any]) -> dict[str, Any]:
    """One flow for `run.json`."""
    found: dict[str, Any] = {key: placed[key] for key in ("name", "protocol", "direction", "start_s", "start_early_s")}
    found |= flow.counts
    for name in PER_FLOW:
        for table in (flow.samples, flow.intervals):
            values = sorted(value for value in table.get(f"{name}_ms", []) if isinstance(value, float))
            if values:
                found[f"{name}_median_ms"], found[f"{name}_p95_ms"] = median(values), _p95(values)
    return found


def _p95(ordered: Sequence[float]) -> float:
    """The smallest value that 95 % do not exceed."""
    return ordered[-(-95 * len(ordered) // 100) - 1]
