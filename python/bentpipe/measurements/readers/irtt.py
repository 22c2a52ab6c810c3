"""Parser for the JSON of irtt (github.com/heistp/irtt): ``irtt client -o -``.

A file may have several concatenated tests, as a shell's ``>>`` leaves them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.checked import MAX_RTT_MS, count_if, documents, member, number, text_of
from bentpipe.measurements.readers.measurement import Measurement, ReadHints
from bentpipe.measurements.readers.reading import Arrivals, Column, Flow, Reading

#: Top-level keys that only a document of irtt has.
_MARKS = (b'"irtt":', b'"json_format":')
_LOST = {"false": None, "true": "unknown", "true_up": "up", "true_down": "down"}


def is_irtt(head: bytes) -> bool:
    """Return whether a text with this beginning is irtt's JSON."""
    return head.lstrip().startswith(b"{") and all(mark in head for mark in _MARKS)


def read(data: bytes, where: str, arrivals: Arrivals | None = None) -> Reading:
    """Parse the probes of one test. One-way delays are differences of two clocks: valid if both ends are synchronised.

    Samples: ``seq``, ``t_s``, ``rtt_ms``, ``owd_up_ms``, ``owd_down_ms`` (null if lost), ``lost`` (null, ``up``,
    ``down``, ``unknown``). Times are by the client's clock.

    Raises:
        UserError: Not a document of irtt; the place is named.
    """
    tests = _tests(data, where)
    if len(tests) > 1:
        raise UserError(f"holds {len(tests)} tests", where=where, expected="one")
    return _reading(tests[0], where)


def _tests(data: bytes, where: str) -> list[Any]:
    if not (tests := [document for document, _ in documents(where, data)]):
        raise UserError("is empty", where=where, expected="a test of irtt")
    return tests


def _reading(document: Any, where: str) -> Reading:  # noqa: ANN401 - JSON is anything
    version = text_of(f"{where}: version", member(where, document, "version", dict), "irtt")
    trips = member(where, document, "round_trips", list)
    if not trips:
        raise UserError("round_trips is empty", where=where)
    columns: dict[str, Column] = {name: [] for name in ("seq", "t_s", "rtt_ms", "owd_up_ms", "owd_down_ms", "lost")}
    start_ns = _sent_ns(f"{where}: round_trips[0]", trips[0])
    for index, trip in enumerate(trips):
        place = f"{where}: round_trips[{index}]"
        columns["seq"].append(count_if(place, trip, "seqno"))
        columns["t_s"].append((_sent_ns(place, trip) - start_ns) / 1e9)
        # `true` and `false` may also be JSON booleans.
        lost = str(member(place, trip, "lost", (str, bool))).lower()
        if lost not in _LOST:
            raise UserError(shown(lost), where=f"{place}.lost", expected=", ".join(_LOST))
        columns["lost"].append(_LOST[lost])
        delays = member(place, trip, "delay", dict) if lost == "false" else {}
        columns["rtt_ms"].append(_ms(place, delays, "rtt", 0.0) if delays else None)
        for name, key in (("owd_up_ms", "send"), ("owd_down_ms", "receive")):
            # Unsynchronised clocks may give a negative delay; without server timestamps there is none.
            columns[name].append(_ms(place, delays, key, -MAX_RTT_MS) if key in delays else None)
    stats = member(where, document, "stats", dict)
    config = member(where, document, "config", dict)
    lost_up, lost_down = (sum(entry == way for entry in columns["lost"]) for way in ("up", "down"))
    received = sum(rtt is not None for rtt in columns["rtt_ms"])
    counts = {
        "sent_packets": len(trips),
        "received_packets": received,
        "lost_packets": len(trips) - received,
        "lost_up_packets": lost_up,
        "lost_down_packets": lost_down,
        "duplicates": count_if(f"{where}: stats", stats, "duplicates"),
        "late_packets": count_if(f"{where}: stats", stats, "late_packets"),
    }
    name = text_of(f"{where}: config", config, "remote_address")
    return Reading("irtt", version, [Flow(name, "UDP", None, start_ns, samples=columns, counts=counts)], stats)


def measure(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return the probes of all tests. Duplicates are only counted: irtt stores no times of them.

    Raises:
        UserError: See `read`.
    """
    tests = _tests(data, where)
    places = [where if len(tests) == 1 else f"{where}: test {index + 1}" for index in range(len(tests))]
    parts = [_probes(_reading(document, place)) for document, place in zip(tests, places, strict=True)]
    # A test that begins before the preceding one ends: the clock was set, or files were concatenated out of order.
    back = sum(int(ahead[0]["unix_ns"][-1] > behind[0]["unix_ns"][0]) for ahead, behind in pairwise(parts))
    return Measurement(
        {"probes": pl.concat([table for table, _, _ in parts]).sort("unix_ns", maintain_order=True)},
        clock_jumps=sum(jumps for _, jumps, _ in parts) + back,
        notes=tuple(dict.fromkeys(note for _, _, notes in parts for note in notes)),
    )


def _probes(reading: Reading) -> tuple[pl.DataFrame, int, list[str]]:
    """Return the probes of a test, the number of backward clock steps, and notes."""
    (flow,) = reading.flows
    samples = flow.samples
    rtt_ms = np.array(samples["rtt_ms"], np.float64)
    sent_ns = (flow.start_unix_ns or 0) + np.round(np.array(samples["t_s"], np.float64) * 1e9).astype(np.int64)
    arrived = sent_ns + np.nan_to_num(rtt_ms) * 1e6
    # Out of order: arrived after the answer to a later probe. The document is not in order of arrival.
    after = np.minimum.accumulate(np.where(np.isnan(rtt_ms), np.inf, arrived)[::-1])[::-1]
    late = np.append(after[1:] < arrived[:-1], False) & ~np.isnan(rtt_ms)
    table = pl.DataFrame(
        {
            "unix_ns": sent_ns,
            "target": pl.repeat(flow.name, sent_ns.size, eager=True),
            "kind": pl.repeat("udp", sent_ns.size, eager=True),
            "seq": pl.Series(samples["seq"], dtype=pl.Int64),
            "rtt_ms": pl.Series(samples["rtt_ms"], dtype=pl.Float64),
            "up_ms": pl.Series(samples["owd_up_ms"], dtype=pl.Float64),
            "down_ms": pl.Series(samples["owd_down_ms"], dtype=pl.Float64),
            "duplicate": pl.repeat(False, sent_ns.size, eager=True),
            "out_of_order": late,
        }
    ).sort("unix_ns", maintain_order=True)
    notes = [*reading.notes]
    if table["up_ms"].count():
        notes.append("one-way delays depend on two clocks: valid only as far as these are synchronised")
    if duplicates := flow.counts.get("duplicates"):
        notes.append(f"irtt counted {duplicates} duplicates, and stores no times of them")
    return table, int((np.diff(sent_ns) < 0).sum()), notes


def _sent_ns(place: str, trip: Any) -> int:  # noqa: ANN401 - JSON is anything
    client = member(place, member(place, trip, "timestamps", dict), "client", dict)
    wall = member(f"{place}.client.send", member(f"{place}.client", client, "send", dict), "wall", int)
    number(f"{place}.client.send.wall", wall, 0, 2**62, "ns")
    return int(wall)


def _ms(place: str, delays: dict[str, Any], key: str, low_ms: float) -> float:
    delay_ns = member(f"{place}.delay", delays, key, int)
    return number(f"{place}.delay.{key}", delay_ns, low_ms * 1e6, MAX_RTT_MS * 1e6, "ns") / 1e6
