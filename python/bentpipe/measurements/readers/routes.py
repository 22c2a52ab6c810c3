"""Parsers for the text of ``traceroute`` (Linux, BSD) and for ``mtr --json``."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.checked import MAX_RTT_MS, documents, member, number, number_of, text_of
from bentpipe.measurements.readers.measurement import Measurement, ReadHints

_HEADING = re.compile(r"traceroute6? to (\S{1,255}) \(([0-9A-Fa-f.:]{2,45})\)")
_HOP = re.compile(r"\s{0,3}(\d{1,3})\s+(\S.{0,2000})$")
#: Another address of the same hop, as printed by traceroute of BSD and macOS.
_MORE = re.compile(r"\s{2,8}(\S.{0,2000})$")
_WORD = re.compile(
    r"\*|(?P<rtt>\d{1,6}(?:\.\d{1,6})?) ms|\((?P<inside>[0-9A-Fa-f.:]{2,45}(?:%\w{1,15})?)\)|(?P<mark>!\S{0,4})"
    r"|\[[^\]]{1,60}\]|(?P<word>\S{1,255})"
)
_MTR = (b'"report"', b'"mtr"', b'"hubs"')
SCHEMA = {"target": pl.String, "unix_ns": pl.Int64, "ttl": pl.Int64, "address": pl.String, "rtt_ms": pl.Float64}


def is_traceroute(head: bytes) -> bool:
    """Return whether a text with this beginning is traceroute output."""
    return any(_HEADING.match(line) for line in head.decode("utf-8", "replace").split("\n")[:3])


def is_mtr(head: bytes) -> bool:
    """Return whether a text with this beginning is mtr's JSON."""
    return head.lstrip().startswith(b"{") and all(mark in head for mark in _MTR)


def measure(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return the answers of all traceroutes in a text. It has no times: they are put a second apart.

    Raises:
        UserError: A line that is not traceroute output; it is named.
    """
    rows: list[tuple[Any, ...]] = []
    notes = [no_times(hints)]
    target = None
    traces, ttl = -1, 0
    lines = data.decode("utf-8", "replace").split("\n")
    for count, line in enumerate(lines, 1):
        text = line.rstrip("\r")
        if heading := _HEADING.match(text):
            target, traces, ttl = heading[2], traces + 1, 0
        elif hop := _HOP.match(text) or (_MORE.match(text) if ttl else None):
            if target is None:
                raise UserError("a hop before any line of `traceroute to`", where=f"{where}:{count}")
            ttl, answers = (int(hop[1]), hop[2]) if hop.re is _HOP else (ttl, hop[1])
            at = (hints.start_unix_ns or 0) + traces * 10**9
            try:
                rows += [(target, at, ttl, *answer) for answer in _answers(answers, f"{where}:{count}")]
            except UserError:
                if count < len(lines):
                    raise
                notes.append(f"line {count} is truncated; left out")
        elif text.strip() and not text.startswith("traceroute"):
            if count < len(lines):
                raise UserError(f"{shown(text)} is not a line of traceroute", where=f"{where}:{count}")
            notes.append(f"line {count} is truncated; left out")
    if not rows:
        raise UserError("holds no hop", where=where)
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return Measurement({"hops": table}, clock_of(hints), notes=tuple(notes), counted=True)


def _answers(text: str, place: str) -> list[tuple[str | None, float | None]]:
    """Return addresses and RTTs of one line; an address applies until the next one."""
    answers: list[tuple[str | None, float | None]] = []
    address: str | None = None
    for match in _WORD.finditer(text):
        if match[0] == "*":
            answers.append((None, None))
        elif match["rtt"]:
            rtt_ms = float(match["rtt"])
            if rtt_ms > MAX_RTT_MS or address is None:
                raise UserError(f"{shown(match[0])} is out of place", where=place, expected="an address before it")
            answers.append((address, rtt_ms))
        elif match["inside"] or is_address(match["word"]):
            address = (match["inside"] or match["word"]).partition("%")[0]
            if not is_address(address):
                raise UserError(f"{shown(address)} is no address", where=place)
    if not answers:
        raise UserError(f"{shown(text)} has neither an RTT nor a `*`", where=place)
    return answers


def measure_mtr(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return the hops of one or more reports of mtr, each with the best RTT: mtr stores no individual RTTs.

    Raises:
        UserError: Not a report of mtr; the place is named.
    """
    rows = []
    for number_of_report, (document, _) in enumerate(documents(where, data)):
        here = f"{where}: report {number_of_report + 1}"
        report = member(here, document, "report", dict)
        target = text_of(f"{here}: mtr", member(here, report, "mtr", dict), "dst")
        at_ns = (hints.start_unix_ns or 0) + number_of_report * 10**9
        for index, hub in enumerate(member(here, report, "hubs", list)):
            place = f"{here}: hubs[{index}]"
            host = text_of(place, hub, "host")
            answered = is_address(host)
            rtt_ms = number_of(place, hub, "Best", MAX_RTT_MS, "ms") if answered else None
            rows.append((target, at_ns, _ttl(place, hub, index + 1), host if answered else None, rtt_ms))
    if not rows:
        raise UserError("has no hub of a report", where=where)
    notes = (no_times(hints), "best RTT of each hop; hops with only a name count as silent (mtr -n has addresses)")
    return Measurement(
        {"hops": pl.DataFrame(rows, schema=SCHEMA, orient="row")}, clock_of(hints), notes=notes, counted=True
    )


def _ttl(place: str, hub: Any, at: int) -> int:  # noqa: ANN401 - JSON is anything
    """Return the TTL of a hop, which may differ from its index (``mtr --first-ttl 2``); older versions print text."""
    count = hub.get("count", at)
    ttl = int(count) if isinstance(count, str) and re.fullmatch(r"[0-9]{1,3}", count) else count
    return int(number(f"{place}.count", ttl, 1, 255, "hops"))


def is_address(text: str | None) -> bool:
    """Return whether a text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text or "")
    except ValueError:
        return False
    return True


def no_times(hints: ReadHints) -> str:
    """Return the note on traceroutes without timestamps."""
    return "no timestamps: traceroutes are put a second apart" + (
        "" if hints.start_unix_ns is not None else ", from 1970 on (`start` sets the time)"
    )


def clock_of(hints: ReadHints) -> Any:  # noqa: ANN401 - a Literal
    """Return the clock of a file without timestamps: a wall clock only if the user states its start."""
    return "relative" if hints.start_unix_ns is None else "utc"
