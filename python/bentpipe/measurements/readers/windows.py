"""Parser for the text of Windows' ``ping`` and ``tracert``, in English.

A reply is ``Reply from 192.0.2.1: bytes=32 time=12ms TTL=57`` (IPv6: ``Reply from 2001:db8::1: time=12ms``), a hop
``  2    28 ms     *       31 ms  100.64.0.1``. Lines have neither a sequence number nor a timestamp: each is the next
probe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers import ping, ping_lines, routes
from bentpipe.measurements.readers.checked import MAX_COUNT, MAX_RTT_MS
from bentpipe.measurements.readers.measurement import Measurement, ReadHints
from bentpipe.measurements.readers.probes import BEHIND, Answers, behind, echoes, series

_PINGING = re.compile(
    r"Pinging (\S{1,255})(?: \[([0-9A-Fa-f.:%]{2,60})\])?(?: from \S{2,60})? with \d{1,6} bytes of data"
)
_REPLY = re.compile(
    r"Reply from [0-9A-Fa-f.:%]{2,60}: (?:bytes=\d{1,6} )?(?:\(sent \d{1,6}\) )?time[=<](\d{1,9})ms(?: TTL=\d{1,3})?$"
)
#: Lines for a probe without an echo reply; `Reply from` a router reports an ICMP error.
_UNANSWERED = re.compile(
    r"Request timed out\.?$|(?:PING: transmit failed\. ?)?General failure\.?$|PING: transmit failed|Hardware error\.?$"
    r"|Reply from [0-9A-Fa-f.:%]{2,60}: (?:Destination |TTL expired|Time to live|Packet needs|Bad |Source quench)"
    r"|Destination (?:host|net|protocol|port) \S{1,20}\.$"
)
_STATISTICS = re.compile(r"Ping statistics for [0-9A-Fa-f.:%]{2,60}:$")
_TOTALS = re.compile(r"Packets: Sent = (\d{1,18}), Received = (\d{1,18}), Lost = (\d{1,18}) \(\d{1,3}% loss\),?$")
_ASIDE = re.compile(
    r"Approximate round trip times in milli-?seconds:$|Minimum = \d{1,9}ms, Maximum = \d{1,9}ms, Average = \d{1,9}ms$"
    r"|Control-(?:C|Break)$|\^C$|Ping request could not find host |(?:[A-Za-z]:\\|PS ).{0,255}>"
)
#: A reply in another language.
_FOREIGN = re.compile(r".{2,200}[=<]\d{1,9} ?ms TTL=\d{1,3}$")
#: Windows' ping sends a probe every second, and has no option for the interval.
EVERY_S = 1.0

_TRACING = re.compile(
    r"Tracing route to (\S{1,255})(?: \[([0-9A-Fa-f.:%]{2,60})\])?(?: over a maximum of \d{1,3} hops:?)?$"
)
_HOP = re.compile(r"(\d{1,3})\s+((?:(?:<?\d{1,6} ms|\*)\s+){1,10})(\S.{0,300})$")
#: A hop that answers with another error, or to which no probe could be sent.
_REPORT = re.compile(r"(\d{1,3})\s+(?:\S{1,255} (?:\[\S{2,60}\] )?\s*reports: |General failure|Transmit error)")
_RTT = re.compile(r"<?(\d{1,6}) ms|\*")
_NAMED = re.compile(r"(?:\S{1,255} )?\[([0-9A-Fa-f.:%]{2,60})\]$")
_ROUTE_ASIDE = re.compile(
    r"over a maximum of \d{1,3} hops:?$|Trace complete\.$|\^C$|Unable to resolve target system name "
    r"|(?:[A-Za-z]:\\|PS ).{0,255}>"
)
#: Lines examined to recognise the format.
_HEAD_LINES = 6


def is_ping(head: bytes) -> bool:
    """Return whether a text with this beginning is output of Windows' ping."""
    lines = _lines(head)[:_HEAD_LINES]
    return any(_PINGING.match(line) or _REPLY.match(line) or _FOREIGN.match(line) for line in lines)


def is_tracert(head: bytes) -> bool:
    """Return whether a text with this beginning is output of tracert."""
    return any(_TRACING.match(line) for line in _lines(head)[:_HEAD_LINES])


def is_any_ping(head: bytes) -> bool:
    """Return whether a text with this beginning is output of any ping."""
    return ping_lines.is_ping(head) or is_ping(head)


def is_any_traceroute(head: bytes) -> bool:
    """Return whether a text with this beginning is output of traceroute or tracert."""
    return routes.is_traceroute(head) or is_tracert(head)


def measure_any_ping(blocks: Iterable[bytes], where: str, hints: ReadHints) -> Measurement:
    """Return the probes in the output of any ping. Raises `UserError` as the two parsers do."""
    pieces = iter(blocks)
    head = b""
    while head.count(b"\n") < _HEAD_LINES and (piece := next(pieces, b"")):
        head += piece
    whole = chain([head], pieces)
    return measure_ping(whole, where, hints) if is_ping(head) else ping.measure(whole, where, hints)


def measure_any_traceroute(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return the hops in the output of traceroute or tracert. Raises `UserError` as the two parsers do."""
    return measure_tracert(data, where, hints) if is_tracert(data[:4096]) else routes.measure(data, where, hints)


@dataclass
class _Target:
    """The output of ping for a target: one RTT [ms] per probe (NaN: no reply), and the printed number of probes."""

    name: str
    line: int
    rtt_ms: list[float] = field(default_factory=list)
    sent: int | None = None


def measure_ping(blocks: Iterable[bytes], where: str, hints: ReadHints) -> Measurement:
    """Return the probes in the output of Windows' ping, which has no timestamps: one per second (`ReadHints.every_s`).

    Raises:
        UserError: A line that is not its English output, or no reply; the line is named.
    """
    notes: list[str] = []
    targets: list[_Target] = []
    for count, line, ended in _numbered(blocks):
        if heading := _PINGING.match(line):
            targets.append(_Target(heading[1], count))
            continue
        reply = _REPLY.match(line)
        if reply or _UNANSWERED.match(line):
            if not targets:
                targets.append(_Target("", count))
            rtt_ms = float(reply[1]) if reply else float("nan")
            if rtt_ms > MAX_RTT_MS:
                raise UserError(
                    f"an RTT of {rtt_ms:g} ms", where=f"{where}:{count}", expected=f"at most {MAX_RTT_MS:g} ms"
                )
            targets[-1].rtt_ms.append(rtt_ms)
        elif (totals := _TOTALS.match(line)) and targets:
            sent, received = int(totals[1]), int(totals[2])
            if received > sent or sent > MAX_COUNT:
                raise UserError(f"{received} of {sent} packets received", where=f"{where}:{count}")
            targets[-1].sent = sent
        elif _STATISTICS.match(line) or _ASIDE.match(line):
            continue
        elif not ended:
            notes.append(f"line {count} is truncated; left out")
        else:
            raise UserError(
                f"{shown(line)} is not a line of Windows' ping",
                where=f"{where}:{count}",
                expected="its English output (chcp 437)",
            )
    return _measured(targets, where, hints, notes)


def _measured(targets: list[_Target], where: str, hints: ReadHints, notes: list[str]) -> Measurement:
    every = hints if hints.every_s is not None else ReadHints(EVERY_S, hints.start_unix_ns)
    if hints.every_s is None:
        notes.append("no timestamps: one probe per second, as Windows' ping sends without loss (`every` sets it)")
    tables: list[pl.DataFrame] = []
    ends: dict[str, int] = {}
    clock: Any = "utc"
    for target in targets:
        rtt_ms = np.array(target.rtt_ms, np.float64)
        if not rtt_ms.size or np.isnan(rtt_ms).all():
            if len(targets) > 1:
                notes.append(f"no reply from {shown(target.name)}, and no timestamps: left out")
                continue
            raise UserError("holds no reply", where=where, expected="at least one")
        if target.sent is None:
            notes.append(f"no statistics of {shown(target.name)}: ping was killed")
        numbers = np.arange(rtt_ms.size, dtype=np.int64)
        sent = () if target.sent is None else (target.sent,)
        one = series(Answers(numbers, None, rtt_ms, first=0, sent=sent, wraps=False, whole=True), every, where)
        table = behind(one, ends.get(target.name))
        notes += [BEHIND] if target.name in ends and BEHIND not in notes else []
        ends[target.name] = int(table["unix_ns"][-1])
        tables.append(echoes(table, target.name))
        clock = one.clock
        notes += [note for note in one.notes if note not in notes]
    if not tables:
        raise UserError("holds no reply", where=where, expected="at least one")
    return Measurement({"probes": pl.concat(tables)}, clock, 0, tuple(notes), counted=True)


def measure_tracert(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return the answers of all traceroutes in the output of tracert. It has no times: they are put a second apart.

    Raises:
        UserError: A line that is not tracert's English output, or no hop; the line is named.
    """
    rows: list[tuple[Any, ...]] = []
    notes = [routes.no_times(hints)]
    target, traces = None, -1
    for count, line, ended in _numbered([data]):
        if heading := _TRACING.match(line):
            target, traces = heading[2] or heading[1], traces + 1
        elif hop := _HOP.match(line) or _REPORT.match(line):
            if target is None:
                raise UserError("a hop before any line of `Tracing route to`", where=f"{where}:{count}")
            answers = _answers(hop[2], hop[3], f"{where}:{count}") if hop.re is _HOP else [(None, None)]
            at_ns = (hints.start_unix_ns or 0) + traces * 10**9
            rows += [(target, at_ns, int(hop[1]), *answer) for answer in answers]
        elif _ROUTE_ASIDE.match(line):
            continue
        elif not ended:
            notes.append(f"line {count} is truncated; left out")
        else:
            raise UserError(
                f"{shown(line)} is not a line of tracert", where=f"{where}:{count}", expected="its English output"
            )
    if not rows:
        raise UserError("holds no hop", where=where)
    table = pl.DataFrame(rows, schema=routes.SCHEMA, orient="row")
    return Measurement({"hops": table}, routes.clock_of(hints), notes=tuple(notes), counted=True)


def _answers(trips: str, host: str, place: str) -> list[tuple[str | None, float | None]]:
    """Return addresses and RTTs of a hop, whose address follows them; a hop with only a name counts as silent."""
    named = _NAMED.match(host)
    address = (named[1] if named else host).partition("%")[0]
    answered = routes.is_address(address)
    answers: list[tuple[str | None, float | None]] = []
    for trip in _RTT.finditer(trips):
        rtt_ms = None if trip[1] is None else float(trip[1])
        if rtt_ms is not None and rtt_ms > MAX_RTT_MS:
            raise UserError(f"an RTT of {rtt_ms:g} ms", where=place, expected=f"at most {MAX_RTT_MS:g} ms")
        answers.append((address, rtt_ms) if answered and rtt_ms is not None else (None, None))
    return answers


def _numbered(blocks: Iterable[bytes]) -> Iterator[tuple[int, str, bool]]:
    """Yield the non-empty lines with their numbers, stripped, and whether a newline follows."""
    first = 1
    for block in blocks:
        lines = _lines(block)
        ended = block.endswith(b"\n")
        for place, line in enumerate(lines):
            if line:
                yield first + place, line, ended or place < len(lines) - 1
        first += block.count(b"\n")


def _lines(text: bytes) -> list[str]:
    return [line.strip(" \t\r") for line in text.decode("utf-8", "replace").split("\n")]
