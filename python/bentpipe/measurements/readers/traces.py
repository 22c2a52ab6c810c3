"""Parsers for emulator traces: mahimahi's packet deliveries and LeoReplayer's delays, one number per line.

mahimahi (mahimahi-traces README; mm-link(1)): a line is a time in whole milliseconds at which 1500 bytes may leave;
lines repeat and never decrease. An opportunity at millisecond t is the capacity of the millisecond that ends at t.
LeoReplayer (SpaceNetLab/LeoCC, traces/README.md): line i is the one-way delay [ms] of the i-th 10 ms.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.blocks import lines_of, without_cut
from bentpipe.measurements.readers.checked import MAX_RTT_MS
from bentpipe.measurements.readers.measurement import Measurement, ReadHints

#: Size of one delivery opportunity [bit]: 1500 bytes.
OPPORTUNITY_BITS = 12_000
#: Width of a measured capacity's steps [s]; chosen here, as `bentpipe profile convert` does: ten packets at 1 Mbit/s.
BIN_S = 0.1
#: The step of a trace of delays [s] (LeoCC, traces/README.md).
DELAY_STEP_S = 0.01
#: Longest trace accepted [ms]: 31 days, the same as for a Profile.
MAX_MS = 31 * 86_400_000
#: Number of lines at which delays do not ascend by chance; chosen here.
_SURE = 50
_NUMBERS = re.compile(rb"(?:[ \t]*[0-9]{1,12}[ \t]*\r?\n)+[ \t]*[0-9]{0,12}[ \t]*\r?\Z")
_DECIMALS = re.compile(rb"(?:[ \t]*[0-9]{1,9}(?:\.[0-9]{1,9})?[ \t]*\r?\n)+[ \t0-9.]*\r?\Z")


def is_mahimahi(head: bytes) -> bool:
    """Return whether a text with this beginning is a packet-delivery trace: ascending whole numbers."""
    return bool(_NUMBERS.match(head)) and _ascends(head)


def is_delays(head: bytes) -> bool:
    """Return whether a text with this beginning is a delay trace: numbers that do not ascend."""
    return bool(_DECIMALS.match(head)) and not _ascends(head) and len(head.split()) >= 3


def _ascends(head: bytes) -> bool:
    """Return whether the complete lines of a text of numbers never decrease, and are not all equal."""
    values = [float(line) for line in head.split(b"\n")[:-1] if line.strip()]
    return all(a <= b for a, b in pairwise(values)) and len(set(values)) > 1


def measure_mahimahi(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return the capacity in steps of `BIN_S`, as rows of `links`.

    Raises:
        UserError: A line that is not a time, or times that decrease; the line is named.
    """
    data, cut = without_cut(data)
    times_ms = opportunities_ms(data, where)
    notes = [f"capacity in steps of {BIN_S:g} s", *filter(None, [cut])]
    if times_ms.size < _SURE and times_ms[-1] < MAX_RTT_MS and times_ms.size == np.unique(times_ms).size:
        notes.append("few lines: read as packet times (mahimahi); try `format` leoreplayer if they are delays")
    edges_s, bps = binned_bps(times_ms, BIN_S)
    table = pl.DataFrame(
        {"t_s": edges_s[1:], "duration_s": np.diff(edges_s), "capacity_bps": bps},
    ).with_columns(pl.lit(hints.direction, pl.String).alias("direction"))
    return Measurement({"links": table}, "relative", notes=tuple(notes))


def measure_delays(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Return one-way delays every `DELAY_STEP_S`, as rows of `links`.

    Raises:
        UserError: A line that is not a delay in milliseconds; it is named.
    """
    data, cut = without_cut(data)
    delay_ms = _numbers(data, where, pl.Float64, "a delay in ms").to_numpy()
    if delay_ms.max() > MAX_RTT_MS:
        line = int(np.argmax(delay_ms)) + 1
        raise UserError(
            f"a delay of {delay_ms.max():g} ms", where=f"{where}:{line}", expected=f"at most {MAX_RTT_MS:g} ms"
        )
    table = pl.DataFrame(
        {"t_s": np.arange(1, delay_ms.size + 1) * DELAY_STEP_S, "delay_ms": delay_ms},
    ).with_columns(pl.lit(DELAY_STEP_S).alias("duration_s"), pl.lit(hints.direction, pl.String).alias("direction"))
    notes = [f"one-way delays, one every {DELAY_STEP_S:g} s, as in LeoReplayer", *filter(None, [cut])]
    return Measurement({"links": table}, "relative", notes=tuple(notes))


def opportunities_ms(data: bytes, where: str) -> NDArray[np.int64]:
    """Return the times of a packet-delivery trace [ms]; shape (n,).

    Raises:
        UserError: A line that is not a time, times that decrease, or no time above 0; the line is named.
    """
    times = _numbers(data, where, pl.Int64, "a time in whole milliseconds").to_numpy()
    back = np.flatnonzero(np.diff(times) < 0)
    if back.size:
        at = int(back[0])
        raise UserError(
            f"{times[at + 1]} ms comes after {times[at]} ms; times must not decrease",
            where=f"{where}:{_line_of(data, at + 1)}",
        )
    if times[-1] == 0:
        raise UserError(
            "holds no time above 0 ms", where=where, expected="a packet-delivery trace (one time in ms a line)"
        )
    if times[-1] > MAX_MS:
        raise UserError(f"ends at {times[-1]} ms", where=where, expected=f"at most {MAX_MS} (31 days)")
    opportunities: NDArray[np.int64] = times
    return opportunities


def binned_bps(times_ms: NDArray[np.int64], bin_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bin edges [s], shape (n + 1,), and the capacity per bin [bit/s], shape (n,).

    The last bin ends with the trace.
    """
    end_s = int(times_ms[-1]) / 1e3
    edges = np.append(np.arange(0.0, end_s - 1e-9, bin_s), end_s)
    # An opportunity at t belongs to the millisecond that ends at t; one at 0 to the first bin.
    place = np.maximum(np.searchsorted(edges, times_ms / 1e3 - 1e-9, side="left") - 1, 0)
    return edges, np.bincount(place, minlength=edges.size - 1) * OPPORTUNITY_BITS / np.diff(edges)


def _numbers(data: bytes, where: str, kind: type[pl.DataType], expected: str) -> pl.Series:
    lines = lines_of(data).str.strip_chars()
    filled = lines.filter(lines != "")
    pattern = "^[0-9]{1,12}$" if kind == pl.Int64 else r"^[0-9]{1,9}(\.[0-9]{1,9})?$"
    good = filled.str.contains(pattern)
    if not good.all():
        place = int((~good).arg_max() or 0)
        raise UserError(f"{shown(filled[place])} is not {expected}", where=f"{where}:{_line_of(data, place)}")
    if not filled.len():
        raise UserError("is empty", where=where, expected=f"{expected} a line")
    return filled.cast(kind)


def _line_of(data: bytes, place: int) -> int:
    """Return the line number of the `place`-th line, from 0, that is not blank."""
    count = -1
    for number, line in enumerate(data.split(b"\n"), 1):
        count += bool(line.strip())
        if count == place:
            return number
    return place + 1
