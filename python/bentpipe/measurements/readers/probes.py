"""Probes of one series from a tool's replies: adds rows for lost probes and marks late and duplicate replies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.readers.checked import MAX_RTT_MS
from bentpipe.measurements.readers.measurement import SECOND_NS, Clock, ReadHints
from bentpipe.measurements.readers.restarts import BACK_S, JUMP_S, WRAP, fits, median, restarts, spread, usual_ns

#: Most missing probes in a series; chosen here: about a day of one every 10 ms. More indicate corrupt numbers.
MOST_MISSING = 10_000_000
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Column = Ints | Floats | NDArray[np.bool_]


@dataclass(frozen=True)
class Answers:
    """The lines that a tool printed on one series, in print order.

    Attributes:
        seq: Sequence numbers as printed; shape (n,).
        sent_ns: Send times [ns since 1970]; for unanswered probes about the print time, 0: unknown; None: no times;
            shape (n,).
        rtt_ms: RTTs; NaN: unanswered; shape (n,).
        first: Number of the first probe; None: unknown, and probes before the first in `seq` do not count.
        sent: Number of probes sent by the tool's own count: one entry per series, where printed.
        wraps: Whether the numbers have 16 bits.
        exact: Whether `sent_ns` has send times, to within `BACK_S`, rather than possibly reply times.
        silent_times: Whether `sent_ns` is valid for unanswered lines too.
        whole: Whether this is known to be one series.
        span_s: Time from the first to the last probe by the tool's own count [s]; for logs without times.
        again: Lines that the tool itself marks as duplicates; None: none.
    """

    seq: Ints
    sent_ns: Ints | None
    rtt_ms: Floats
    first: int | None = None
    sent: tuple[int, ...] = ()
    wraps: bool = True
    exact: bool = False
    silent_times: bool = False
    span_s: float | None = None
    whole: bool = False
    again: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Series:
    """The probes of a series.

    Attributes:
        table: Columns `unix_ns`, `seq`, `rtt_ms`, `duplicate`, `out_of_order`, in time order.
        clock: As in `bentpipe.measurements.readers.measurement.Measurement`, like the other fields.
    """

    table: pl.DataFrame
    clock: Clock
    clock_jumps: int
    notes: tuple[str, ...]
    counted: bool = False


def series(answers: Answers, hints: ReadHints, where: str) -> Series:
    """Return the probes of `answers`.

    A missing number is a lost probe; its send time is interpolated between its neighbours. A second answer to a probe
    is a duplicate. An answer printed after that to a later probe is out of order. Restarted numbers begin another
    series; nothing is assumed about the time in between.

    Raises:
        UserError: There is no answer, no way to determine send times, or impossible numbers.
    """
    if np.isnan(answers.rtt_ms).all():
        raise UserError("holds no reply", where=where, expected="at least one")
    if not answers.whole:
        begins = restarts(
            answers.seq,
            answers.sent_ns,
            answers.rtt_ms,
            wraps=answers.wraps,
            exact=answers.exact,
            every_s=hints.every_s or _every_by_total(answers),
            again=answers.again,
        )
        if begins:
            return _several(answers, begins, hints, where)
    held = [answers]
    del answers  # large; frees the memory early
    return _one(held, hints, where)


def _one(held: list[Answers], hints: ReadHints, where: str) -> Series:
    """Return the probes of one series without restarts; takes its answers out of `held`."""
    answers = held.pop()
    silent_at = np.isnan(answers.rtt_ms)
    seq = unwrapped(answers.seq, answers.sent_ns) if answers.wraps else answers.seq
    rtt_ms, replied_ns = answers.rtt_ms, answers.sent_ns
    answers = replace(answers, seq=seq[:0], rtt_ms=rtt_ms[:0], sent_ns=None, again=None)
    silent, silent_ns, waited = seq[:0], None, None
    if silent_at.any():
        silent, places = np.unique(seq[silent_at], return_index=True)
        silent_ns = replied_ns[silent_at][places] if answers.silent_times and replied_ns is not None else None
        seq, rtt_ms = seq[~silent_at], rtt_ms[~silent_at]
        replied_ns = None if replied_ns is None else replied_ns[~silent_at]
        waited = np.diff(np.flatnonzero(~silent_at)) > 1 if answers.silent_times else None
    del silent_at
    again = late = None
    first_of: slice | Ints = slice(None)  # the replies in order of their numbers
    if not (seq[1:] > seq[:-1]).all():
        again, late, first_of = _disorder(seq)
    low, high = _range(seq, silent, answers)
    if high - low + 1 - seq.size > MOST_MISSING:
        raise UserError(
            f"of probes {low} to {high} only {seq.size} were answered; are these numbers right?", where=where
        )
    notes: list[str] = []
    clock: Clock = "utc"
    jumps = 0
    counted = replied_ns is None
    if replied_ns is None:
        every_s = _interval(answers, low, high, hints, where, notes)
        start_ns = 0 if hints.start_unix_ns is None else hints.start_unix_ns
        if hints.start_unix_ns is None:
            clock = "relative"
            notes.append("no timestamps: it begins in 1970, and slots have no phase (`start` sets the time)")
        sent_ns = start_ns + np.round((seq - low) * (every_s * 1e9)).astype(np.int64)
    else:
        sent_ns = replied_ns
        jumps = _jumps(seq, sent_ns, rtt_ms, waited)
    del answers
    lost, lost_ns = _lost(seq[first_of], sent_ns[first_of], low, high)
    if silent_ns is not None and silent.size:
        place = np.minimum(np.searchsorted(silent, lost), silent.size - 1)
        lost_ns = np.where(silent[place] == lost, silent_ns[place], lost_ns)
    none = np.full(lost.size, np.nan)
    columns: list[tuple[str, Column, Column]] = [
        ("unix_ns", sent_ns, lost_ns),
        ("seq", seq, lost),
        ("rtt_ms", rtt_ms, none),
    ]
    if again is not None and late is not None:
        gone = np.zeros(lost.size, bool)
        columns += [("duplicate", again, gone), ("out_of_order", late, gone)]
    del sent_ns, replied_ns, seq, rtt_ms
    table = _merged(columns)
    if again is None:
        table = table.with_columns(duplicate=pl.lit(value=False), out_of_order=pl.lit(value=False))
    return Series(table, clock, jumps, tuple(notes), counted)


def _several(answers: Answers, begins: list[int], hints: ReadHints, where: str) -> Series:
    """Return the concatenated series of a log whose numbers restart."""
    edges = [0, *begins, answers.seq.size]
    parts = len(edges) - 1
    counts = [(n,) for n in answers.sent] if len(answers.sent) == parts else [()] * (parts - 1) + [answers.sent[-1:]]
    every_s = hints.every_s or _every_by_total(answers)
    tables: list[pl.DataFrame] = []
    notes: list[str] = [f"sequence numbers restart {_times(len(begins))}: read as successive series"]
    clock: Clock = "utc"
    jumps, end_ns = 0, None
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        part = replace(
            answers,
            seq=answers.seq[low:high],
            sent_ns=None if answers.sent_ns is None else answers.sent_ns[low:high],
            rtt_ms=answers.rtt_ms[low:high],
            sent=count,
            whole=True,
            again=None,
        )
        if np.isnan(part.rtt_ms).all():
            silent = silent_series(part)
            tables += [] if silent is None else [silent]
            continue
        one = series(part, replace(hints, every_s=every_s), where)
        table = one.table
        begin_ns = int(table["unix_ns"][0])
        if one.counted:  # the length of the pause is unknown
            shift = 0 if end_ns is None else end_ns + round((every_s or 1.0) * 1e9) - begin_ns
            table = table.with_columns(pl.col("unix_ns") + shift)
        elif end_ns is not None and begin_ns < end_ns - JUMP_S * 1e9:
            jumps += 1
        end_ns = int(table["unix_ns"][-1])
        tables.append(table)
        jumps += one.clock_jumps
        clock = one.clock
        notes += [note for note in one.notes if note not in notes]
    whole = pl.concat(tables)
    if not whole["unix_ns"].is_sorted():
        whole = whole.sort("unix_ns", maintain_order=True)
    return Series(_deduplicated(whole), clock, jumps, tuple(notes), answers.sent_ns is None)


def _deduplicated(table: pl.DataFrame) -> pl.DataFrame:
    """Mark all but one row of each time and number as duplicates: two series may contain the same probe."""
    if not (table["unix_ns"].diff() == 0).any():
        return table
    probe = ("unix_ns", "seq")
    least = (2 * pl.col("duplicate").cast(pl.Int8) + pl.col("rtt_ms").is_null().cast(pl.Int8)).arg_min()
    another = pl.int_range(pl.len()).over(probe) != least.over(probe)
    return table.with_columns(pl.col("duplicate") | another)


def behind(one: Series, end_ns: int | None) -> pl.DataFrame:
    """Return the table of a series; without timestamps it is shifted to a second after `end_ns`.

    `end_ns` is the end of the preceding series of the same target.
    """
    if not one.counted or end_ns is None:
        return one.table
    shift = end_ns + SECOND_NS - int(one.table["unix_ns"][0])
    return one.table.with_columns(pl.col("unix_ns") + max(0, shift))


#: The note on series that `behind` shifts.
BEHIND = "no timestamps: several pings to one target are put one after the other"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def silent_series(part: Answers) -> pl.DataFrame | None:
    """Return the lost probes of a series without a reply; None: its lines have no times."""
    if part.sent_ns is None or not (part.sent_ns > 0).any():
        return None
    seq, at = part.seq[part.sent_ns > 0], part.sent_ns[part.sent_ns > 0]
    # Restarted numbers are those of another run. Within a run a number is one probe, however often it is printed.
    run = np.concatenate([[0], np.cumsum(np.diff(seq) < 0)])
    first = np.ones(seq.size, bool)
    first[1:] = (np.diff(seq) != 0) | (np.diff(run) != 0)
    seq, at = seq[first], at[first]
    no = pl.repeat(value=False, n=seq.size, eager=True)
    none = pl.repeat(None, seq.size, dtype=pl.Float64, eager=True)
    return pl.DataFrame({"unix_ns": at, "seq": seq, "rtt_ms": none, "duplicate": no, "out_of_order": no})


def echoes(table: pl.DataFrame, target: str) -> pl.DataFrame:
    """Add the columns `target` and `kind` of ICMP probes; an empty `target` is unknown."""
    return table.with_columns(pl.lit(target or None, pl.String).alias("target"), pl.lit("icmp").alias("kind"))


def _every_by_total(answers: Answers) -> float | None:
    """Return the probe interval by the tool's total time [s]; None: not needed, or not printed."""
    if answers.sent_ns is not None or not answers.span_s or not answers.sent or answers.sent[-1] < 2:
        return None
    return answers.span_s / (answers.sent[-1] - 1)


def _disorder(seq: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_], slice | Ints]:
    """Return which replies are duplicates, which follow one to a later probe, and the first reply to each number."""
    late, again = np.zeros((2, seq.size), bool)
    late[1:] = seq[1:] < np.maximum.accumulate(seq)[:-1]
    # The first printed of several answers to a probe is the reply; the others are duplicates.
    order = np.argsort(seq, kind="stable")
    ordered = seq[order]
    again[order[1:]] = ordered[1:] == ordered[:-1]
    del ordered
    return again, late & ~again, order[~again[order]]


def _merged(columns: list[tuple[str, Column, Column]]) -> pl.DataFrame:
    """Merge replies and lost probes into one table sorted by time, the first column. Empties `columns`."""
    merged: list[pl.Series] = []
    order = None
    while columns:
        name, replied, lost = columns.pop(0)
        whole = np.concatenate([replied, lost]) if lost.size else replied
        del replied, lost
        if not merged and not (whole[1:] >= whole[:-1]).all():
            order = np.argsort(whole, kind="stable")  # nearly sorted: quick
        column = pl.Series(name, whole if order is None else whole[order])
        merged.append(column.fill_nan(None) if name == "rtt_ms" else column)
    return pl.DataFrame(merged)


def unwrapped(seq: Ints, sent_ns: Ints | None) -> Ints:
    """Unwrap 16-bit sequence numbers.

    Each number is unwrapped to the candidate nearest to the previous one. If that would be an older probe with a later
    send time, as after an outage of more than half of all numbers, and the elapsed time agrees, the next candidate is
    used.
    """
    if seq.size == 0 or seq.max() >= WRAP:  # unwrapped already
        return seq
    # In place, to save memory: a day of pings has ten million.
    step = np.diff(seq)
    step += WRAP // 2
    step %= WRAP
    step -= WRAP // 2
    back = np.flatnonzero(step < 0)
    if sent_ns is not None and back.size:
        elapsed = sent_ns[back + 1] - sent_ns[back]
        ahead = (elapsed > MAX_RTT_MS * 1e6) & fits(step[back] + WRAP, elapsed, usual_ns(seq, sent_ns))
        step[back[ahead]] += WRAP
    counted = np.empty(seq.size, np.int64)
    counted[0] = seq[0]
    np.cumsum(step, out=counted[1:])
    counted[1:] += seq[0]
    # If the first line is a late reply, the numbers after it would be below 0.
    counted -= min(0, int(counted.min()) // WRAP * WRAP)
    return counted


def _range(seq: Ints, silent: Ints, answers: Answers) -> tuple[int, int]:
    """Return the first and the last number sent."""
    low = min([int(seq.min()), *(int(n) for n in silent[:1])])
    high = max([int(seq.max()), *(int(n) for n in silent[-1:])])
    if answers.first is not None and low < WRAP:
        low = min(low, answers.first)
        if answers.sent:
            high = max(high, low + answers.sent[-1] - 1)
    return low, high


def _lost(there: Ints, sent_ns: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """Return the numbers from `low` to `high` that are not in `there`, and their interpolated send times."""
    missing = _missing(there, low, high)
    return missing, _between(missing, there, sent_ns)


def _missing(there: Ints, low: int, high: int) -> Ints:
    """Return the numbers from `low` to `high` that are not in `there`, which increases."""
    gaps = np.flatnonzero(np.diff(there) > 1)
    begins = np.concatenate([[low], there[gaps] + 1, there[-1:] + 1])
    count = np.concatenate([there[:1] - low, there[gaps + 1] - there[gaps] - 1, high - there[-1:]])
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    missing: Ints = np.repeat(begins, count) + within
    return missing


def _interval(answers: Answers, low: int, high: int, hints: ReadHints, where: str, notes: list[str]) -> float:
    """Return the probe interval of a log without timestamps [s], from the user or the tool's summary."""
    if hints.every_s is not None:
        return hints.every_s
    if answers.span_s is not None and high > low and answers.span_s > 0:
        every_s = answers.span_s / (high - low)
        notes.append(f"no timestamps: probes are spaced evenly by {every_s:.4g} s, from the total time at its end")
        return every_s
    raise UserError(
        "has no timestamps", where=where, hint="`every` with the probe interval (ping's default: 1 s), or `ping -D`"
    )


def _between(lost: Ints, seq: Ints, sent_ns: Ints) -> Ints:
    """Interpolate the send times of lost probes; beyond the ends, extrapolate with the median interval."""
    if lost.size == 0:
        return lost
    base, usual = int(sent_ns[0]), 1e9
    due = np.zeros(lost.size)
    if seq.size > 1:
        some = spread(seq.size - 1)
        usual = median((sent_ns[1:][some] - sent_ns[:-1][some]) / (seq[1:][some] - seq[:-1][some]))
        after = np.clip(np.searchsorted(seq, lost), 1, seq.size - 1)
        begin, end = ((sent_ns[places] - base).astype(np.float64) for places in (after - 1, after))
        due = (end - begin) / (seq[after] - seq[after - 1]) * (lost - seq[after - 1]) + begin
    due = np.where(lost < seq[0], (lost - seq[0]) * usual, due)
    due = np.where(lost > seq[-1], float(sent_ns[-1] - base) + (lost - seq[-1]) * usual, due)
    times: Ints = np.maximum(base + np.round(due).astype(np.int64), 0)
    return times


def _jumps(seq: Ints, sent_ns: Ints, rtt_ms: Floats, waited: NDArray[np.bool_] | None) -> int:
    """Return the number of clock steps between successive replies.

    Where the prober `waited` for a reply that did not come, time really passed: that is no forward step.
    """
    if seq.size < 2:
        return 0
    printed_ns = rtt_ms * 1e6
    printed_ns += sent_ns
    back = np.diff(printed_ns) < -BACK_S * 1e9
    del printed_ns
    # A prober that waits for lost replies sends the next probe late. Only without missing numbers is it the clock.
    next_one = np.diff(seq) == 1
    steps_ns = np.diff(sent_ns)
    usual_ns = median(steps_ns[next_one]) if next_one.any() else 0.0
    forward = next_one & (steps_ns > max(JUMP_S * 1e9, 10 * usual_ns))
    if waited is not None:
        forward &= ~waited
    return int(np.count_nonzero(back | forward))
