"""Parser for fping (fping.org): lines of ``-c``, ``-l``, ``-C``, with ``-D``; lists of ``-C``; JSON of ``-J`` (5.5).

A line is ``[1795212159.37619] 192.0.2.1 : [0], 64 bytes, 40.5 ms (40.5 avg, 0% loss)``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.blocks import lines_of
from bentpipe.measurements.readers.checked import MAX_RTT_MS, refuse_surrogates
from bentpipe.measurements.readers.measurement import Clock, Measurement, ReadHints
from bentpipe.measurements.readers.probes import BEHIND, Answers, behind, echoes, series, silent_series

#: Seconds whose nanoseconds fit into 63 bits, and their fraction.
_SECONDS = r"([0-9]{1,9}|[1-8][0-9]{9})\.([0-9]{1,9})"
_STAMP = rf"^(?:\[{_SECONDS}\] )?"
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_LINE = (
    _STAMP + r"(\S{1,255})\s+: (?:\[([0-9]{1,9})\]|duplicate for \[([0-9]{1,9})\]), "
    rf"(?:[0-9]{{1,6}} bytes, ({_NUMBER}) ms.*|timed out.*)$"
)
_LIST = re.compile(rf"(\S{{1,255}})\s+:((?: (?:-|{_NUMBER}))+)$")
#: fping prints `%return` instead of `%loss` if more replies came than probes were sent.
_COUNTS = re.compile(r"(\S{1,255})\s+: xmt/rcv/%(?:loss|return) = (\d{1,9})/(\d{1,9})/")
#: A time in JSON with ``-D`` and the default ``--timestamp-format``.
_TIME = re.compile(_SECONDS)
_ASIDE = re.compile(
    r"\[\d\d:\d\d:\d\d\]|\s*$|ICMP .* from .* for ICMP Echo|.{1,255} error while sending|\^C|\s+[-\d.]+ "
)
_JSON = re.compile(r'\{"(?:resp|timeout|vSum|summary|intSum|stats)": ?\{')

#: A row of `_SCHEMA`.
_Row = tuple[str, int, int | None, float | None, bool]
#: Host → RTTs of each of its runs [ms]; None: lost.
_Lists = dict[str, list[list[float | None]]]


def is_fping(head: bytes) -> bool:
    """Return whether a text with this beginning is fping output."""
    lines = head.decode("utf-8", "replace").split("\n")
    first = re.compile(_LINE)
    return any(first.match(line) or _JSON.match(line) or _COUNTS.match(line) for line in lines[:6]) or (
        bool(lines) and all(_LIST.match(line) for line in lines[:3] if line.strip()) and bool(_LIST.match(lines[0]))
    )


def measure(pieces: Iterator[bytes], where: str, hints: ReadHints) -> Measurement:
    """Return the probes of all hosts. Times are send times: the timestamp of ``-D`` minus the RTT.

    Raises:
        UserError: A line that is not fping output, no reply, or no timestamps; the line is named.
    """
    tables: list[pl.DataFrame] = []
    lists: _Lists = {}
    sent: dict[str, tuple[int, ...]] = {}
    notes: list[str] = []
    first = 1
    for piece in pieces:
        table, others = _block(piece, first)
        first += piece.count(b"\n")
        events: list[_Row] = []
        for count, line in others:
            place = f"{where}:{count}"
            if _JSON.match(line):
                events += _event(line, place, lists, sent)
            elif match := _LIST.match(line):
                rtts_ms = [None if value == "-" else float(value) for value in match[2].split()]
                lists.setdefault(match[1], []).append(rtts_ms)
            elif match := _COUNTS.match(line):
                sent[match[1]] = (*sent.get(match[1], ()), int(match[2]))
            elif count == first and not piece.endswith(b"\n"):  # truncated: no newline
                notes.append(f"line {count} is truncated; left out")
            elif not _ASIDE.match(line):
                raise UserError(f"{shown(line)} is not a line of fping", where=place)
        tables += [table, pl.DataFrame(events, schema=_SCHEMA, orient="row")]
    whole = pl.concat(tables) if tables else pl.DataFrame(schema=_SCHEMA)
    worst = [value or 0.0 for of in lists.values() for values in of for value in values]
    over = max([float(whole["rtt_ms"].max() or 0), *worst])  # type: ignore[arg-type]
    if over > MAX_RTT_MS:
        raise UserError(f"an RTT of {over:g} ms", where=where, expected=f"at most {MAX_RTT_MS:g} ms")
    return _measured(_answers(whole, lists, sent, where), hints, where, notes)


def _measured(every: list[tuple[str, Answers]], hints: ReadHints, where: str, notes: list[str]) -> Measurement:
    """Return the probes of all hosts; several runs of a host without timestamps are put one after the other."""
    tables = []
    jumps, clock, counted = 0, "utc", False
    ends: dict[str, int] = {}
    for host, answers in every:
        if np.isnan(answers.rtt_ms).all():
            if (silent := silent_series(answers)) is not None:
                tables.append(echoes(silent, host))
            else:
                many = answers.rtt_ms.size
                notes.append(f"no reply from {shown(host)} to {many} probe(s), and no timestamps: left out")
            continue
        one = series(answers, hints, f"{where}: {host}")
        table = behind(one, ends.get(host))
        notes += [BEHIND] if host in ends and BEHIND not in notes else []
        ends[host] = int(table["unix_ns"][-1])
        tables.append(echoes(table, host))
        jumps += one.clock_jumps
        counted |= one.counted
        clock = one.clock if one.clock != "utc" else clock
        notes += [note for note in one.notes if note not in notes]
    if not ends:
        raise UserError("holds no reply", where=where, expected="at least one")
    return Measurement({"probes": pl.concat(tables)}, _clock(clock), jumps, tuple(notes), counted)


_SCHEMA = {"host": pl.String, "seq": pl.Int64, "stamp_ns": pl.Int64, "rtt_ms": pl.Float64, "again": pl.Boolean}


def _block(piece: bytes, first: int) -> tuple[pl.DataFrame, list[tuple[int, str]]]:
    lines = lines_of(piece).str.strip_chars_end("\r \t")
    rows = lines.to_frame("text").with_row_index("line", first)
    groups = rows.with_columns(
        pl.col("text").str.extract_groups(_LINE).struct.rename_fields(["s", "f", "host", "seq", "again", "rtt"])
    ).unnest("text")
    matched = groups.filter(pl.col("host").is_not_null()).select(
        "host",
        pl.coalesce("seq", "again").cast(pl.Int64).alias("seq"),
        (pl.col("s").cast(pl.Int64) * 10**9 + pl.col("f").str.pad_end(9, "0").cast(pl.Int64)).alias("stamp_ns"),
        pl.col("rtt").cast(pl.Float64).alias("rtt_ms"),
        pl.col("again").is_not_null(),
    )
    left = rows.filter(groups["host"].is_null() & (rows["text"] != ""))
    return matched, [(int(line), text) for line, text in left.iter_rows()]


def _event(line: str, place: str, lists: _Lists, sent: dict[str, tuple[int, ...]]) -> list[_Row]:
    """Parse a line of JSON into rows of `_SCHEMA`; unknown events are to be ignored (fping-json.md)."""
    try:
        event: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not JSON ({error})", where=place) from None
    refuse_surrogates(place, line, event)
    rows: list[_Row] = []
    for kind, entry in event.items() if isinstance(event, dict) else ():
        host = entry.get("host") if isinstance(entry, dict) else None
        if not isinstance(host, str):
            continue
        if kind in ("resp", "timeout"):
            at_ns, rtt_ms = _stamp_ns(entry.get("timestamp"), place), _rtt(entry.get("rtt"), place)
            rows.append((host[:255], _count(entry.get("seq"), place), at_ns, rtt_ms, False))
        elif kind == "vSum" and isinstance(entry.get("values"), list):
            lists.setdefault(host[:255], []).append([_rtt(value, place) for value in entry["values"]])
        elif kind == "summary" and entry.get("xmt") is not None:
            sent[host[:255]] = (*sent.get(host[:255], ()), _count(entry["xmt"], place))
    return rows


def _stamp_ns(value: Any, place: str) -> int | None:  # noqa: ANN401 - JSON is anything
    """Return a timestamp [ns since 1970]; None: absent."""
    if value is None:
        return None
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise UserError(
            f"a time of {shown(value)}",
            where=place,
            expected="seconds since 1970, which fping prints without --timestamp-format",
        )
    return int(match[1]) * 10**9 + int(match[2].ljust(9, "0"))


def _count(value: Any, place: str) -> int:  # noqa: ANN401 - JSON is anything
    if type(value) is not int or not 0 <= value < 10**9:
        raise UserError(f"{shown(value)} is out of range", where=place, expected="a count")
    return int(value)


def _rtt(value: Any, place: str) -> float | None:  # noqa: ANN401 - JSON is anything
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_RTT_MS:
        raise UserError(f"an RTT of {shown(value)}", where=place, expected=f"0 to {MAX_RTT_MS:g} ms")
    return float(value)


def _answers(
    whole: pl.DataFrame, lists: _Lists, sent: dict[str, tuple[int, ...]], where: str
) -> list[tuple[str, Answers]]:
    """Return the answers of each host; its lists, one per run, are used only without lines, which have more detail."""
    by_host: dict[str, Answers] = {}
    for (host,), rows in whole.group_by("host", maintain_order=True):
        stamps, answered = rows["stamp_ns"], rows["rtt_ms"].is_not_null()
        missing = stamps.filter(answered).null_count()
        if 0 < missing < int(answered.sum()):
            raise UserError(
                f"some replies of {host} have a timestamp and others have none", where=where, expected="all or none"
            )
        rtt_ms = rows["rtt_ms"].fill_null(np.nan).to_numpy()
        sent_ns = None
        if not missing and stamps.null_count() < stamps.len():
            sent_ns = stamps.fill_null(0).to_numpy() - np.nan_to_num(np.round(rtt_ms * 1e6)).astype(np.int64)
        counts = sent.get(str(host), ())
        again = rows["again"].to_numpy() if rows["again"].any() else None
        by_host[str(host)] = Answers(
            rows["seq"].to_numpy(), sent_ns, rtt_ms, 0, counts, wraps=False, exact=True, again=again
        )
    listed = []
    for host, values in ((host, values) for host, of in lists.items() if host not in by_host for values in of):
        rtt_ms = np.array([np.nan if value is None else value for value in values], np.float64)
        listed.append((host, Answers(np.arange(rtt_ms.size), None, rtt_ms, 0, wraps=False, whole=True)))
    return [*by_host.items(), *listed]


def _clock(clock: str) -> Clock:
    return "utc" if clock == "utc" else "relative"
