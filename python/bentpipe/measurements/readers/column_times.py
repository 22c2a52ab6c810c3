"""Columns of times: since 1970 or the start of a measurement, as numbers or in ISO 8601."""

from __future__ import annotations

import re
from types import MappingProxyType

import polars as pl

from bentpipe.measurements.readers.cells import Cells
from bentpipe.measurements.readers.measurement import ReadHints

SECONDS = MappingProxyType({"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})
#: The unit of a time follows from its magnitude if it lies in these years [s]: 2000 to 2100.
_ERA_S = (946_684_800, 4_102_444_800)
#: Times at or above this [ns], in 1973, count from 1970; smaller ones from the start of the measurement.
_CLOCK_NS = 10**17
_SCALES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: The note on relative times.
COUNTED = "times are relative to its start"
#: The note on instants without a time zone.
NO_ZONE = "its times have no zone: taken for UTC"


def since(cells: Cells, place: int, unit_s: float) -> pl.Series:
    """Return a column of times in whole nanoseconds, since 1970 or the start of the measurement."""
    text = cells.text(place)
    # Nanoseconds need more digits than a float has.
    parts = text.str.extract_groups(r"^([0-9]{1,19})(?:\.([0-9]{1,15}))?$").struct.rename_fields(["whole", "part"])
    whole = parts.struct.field("whole").cast(pl.Int64, strict=False)
    scale = round(unit_s * 1e9)
    part = (pl.Series(["0."] * text.len()) + parts.struct.field("part").fill_null("0")).cast(pl.Float64, strict=False)
    bad = whole.is_null() | (whole > 2**62 // scale)
    cells.refuse(bad, text, "expected a time since 1970, or since the start")
    return whole * scale + (part * scale).round().cast(pl.Int64)


def of_clock(quantity: str, first_ns: int) -> bool:
    """Return whether times count from 1970, by the column's name or by the first time."""
    return quantity == "epoch" or first_ns >= _CLOCK_NS


def beyond(times: pl.Series, *, absolute: bool) -> pl.Series:
    """Return which times of `since` are out of range: outside 2000 to 2100 if absolute, else since 1970."""
    if absolute:
        return ~times.is_between(_ERA_S[0] * 10**9, _ERA_S[1] * 10**9)
    return times >= _CLOCK_NS


def expected_time(unit_s: float, first: str) -> str:
    """Return the `expected …` part of a message on a time; `first` is the first time of the column."""
    unit = next(name for name, scale in SECONDS.items() if scale == unit_s)
    size = era(first)
    rather = f" (by its magnitude it is in {size}; try `units`)" if size not in (None, unit) else ""
    return f"expected a time of 2000 to 2100 in {unit} since 1970, or times since the start in all rows{rather}"


def counted_from(times: pl.Series, hints: ReadHints, notes: list[str]) -> tuple[pl.Series, bool]:
    """Convert times of `since` to times since 1970 [ns]; return them, and whether they are a wall clock's."""
    if bool((times >= _CLOCK_NS).any()):
        return times, True
    notes.append(COUNTED + ("" if hints.start_unix_ns is not None else " (`start` sets it)"))
    return times + (hints.start_unix_ns or 0), hints.start_unix_ns is not None


def instants_of(cells: Cells, place: int, notes: list[str]) -> pl.Series:
    """Parse times in ISO 8601, or numbers since 1970 whose magnitude gives the unit."""
    text = cells.text(place)
    unit = era(str(text[0]))
    if unit is not None:
        notes.append(by_size(unit))
        scale = 10**9 // _SCALES[unit]
        parts = text.str.extract_groups(r"^([0-9]{1,19})(?:(\.[0-9]{1,15})[0-9]*)?$").struct.unnest()
        whole = parts.to_series(0).cast(pl.Int64, strict=False)
        part = parts.to_series(1).fill_null(".0")
        low, high = (edge * _SCALES[unit] for edge in _ERA_S)
        cells.refuse(
            ~whole.is_between(low, high).fill_null(value=False),
            text,
            f"expected a time of 2000 to 2100 in {unit} since 1970, as the first row has it",
        )
        fraction = (pl.Series(["0"] * text.len()) + part).cast(pl.Float64, strict=False)
        return whole * scale + (fraction * scale).round().cast(pl.Int64)
    instants, naive = parse_instants(text)
    bad = instants.is_null() & (text != "\0")
    cells.refuse(bad, text, "expected a time as 2026-05-10T09:00:00Z, or seconds since 1970")
    if naive:
        notes.append(NO_ZONE)
    return instants


def by_size(unit: str) -> str:
    """Return the note on times whose unit follows from their magnitude."""
    return f"its times are read as {unit} since 1970, by their magnitude"


def parse_instants(text: pl.Series) -> tuple[pl.Series, bool]:
    """Parse ISO 8601 times, with ``T`` or a blank, as ns since 1970 (null: invalid); and whether any lacks a zone."""
    parts = text.str.extract_groups(
        r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?[0-9]*(Z|z| ?UTC)?"
        r"(?:([+-])([0-9]{2}):?([0-9]{2}))?$"
    ).struct.rename_fields(["date", "time", "part", "z", "sign", "h", "m"])
    frame = parts.struct.unnest()
    seconds = (frame["date"] + " " + frame["time"]).str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)
    nanos = frame["part"].fill_null("").str.pad_end(9, "0").cast(pl.Int64)
    offset_s = frame["h"].fill_null("0").cast(pl.Int64) * 3600 + frame["m"].fill_null("0").cast(pl.Int64) * 60
    signed = offset_s * pl.select(pl.when(frame["sign"] == "-").then(-1).otherwise(1)).to_series()
    stamps = seconds.dt.timestamp("ms") // 1000 - signed
    # The range of 64-bit nanoseconds since 1970, without negative times.
    stamps = stamps.set((stamps < 0) | (stamps >= 2**33), None)
    naive = bool((frame["date"].is_not_null() & frame["z"].is_null() & frame["sign"].is_null()).any())
    return stamps * 10**9 + nanos, naive


def era(text: str) -> str | None:
    """Return the unit in which a number is an instant of 2000 to 2100; None: in no unit."""
    if not re.fullmatch(r"[0-9]{9,19}(\.[0-9]{1,15})?", text):
        return None
    value = float(text)
    return next((unit for unit, scale in _SCALES.items() if _ERA_S[0] <= value / scale < _ERA_S[1]), None)
