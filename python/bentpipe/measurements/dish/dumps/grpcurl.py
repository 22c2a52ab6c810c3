"""A terminal's answers as JSON, as grpcurl prints them: status, history, obstruction map, location.

One answer or several behind each other. protobuf's JSON has names in camel case, 64-bit numbers as text, and
enumerations by name (protobuf.dev, "ProtoJSON Format"); fields that are not known here are passed over, and a name that
an enumeration has not here stays the terminal's word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.dish.dumps.tables import RANGES
from bentpipe.measurements.dish.extra import require_extra
from bentpipe.measurements.dish.recording.tables import EVENTS, MAPS, SAMPLES
from bentpipe.measurements.readers.checked import documents
from bentpipe.measurements.readers.measurement import SECOND_NS, Measurement, Said
from bentpipe.times import format_utc

_MARK = re.compile(rb'"(?:dishGetStatus|dishGetHistory|dishGetObstructionMap|getLocation|dishGetDiagnostics)":')

Rows = list[dict[str, Any]]
_Record = TypeVar("_Record")


def is_grpcurl(head: bytes) -> bool:
    """Whether a text that begins so is such an answer."""
    return head.lstrip().startswith(b"{") and bool(_MARK.search(head))


def measure(data: bytes, where: str, said: Said) -> Measurement:
    """Status and history as `dish_samples`, outages and locations as `dish_events`, maps as `dish_maps`.

    An answer does not say when it came: the event log of newer firmware does, and without one `said` or 1970 dates it.
    Answers are put a second apart; a history's newest sample is the answer's, and the others are a second apart before
    it. Outages have the terminal's own times.

    Raises:
        UserError: Not such answers; the place is named; or the extra `dish` is not installed.
    """
    require_extra()
    found = _Found()
    at_ns = (said.start_unix_ns or 0) + _behind_ns(data, where)
    for index, answer in enumerate(_answers(data, where)):
        place = f"{where}: answer {index + 1}"
        for name, take in _ANSWERS.items():
            if isinstance(answer.get(name), dict):
                take(answer[name], place, at_ns, found)
        at_ns += SECOND_NS
    tables = {
        name: pl.DataFrame(rows, schema=dict(columns)).sort("t_unix_ns", maintain_order=True)
        for name, rows, columns in (
            ("dish_samples", found.samples, SAMPLES),
            ("dish_events", found.events, EVENTS),
            ("dish_maps", found.maps, MAPS),
        )
        if rows
    }
    if not tables:
        raise UserError(f"{where}: holds no answer of a terminal with anything in it")
    if said.start_unix_ns is None and found.log is not None:
        start_unix_ns = found.log[0] - found.log[1]
        dated = measure(data, where, replace(said, start_unix_ns=start_unix_ns))
        note = f"dated by its event log, which was current at {format_utc(found.log[0])}"
        return replace(dated, notes=(note, *found.notes))
    begins = "in 1970" if said.start_unix_ns is None else "at --start"
    notes = (f"no times in it: it begins {begins}", *found.notes)
    return Measurement(tables, "relative" if said.start_unix_ns is None else "utc", notes=notes, counted=True)


@dataclass
class _Found:
    """What the answers hold so far.

    Attributes:
        samples: Rows of `SAMPLES`; `events` and `maps` likewise.
        notes: Lines on what was left out.
        log: When the first event log was current, and where its answer was put [ns since 1970].
    """

    samples: Rows = field(default_factory=list)
    events: Rows = field(default_factory=list)
    maps: Rows = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    log: tuple[int, int] | None = None


def _answers(data: bytes, where: str) -> list[dict[str, Any]]:
    """The objects one behind the other."""
    found: list[dict[str, Any]] = []
    for entry, _ in documents(where, data):
        if not isinstance(entry, dict):
            raise UserError(f"{where}: answer {len(found) + 1}: {shown(entry)} is no object")
        found.append(entry)
    return found


def _behind_ns(data: bytes, where: str) -> int:
    """How far back the first answer's history goes [ns], so that nothing is before the beginning."""
    for answer in _answers(data, where):
        history = answer.get("dishGetHistory")
        series = history.get("popPingLatencyMs") if isinstance(history, dict) else None
        return max(0, len(series) - 1) * SECOND_NS if isinstance(series, list) else 0
    return 0


#: Numbers that stand for names which an enumeration has not here; chosen here: above any that firmware uses.
_NAMELESS = 1_000_000_000


def _message(name: str, value: dict[str, Any], place: str, words: dict[str, str] | None = None) -> Any:  # noqa: ANN401 - protobuf has no types of its own
    """The message of an answer. `words` gets the terminal's own words for enumerations, by the text of a number."""
    from google.protobuf import json_format

    from bentpipe.measurements.dish.wire import everything

    wire = everything()
    words = {} if words is None else words
    try:
        value = _numbered(value, wire.message(name).DESCRIPTOR, words)
        return json_format.ParseDict(value, wire.message(name)(), ignore_unknown_fields=True, descriptor_pool=wire.pool)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UserError(f"{place}: is no {name} ({str(error).partition(chr(10))[0][:120]})") from None


def _record(
    taken: Callable[[Any], _Record], name: str, value: dict[str, Any], place: str, words: dict[str, str]
) -> _Record:
    """What `taken` makes of a message; who refuses that says where it was."""
    try:
        return taken(_message(name, value, place, words))
    except UserError as error:
        raise UserError(f"{place}: {error}" if place not in str(error) else str(error)) from None


def _numbered(value: Any, kind: Any, words: dict[str, str]) -> Any:  # noqa: ANN401 - JSON and protobuf
    """`value`, where names that an enumeration has not are numbers: without, they would be its zero."""
    if not isinstance(value, dict):
        return value
    found = {}
    for key, entry in value.items():
        field = kind.fields_by_camelcase_name.get(key) or kind.fields_by_name.get(key)
        if field is not None and field.enum_type is not None:
            found[key] = (
                [_number(one, field.enum_type, words) for one in entry]
                if isinstance(entry, list)
                else _number(entry, field.enum_type, words)
            )
        elif field is not None and field.message_type is not None:
            found[key] = (
                [_numbered(one, field.message_type, words) for one in entry]
                if isinstance(entry, list)
                else _numbered(entry, field.message_type, words)
            )
        else:
            found[key] = entry
    return found


def _number(entry: Any, kind: Any, words: dict[str, str]) -> Any:  # noqa: ANN401 - JSON and protobuf
    if not isinstance(entry, str) or entry in kind.values_by_name or re.fullmatch(r"-?[0-9]+", entry):
        return entry
    number = _NAMELESS + len(words)
    words[str(number)] = entry[:60] if entry.isprintable() else shown(entry[:60])
    return number


def _status(value: dict[str, Any], place: str, at_ns: int, found: _Found) -> None:
    from bentpipe.measurements.dish.status import status_of

    words: dict[str, str] = {}
    message = _message("DishGetStatusResponse", value, place, words)
    status = status_of(message, message.SerializeToString())
    row = {name: getattr(status, name) for name in SAMPLES if hasattr(status, name)}
    row = {name: words.get(entry, entry) if isinstance(entry, str) else entry for name, entry in row.items()}
    found.samples.append({"t_unix_ns": at_ns, "source": "status", **row})


def _history(value: dict[str, Any], place: str, at_ns: int, found: _Found) -> None:
    from bentpipe.measurements.dish.history import history_of

    words: dict[str, str] = {}
    history = _record(lambda message: history_of(message, words), "DishGetHistoryResponse", value, place, words)
    times = history.times_unix_ns(at_ns)
    columns = {
        "pop_ping_drop_rate": history.pop_ping_drop_rate,
        "pop_ping_latency_ms": history.pop_ping_latency_ms,
        "downlink_throughput_bps": history.downlink_throughput_bps,
        "uplink_throughput_bps": history.uplink_throughput_bps,
        "power_in_w": history.power_in_w,
    }
    known = {name: values.tolist() for name, values in columns.items() if len(values)}
    for index, (at, counter) in enumerate(zip(times.tolist(), history.counter.tolist(), strict=True)):
        row = {name: None if values[index] != values[index] else values[index] for name, values in known.items()}
        found.samples.append({"t_unix_ns": at, "source": "history", "counter": counter, **row})
    for outage in history.outages:
        about: dict[str, Any] = {"start_unix_ns": outage.start_unix_ns, "duration_s": outage.duration_s}
        about |= {"cause": outage.cause, "did_switch": outage.did_switch}
        found.events.append({"t_unix_ns": outage.end_unix_ns, "kind": "outage", **about})
    if history.undated:
        found.notes.append(f"{place}: outages without a usable time left out: {history.undated}")
    if history.other_events:
        listed = ", ".join(f"{count} {reason}" for reason, count in list(history.other_events.items())[:4])
        more = ", …" if len(history.other_events) > 4 else ""
        found.notes.append(f"{place}: events that are no outages left out: {listed}{more}")
    if history.log_unix_ns is not None and found.log is None:
        found.log = (history.log_unix_ns, at_ns)


def _map(value: dict[str, Any], place: str, at_ns: int, into: _Found) -> None:
    from bentpipe.measurements.dish.obstruction import map_of

    words: dict[str, str] = {}
    found = _record(map_of, "DishGetObstructionMapResponse", value, place, words)
    if not found.quality.size:
        raise UserError(f"{place}: an obstruction map without a pixel")
    rows, columns = found.quality.shape
    quality = found.quality.ravel()
    seen = np.flatnonzero(quality >= 0)
    into.maps.append(
        {
            "t_unix_ns": at_ns,
            "rows": rows,
            "columns": columns,
            "max_theta_deg": found.max_theta_deg or None,
            "frame": words.get(found.frame, found.frame),
            "whole": True,
            "pixel": seen.tolist(),
            "quality": quality[seen].tolist(),
        }
    )


def _location(value: dict[str, Any], place: str, at_ns: int, found: _Found) -> None:
    lla = _message("GetLocationResponse", value, place).lla
    _note_location((lla.lat, lla.lon, lla.alt), place, at_ns, found)


def _diagnostics(value: dict[str, Any], place: str, at_ns: int, found: _Found) -> None:
    location = _message("DishGetDiagnosticsResponse", value, place).location
    if location.enabled:
        where = (location.latitude, location.longitude, location.altitude_meters)
        _note_location(where, place, at_ns, found)


def _note_location(where: tuple[float, float, float], place: str, at_ns: int, found: _Found) -> None:
    """An event as a recording has it."""
    if not all(low <= number <= high for number, (low, high) in zip(where, RANGES.values(), strict=True)):
        raise UserError(f"{place}: {shown(where)} is no location; expected latitude, longitude and altitude")
    text = "{:.6f},{:.6f},{:.1f}".format(*where)
    found.events.append({"t_unix_ns": at_ns, "kind": "location", "text": text})


_ANSWERS: dict[str, Callable[[dict[str, Any], str, int, _Found], None]] = {
    "dishGetStatus": _status,
    "dishGetHistory": _history,
    "dishGetObstructionMap": _map,
    "getLocation": _location,
    "dishGetDiagnostics": _diagnostics,
}
