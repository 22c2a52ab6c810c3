"""Profiles from measured round-trip times: what ping and irtt readers, and plain tables of them, have in common.

Half of each round trip is taken for each direction (basis ``half_rtt``), at the time the probe was sent. A lost probe
opens a gap (``valid`` false) that lasts to the next reply: nobody knows in which direction it was lost, or what its
delay would have been.

Also the reader of plain tables: ``time rtt_ms`` or ``time seq rtt_ms`` a line, separated by commas, tabs or blanks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.errors import UserError, shown
from bentpipe.files import read_text
from bentpipe.profiles.build import MAX_DURATION_S, Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, one_path
from bentpipe.readers.checked import MAX_RTT_MS

#: Where lost probes are absent rows without a number, a hole longer than this many median intervals is a gap. Chosen
#: here: probes meant to be evenly spaced are seen at one to three intervals after each other even when none is lost.
HOLE = 5.0

#: What a measured round trip holds already, so that nothing adds it again.
INCLUDES = ("queueing", "mac_jitter")


@dataclass(frozen=True)
class Probes:
    """Probes in the order they were sent.

    Attributes:
        sent_ns: When each was sent [ns since 1970].
        rtt_ms: Its round-trip time [ms]; NaN: lost.
        numbered: Whether lost probes stand among them; otherwise they are absent, and only holes tell of them.
    """

    sent_ns: NDArray[np.int64]
    rtt_ms: NDArray[np.float64]
    numbered: bool


def probes_of(table: pl.DataFrame, source: str) -> Probes:
    """Probes of a reader's table (columns of `bentpipe.runs.measured.PROBES`); `source` names the file in messages.

    Raises:
        UserError: There are several targets.
    """
    targets = table["target"].unique().sort().to_list()
    if len(targets) > 1:
        raise UserError(f"{source}: {len(targets)} targets ({targets[0]}, {targets[1]}, …); wanted one")
    rows = table.filter(~pl.col("duplicate")) if table["duplicate"].any() else table
    return Probes(rows["unix_ns"].to_numpy(), rows["rtt_ms"].fill_null(np.nan).to_numpy(), numbered=True)


def rtt_profile(probes: Probes, source: str, description: str, options: ReadOptions) -> Converted:
    """The Profile that `probes` saw; `source` names the file in messages.

    Raises:
        UserError: No reply at all, or a span longer than `MAX_DURATION_S`.
    """
    order = np.argsort(probes.sent_ns, kind="stable")
    sent, rtt = probes.sent_ns[order], probes.rtt_ms[order]
    fresh = np.concatenate([[True], np.diff(sent) > 0]) if sent.size else np.zeros(0, bool)
    notes = [f"{int((~fresh).sum())} probe(s) with the time of another left out"] if not fresh.all() else []
    sent, rtt = sent[fresh], rtt[fresh]
    lost = np.isnan(rtt)
    if lost.all():
        raise UserError(f"{source}: holds no reply; wanted at least one round-trip time")
    if (int(sent[-1]) - int(sent[0])) / 1e9 > MAX_DURATION_S:
        raise UserError(f"{source}: spans more than {MAX_DURATION_S / 86_400:g} days; are all times in the same unit?")
    t_s = (sent - sent[0]) / 1e9
    interval_s = float(np.median(np.diff(t_s))) if t_s.size > 1 else 1.0
    rtt = _hold(rtt)
    if not probes.numbered:
        t_s, rtt, lost = _holes(t_s, rtt, lost, interval_s)
    if lost.any():
        replies, count = int((~lost).sum()), int(lost.sum())
        what = (
            f"{count} of {replies + count} probes lost"
            if probes.numbered
            else f"{count} hole(s) between {replies} replies"
        )
        notes.append(f"{what}: gaps in the Profile")
    # A run of lost probes is one gap: its first row says so.
    keep = ~lost | np.concatenate([[True], ~lost[:-1]])
    delay = Points.of(t_s[keep], rtt[keep] / 2e3, ~lost[keep])
    side = Side(delay_s=delay, queue=options.limit())
    profile = single_hop_profile(
        name=options.name_for(source),
        hop="measured",
        start_unix_ns=int(sent[0]) if options.start_unix_ns is None else options.start_unix_ns,
        duration_s=float(t_s[-1]) + interval_s,
        basis="half_rtt",
        provenance=Provenance("measured", description, INCLUDES),
        up=side,
        down=side,
    )
    return Converted(profile, notes)


def read_rtt(paths: Paths, options: ReadOptions) -> Converted:
    """The Profile of a table of round-trip times.

    A line is ``time rtt_ms`` or ``time seq rtt_ms``, separated by commas, tabs or blanks; the first may be a heading,
    and ``#`` begins a comment. `time` is since 1970 in seconds, or in ms, µs or ns, told apart by its size; times
    before 1973 count as seconds since the start. An `rtt_ms` of -1 is a lost probe; absent lines are found as holes
    (`HOLE`).

    Raises:
        UserError: A line that is none of this; it is named.
    """
    path = one_path(paths, "a table of round-trip times")
    sent: list[int] = []
    rtts: list[float] = []
    scale = None
    columns = 0
    lost = False
    for count, line in enumerate(read_text(path).splitlines(), 1):
        where = f"{path}:{count}"
        fields = re.split(r"[,;\s]+", line.strip())
        if not line.strip() or line.lstrip().startswith("#") or (not sent and not columns and _is_heading(fields)):
            continue
        columns = columns or len(fields)
        if len(fields) != columns or columns not in (2, 3):
            wanted = f"{columns}, as before" if columns in (2, 3) else "time, rtt_ms or time, seq, rtt_ms"
            raise UserError(f"{where}: {len(fields)} column(s); wanted {wanted}")
        time = _decimal(where, "time", fields[0])
        scale = scale or _scale(time)
        ns = time * scale
        if not 0 <= ns < 2**62:
            raise UserError(f"{where}: time {shown(fields[0])} is out of range")
        rtt = _decimal(where, "rtt_ms", fields[-1])
        if rtt != -1 and not 0 <= rtt <= MAX_RTT_MS:
            raise UserError(
                f"{where}: rtt_ms is {shown(fields[-1])}; wanted 0 to {MAX_RTT_MS:g} ms, or -1 for a lost probe"
            )
        lost = lost or rtt == -1
        sent.append(int(ns))
        rtts.append(float(rtt) if rtt != -1 else np.nan)
    if not sent:
        raise UserError(f"{path}: holds no round-trip time")
    probes = Probes(np.array(sent, np.int64), np.array(rtts), numbered=lost)
    return rtt_profile(probes, str(path), f"round-trip times in {options.name_for(path)}", options)


def _hold(rtt: NDArray[np.float64]) -> NDArray[np.float64]:
    """NaN replaced by the last known value before it, or by the first known one at the beginning."""
    known = ~np.isnan(rtt)
    last = np.maximum.accumulate(np.where(known, np.arange(rtt.size), -1))
    last[last < 0] = int(np.argmax(known))
    return rtt[last]


def _holes(
    t_s: NDArray[np.float64], rtt: NDArray[np.float64], lost: NDArray[np.bool_], interval_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """A lost probe put one interval after the beginning of each hole."""
    before = np.flatnonzero(np.diff(t_s) > HOLE * interval_s)
    at = before + 1
    return np.insert(t_s, at, t_s[before] + interval_s), np.insert(rtt, at, rtt[before]), np.insert(lost, at, True)


def _is_heading(fields: list[str]) -> bool:
    return bool(re.match(r"[A-Za-z_]", fields[0]))


def _decimal(where: str, what: str, text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise UserError(f"{where}: {what} is {shown(text)}, not a number") from None
    if not value.is_finite() or abs(value) > 10**19:
        raise UserError(f"{where}: {what} is {shown(text)}; wanted a number of a usable size")
    return value


def _scale(time: Decimal) -> int:
    """Nanoseconds in the unit of an instant since 1970, by its size: 1e8 to 1e11 s are the years 1973 to 5138."""
    for limit, scale in ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3)):
        if time < limit:
            return scale
    return 1
