"""The text of ``ping``: iputils' (Linux distributions), with ``-D``, ``-O``, ``-q``, and busybox's; IPv4 and IPv6.

A reply is ``[1748560813.377794] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=63 time=47.1 ms``; busybox has ``seq=0``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bentpipe.errors import UserError, shown
from bentpipe.readers.checked import MAX_COUNT, MAX_RTT_MS
from bentpipe.readers.reading import Arrivals, Column, Flow, Reading

_HEADING = re.compile(r"PING ([^\s(]*)(?: ?\(([^)]{1,300})\))?.{0,300}bytes")
_TIME = r"(?:\[(?P<unix_s>\d{1,10})\.(?P<unix_us>\d{6})\] )?"
_REPLY = re.compile(
    _TIME + r"\d{1,6} bytes from .{1,400}?:(?: icmp_seq| seq)=(?P<seq>\d{1,9})(?: ident=\d+)?(?: (?:ttl|hlim)=\d{1,3})?"
    r"(?: time[=<](?P<rtt>\d{1,9}(?:\.\d{1,9})?) ms)?(?P<marks>(?: \((?:DUP!|BAD CHECKSUM!|truncated|DIFFERENT ADDRESS!"
    r"|different address)\))*)$"
)
_SILENT = re.compile(_TIME + r"no answer yet for icmp_seq=(?P<seq>\d{1,9})$")
_ERROR = re.compile(_TIME + r"From .{1,400}?(?::|,)? ?icmp_seq=(?P<seq>\d{1,9}) (?P<says>.{1,200})$")
_STATISTICS = re.compile(r"--- .{0,300} ping statistics ---$")
_TOTALS = re.compile(
    r"(\d{1,18}) packets transmitted, (\d{1,18}) (?:packets )?received(?:, \+(\d{1,18}) duplicates)?"
    r"(?:, \+(\d{1,18}) corrupted)?(?:, \+(\d{1,18}) errors)?, [\d.]{1,20}% packet loss(?:, time \d{1,18}ms)?$"
)
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_ROUND_TRIPS = re.compile(
    rf"(?:rtt|round-trip) min/avg/max(?:/mdev)? = (?P<all>{_NUMBER}/{_NUMBER}/{_NUMBER}(?:/{_NUMBER})?) ms"
)
#: Lines without a number: what a corrupted payload looked like, what -v adds, marks of -f, answers to Ctrl-\.
_ASIDE = re.compile(
    r"wrong data byte #|#\d+\t|(?:ping|PING|WARNING): |ai->ai_family|[.\x08 EC]*$|(?:ipg/ewma|pipe) |\d+/\d+ packets, "
)
#: The sequence number has 16 bits.
_WRAP = 65_536


def is_ping(head: bytes) -> bool:
    """Whether a text that begins so is ping's."""
    lines = head.decode("utf-8", "replace").split("\n")
    return any(_HEADING.match(line) for line in lines[:4])


@dataclass
class _Target:
    name: str
    columns: dict[str, Column] = field(
        default_factory=lambda: {name: [] for name in ("seq", "t_s", "rtt_ms", "kind", "says")}
    )
    sent_ns: list[int | None] = field(default_factory=list)
    #: Of the replies that count.
    seen: set[int] = field(default_factory=set)
    last: int = 0
    totals: tuple[int, int, int, int, int] | None = None
    round_trips: dict[str, float] = field(default_factory=dict)


def read(data: bytes, where: str, arrivals: Arrivals | None = None) -> Reading:
    """One flow per heading (a shell may call ping more than once), one sample per line with a sequence number.

    Samples: ``seq`` (counted on where the 16 bits of ping's end), ``t_s`` (when the probe was sent: the time printed
    by ``-D``, else that of `arrivals`, less the round trip; of lines without one, the line's), ``rtt_ms``, ``kind``
    (``reply``, ``duplicate``, ``corrupt``, ``unanswered`` of ``-O``, ``error``), ``says`` (an error's text). A lost
    probe has no row: without ``-O`` ping says nothing of it.

    Raises:
        UserError: A line that ping does not print, numbers that contradict each other; the line is named.
    """
    targets: list[_Target] = []
    notes = []
    end = 0
    in_statistics = False
    lines = data.split(b"\n")
    for count, raw in enumerate(lines, 1):
        end += len(raw) + 1
        line = raw.decode("utf-8", "replace").rstrip("\r")
        place = f"{where}:{count}"
        if heading := _HEADING.match(line):
            targets.append(_Target((heading[1] or heading[2] or "")[:200]))
            in_statistics = False
        elif not targets:
            if not _ASIDE.match(line):
                raise UserError(f"{place}: {shown(line)} is before any line of `PING`")
        elif _STATISTICS.match(line):
            in_statistics = True
        elif in_statistics and _take_statistics(targets[-1], line, place):
            continue
        elif not _take_sample(targets[-1], line, place, None if arrivals is None else arrivals.at(end)):
            if _ASIDE.match(line):
                continue
            if count == len(lines):  # no end of line behind it
                notes.append(f"line {count} is cut off; left out")
                continue
            raise UserError(f"{place}: {shown(line)} is not a line of ping")
    if not targets:
        raise UserError(f"{where}: has no line of `PING`")
    notes += [f"no statistics of {shown(t.name)}: ping was ended before its end" for t in targets if t.totals is None]
    flows = [_flow(target, where) for target in targets]
    summary = {"targets": [{"name": target.name, **target.round_trips} for target in targets]}
    return Reading("ping", None, flows, summary, notes)


def _take_sample(target: _Target, line: str, place: str, arrived_ns: int | None) -> bool:
    match = _REPLY.match(line) or _SILENT.match(line) or _ERROR.match(line)
    if match is None:
        return False
    groups = match.groupdict()
    rtt_ms = None if groups.get("rtt") is None else float(groups["rtt"])
    if rtt_ms is not None and rtt_ms > MAX_RTT_MS:
        raise UserError(f"{place}: a round trip of {groups['rtt']} ms; wanted at most {MAX_RTT_MS:g} ms")
    seq = int(groups["seq"])
    seq = max(seq, seq + round((target.last - seq) / _WRAP) * _WRAP)
    target.last = max(target.last, seq)
    if groups["unix_s"] is not None:
        arrived_ns = int(groups["unix_s"]) * 10**9 + int(groups["unix_us"]) * 1000
    target.sent_ns.append(None if arrived_ns is None else arrived_ns - round((rtt_ms or 0.0) * 1e6))
    kind = _kind(match, target, seq)
    if kind == "reply":
        target.seen.add(seq)
    row = {"seq": seq, "rtt_ms": rtt_ms, "kind": kind, "says": groups.get("says")}
    for name, value in row.items():
        target.columns[name].append(value)
    return True


def _kind(match: re.Match[str], target: _Target, seq: int) -> str:
    if match.re is not _REPLY:
        return "unanswered" if match.re is _SILENT else "error"
    marks = match["marks"]
    if "BAD" in marks or "truncated" in marks:
        return "corrupt"
    return "duplicate" if "DUP" in marks or seq in target.seen else "reply"


def _take_statistics(target: _Target, line: str, place: str) -> bool:
    if match := _TOTALS.match(line):
        sent, received, duplicates, corrupt, errors = (int(group or 0) for group in match.groups())
        if not max(received, len(target.seen)) <= sent <= MAX_COUNT:
            raise UserError(f"{place}: {max(received, len(target.seen))} of {sent} packets received")
        target.totals = (sent, received, duplicates, corrupt, errors)
        return True
    if match := _ROUND_TRIPS.match(line):
        values = [float(value) for value in match["all"].split("/")]
        if max(values) > MAX_RTT_MS or not values[0] <= values[1] <= values[2]:
            raise UserError(f"{place}: {shown(line)}; wanted min, avg, max in order, at most {MAX_RTT_MS:g} ms")
        target.round_trips = dict(zip(("rtt_min_ms", "rtt_mean_ms", "rtt_max_ms", "rtt_mdev_ms"), values, strict=False))
        return True
    return False


def _flow(target: _Target, where: str) -> Flow:
    known = [sent for sent in target.sent_ns if sent is not None]
    start_ns = min(known, default=None)
    if start_ns is not None and (start_ns < 0 or max(known) - start_ns > 10**9 * 10**9):  # thirty years
        raise UserError(f"{where}: its times go from {start_ns} to {max(known)} ns since 1970")
    target.columns["t_s"] = [
        None if sent is None or start_ns is None else (sent - start_ns) / 1e9 for sent in target.sent_ns
    ]
    of_kind = target.columns["kind"].count
    sent, received, duplicates, corrupt, errors = target.totals or (
        None,
        len(target.seen),
        of_kind("duplicate"),
        of_kind("corrupt"),
        of_kind("error"),
    )
    counts = {
        "sent_packets": sent,
        "received_packets": received,
        "lost_packets": None if sent is None else sent - received,
        "duplicates": duplicates,
        "corrupted_packets": corrupt,
        "icmp_errors": errors,
    }
    return Flow(target.name, "ICMP", None, start_ns, samples=target.columns, counts=counts)
