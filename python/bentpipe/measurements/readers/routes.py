"""Traceroutes as text (Linux's and BSD's ``traceroute``) and ``mtr --json``."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.checked import MAX_RTT_MS, documents, member, number, number_of, text_of
from bentpipe.measurements.readers.measurement import Measurement, Said

_HEADING = re.compile(r"traceroute6? to (\S{1,255}) \(([0-9A-Fa-f.:]{2,45})\)")
_HOP = re.compile(r"\s{0,3}(\d{1,3})\s+(\S.{0,2000})$")
#: Another address of the same hop, as BSD's and macOS' traceroute prints it.
_MORE = re.compile(r"\s{2,8}(\S.{0,2000})$")
_WORD = re.compile(
    r"\*|(?P<rtt>\d{1,6}(?:\.\d{1,6})?) ms|\((?P<inside>[0-9A-Fa-f.:]{2,45}(?:%\w{1,15})?)\)|(?P<mark>!\S{0,4})"
    r"|\[[^\]]{1,60}\]|(?P<word>\S{1,255})"
)
_MTR = (b'"report"', b'"mtr"', b'"hubs"')
SCHEMA = {"target": pl.String, "unix_ns": pl.Int64, "ttl": pl.Int64, "address": pl.String, "rtt_ms": pl.Float64}


def is_traceroute(head: bytes) -> bool:
    """Whether a text that begins so is traceroute's."""
    return any(_HEADING.match(line) for line in head.decode("utf-8", "replace").split("\n")[:3])


def is_mtr(head: bytes) -> bool:
    """Whether a text that begins so is mtr's JSON."""
    return head.lstrip().startswith(b"{") and all(mark in head for mark in _MTR)


def measure(data: bytes, where: str, said: Said) -> Measurement:
    """The answers of all traceroutes in a text. It does not say when: they are put a second apart.

    Raises:
        UserError: A line that traceroute does not print; it is named.
    """
    rows: list[tuple[Any, ...]] = []
    notes = [no_times(said)]
    target = None
    traces, ttl = -1, 0
    lines = data.decode("utf-8", "replace").split("\n")
    for count, line in enumerate(lines, 1):
        text = line.rstrip("\r")
        if heading := _HEADING.match(text):
            target, traces, ttl = heading[2], traces + 1, 0
        elif hop := _HOP.match(text) or (_MORE.match(text) if ttl else None):
            if target is None:
                raise UserError(f"{where}:{count}: a hop before any line of `traceroute to`")
            ttl, answers = (int(hop[1]), hop[2]) if hop.re is _HOP else (ttl, hop[1])
            at = (said.start_unix_ns or 0) + traces * 10**9
            try:
                rows += [(target, at, ttl, *answer) for answer in _answers(answers, f"{where}:{count}")]
            except UserError:
                if count < len(lines):
                    raise
                notes.append(f"line {count} is cut off; left out")
        elif text.strip() and not text.startswith("traceroute"):
            if count < len(lines):
                raise UserError(f"{where}:{count}: {shown(text)} is not a line of traceroute")
            notes.append(f"line {count} is cut off; left out")
    if not rows:
        raise UserError(f"{where}: holds no hop")
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return Measurement({"hops": table}, clock_of(said), notes=tuple(notes), counted=True)


def _answers(text: str, place: str) -> list[tuple[str | None, float | None]]:
    """Addresses and RTTs of one line; an address holds until the next."""
    found: list[tuple[str | None, float | None]] = []
    address: str | None = None
    for match in _WORD.finditer(text):
        if match[0] == "*":
            found.append((None, None))
        elif match["rtt"]:
            rtt_ms = float(match["rtt"])
            if rtt_ms > MAX_RTT_MS or address is None:
                raise UserError(f"{place}: {shown(match[0])} is out of place; wanted an address before it")
            found.append((address, rtt_ms))
        elif match["inside"] or is_address(match["word"]):
            address = (match["inside"] or match["word"]).partition("%")[0]
            if not is_address(address):
                raise UserError(f"{place}: {shown(address)} is no address")
    if not found:
        raise UserError(f"{place}: {shown(text)} has neither an RTT nor a `*`")
    return found


def measure_mtr(data: bytes, where: str, said: Said) -> Measurement:
    """The hops of one or more reports of mtr: of each the best RTT, as mtr keeps no others.

    Raises:
        UserError: Not such a document; the place is named.
    """
    rows = []
    for number_of_report, (document, _) in enumerate(documents(where, data)):
        here = f"{where}: report {number_of_report + 1}"
        report = member(here, document, "report", dict)
        target = text_of(f"{here}: mtr", member(here, report, "mtr", dict), "dst")
        at_ns = (said.start_unix_ns or 0) + number_of_report * 10**9
        for index, hub in enumerate(member(here, report, "hubs", list)):
            place = f"{here}: hubs[{index}]"
            host = text_of(place, hub, "host")
            answered = is_address(host)
            rtt_ms = number_of(place, hub, "Best", MAX_RTT_MS, "ms") if answered else None
            rows.append((target, at_ns, _ttl(place, hub, index + 1), host if answered else None, rtt_ms))
    if not rows:
        raise UserError(f"{where}: has no hub of a report")
    notes = (no_times(said), "of each hop the best RTT; hops by name count as silent (mtr -n has addresses)")
    return Measurement(
        {"hops": pl.DataFrame(rows, schema=SCHEMA, orient="row")}, clock_of(said), notes=notes, counted=True
    )


def _ttl(place: str, hub: Any, at: int) -> int:  # noqa: ANN401 - JSON is anything
    """Of a hop, which need not be its place (``mtr --first-ttl 2``); older versions have it as text."""
    found = hub.get("count", at)
    number_of_it = int(found) if isinstance(found, str) and re.fullmatch(r"[0-9]{1,3}", found) else found
    return int(number(f"{place}.count", number_of_it, 1, 255, "hops"))


def is_address(text: str | None) -> bool:
    """Whether a text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text or "")
    except ValueError:
        return False
    return True


def no_times(said: Said) -> str:
    """The note on traceroutes as text."""
    return "no times in it: its traceroutes are put a second apart" + (
        "" if said.start_unix_ns is not None else ", from 1970 on (--start says when)"
    )


def clock_of(said: Said) -> Any:  # noqa: ANN401 - a Literal
    """The clock of what has no times: a wall clock's only if the user says when it began."""
    return "relative" if said.start_unix_ns is None else "utc"
