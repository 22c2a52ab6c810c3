"""Numbered probes of one series, from what a tool printed of them: lost ones get their rows, late ones their mark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.readers.checked import MAX_RTT_MS
from bentpipe.readers.measurement import Clock, Said

#: Echo requests have numbers of 16 bits (RFC 792).
WRAP = 1 << 16
#: Most probes in a row that may be missing; chosen here: a day of one every 10 ms. More are numbers gone wrong.
MOST_MISSING = 10_000_000
#: Least step of the clock that counts as a jump [s], beside what the numbers explain; chosen here: above what a busy
#: machine delays a probe by, and what slewing does (500 ppm, adjtimex(2)) between two of them.
JUMP_S = 1.0
#: Least step back from one printed time to the next that does [s]; chosen here: prints may overtake by less.
BACK_S = 0.01

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """What a tool printed of one series, line by line and in that order.

    Attributes:
        seq: Numbers as printed; shape (n,).
        sent_ns: When the probe was sent [ns since 1970]; None: the tool does not say; shape (n,).
        rtt_ms: Round trips; NaN: there was no answer, and then `sent_ns` is not used; shape (n,).
        first: The number of the first probe; None: not known, and those before the first in `seq` do not count.
        sent: How many probes were sent, by the tool's own count; None: it does not say.
        wraps: Whether the numbers have 16 bits.
        silent_times: Whether `sent_ns` holds for lines without an answer too.
        span_s: From the first to the last probe [s], by the tool's own count; for logs without times.
    """

    seq: Ints
    sent_ns: Ints | None
    rtt_ms: Floats
    first: int | None = None
    sent: int | None = None
    wraps: bool = True
    silent_times: bool = False
    span_s: float | None = None


@dataclass(frozen=True)
class Series:
    """The probes of a series.

    Attributes:
        table: Columns `unix_ns`, `seq`, `rtt_ms`, `duplicate`, `out_of_order`, in order of time.
        clock: As in `bentpipe.readers.measurement.Measurement`, as are the others.
    """

    table: pl.DataFrame
    clock: Clock
    clock_jumps: int
    notes: tuple[str, ...]


def series(answers: Answers, said: Said, where: str) -> Series:
    """Probes from answers.

    A number that is missing is a lost probe: its row stands evenly between those before and after. A second answer to
    one probe is a duplicate. One that was printed after the answer to a later probe is out of order.

    Raises:
        UserError: There is no answer, no way to say when probes were sent, or numbers that cannot be.
    """
    answered = ~np.isnan(answers.rtt_ms)
    if not answered.any():
        raise UserError(f"{where}: holds no reply; wanted at least one")
    seq = unwrapped(answers.seq, answers.sent_ns) if answers.wraps else answers.seq
    silent, places = np.unique(seq[~answered], return_index=True)
    silent_ns = answers.sent_ns[~answered][places] if answers.silent_times and answers.sent_ns is not None else None
    seq, rtt_ms = seq[answered], answers.rtt_ms[answered]
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(seq)[:-1]])
    late = seq < before
    # Of several answers to one probe the first that was printed is the reply.
    order = np.argsort(seq, kind="stable")
    again = np.zeros(seq.size, bool)
    again[order[1:]] = seq[order[1:]] == seq[order[:-1]]
    low, high = _range(seq, silent, answers)
    if high - low + 1 - seq.size > MOST_MISSING:
        raise UserError(f"{where}: of probes {low} to {high} only {seq.size} were answered; are these numbers right?")
    notes: list[str] = []
    clock: Clock = "utc"
    jumps = 0
    if answers.sent_ns is None:
        every_s = _spacing_said(answers, low, high, said, where, notes)
        start_ns = 0 if said.start_unix_ns is None else said.start_unix_ns
        if said.start_unix_ns is None:
            clock = "relative"
            notes.append("no times in it: it begins in 1970, and slots have no phase (--start says when)")
        sent_ns = start_ns + np.round((seq - low) * (every_s * 1e9)).astype(np.int64)
    else:
        sent_ns = answers.sent_ns[answered]
        jumps = _jumps(seq, sent_ns, rtt_ms)
    known = order[~again[order]]  # the replies, by number
    # Only where numbers are missing is there anything to add.
    wanted = np.arange(low, high + 1, dtype=np.int64)
    lost = wanted if known.size == 0 else wanted[~_is_in(wanted, seq[known], low)]
    lost_ns = _between(lost, seq[known], sent_ns[known])
    if silent_ns is not None and silent.size:
        place = np.minimum(np.searchsorted(silent, lost), silent.size - 1)
        lost_ns = np.where(silent[place] == lost, silent_ns[place], lost_ns)
    table = pl.DataFrame(
        {
            "unix_ns": np.concatenate([sent_ns, lost_ns]),
            "seq": np.concatenate([seq, lost]),
            "rtt_ms": np.concatenate([rtt_ms, np.full(lost.size, np.nan)]),
            "duplicate": np.concatenate([again, np.zeros(lost.size, bool)]),
            "out_of_order": np.concatenate([late & ~again, np.zeros(lost.size, bool)]),
        }
    ).with_columns(pl.col("rtt_ms").fill_nan(None))
    if not table["unix_ns"].is_sorted():
        table = table.sort("unix_ns", maintain_order=True)
    return Series(table, clock, jumps, tuple(notes))


def unwrapped(seq: Ints, sent_ns: Ints | None) -> Ints:
    """Numbers of 16 bits, counted on.

    Each is the nearest to the one before that it can stand for; only if that would be an older probe which was sent
    later, as after an outage of more than half of all numbers, the next that it can.
    """
    if seq.size == 0 or seq.max() >= WRAP:  # counted on already
        return seq
    step = (np.diff(seq) + WRAP // 2) % WRAP - WRAP // 2
    if sent_ns is not None:
        ahead = np.diff(sent_ns) > MAX_RTT_MS * 1e6
        step = np.where((step < 0) & ahead, step + WRAP, step)
    counted = seq[0] + np.concatenate([[0], np.cumsum(step)])
    # Where the first that is printed is late, those after it would begin below 0.
    found: Ints = counted - min(0, int(counted.min()) // WRAP * WRAP)
    return found


def _range(seq: Ints, silent: Ints, answers: Answers) -> tuple[int, int]:
    """The first and the last number that was sent."""
    low = min([int(seq.min()), *(int(n) for n in silent[:1])])
    high = max([int(seq.max()), *(int(n) for n in silent[-1:])])
    if answers.first is not None and low < WRAP:
        low = min(low, answers.first)
        if answers.sent is not None:
            high = max(high, low + answers.sent - 1)
    return low, high


def _is_in(wanted: Ints, there: Ints, low: int) -> NDArray[np.bool_]:
    found = np.zeros(wanted.size, bool)
    found[there - low] = True
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
    steps = np.diff(sent_ns) / np.diff(seq) if seq.size > 1 else np.zeros(0)
    usual = float(np.median(steps)) if steps.size else 1e9
    base = int(sent_ns[0])
    due = np.interp(lost, seq, (sent_ns - base).astype(np.float64))
    due = np.where(lost < seq[0], (lost - seq[0]) * usual, due)
    due = np.where(lost > seq[-1], float(sent_ns[-1] - base) + (lost - seq[-1]) * usual, due)
    found: Ints = np.maximum(base + np.round(due).astype(np.int64), 0)
    return found


def _jumps(seq: Ints, sent_ns: Ints, rtt_ms: Floats) -> int:
    """How often the clock stepped, from one line to the next."""
    if seq.size < 2:
        return 0
    steps_s = np.diff(sent_ns) / 1e9
    back = np.diff(sent_ns + rtt_ms * 1e6) < -BACK_S * 1e9
    # A prober that waits for the lost ones sends the next one late: only where none is missing is it the clock.
    next_one = np.diff(seq) == 1
    usual_s = float(np.median(steps_s[next_one])) if next_one.any() else 0.0
    forward = next_one & (steps_s > max(JUMP_S, 10 * usual_s))
    return int(np.count_nonzero(back | forward))
