"""Read a terminal's answers as JSON from grpcurl: status, history, obstruction map, location.

A file has one or more concatenated answers. protobuf's JSON has names in camel case, 64-bit numbers as text, and
enumerations by name (protobuf.dev, "ProtoJSON Format"). Unknown fields are ignored; unknown enumeration names are kept
as text.
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
from bentpipe.measurements.readers.measurement import SECOND_NS, Measurement, ReadHints
from bentpipe.times import format_utc

_MARK = re.compile(rb'"(?:dishGetStatus|dishGetHistory|dishGetObstructionMap|getLocation|dishGetDiagnostics)":')

Rows = list[dict[str, Any]]
_Record = TypeVar("_Record")


def is_grpcurl(head: bytes) -> bool:
    """Return whether a text with this beginning is an answer of a terminal."""
    return head.lstrip().startswith(b"{") and bool(_MARK.search(head))


def measure(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Read status and history as `dish_samples`, outages and locations as `dish_events`, maps as `dish_maps`.

    An answer has no time. The event log of newer firmware has one; without it `hints` or 1970 dates it.
    Answers are placed a second apart. A history's newest sample has the time of its answer, and the others precede it a
    second apart. Outages have the terminal's own times.

    Raises:
        UserError: The file has no such answers (the message names the place), or the extra `dish` is not installed.
    """
    require_extra()
    result = _Tables()
    at_ns = (hints.start_unix_ns or 0) + _history_span_ns(data, where)
    for index, answer in enumerate(_answers(data, where)):
        place = f"{where}: answer {index + 1}"
        for name, parse in _ANSWERS.items():
            if isinstance(answer.get(name), dict):
                parse(answer[name], place, at_ns, result)
        at_ns += SECOND_NS
    tables = {
        name: pl.DataFrame(rows, schema=dict(columns)).sort("t_unix_ns", maintain_order=True)
        for name, rows, columns in (
            ("dish_samples", result.samples, SAMPLES),
            ("dish_events", result.events, EVENTS),
            ("dish_maps", result.maps, MAPS),
        )
        if rows
    }
    if not tables:
        raise UserError(f"{where}: holds no answer of a terminal with data")
    if hints.start_unix_ns is None and result.log is not None:
        start_unix_ns = result.log[0] - result.log[1]
        dated = measure(data, where, replace(hints, start_unix_ns=start_unix_ns))
        note = f"dated by its event log, which was current at {format_utc(result.log[0])}"
        return replace(dated, notes=(note, *result.notes))
    begins = "in 1970" if hints.start_unix_ns is None else "at `start`"
    notes = (f"no times in it: it begins {begins}", *result.notes)
    return Measurement(tables, "relative" if hints.start_unix_ns is None else "utc", notes=notes, counted=True)


@dataclass
class _Tables:
    """Rows collected from the answers.

    Attributes:
        samples: Rows of `SAMPLES`.
        events: Rows of `EVENTS`.
        maps: Rows of `MAPS`.
        notes: Notes about ignored data.
        log: Current time of the first event log, and the time assigned to its answer [ns since 1970].
    """

    samples: Rows = field(default_factory=list)
    events: Rows = field(default_factory=list)
    maps: Rows = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    log: tuple[int, int] | None = None


def _answers(data: bytes, where: str) -> list[dict[str, Any]]:
    """Return the concatenated JSON objects."""
    answers: list[dict[str, Any]] = []
    for entry, _ in documents(where, data):
        if not isinstance(entry, dict):
            raise UserError(f"{where}: answer {len(answers) + 1}: {shown(entry)} is not an object")
        answers.append(entry)
    return answers


def _history_span_ns(data: bytes, where: str) -> int:
    """Return the time span of the first answer's history [ns], so that no sample precedes the start."""
    for answer in _answers(data, where):
        history = answer.get("dishGetHistory")
        series = history.get("popPingLatencyMs") if isinstance(history, dict) else None
        return max(0, len(series) - 1) * SECOND_NS if isinstance(series, list) else 0
    return 0


#: First of the numbers that replace unknown enumeration names; chosen here: above any that firmware uses.
_FIRST_UNKNOWN = 1_000_000_000


def _message(name: str, value: dict[str, Any], place: str, labels: dict[str, str] | None = None) -> Any:  # noqa: ANN401 - protobuf has no types of its own
    """Parse the message of an answer. `labels` receives unknown enumeration names, by their number as text."""
    from google.protobuf import json_format

    from bentpipe.measurements.dish.wire import all_firmware

    wire = all_firmware()
    labels = {} if labels is None else labels
    try:
        value = _numbered(value, wire.message(name).DESCRIPTOR, labels)
        return json_format.ParseDict(value, wire.message(name)(), ignore_unknown_fields=True, descriptor_pool=wire.pool)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UserError(f"{place}: is not a {name} ({str(error).partition(chr(10))[0][:120]})") from None


def _record(
    parse: Callable[[Any], _Record], name: str, value: dict[str, Any], place: str, labels: dict[str, str]
) -> _Record:
    """Parse a message with `parse`; errors name the place."""
    try:
        return parse(_message(name, value, place, labels))
    except UserError as error:
        raise UserError(f"{place}: {error}" if place not in str(error) else str(error)) from None


def _numbered(value: Any, kind: Any, labels: dict[str, str]) -> Any:  # noqa: ANN401 - JSON and protobuf
    """Replace unknown enumeration names in `value` by numbers; otherwise protobuf would read them as zero."""
    if not isinstance(value, dict):
        return value
    converted = {}
    for key, entry in value.items():
        field = kind.fields_by_camelcase_name.get(key) or kind.fields_by_name.get(key)
        if field is not None and field.enum_type is not None:
            converted[key] = (
                [_number(one, field.enum_type, labels) for one in entry]
                if isinstance(entry, list)
                else _number(entry, field.enum_type, labels)
            )
        elif field is not None and field.message_type is not None:
            converted[key] = (
                [_numbered(one, field.message_type, labels) for one in entry]
                if isinstance(entry, list)
                else _numbered(entry, field.message_type, labels)
            )
        else:
            converted[key] = entry
    return converted


def _number(entry: Any, kind: Any, labels: dict[str, str]) -> Any:  # noqa: ANN401 - JSON and protobuf
    if not isinstance(entry, str) or entry in kind.values_by_name or re.fullmatch(r"-?[0-9]+", entry):
        return entry
    number = _FIRST_UNKNOWN + len(labels)
    labels[str(number)] = entry[:60] if entry.isprintable() else shown(entry[:60])
    return number


def _status(value: dict[str, Any], place: str, at_ns: int, into: _Tables) -> None:
    from bentpipe.measurements.dish.status import parse_status

    labels: dict[str, str] = {}
    message = _message("DishGetStatusResponse", value, place, labels)
    status = parse_status(message, message.SerializeToString())
    row = {name: getattr(status, name) for name in SAMPLES if hasattr(status, name)}
    row = {name: labels.get(entry, entry) if isinstance(entry, str) else entry for name, entry in row.items()}
    into.samples.append({"t_unix_ns": at_ns, "source": "status", **row})


def _history(value: dict[str, Any], place: str, at_ns: int, into: _Tables) -> None:
    from bentpipe.measurements.dish.history import parse_history

    labels: dict[str, str] = {}
    history = _record(lambda message: parse_history(message, labels), "DishGetHistoryResponse", value, place, labels)
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
        into.samples.append({"t_unix_ns": at, "source": "history", "counter": counter, **row})
    for outage in history.outages:
        about: dict[str, Any] = {"start_unix_ns": outage.start_unix_ns, "duration_s": outage.duration_s}
        about |= {"cause": outage.cause, "did_switch": outage.did_switch}
        into.events.append({"t_unix_ns": outage.end_unix_ns, "kind": "outage", **about})
    if history.undated:
        into.notes.append(f"{place}: outages without a usable time left out: {history.undated}")
    if history.other_events:
        listed = ", ".join(f"{count} {reason}" for reason, count in list(history.other_events.items())[:4])
        more = ", …" if len(history.other_events) > 4 else ""
        into.notes.append(f"{place}: events that are no outages left out: {listed}{more}")
    if history.log_unix_ns is not None and into.log is None:
        into.log = (history.log_unix_ns, at_ns)


def _map(value: dict[str, Any], place: str, at_ns: int, into: _Tables) -> None:
    from bentpipe.measurements.dish.obstruction import parse_map

    labels: dict[str, str] = {}
    obstruction_map = _record(parse_map, "DishGetObstructionMapResponse", value, place, labels)
    if not obstruction_map.quality.size:
        raise UserError(f"{place}: an obstruction map without a pixel")
    rows, columns = obstruction_map.quality.shape
    quality = obstruction_map.quality.ravel()
    observed = np.flatnonzero(quality >= 0)
    into.maps.append(
        {
            "t_unix_ns": at_ns,
            "rows": rows,
            "columns": columns,
            "max_theta_deg": obstruction_map.max_theta_deg or None,
            "frame": labels.get(obstruction_map.frame, obstruction_map.frame),
            "whole": True,
            "pixel": observed.tolist(),
            "quality": quality[observed].tolist(),
        }
    )


def _location(value: dict[str, Any], place: str, at_ns: int, into: _Tables) -> None:
    lla = _message("GetLocationResponse", value, place).lla
    _note_location((lla.lat, lla.lon, lla.alt), place, at_ns, into)


def _diagnostics(value: dict[str, Any], place: str, at_ns: int, into: _Tables) -> None:
    location = _message("DishGetDiagnosticsResponse", value, place).location
    if location.enabled:
        where = (location.latitude, location.longitude, location.altitude_meters)
        _note_location(where, place, at_ns, into)


def _note_location(where: tuple[float, float, float], place: str, at_ns: int, into: _Tables) -> None:
    """Add a location event in the form of a recording."""
    if not all(low <= number <= high for number, (low, high) in zip(where, RANGES.values(), strict=True)):
        raise UserError(f"{place}: {shown(where)} is not a location; expected latitude, longitude and altitude")
    text = "{:.6f},{:.6f},{:.1f}".format(*where)
    into.events.append({"t_unix_ns": at_ns, "kind": "location", "text": text})


_ANSWERS: dict[str, Callable[[dict[str, Any], str, int, _Tables], None]] = {
    "dishGetStatus": _status,
    "dishGetHistory": _history,
    "dishGetObstructionMap": _map,
    "getLocation": _location,
    "dishGetDiagnostics": _diagnostics,
}
