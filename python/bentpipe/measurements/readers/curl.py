"""Parser for ``curl -w '%{json}'``: one object per transfer (everything.curl.dev, "Write out": times in seconds)."""

from __future__ import annotations

from typing import Any

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.checked import MAX_COUNT, count_if, documents, member, number_of
from bentpipe.measurements.readers.reading import Arrivals, Flow, Reading

_MARKS = (b'"time_total":', b'"size_download":', b'"response_code":')
#: Moments of a transfer, relative to its start.
_TIMES = ("namelookup", "connect", "appconnect", "pretransfer", "starttransfer", "total")
#: Longest transfer accepted [s]: 30 days.
_MAX_S = 30 * 86_400.0


def is_curl(head: bytes) -> bool:
    """Return whether a text with this beginning is curl's JSON."""
    return head.lstrip().startswith(b"{") and all(mark in head for mark in _MARKS)


def read(data: bytes, where: str, arrivals: Arrivals | None = None) -> Reading:
    """Parse one flow per transfer. Its counts: bytes, ``time_…_s`` from its start, mean rate, HTTP status.

    A transfer that sent more than it received is an upload. It has ``sent_bps`` (bytes written to the socket) and no
    goodput, which only the receiver knows.

    curl prints no timestamps. With `arrivals`, a transfer began its total time before its line arrived. That is the
    latest possible start: the line of the next transfer may follow in the same write.

    Raises:
        UserError: Not objects of curl; the place is named.
    """
    flows = []
    version = None
    objects = _objects(data, where)
    for index, (entry, end) in enumerate(objects):
        place = f"{where}: transfer {index + 1}"
        times_s = {f"time_{name}_s": number_of(place, entry, f"time_{name}", _MAX_S, "s") for name in _TIMES}
        version = str(member(place, entry, "curl_version", str)).split(" ")[0].removeprefix("libcurl/")[:40]
        known = None if arrivals is None else arrivals.at(end)
        received = int(number_of(place, entry, "size_download", MAX_COUNT, "bytes"))
        sent = int(number_of(place, entry, "size_upload", MAX_COUNT, "bytes"))
        received_bps = 8.0 * number_of(place, entry, "speed_download", 1e14, "bytes/s")
        sent_bps = 8.0 * number_of(place, entry, "speed_upload", 1e14, "bytes/s")
        sends = sent > received
        counts: dict[str, float | int | str | None] = {
            "received_bytes": received,
            "sent_bytes": sent,
            "goodput_bps": None if sends else received_bps,
            "sent_bps": sent_bps if sends else None,
            "http_status": int(number_of(place, entry, "http_code", 999, "")),
            "exit_code": count_if(place, entry, "exitcode"),
            **times_s,
        }
        start_ns = None if known is None else known - round(times_s["time_total_s"] * 1e9)
        url = str(member(place, entry, "url_effective", str))[:2000]
        protocol = "UDP" if str(entry.get("http_version")) == "3" else "TCP"
        flows.append(Flow(url, protocol, sends=sends, start_unix_ns=start_ns, counts=counts))
    return Reading("curl", version, flows, {"transfers": [entry for entry, _ in objects]})


def _objects(data: bytes, where: str) -> list[tuple[dict[str, Any], int]]:
    """Return the concatenated JSON objects, each with the byte offset of its end."""
    objects: list[tuple[dict[str, Any], int]] = []
    for entry, end in documents(where, data):
        if not isinstance(entry, dict):
            raise UserError(f"transfer {len(objects) + 1}: {shown(entry)} is no object", where=where)
        objects.append((entry, end))
    if not objects:
        raise UserError("is empty", where=where)
    return objects
