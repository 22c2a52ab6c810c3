"""Parser for iperf3 (github.com/esnet/iperf): ``-J``, one document at the end, and ``--json-stream``, a line per event.

A file may have several concatenated tests, as a shell's ``>>`` leaves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.checked import (
    MAX_BPS,
    MAX_COUNT,
    MAX_RTT_MS,
    count_if,
    count_of,
    documents,
    member,
    number,
    number_of,
    parse_json,
    text_of,
)
from bentpipe.measurements.readers.measurement import Measurement, ReadHints
from bentpipe.measurements.readers.reading import Arrivals, Column, Flow, Reading

#: Longest test accepted [s]: 30 days.
_MAX_S = 30 * 86_400.0
#: How late the omitted start of a test may end [s]; chosen here: a timer on a busy machine.
_OMIT_LATE_S = 0.1
#: Columns with impossible values of iperf3's own: UDP counts fall below 0 when packets come late, and jitter starts
#: from the difference of two clocks.
_ODD = ("packets", "lost_packets", "jitter_ms")
_STREAM = b'{"event":'
#: Optional values of an interval: column, iperf3's name, largest value, unit, factor.
_OPTIONAL = (
    ("retransmits", "retransmits", MAX_COUNT, "segments", 1),
    ("cwnd_bytes", "snd_cwnd", MAX_COUNT, "bytes", 1),
    ("rtt_ms", "rtt", MAX_RTT_MS * 1e3, "µs", 1e-3),
    ("rttvar_ms", "rttvar", MAX_RTT_MS * 1e3, "µs", 1e-3),
    ("packets", "packets", MAX_COUNT, "packets", 1),
    ("lost_packets", "lost_packets", MAX_COUNT, "packets", 1),
    ("jitter_ms", "jitter_ms", MAX_RTT_MS, "ms", 1),
)


def is_iperf3(head: bytes) -> bool:
    """Return whether a text with this beginning is iperf3's JSON."""
    text = head.lstrip()
    return text.startswith(_STREAM) or (
        text.startswith(b"{") and b'"start":' in text and (b'"connected":' in text or b'"version":\t"iperf' in text)
    )


@dataclass
class _Document:
    start: dict[str, Any]
    intervals: list[Any]
    #: Byte offset of the end of each interval in the text.
    ends: list[int]
    end: dict[str, Any] | None
    error: str | None


def read(data: bytes, where: str, arrivals: Arrivals | None = None) -> Reading:
    """Parse one flow per stream, with its intervals.

    Columns of intervals: ``t_s`` (the end), ``duration_s``, ``omitted``, ``bytes``, ``goodput_bps`` at a receiver,
    ``sent_bps`` at a sender (bytes written to the socket are not goodput). A sender adds ``retransmits``,
    ``cwnd_bytes``, ``rtt_ms`` (TCP), ``packets`` (UDP). A receiver adds ``packets``, ``lost_packets``, ``jitter_ms``
    (UDP). A column without any value is left out.

    iperf3 prints only the whole second in which it connected. `arrivals` bounds time 0 better, since no interval was
    printed before its end. ``-J`` prints all intervals at the end, after the two hosts exchanged results, so that time
    0 is late by some RTTs; `Flow.start_early_s` has how much earlier it may have been.

    Raises:
        UserError: Not a document of iperf3, several tests, or a test that failed before its first interval; the place
            is named.
    """
    tests = _parsed(data, where)
    if len(tests) > 1:
        raise UserError(f"holds {len(tests)} tests", where=where, expected="one")
    return _reading(tests[0], where, arrivals)


def measure(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return the intervals of all streams of all tests, as rows of `samples`.

    The client is assumed to be on the terminal's side: its sending direction is up. Counts are per interval. Of several
    tests, failed ones are left out, with a note.

    Raises:
        UserError: See `read`.
    """
    tests = _parsed(data, where)
    if len(tests) == 1:
        table, notes = _rows(tests[0], where, 0)
        return Measurement({"samples": table}, notes=tuple(notes))
    tables: list[pl.DataFrame] = []
    notes = []
    for index, document in enumerate(tests):
        if document.error is not None and not document.intervals:
            notes.append(f"test {index + 1} failed and is left out: {shown(document.error)}")
            continue
        table, more = _rows(document, f"{where}: test {index + 1}", index)
        tables.append(table)
        notes += [f"test {index + 1}: {note}" for note in more]
    if not tables:
        raise UserError(f"none of its {len(tests)} tests has an interval; {notes[0]}", where=where)
    return Measurement({"samples": pl.concat(tables, how="diagonal_relaxed")}, notes=tuple(notes))


def _rows(document: _Document, where: str, test: int) -> tuple[pl.DataFrame, list[str]]:
    """Return the intervals of a test, and notes."""
    reading = _reading(document, where, None)
    served = "accepted_connection" in document.start
    peer = document.start.get("accepted_connection" if served else "connecting_to")
    host = peer.get("host") if isinstance(peer, dict) else None
    controller = reading.tool_summary.get("sender_tcp_congestion")
    tables = []
    for number_of_flow, flow in enumerate(reading.flows):
        rows = {"rtt_smoothed_ms" if name == "rtt_ms" else name: values for name, values in flow.intervals.items()}
        rows.pop("rttvar_ms", None)
        table = pl.DataFrame({name: pl.Series(values, strict=False) for name, values in rows.items()})
        begin_ns = (flow.start_unix_ns or 0) + ((pl.col("t_s") - pl.col("duration_s")) * 1e9).round().cast(pl.Int64)
        tables.append(
            table.with_columns(
                begin_ns.alias("unix_ns"),
                pl.lit(str(host)[:200] if host else None, pl.String).alias("target"),
                pl.lit(test, pl.Int64).alias("test"),
                pl.lit(number_of_flow, pl.Int64).alias("flow"),
                pl.lit("up" if flow.sends != served else "down").alias("direction"),
                pl.lit(str(controller)[:40] if isinstance(controller, str) else None, pl.String).alias("controller"),
            )
        )
    notes = [*reading.notes]
    if served:
        notes.append("written by the server: its receiving direction is read as up")
    return pl.concat(tables, how="diagonal_relaxed"), notes


def _parsed(data: bytes, where: str) -> list[_Document]:
    """Return the tests in a text, at least one."""
    if data.lstrip().startswith(_STREAM):
        return _streamed(data, where)
    tests = [_whole(document, where, end) for document, end in documents(where, data)]
    if not tests:
        raise UserError("is empty", where=where, expected="a test of iperf3")
    if len(tests) == 1 and (error := tests[0].error) is not None and not tests[0].start:
        raise UserError(f"the test failed: {shown(error)}", where=where)
    return tests


def _reading(document: _Document, where: str, arrivals: Arrivals | None) -> Reading:
    start = document.start
    version = text_of(f"{where}: start", start, "version").removeprefix("iperf").strip() or None
    stamp = member(f"{where}: start", start, "timestamp", dict)
    connected_ns = int(number_of(f"{where}: start.timestamp", stamp, "timesecs", 4e9, "s")) * 10**9
    test = member(f"{where}: start", start, "test_start", dict)
    protocol = text_of(f"{where}: start.test_start", test, "protocol")
    omit_s = number(f"{where}: start.test_start.omit", test.get("omit", 0), 0, 3600, "s")
    notes = [] if document.error is None else [f"iperf3 reported: {shown(document.error)}"]
    if document.end is None:
        notes.append("truncated: no results at its end")
    streams = _streams(document, where, omit_s, test.get("reverse"), notes)
    if not streams:
        raise UserError(f"no interval{'; ' + notes[0] if notes else ''}", where=where)
    start_ns, early_s = _time_0(document, streams, connected_ns, arrivals)
    totals = _totals(document.end or {}, f"{where}: end")
    flows = [
        Flow(f"socket {socket}", protocol, sends, start_ns, early_s, _filled(columns), counts=totals.get(socket, {}))
        for socket, (sends, columns, _) in streams.items()
    ]
    return Reading("iperf3", version, flows, document.end or {}, notes)


def _whole(document: Any, where: str, end_byte: int) -> _Document:  # noqa: ANN401 - JSON is anything
    error = document.get("error") if isinstance(document, dict) else None
    if error is not None and "intervals" not in document:
        return _Document({}, [], [], None, str(error))
    intervals = member(where, document, "intervals", list)
    end = document.get("end")
    return _Document(
        member(where, document, "start", dict),
        intervals,
        [end_byte] * len(intervals),
        end if isinstance(end, dict) and end else None,
        None if error is None else str(error),
    )


def _streamed(data: bytes, where: str) -> list[_Document]:
    test = _Document({}, [], [], None, None)
    tests = [test]
    place = 0
    lines = data.split(b"\n")
    for count, line in enumerate(lines, 1):
        place += len(line) + 1
        if not line.strip():
            continue
        try:
            event = parse_json(f"{where}, line {count}", line)
        except UserError:
            if count == len(lines):  # truncated last line
                break
            raise
        kind = text_of(f"{where}:{count}", event, "event")
        # A test that cannot connect has `error` and `end` without a `start`.
        if test.end is not None or (kind == "start" and (test.start or test.intervals or test.error is not None)):
            test = _Document({}, [], [], None, None)
            tests.append(test)
        if kind in ("start", "end"):
            setattr(test, kind, member(f"{where}:{count}", event, "data", dict))
        elif kind == "interval":
            test.intervals.append(member(f"{where}:{count}", event, "data", dict))
            test.ends.append(min(place, len(data)))
        elif kind == "error":
            test.error = str(event.get("data"))
    return tests


_Streams = dict[int, tuple[bool, dict[str, Column], list[tuple[float, int]]]]


def _streams(
    document: _Document,
    where: str,
    omit_s: float,
    reverse: object,
    notes: list[str],
) -> _Streams:
    """Return for each socket whether it sends, its columns, and each interval's end [s] with its byte offset.

    Impossible values of iperf3's own (a count of -1, a jitter of days) become null, and are counted in a note. Old
    versions do not state the sender of an interval: it is the client, unless the test is reversed.
    """
    streams: _Streams = {}
    odd: dict[str, int] = {}
    client = "accepted_connection" not in document.start
    no_sender = False
    for index, (interval, byte) in enumerate(zip(document.intervals, document.ends, strict=True)):
        for number_in, stream in enumerate(member(f"{where}: intervals[{index}]", interval, "streams", list)):
            place = f"{where}: intervals[{index}].streams[{number_in}]"
            socket = count_of(place, stream, "socket")
            no_sender |= "sender" not in stream
            sends = (
                bool(member(place, stream, "sender", bool)) if "sender" in stream else client != (reverse in (1, True))
            )
            omitted = stream.get("omitted") is True
            begin_s, end_s = (number_of(place, stream, key, _MAX_S, "s") for key in ("start", "end"))
            rate_bps = number_of(place, stream, "bits_per_second", MAX_BPS, "bit/s")
            if omitted:  # time 0 is the end of the omitted start
                begin_s, end_s = begin_s - omit_s, end_s - omit_s
            sender, columns, ends = streams.setdefault(socket, (sends, {}, []))
            # Intervals are contiguous up to rounding to microseconds; the omitted start ends by a timer.
            slack_s = _OMIT_LATE_S if columns.get("omitted", [False])[-1:] == [True] and not omitted else 0.001
            if sender != sends or end_s <= begin_s or (ends and begin_s < ends[-1][0] - slack_s):
                raise UserError(
                    f"from {begin_s:g} to {end_s:g} s", where=place, expected="successive intervals of one direction"
                )
            ends.append((end_s, byte))
            row: dict[str, float | int | None] = {
                "t_s": end_s,
                "duration_s": end_s - begin_s,
                "omitted": omitted,
                "bytes": count_of(place, stream, "bytes"),
                "sent_bps" if sends else "goodput_bps": rate_bps,
            }
            for name, key, high, unit, factor in _OPTIONAL:
                value = stream.get(key)
                if name in _ODD and isinstance(value, int | float) and not 0 <= value <= high:
                    odd[key] = odd.get(key, 0) + 1
                    value = None
                if value is not None:
                    number(f"{place}.{key}", value, 0, high, unit)
                row[name] = None if value is None else value * factor
            for name, cell in row.items():
                columns.setdefault(name, []).append(cell)
    notes += [f"{key} of {count} interval(s) is impossible and set to null" for key, count in odd.items()]
    if no_sender:
        notes.append("an old version: its intervals do not state the sender; taken from `reverse`")
    return streams


def _filled(columns: dict[str, Column]) -> dict[str, Column]:
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def _time_0(document: _Document, streams: _Streams, connected_ns: int, arrivals: Arrivals | None) -> tuple[int, float]:
    """Return the start of the test [ns since 1970], and how much earlier it may have been [s]."""
    latest = [
        arrived - round(end_s * 1e9)
        for _, _, ends in streams.values()
        for end_s, byte in ends
        if arrivals is not None and (arrived := arrivals.at(byte)) is not None
    ]
    if not latest or min(latest) < connected_ns:  # unknown, or two clocks disagree
        return connected_ns, 0.0 if not latest else (connected_ns - min(latest)) / 1e9
    return min(latest), (min(latest) - connected_ns) / 1e9


def _totals(end: dict[str, Any], where: str) -> dict[int, dict[str, float | int | str | None]]:
    """Return iperf3's final results of each stream, by socket."""
    totals = {}
    entries = end.get("streams", [])
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        place = f"{where}.streams[{index}]"
        counts: dict[str, float | int | str | None] = {}
        if isinstance(entry, dict) and "udp" in entry:
            udp = member(place, entry, "udp", dict)
            socket = count_of(f"{place}.udp", udp, "socket")
            for name, key in (("sent_packets", "packets"), ("lost_packets", "lost_packets")):
                counts[name] = None if _below_0(udp.get(key)) else count_if(f"{place}.udp", udp, key)
            counts["reordered_packets"] = count_if(f"{place}.udp", udp, "out_of_order")
            counts["sent_bytes"] = count_if(f"{place}.udp", udp, "bytes")
            jitter_ms = number(f"{place}.udp.jitter_ms", udp.get("jitter_ms", 0), -1e300, 1e300, "ms")
            counts["jitter_ms"] = jitter_ms if 0 <= jitter_ms <= MAX_RTT_MS else None
        else:
            sender = member(place, entry, "sender", dict)
            receiver = member(place, entry, "receiver", dict)
            socket = count_of(f"{place}.sender", sender, "socket")
            counts["sent_bytes"] = count_of(f"{place}.sender", sender, "bytes")
            counts["received_bytes"] = count_of(f"{place}.receiver", receiver, "bytes")
            counts["goodput_bps"] = number_of(f"{place}.receiver", receiver, "bits_per_second", MAX_BPS, "bit/s")
            counts["retransmits"] = count_if(f"{place}.sender", sender, "retransmits")
        totals[socket] = counts
    return totals


def _below_0(value: Any) -> bool:  # noqa: ANN401 - JSON is anything
    return type(value) is int and value < 0
