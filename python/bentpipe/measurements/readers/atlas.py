"""Parser for RIPE Atlas (atlas.ripe.net/docs, "Measurement result format"): ping and traceroute results of its API.

A file has lists of objects, objects, or a concatenation of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.checked import MAX_RTT_MS, count_of, documents, member, number, text_of
from bentpipe.measurements.readers.measurement import Measurement, ReadHints

_MARKS = (b'"prb_id"', b'"msm_id"')
#: Default interval between the packets of a ping [s]; a result does not state it.
_PACKET_S = 1
_LATEST_S = 4e9
_KINDS = {"ICMP": "icmp", "UDP": "udp", "TCP": "tcp"}


def is_atlas(head: bytes) -> bool:
    """Return whether a text with this beginning is a result of RIPE Atlas."""
    text = head.lstrip()
    first = text[:1]
    if first not in (b"[", b"{"):
        return False
    return all(mark in text for mark in _MARKS) or (b'"fw"' in text and b'"dst_addr"' in text and b'"lts"' in text)


def measure(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return pings as `probes` and traceroutes as `hops`; each Atlas probe is a site, ``probe-1004876``.

    Raises:
        UserError: Not results of Atlas, or none of these two kinds; the place is named.
    """
    pings: list[tuple[Any, ...]] = []
    hops: list[tuple[Any, ...]] = []
    other: dict[str, int] = {}
    unsent = 0
    for place, result in _results(data, where):
        kind = text_of(place, result, "type") if "type" in result else _kind(result)
        if kind == "ping":
            pings += _ping(place, result)
            unsent += sum(_unsent(answer) for answer in member(place, result, "result", list))
        elif kind == "traceroute":
            hops += _traceroute(place, result)
        else:
            other[kind] = other.get(kind, 0) + 1
    notes = [f"{count} results of kind {kind} are left out" for kind, count in sorted(other.items())]
    if unsent:
        notes.append(f"{unsent} packets were never sent (an error of the probe): no rows, and no losses")
    tables = {}
    if pings:
        schema = {
            "unix_ns": pl.Int64,
            "site": pl.String,
            "target": pl.String,
            "kind": pl.String,
            "rtt_ms": pl.Float64,
            "duplicate": pl.Boolean,
        }
        tables["probes"] = pl.DataFrame(pings, schema=schema, orient="row").sort("unix_ns", maintain_order=True)
        notes.append("times are those of the results, in whole seconds; packets of a ping are put 1 s apart")
    if hops:
        names = {"probe": pl.String, "target": pl.String, "unix_ns": pl.Int64}
        answer = {"ttl": pl.Int64, "address": pl.String, "rtt_ms": pl.Float64}
        tables["hops"] = pl.DataFrame(hops, schema={**names, **answer}, orient="row")
    if not tables:
        raise UserError("holds no ping and no traceroute with a result", where=where)
    return Measurement(tables, notes=tuple(notes))


def _results(data: bytes, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    entries = (
        entry
        for document, _ in documents(where, data)
        for entry in (document if isinstance(document, list) else [document])
    )
    for index, entry in enumerate(entries):
        place = f"{where}: [{index}]"
        if not isinstance(entry, dict):
            raise UserError(f"{shown(entry)} is no result", where=place)
        yield place, entry


def _kind(result: dict[str, Any]) -> str:
    """Return the kind of a result of the first firmwares, which lacks it: a traceroute has hops, a ping has counts."""
    answers = result.get("result")
    if isinstance(answers, list) and any(isinstance(answer, dict) and "hop" in answer for answer in answers):
        return "traceroute"
    return "ping" if "sent" in result and "rcvd" in result else "unknown"


def _when_ns(place: str, result: dict[str, Any]) -> int:
    stamp = member(place, result, "timestamp", (int, float))
    return int(number(f"{place}.timestamp", stamp, 0, _LATEST_S, "s")) * 10**9


def _site(place: str, result: dict[str, Any]) -> str | None:
    return f"probe-{count_of(place, result, 'prb_id')}" if "prb_id" in result else None


def _target(place: str, result: dict[str, Any]) -> str | None:
    known = "dst_addr" if "dst_addr" in result else "dst_name"
    return text_of(place, result, known) if known in result else None


def _rtt(place: str, answer: dict[str, Any]) -> float | None:
    return number(f"{place}.rtt", answer["rtt"], 0, MAX_RTT_MS, "ms") if "rtt" in answer else None


def _ping(place: str, result: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    at, site, target = _when_ns(place, result), _site(place, result), _target(place, result)
    kind = _KINDS.get(str(result.get("proto", "ICMP")).upper(), "icmp")
    sent = 0
    for index, answer in enumerate(member(place, result, "result", list)):
        here = f"{place}.result[{index}]"
        if not isinstance(answer, dict):
            raise UserError(f"{shown(answer)} is no answer", where=here)
        if _unsent(answer):
            continue
        again = bool(answer.get("dup"))
        when = at + max(0, sent - again) * _PACKET_S * 10**9
        yield when, site, target, kind, _rtt(here, answer), again
        sent += not again


def _unsent(answer: Any) -> bool:  # noqa: ANN401 - JSON is anything
    """Return whether the probe could not send this packet (``"error": "sendto failed: Network is unreachable"``)."""
    return isinstance(answer, dict) and "error" in answer and "rtt" not in answer


def _traceroute(place: str, result: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    about = _site(place, result), _target(place, result), _when_ns(place, result)
    for index, hop in enumerate(member(place, result, "result", list)):
        here = f"{place}.result[{index}]"
        if not isinstance(hop, dict) or "error" in hop:
            continue  # the probe could not send
        ttl = count_of(here, hop, "hop")
        for number_in, answer in enumerate(member(here, hop, "result", list)):
            there = f"{here}.result[{number_in}]"
            if not isinstance(answer, dict):
                raise UserError(f"{shown(answer)} is no answer", where=there)
            if "late" in answer:  # the answer to a packet of an earlier traceroute
                continue
            address = text_of(there, answer, "from") if "from" in answer else None
            yield *about, ttl, address, _rtt(there, answer)
