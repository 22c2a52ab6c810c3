"""Parser for the text of ``ping``: iputils (Linux) with ``-D``, ``-O``, ``-A``, ``-q``; busybox; BSD and macOS.

A reply is ``[1748560813.377794] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=63 time=47.1 ms``; busybox has ``seq=0``.
The native parser reads such lines; the rarer ones, and lines without a sequence number, are read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe import _native
from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.blocks import WORKERS, Growing, lines_of
from bentpipe.measurements.readers.checked import MAX_COUNT, MAX_RTT_MS

_HEADING = re.compile(
    r"PING6?\(?(?: ([^\s(]*)(?: ?\(([^)]{1,300})\))?.{0,300}bytes|.{1,30} bytes\) .{1,300} --> (.{1,300}))"
)
#: Headings and replies in another language.
_FOREIGN = re.compile(r"PING6? \S{1,255} ?\([0-9A-Fa-f.:%]{2,60}\)|(?:\[[0-9.]{1,20}\] )?\d{1,6} .{1,300}: icmp_seq=\d")
_COMMA = re.compile(r"time=[0-9]+,[0-9]")
#: BSD and busybox number from 0; iputils from 1, and its heading for IPv6 has `from ADDRESS DEVICE:` with -I.
_FROM_ZERO = re.compile(r"PING6?\(|PING [^\s(]{1,300}(?: ?\([^)]{1,300}\))?(?: from \S{1,300})?: \d+ data bytes")
_STAMP = r"^(?:\[([0-9]{1,10})\.([0-9]{1,9})\] )?"
_REPLY = (
    _STAMP
    + r"[0-9]{1,6} bytes from [^=]+[:,] (?:icmp_)?seq=([0-9]{1,9})(?: ident=[0-9]+)?(?: (?:ttl|hlim)=[0-9]{1,3})?"
    r"(?: time[=<]([0-9]{1,9}(?:\.[0-9]{1,9})?) ms)?((?: \((?:DUP!|BAD CHECKSUM!|truncated|DIFFERENT ADDRESS!"
    r"|different address)\))*)$"
)
_SILENT = _STAMP + r"(?:no answer yet for icmp_seq=|Request timeout for icmp_seq )([0-9]{1,9})$"
_ERROR = _STAMP + r"From .{1,400}?(?::|,)? ?icmp_seq=([0-9]{1,9}) (.{1,200})$"
_FIRST_REPLY = re.compile(
    r"(?:\[[0-9.]{1,20}\] )?\d{1,6} bytes from (?:\S{1,255} \()?([^\s=]{1,255}?)\)?[:,] (?:icmp_)?seq="
)
_STATISTICS = re.compile(r"(?:\^C)?--- (.{0,300}) ping6? statistics ---$")
#: The part of a reply before its number, with the replying host.
_FROM = re.compile(rb" bytes from ([^\n=]{1,600}?)[:,] (?:icmp_)?seq=")
_FROM_LINE = r" bytes from ([^=]+?)[:,] (?:icmp_)?seq="
_INSIDE = r"^.*\((\S+)\)$"
#: busybox has no + before its duplicates; iputils prints the loss share as C's ``%g`` does.
_TOTALS = re.compile(
    r"(\d{1,18}) packets transmitted, (\d{1,18}) (?:packets )?received(?:, \+?(\d{1,18}) duplicates)?"
    r"(?:, \+(\d{1,18}) corrupted)?(?:, \+(\d{1,18}) errors)?, [\d.]{1,20}(?:e[-+]\d{1,3})?% packet loss"
    r"(?:, time (\d{1,18})ms|, \d{1,18} packets out of wait time)?$"
)
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_RTT_SUMMARY = re.compile(
    r"(?:rtt|round-trip) min/avg/max(?:/(?:mdev|std-?dev))? = "
    rf"(?P<all>{_NUMBER}/{_NUMBER}/{_NUMBER}(?:/{_NUMBER})?) ms"
)
#: Lines without a sequence number: dumps of a corrupted payload, output of -v, the dots of -f, the status on Ctrl-\,
#: and BSD's dump of the header of an ICMP error.
_ASIDE = re.compile(
    r"wrong data byte #|#\d+\t|(?:ping6?|PING|WARNING): |ai->ai_family|[.\x08 EC]*$|(?:ipg/ewma|pipe) "
    r"|\d+/\d+ packets, "
    r"|\d+ bytes from .{1,400}: (?:Destination|Time to live|Time exceeded|Redirect|Source Quench|Communication)"
    r"|Vr HL TOS |[ 0-9a-f.]{40,}$|\^C$"
)
#: Lines are numbered in 32 bits.
MOST_LINES = 2**32 - 1
NO_STAMP = -(2**63)
KINDS = ("reply", "duplicate", "corrupt", "unanswered", "error")
REPLIED, DUPLICATE, _CORRUPT, _UNANSWERED, _FAILED = range(len(KINDS))
Ints = NDArray[np.int64]
Columns = dict[str, NDArray[Any]]
#: Columns of `_block`: `line` from 1, `stamp_ns` (`NO_STAMP`: not printed), `seq`, `rtt_ms` (NaN: not printed), `kind`
#: (of `KINDS`), `host` (index into the hosts of the log, 0: the line names none). The types are as narrow as possible:
#: a log of a day has ten million rows.
_COLUMNS: dict[str, type[np.generic]] = {
    "line": np.uint32,
    "stamp_ns": np.int64,
    "seq": np.uint32,
    "rtt_ms": np.float64,
    "kind": np.uint8,
    "host": np.uint16,
}
#: Most replying addresses in one log; chosen here: a broadcast to a large network.
MOST_HOSTS = 2**16 - 1


def is_ping(head: bytes) -> bool:
    """Return whether a text with this beginning is ping output."""
    lines = head.decode("utf-8", "replace").split("\n")
    return any(_HEADING.match(line) or _FIRST_REPLY.match(line) or _FOREIGN.match(line) for line in lines[:4])


@dataclass
class Target:
    """The output of ping from one heading to the next.

    Attributes:
        name: Name of the target.
        first: First sequence number; None: no heading.
        line: Line of the heading; 0: no heading.
        address: Address in the heading; empty: none.
        rows: Columns `_COLUMNS`, in line order.
        error_texts: Error texts by line.
        totals: Packets sent and received, duplicates, corrupted, errors; None: ping was killed before it printed them.
        span_s: Total time as printed [s]; None: not printed.
        rtt_summary: The printed RTT summary.
    """

    name: str
    first: int | None
    line: int
    address: str = ""
    rows: Columns = field(default_factory=dict)
    error_texts: dict[int, str] = field(default_factory=dict)
    totals: tuple[int, int, int, int, int] | None = None
    totals_line: int = 0
    span_s: float | None = None
    rtt_summary: dict[str, float] = field(default_factory=dict)


def parse(blocks: Iterable[bytes], where: str) -> tuple[list[Target], list[str]]:
    """Parse the targets in a text, given in blocks of whole lines (the last may lack a newline); and notes.

    Raises:
        UserError: A line that is not ping output, or contradictory numbers; the line is named.
    """
    targets: list[Target] = []
    notes: list[str] = []
    whole = Growing(_COLUMNS)
    error_texts: dict[int, str] = {}
    hosts: dict[str, int] = {"": 0}
    ends: Target | None = None
    first = 1
    for block, rows, errors, others, last in _parsed(blocks, where):
        rows["host"] = _hosts(block, first, rows, hosts, where)
        first += block.count(b"\n")
        whole.append(rows)
        error_texts |= errors
        if not targets and rows["line"].size and (not others or rows["line"][0] < others[0][0]):
            reply = next(filter(None, map(_FIRST_REPLY.match, block.decode("utf-8", "replace").split("\n"))), None)
            targets.append(Target("" if reply is None else reply[1], None, 0))
        for count, line in others:
            place = f"{where}:{count}"
            if heading := _HEADING.match(line):
                name = (heading[1] or heading[2] or heading[3] or "")[:200]
                address = "" if heading[2] is None else heading[2].partition(" ")[0]
                targets.append(Target(name, 0 if _FROM_ZERO.match(line) else 1, count, address))
                ends = None
            elif statistics := _STATISTICS.match(line):
                # Two pings that print into one file end in any order.
                named = [target for target in targets if target.name == statistics[1]]
                ends = next(reversed(named or targets), None)
            elif (ends is not None and _take_statistics(ends, line, place, count)) or _ASIDE.match(line):
                continue
            elif count == last:  # truncated: no newline
                notes.append(f"line {count} is truncated; left out")
            else:
                foreign = _FOREIGN.match(line) and (" bytes" not in line or _COMMA.search(line))
                expected = "; expected it in English: LC_ALL=C ping …" if foreign else ""
                raise UserError(f"{shown(line)} is not a line of ping{expected}", where=place)
    if not targets:
        raise UserError("has no line of `PING` and no reply", where=where)
    every = whole.columns()
    begins = [target.line for target in targets] + [MOST_LINES]
    for target, begin, end in zip(targets, begins, begins[1:], strict=False):
        low, high = np.searchsorted(every["line"], np.array([begin, end], np.uint32)) if len(targets) > 1 else (0, None)
        target.rows = {name: column[low:high] for name, column in every.items()}
        target.error_texts = (
            {line: text for line, text in error_texts.items() if begin <= line < end} if error_texts else {}
        )
    del every
    targets = _by_address(targets, list(hosts), notes)
    for target in targets:
        _check_totals(target, where)
    notes += [f"no statistics of {shown(t.name)}: ping was killed" for t in targets if t.totals is None]
    return targets, notes


def _hosts(block: bytes, first: int, rows: Columns, hosts: dict[str, int], where: str) -> NDArray[np.uint16]:
    """Return the replying host of each row of a block as an index into `hosts`, which grows.

    `first` is the number of the block's first line.
    """
    sender = _FROM.search(block)
    if sender is None:
        return np.zeros(rows["line"].size, np.uint16)
    if block.count(sender[0]) == block.count(b" bytes from "):  # the usual case: one host
        replied = rows["kind"] <= _CORRUPT
        place = _place(_address(sender[1].decode("utf-8", "replace")), hosts, where)
        return np.where(replied, place, 0).astype(np.uint16)
    named = lines_of(block).str.extract(_FROM_LINE).fill_null("")
    address = named.str.extract(_INSIDE).fill_null(named)
    places = {name: _place(name, hosts, where) for name in address.unique(maintain_order=True).to_list()}
    of_line = address.replace_strict(places, return_dtype=pl.UInt16).to_numpy()
    chosen: NDArray[np.uint16] = of_line[rows["line"].astype(np.int64) - first]
    return chosen


def _place(name: str, hosts: dict[str, int], where: str) -> int:
    if name not in hosts and len(hosts) > MOST_HOSTS:
        raise UserError(f"replies from more than {MOST_HOSTS} addresses; split it", where=where)
    return hosts.setdefault(name, len(hosts))


def _address(text: str) -> str:
    """Return ``192.0.2.1`` for ``pop.example (192.0.2.1)``."""
    inside = re.match(_INSIDE, text)
    return inside[1] if inside else text


def _by_address(targets: list[Target], hosts: list[str], notes: list[str]) -> list[Target]:
    """Assign each reply to the target with its address, and return the targets.

    A log without headings has one target per address. With headings a reply belongs to the last preceding heading with
    its address, because two repeatedly started pings may print into one file. If no heading has the address (another
    interface of the target, a broadcast), the reply belongs to the last heading.
    """
    assigned: list[Target] = []
    moved: dict[int, list[Columns]] = {}
    headed: dict[str, int] = {}
    for place, target in enumerate(targets):
        if target.address:
            headed[target.address] = place
        host = target.rows["host"]
        names = np.flatnonzero(np.bincount(host, minlength=1)[1:]) + 1 if host.size else host[:0]
        if target.first is None and names.size > 1:
            parts = [
                Target(hosts[int(name)], None, target.line, rows=_only(target.rows, host == name)) for name in names
            ]
            notes.append(f"replies from {names.size} addresses and no heading: each is a series")
            assigned += parts
            continue
        assigned.append(target)
        others = [int(n) for n in names if hosts[int(n)] != target.address and hosts[int(n)] in headed]
        if target.first is None or not others:
            continue
        for name in others:
            moved.setdefault(headed[hosts[name]], []).append(_only(target.rows, host == name))
        # The target of a line without an address is unknown.
        target.rows = _only(target.rows, ~np.isin(host, [0, *others]))
    for to, parts_of in moved.items():
        target = targets[to]
        rows = {
            name: np.concatenate([column, *(part[name] for part in parts_of)]) for name, column in target.rows.items()
        }
        target.rows = _only(rows, np.argsort(rows["line"], kind="stable"))
    return assigned


def _only(rows: Columns, which: NDArray[Any]) -> Columns:
    return {name: column[which] for name, column in rows.items()}


def _parsed(
    blocks: Iterable[bytes], where: str
) -> Iterator[tuple[bytes, Columns, dict[int, str], list[tuple[int, str]], int | None]]:
    """Yield each block with its parsed lines, and the number of a truncated last line; parses `WORKERS` in parallel."""
    first = 1
    pieces = iter(blocks)
    with ThreadPoolExecutor(WORKERS) as pool:
        while batch := list(islice(pieces, WORKERS)):
            firsts = []
            for block in batch:
                firsts.append(first)
                first += block.count(b"\n")
            if first >= MOST_LINES:
                raise UserError(f"has more than {MOST_LINES} lines; split it", where=where)
            cut = None if batch[-1].endswith(b"\n") else first
            # The native parser releases the GIL.
            for block, parsed in zip(batch, pool.map(_block, batch, firsts, [where] * len(batch)), strict=True):
                yield block, *parsed, cut


def _block(text: bytes, first: int, where: str) -> tuple[Columns, dict[int, str], list[tuple[int, str]]]:
    """Return the lines of a block with a sequence number, their error texts by line, and the other lines."""
    line, stamp_ns, seq, rtt_ms, (missed, left) = _native.ping_replies(text, first)
    kind = np.full(line.size, REPLIED, np.uint8)
    columns: Columns = {"line": line, "stamp_ns": stamp_ns, "seq": seq, "rtt_ms": rtt_ms, "kind": kind}
    error_texts: dict[int, str] = {}
    others: list[tuple[int, str]] = []
    if missed.size:
        rest, error_texts, others = _rarer(pl.DataFrame({"line": missed, "text": lines_of(left)}))
        if rest.height:
            rest = rest.with_columns(pl.col("stamp_ns").fill_null(NO_STAMP), pl.col("rtt_ms").fill_null(float("nan")))
            columns = {name: np.concatenate([column, rest[name].to_numpy()]) for name, column in columns.items()}
            order = np.argsort(columns["line"], kind="stable")
            columns = {name: column[order].astype(_COLUMNS[name]) for name, column in columns.items()}
    over = np.flatnonzero(columns["rtt_ms"] > MAX_RTT_MS)
    if over.size:
        at, most = columns["line"][over[0]], columns["rtt_ms"][over[0]]
        raise UserError(f"an RTT of {most:.10g} ms", where=f"{where}:{at}", expected=f"at most {MAX_RTT_MS:g} ms")
    return columns, error_texts, others


def _rarer(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[int, str], list[tuple[int, str]]]:
    """Parse lines that the native parser leaves over: rows, error texts by line, and lines without a number."""
    rows = rows.with_columns(pl.col("text").str.strip_chars_end("\r"))
    parts = []
    error_texts: dict[int, str] = {}
    marks = pl.col("marks")
    for pattern, names, kind, rtt_ms in (
        (
            _REPLY,
            ["s", "f", "seq", "rtt", "marks"],
            pl.when(marks.str.contains("BAD|truncated"))
            .then(_CORRUPT)
            .when(marks.str.contains("DUP"))
            .then(DUPLICATE)
            .otherwise(REPLIED),
            pl.col("rtt").cast(pl.Float64),
        ),
        (_SILENT, ["s", "f", "seq"], pl.lit(_UNANSWERED), pl.lit(None, pl.Float64)),
        (_ERROR, ["s", "f", "seq", "says"], pl.lit(_FAILED), pl.lit(None, pl.Float64)),
    ):
        groups = rows.with_columns(
            pl.col("text").str.extract_groups(pattern).struct.rename_fields(names).alias("groups")
        ).unnest("groups")
        known = groups.filter(pl.col("seq").is_not_null())
        if "says" in names:
            error_texts = dict(known.select("line", "says").iter_rows())
        parts.append(
            known.select(
                "line",
                (pl.col("s").cast(pl.Int64) * 10**9 + pl.col("f").str.pad_end(9, "0").cast(pl.Int64)).alias("stamp_ns"),
                pl.col("seq").cast(pl.UInt32),
                rtt_ms.alias("rtt_ms"),
                kind.cast(pl.UInt8).alias("kind"),
            )
        )
        rows = rows.filter(groups["seq"].is_null())
    left = rows.filter(pl.col("text") != "")
    return pl.concat(parts), error_texts, list(left.select("line", "text").iter_rows())


def _take_statistics(target: Target, line: str, place: str, count: int) -> bool:
    if match := _TOTALS.match(line):
        sent, received, duplicates, corrupt, errors, time_ms = (int(group or 0) for group in match.groups())
        if sent > MAX_COUNT:
            raise UserError(f"{sent} packets sent", where=place, expected=f"at most {MAX_COUNT}")
        if received > sent:
            raise UserError(f"{received} of {sent} packets received", where=place)
        target.totals, target.totals_line = (sent, received, duplicates, corrupt, errors), count
        target.span_s = time_ms / 1e3 if match[6] else None
        return True
    if match := _RTT_SUMMARY.match(line):
        values = [float(value) for value in match["all"].split("/")]
        if max(values) > MAX_RTT_MS or not values[0] <= values[1] <= values[2]:
            raise UserError(shown(line), where=place, expected=f"min, avg, max in order, at most {MAX_RTT_MS:g} ms")
        target.rtt_summary = dict(zip(("rtt_min_ms", "rtt_mean_ms", "rtt_max_ms", "rtt_mdev_ms"), values, strict=False))
        return True
    return False


def _check_totals(target: Target, where: str) -> None:
    if target.totals is not None:
        replied = target.rows["seq"][target.rows["kind"] == REPLIED]
        seen = np.unique(replied).size if replied.size < 2**16 else 0  # 16-bit numbers repeat
        if seen > target.totals[0]:
            raise UserError(f"{seen} of {target.totals[0]} packets received", where=f"{where}:{target.totals_line}")
