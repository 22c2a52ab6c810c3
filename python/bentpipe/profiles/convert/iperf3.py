"""JSON of ``iperf3 -J`` (github.com/esnet/iperf): throughput per interval, and round-trip times where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bentpipe.errors import UserError
from bentpipe.profiles.build import MAX_DURATION_S, Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, load_json, one_path
from bentpipe.readers.checked import MAX_RTT_MS, member, number

#: Highest throughput accepted [bit/s], as the Profile itself.
_MAX_BPS = 1e15
#: Intervals whose ends are this close are neighbours [s]; iperf3 prints microseconds.
_TOUCH_S = 0.001


@dataclass(frozen=True)
class _Interval:
    start_s: float
    end_s: float
    bps: float
    rtt_s: float | None


def read_iperf3(paths: Paths, options: ReadOptions) -> Converted:
    """The Profile of one ``iperf3 -J`` test: its throughput as the capacity of the direction it tested.

    A transfer never exceeds the capacity but may stay below it: what is read is what one test achieved, with its
    controller and its queue (``includes`` says so). With ``--reverse`` data went down, otherwise up; the other
    direction is not limited. The delay is half of the sender's round-trip times if the file has them (only a sending
    client has), otherwise `options.delay_s`. Time between intervals, and intervals marked as omitted, are gaps.

    Raises:
        UserError: Not such a file, a failed test, no interval, or no delay anywhere; the place is named.
    """
    path = one_path(paths, "iperf3 JSON")
    document = load_json(path)
    if isinstance(document, dict) and "error" in document:
        raise UserError(f"{path}: the test failed: {str(document['error'])[:120]}")
    start = member(str(path), document, "start", dict)
    stamp = member(f"{path}: start", start, "timestamp", dict)
    started_s = number(
        f"{path}: start.timestamp.timesecs", member(f"{path}: start.timestamp", stamp, "timesecs", int), 0, 4e9, "s"
    )
    reverse = (
        member(f"{path}: start.test_start", member(f"{path}: start", start, "test_start", dict), "reverse", int) != 0
    )
    intervals = _intervals(str(path), member(str(path), document, "intervals", list))
    capacity, delay, notes = _series(intervals)
    if delay is None:
        if options.delay_s is None:
            raise UserError(f"{path}: has no round-trip times; give a one-way delay (--delay 20ms)")
        delay = Points.constant(options.delay_s)
    tested = Side(delay_s=delay, capacity_bps=capacity, queue=options.limit())
    free = Side(delay_s=delay, queue=options.limit())
    notes.append(f"{'up' if reverse else 'down'} was not tested: no capacity limit there")
    profile = single_hop_profile(
        name=options.name_for(path),
        hop="measured",
        start_unix_ns=int(started_s) * 10**9 if options.start_unix_ns is None else options.start_unix_ns,
        duration_s=intervals[-1].end_s,
        basis="half_rtt",
        provenance=Provenance(
            "measured", f"iperf3 in {options.name_for(path)}", ("congestion_control", "queueing", "mac_jitter")
        ),
        up=free if reverse else tested,
        down=tested if reverse else free,
    )
    return Converted(profile, notes)


def _intervals(path: str, entries: list[Any]) -> list[_Interval]:
    found: list[_Interval] = []
    for index, entry in enumerate(entries):
        where = f"{path}: intervals[{index}]"
        total = member(where, entry, "sum", dict)
        if total.get("omitted") is True:
            continue
        start, end = (
            number(f"{where}.sum.{key}", member(f"{where}.sum", total, key, (int, float)), 0, MAX_DURATION_S, "s")
            for key in ("start", "end")
        )
        if end <= start or (found and start < found[-1].end_s - _TOUCH_S):
            raise UserError(f"{where}.sum: goes from {start:g} to {end:g} s; wanted intervals after each other")
        bps = number(
            f"{where}.sum.bits_per_second",
            member(f"{where}.sum", total, "bits_per_second", (int, float)),
            0,
            _MAX_BPS,
            "bit/s",
        )
        found.append(_Interval(start, end, bps, _rtt_s(where, entry)))
    if not found:
        raise UserError(f"{path}: intervals is empty; wanted at least one")
    return found


def _rtt_s(where: str, entry: dict[str, Any]) -> float | None:
    """The median round trip of the streams that report one [s]."""
    streams = entry.get("streams")
    known = []
    for index, stream in enumerate(streams if isinstance(streams, list) else []):
        if isinstance(stream, dict) and stream.get("rtt"):
            known.append(number(f"{where}.streams[{index}].rtt", stream["rtt"], 1, MAX_RTT_MS * 1e3, "µs") / 1e6)
    return float(np.median(known)) if known else None


def _series(intervals: list[_Interval]) -> tuple[Points, Points | None, list[str]]:
    """Capacity and delay of the intervals, with a row for every gap between them; and notes."""
    rows: list[tuple[float, float, bool]] = []
    end = 0.0
    gaps = 0
    for interval in intervals:
        start = interval.start_s
        if start - end > _TOUCH_S:
            rows.append((end, rows[-1][1] if rows else interval.bps, False))
            gaps += 1
        rows.append((max(start, rows[-1][0] + 1e-6) if rows else start, interval.bps, True))
        end = interval.end_s
    capacity = Points.of(*zip(*rows, strict=True))
    rtts = [(interval.start_s, interval.rtt_s / 2) for interval in intervals if interval.rtt_s is not None]
    delay = Points.of(*zip(*rtts, strict=True)) if rtts else None
    return capacity, delay, [f"{gaps} gap(s) between intervals"] if gaps else []
