"""Numbered probes of one series, from what a tool printed of them: lost ones get their rows, late ones their mark."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.readers.checked import MAX_RTT_MS
from bentpipe.measurements.readers.measurement import SECOND_NS, Clock, Said
from bentpipe.measurements.readers.restarts import BACK_S, JUMP_S, WRAP, fits, median, restarts, spread, usual_ns

#: Most probes in a row that may be missing; chosen here: a day of one every 10 ms. More are numbers gone wrong.
MOST_MISSING = 10_000_000
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Column = Ints | Floats | NDArray[np.bool_]


@dataclass(frozen=True)
class Answers:
    """What a tool printed of one series, line by line and in that order.

    Attributes:
        seq: Numbers as printed; shape (n,).
        sent_ns: When the probe was sent [ns since 1970]; of those without an answer about when the line was printed,
            0: not known; None: the tool does not say; shape (n,).
        rtt_ms: RTTs; NaN: there was no answer; shape (n,).
        first: The number of the first probe; None: not known, and those before the first in `seq` do not count.
        sent: How many probes were sent, by the tool's own counts: one a series, where it says.
        wraps: Whether the numbers have 16 bits.
        exact: Whether `sent_ns` is when probes were sent, to within `BACK_S`, and not perhaps when their replies came.
        silent_times: Whether `sent_ns` holds for lines without an answer too.
        whole: Whether it is known to be one series.
        span_s: From the first to the last probe [s], by the tool's own count; for logs without times.
        again: Which lines the tool itself calls another answer to a probe of the same series; None: none.
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
        table: Columns `unix_ns`, `seq`, `rtt_ms`, `duplicate`, `out_of_order`, in order of time.
        clock: As in `bentpipe.measurements.readers.measurement.Measurement`, as are the others.
    """

    table: pl.DataFrame
    clock: Clock
    clock_jumps: int
    notes: tuple[str, ...]
    counted: bool = False


def series(answers: Answers, said: Said, where: str) -> Series:
    """Probes from answers.

    A number that is missing is a lost probe: its row stands evenly between those before and after. A second answer to
    one probe is a duplicate. One that was printed after the answer to a later probe is out of order. Where the numbers
    begin again another series does, and of the time between the two nothing is known.

    Raises:
        UserError: There is no answer, no way to say when probes were sent, or numbers that cannot be.
    """
    if np.isnan(answers.rtt_ms).all():
        raise UserError(f"{where}: holds no reply; wanted at least one")
    if not answers.whole:
        begins = restarts(
            answers.seq,
            answers.sent_ns,
            answers.rtt_ms,
            wraps=answers.wraps,
            exact=answers.exact,
            every_s=said.every_s or _every_by_total(answers),
            again=answers.again,
        )
        if begins:
            return _several(answers, begins, said, where)
    held = [answers]
    del answers  # large
    return _one(held, said, where)


def _one(held: list[Answers], said: Said, where: str) -> Series:
    """A series that is one; its answers are taken out of `held`."""
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
    first_of: slice | Ints = slice(None)  # the replies, by number
    if not (seq[1:] > seq[:-1]).all():
        again, late, first_of = _disorder(seq)
    low, high = _range(seq, silent, answers)
    if high - low + 1 - seq.size > MOST_MISSING:
        raise UserError(f"{where}: of probes {low} to {high} only {seq.size} were answered; are these numbers right?")
    notes: list[str] = []
    clock: Clock = "utc"
    jumps = 0
    counted = replied_ns is None
    if replied_ns is None:
        every_s = _spacing_said(answers, low, high, said, where, notes)
        start_ns = 0 if said.start_unix_ns is None else said.start_unix_ns
        if said.start_unix_ns is None:
            clock = "relative"
            notes.append("no times in it: it begins in 1970, and slots have no phase (--start says when)")
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


def _several(answers: Answers, begins: list[int], said: Said, where: str) -> Series:
    """The series of a log whose numbers begin again, one behind the other."""
    edges = [0, *begins, answers.seq.size]
    parts = len(edges) - 1
    counts = [(n,) for n in answers.sent] if len(answers.sent) == parts else [()] * (parts - 1) + [answers.sent[-1:]]
    every_s = said.every_s or _every_by_total(answers)
    tables: list[pl.DataFrame] = []
    notes: list[str] = [f"its numbers begin again {_times(len(begins))}: series one behind the other"]
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
        one = series(part, replace(said, every_s=every_s), where)
        table = one.table
        begin_ns = int(table["unix_ns"][0])
        if one.counted:  # nothing says how long the pause was
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
    return Series(_said_once(whole), clock, jumps, tuple(notes), answers.sent_ns is None)


def _said_once(table: pl.DataFrame) -> pl.DataFrame:
    """One probe for each time and number: where another series has it again, that is a duplicate, too."""
    if not (table["unix_ns"].diff() == 0).any():
        return table
    probe = ("unix_ns", "seq")
    least = (2 * pl.col("duplicate").cast(pl.Int8) + pl.col("rtt_ms").is_null().cast(pl.Int8)).arg_min()
    another = pl.int_range(pl.len()).over(probe) != least.over(probe)
    return table.with_columns(pl.col("duplicate") | another)


def behind(one: Series, end_ns: int | None) -> pl.DataFrame:
    """The table of a series; of one without times a second after `end_ns`, where another of the same target ends."""
    if not one.counted or end_ns is None:
        return one.table
    shift = end_ns + SECOND_NS - int(one.table["unix_ns"][0])
    return one.table.with_columns(pl.col("unix_ns") + max(0, shift))


#: The note on such series.
BEHIND = "no times in it: of several pings to one target each is put behind the one before"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def silent_series(part: Answers) -> pl.DataFrame | None:
    """Lost probes of a series without a reply, where the lines have times; None: nothing says when."""
    if part.sent_ns is None or not (part.sent_ns > 0).any():
        return None
    seq, at = part.seq[part.sent_ns > 0], part.sent_ns[part.sent_ns > 0]
    # Numbers that begin again are those of another run; within one a number is one probe, however often it is printed.
    run = np.concatenate([[0], np.cumsum(np.diff(seq) < 0)])
    first = np.ones(seq.size, bool)
    first[1:] = (np.diff(seq) != 0) | (np.diff(run) != 0)
    seq, at = seq[first], at[first]
    no = pl.repeat(value=False, n=seq.size, eager=True)
    none = pl.repeat(None, seq.size, dtype=pl.Float64, eager=True)
    return pl.DataFrame({"unix_ns": at, "seq": seq, "rtt_ms": none, "duplicate": no, "out_of_order": no})


def echoes(table: pl.DataFrame, target: str) -> pl.DataFrame:
    """A series as `probes` has it: ICMP to `target`; empty: nothing names it."""
    return table.with_columns(pl.lit(target or None, pl.String).alias("target"), pl.lit("icmp").alias("kind"))


def _every_by_total(answers: Answers) -> float | None:
    """The time between probes [s] by a tool's total time; None: it is not needed, or not said."""
    if answers.sent_ns is not None or not answers.span_s or not answers.sent or answers.sent[-1] < 2:
        return None
    return answers.span_s / (answers.sent[-1] - 1)


def _disorder(seq: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_], slice | Ints]:
    """Which replies answer a probe again, which come after one to a later probe, and the first to each, by number."""
    late, again = np.zeros((2, seq.size), bool)
    late[1:] = seq[1:] < np.maximum.accumulate(seq)[:-1]
    # Of several answers to one probe the first that was printed is the reply.
    order = np.argsort(seq, kind="stable")
    ordered = seq[order]
    again[order[1:]] = ordered[1:] == ordered[:-1]
    del ordered
    return again, late & ~again, order[~again[order]]


def _merged(columns: list[tuple[str, Column, Column]]) -> pl.DataFrame:
    """Replies and lost probes as one table in order of time, which is the first column. Takes `columns` apart."""
    found: list[pl.Series] = []
    order = None
    while columns:
        name, replied, lost = columns.pop(0)
        whole = np.concatenate([replied, lost]) if lost.size else replied
        del replied, lost
        if not found and not (whole[1:] >= whole[:-1]).all():
            order = np.argsort(whole, kind="stable")  # nearly sorted: quick
        column = pl.Series(name, whole if order is None else whole[order])
        found.append(column.fill_nan(None) if name == "rtt_ms" else column)
    return pl.DataFrame(found)


def unwrapped(seq: Ints, sent_ns: Ints | None) -> Ints:
    """Numbers of 16 bits, counted on.

    Each is the nearest to the one before that it can stand for; only if that would be an older probe which was sent
    later, as after an outage of more than half of all numbers, and the time agrees, the next that it can.
    """
    if seq.size == 0 or seq.max() >= WRAP:  # counted on already
        return seq
    # In place, and looked at only where need be: of a day of pings there are ten million.
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
    # Where the first that is printed is late, those after it would begin below 0.
    counted -= min(0, int(counted.min()) // WRAP * WRAP)
    return counted


def _range(seq: Ints, silent: Ints, answers: Answers) -> tuple[int, int]:
    """The first and the last number that was sent."""
    low = min([int(seq.min()), *(int(n) for n in silent[:1])])
    high = max([int(seq.max()), *(int(n) for n in silent[-1:])])
    if answers.first is not None and low < WRAP:
        low = min(low, answers.first)
        if answers.sent:
            high = max(high, low + answers.sent[-1] - 1)
    return low, high


def _lost(there: Ints, sent_ns: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """The numbers from `low` to `high` that are not `there`, and when they were due."""
    missing = _missing(there, low, high)
    return missing, _between(missing, there, sent_ns)


def _missing(there: Ints, low: int, high: int) -> Ints:
    """The numbers from `low` to `high` that are not `there`, which increase."""
    gaps = np.flatnonzero(np.diff(there) > 1)
    begins = np.concatenate([[low], there[gaps] + 1, there[-1:] + 1])
    count = np.concatenate([there[:1] - low, there[gaps + 1] - there[gaps] - 1, high - there[-1:]])
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    found: Ints = np.repeat(begins, count) + within
    return found


def _spacing_said(answers: Answers, low: int, high: int, said: Said, where: str, notes: list[str]) -> float:
    """The time between probes [s] of a log without times, as the user or the tool's summary has it."""
    if said.every_s is not None:
        return said.every_s
    if answers.span_s is not None and high > low and answers.span_s > 0:
        every_s = answers.span_s / (high - low)
        notes.append(f"no times in it: probes are put evenly, {every_s:.4g} s apart, by the total time at its end")
        return every_s
    raise UserError(
        f"{where}: has no times; say how far apart its probes were sent (--every 1: what ping does unless told "
        "otherwise), or measure with `ping -D`"
    )


def _between(lost: Ints, seq: Ints, sent_ns: Ints) -> Ints:
    """When missing numbers were due: evenly between their neighbours; at the ends, a usual spacing apart."""
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
    found: Ints = np.maximum(base + np.round(due).astype(np.int64), 0)
    return found


def _jumps(seq: Ints, sent_ns: Ints, rtt_ms: Floats, waited: NDArray[np.bool_] | None) -> int:
    """How often the clock stepped, from one reply to the next.

    Between those where the prober `waited` for a reply that did not come, time went by: that is no step forward.
    """
    if seq.size < 2:
        return 0
    printed_ns = rtt_ms * 1e6
    printed_ns += sent_ns
    back = np.diff(printed_ns) < -BACK_S * 1e9
    del printed_ns
    # A prober that waits for the lost ones sends the next one late: only where none is missing is it the clock.
    next_one = np.diff(seq) == 1
    steps_ns = np.diff(sent_ns)
    usual_ns = median(steps_ns[next_one]) if next_one.any() else 0.0
    forward = next_one & (steps_ns > max(JUMP_S * 1e9, 10 * usual_ns))
    if waited is not None:
        forward &= ~waited
    return int(np.count_nonzero(back | forward))
