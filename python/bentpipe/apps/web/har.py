"""Reader of HAR files (HTTP Archive 1.2), as browsers and WebPageTest export them; bodies are not needed.

What leads to what: the entry that the file names as the initiator; of a redirect the entry that redirects; otherwise
the document, style sheet or script that was complete last before the request. What remains until the request is
computation. Only entries that began earlier count, so there are no loops.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bentpipe.apps.web.page import Kind, Page, PageObject
from bentpipe.errors import UserError, shown
from bentpipe.files import read_bytes
from bentpipe.measurements.readers.checked import parse_json
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

MOST_BYTES = 256 << 20
"""Largest file [bytes]; without bodies a large page has a few megabytes."""
MOST_ENTRIES = 5000
"""Most entries of a page."""
LARGEST_OBJECT = 1 << 32
"""Largest object [bytes]."""
LONGEST_NS = 3600 * 10**9
"""Longest accepted time from the begin of a page to an entry's end [ns]."""
LONGEST_COMPUTE_NS = 60 * 10**9
"""Longest computation before a request [ns]."""

_REQUEST_BYTES, _HEADER_BYTES, _LEAST_BYTES = 400, 300, 24
"""Sizes where the file has none: of a request, of a response's header (chosen here), and of the smallest message."""
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?")
_LEADING = ("html", "css", "javascript", "ecmascript", "json")
"""Types of objects that lead to others."""


@dataclass(frozen=True)
class _Entry:
    where: str
    url: str
    host: str
    begin_ns: int
    end_ns: int
    request_bytes: int
    response_bytes: int
    leads: bool
    kind: Kind
    initiator: str | None
    redirects_to: str | None
    has_size: bool


def read_har(file: str | os.PathLike[str]) -> Page:
    """Read the first page of a HAR file.

    Raises:
        UserError: The file is missing, too large or not a HAR, or an entry has an absurd time or size; one line says
            which.

    Example:
        >>> import json, tempfile
        >>> times = {"startedDateTime": "2026-05-10T09:00:00Z", "time": 40}
        >>> entry = {**times, "request": {"url": "https://a.example/"}, "response": {"status": 200, "bodySize": 900}}
        >>> with tempfile.NamedTemporaryFile("w", suffix=".har") as har:
        ...     _ = har.write(json.dumps({"log": {"entries": [entry]}})), har.flush()
        ...     read_har(har.name).bytes
        1200
    """
    where = str(file)
    data = read_bytes(file, MOST_BYTES)
    log = _table(_table(parse_json(where, data.removeprefix(b"\xef\xbb\xbf")), where).get("log"), f"{where}: log")
    entries = log.get("entries")
    if not isinstance(entries, list):
        raise UserError("is not a HAR file (no log.entries)", where=where, expected="a HAR, as a browser exports it")
    if len(entries) > MOST_ENTRIES:
        raise UserError(f"{len(entries)} entries", where=where, expected=f"at most {MOST_ENTRIES}")
    pages = log.get("pages")
    first = pages[0].get("id") if isinstance(pages, list) and pages and isinstance(pages[0], dict) else None
    read: list[_Entry] = []
    left_out = 0
    for i, raw in enumerate(entries):
        entry = _table(raw, f"{where}: log.entries[{i}]")
        if first is not None and entry.get("pageref", first) != first:
            continue
        parsed = _entry(entry, f"{where}: log.entries[{i}]")
        left_out += parsed is None
        read += [] if parsed is None else [parsed]
    if not read:
        raise UserError("has no entry that was fetched over HTTP", where=where, expected="at least one")
    return _page(Path(file).stem, sorted(read, key=lambda each: each.begin_ns), left_out)


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        holds = "nothing" if value is None else "a list" if isinstance(value, list) else shown(value)
        raise UserError(f"holds {holds}", where=where, expected="an object, as a HAR has it")
    return value


def _entry(entry: Mapping[str, Any], where: str) -> _Entry | None:
    """Return an entry; None: it was not fetched over HTTP, or had no response."""
    request = _table(entry.get("request"), f"{where}.request")
    response = _table(entry.get("response"), f"{where}.response")
    url = request.get("url")
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        host = None if parts is None else parts.netloc.rpartition("@")[2].lower()
    except ValueError:
        raise UserError(shown(str(url)), where=f"{where}.request.url", expected="an address") from None
    if parts is None or parts.scheme not in ("http", "https") or not host or response.get("status") in (0, None):
        return None
    started = entry.get("startedDateTime")
    if not isinstance(started, str):
        raise UserError("is missing", where=f"{where}.startedDateTime", expected="a time, ISO-8601")
    begin_ns = parse_utc(started, f"{where}.startedDateTime")
    took_ns = round(_number(entry.get("time"), f"{where}.time", LONGEST_NS / 1e6) * 1e6)
    content = response.get("content")
    content = content if isinstance(content, dict) else {}
    sizes = (response.get("bodySize"), entry.get("_objectSize"), content.get("size"))
    body = next((size for each in sizes if (size := _size(each, f"{where}.response")) > 0), 0)
    header = _size(response.get("headersSize"), f"{where}.response") or _HEADER_BYTES
    sent = _size(request.get("headersSize"), f"{where}.request") or _REQUEST_BYTES
    mime = str(content.get("mimeType", "")).lower()
    initiator = entry.get("_initiator")
    if isinstance(initiator, dict):
        initiator = initiator.get("url")
    redirect = response.get("redirectURL")
    return _Entry(
        where,
        str(url),
        host,
        begin_ns,
        begin_ns + took_ns,
        max(_LEAST_BYTES, sent + _size(request.get("bodySize"), f"{where}.request")),
        max(_LEAST_BYTES, header + body),
        any(name in mime for name in _LEADING),
        _kind(mime),
        initiator if isinstance(initiator, str) else None,
        redirect if isinstance(redirect, str) and redirect else None,
        any(_is_known(each) for each in sizes),
    )


def _is_known(size: object) -> bool:
    return size is not None and size != "" and not str(size).startswith("-")


def _kind(mime: str) -> Kind:
    names: dict[str, Kind] = {"html": "document", "css": "style", "script": "script", "image": "image"}
    return next((kind for name, kind in names.items() if name in mime), "other")


def _number(value: object, where: str, most: float) -> float:
    """Return a number from 0 on, which WebPageTest may write as text; -1 and a missing one are unknown: 0."""
    if value is None or value == "":
        return 0.0
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value > most:
        raise UserError(shown(str(value)), where=where, expected=f"a number of at most {most:.0f}")
    return max(0.0, float(value))


def _size(value: object, where: str) -> int:
    return int(_number(value, f"{where}: a size", LARGEST_OBJECT))


def _page(name: str, entries: Sequence[_Entry], left_out: int) -> Page:
    begin_ns = entries[0].begin_ns
    hosts: dict[str, int] = {}
    by_url: dict[str, int] = {}
    redirecting: dict[str, int] = {}
    leading: list[int] = []
    objects: list[PageObject] = []
    for i, entry in enumerate(entries):
        if entry.end_ns - begin_ns > LONGEST_NS:
            raise UserError("ends more than an hour after the first entry", where=entry.where, expected="a page's load")
        after = redirecting.get(entry.url)
        if after is None and entry.initiator is not None:
            after = by_url.get(entry.initiator)
        if after is None:
            complete = [each for each in leading if entries[each].end_ns <= entry.begin_ns]
            after = max(complete, key=lambda each: entries[each].end_ns, default=None)
        earliest_ns = begin_ns if after is None else entries[after].end_ns
        compute_ns = min(max(0, entry.begin_ns - earliest_ns), LONGEST_COMPUTE_NS)
        host = hosts.setdefault(entry.host, len(hosts))
        objects.append(
            PageObject(entry.url, host, entry.request_bytes, entry.response_bytes, after, compute_ns, entry.kind)
        )
        by_url.setdefault(entry.url, i)
        if entry.redirects_to is not None:
            redirecting[entry.redirects_to] = i
        if entry.leads:
            leading.append(i)
    return Page(name, tuple(hosts), tuple(objects), left_out, sum(not entry.has_size for entry in entries))
