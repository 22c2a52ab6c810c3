"""Where the numbers of a prober begin again: a new series, neither duplicates nor an outage of 65,000 probes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.readers.checked import MAX_RTT_MS

#: Echo requests have numbers of 16 bits (RFC 792).
WRAP = 1 << 16
#: Least step of the clock that counts as a jump [s], beside what the numbers explain; chosen here: above what a busy
#: machine delays a probe by, and what slewing does (500 ppm, adjtimex(2)) between two of them.
JUMP_S = 1.0
#: Least step back from one printed time to the next that does [s]; chosen here: prints may overtake by less.
BACK_S = 0.01
#: Replies that a series may lack at its beginning, beside those that would fit into the time before; chosen here.
MOST_LACKING = 10
#: So many numbers further are a wrap even to a low number, or without times; chosen here: of more another series is
#: likelier.
MOST_WRAPPED = 1000
#: After a line without an answer another series may begin [s]; chosen here: above every tool's usual timeout.
SILENT_S = 10.0
#: Spacings that a usual one is found from; chosen here: their middle is good to a percent of their spread.
_MOST_SPACINGS = 100_000

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def spread(size: int) -> slice:
    """`_MOST_SPACINGS` of so many that lie evenly, where there are more."""
    return slice(None, None, max(1, size // _MOST_SPACINGS))


def median(values: Floats | Ints) -> float:
    """The middle one, of `_MOST_SPACINGS` that lie evenly where there are more: it is only for thresholds.

    NumPy's own loads masked arrays first, which takes longer than a log of a minute.
    """
    values = values[spread(values.size)]
    return float(np.partition(values, values.size // 2)[values.size // 2])


def usual_ns(seq: Ints, sent_ns: Ints) -> float | None:
    """The usual time from a number to the next [ns]; None: no two follow each other."""
    some = spread(seq.size)
    steps = (sent_ns[1:][some] - sent_ns[:-1][some])[seq[1:][some] - seq[:-1][some] == 1]
    found = median(steps[steps > 0].astype(np.float64)) if (steps > 0).any() else 0.0
    return found or None


def fits(forward: Ints | int, elapsed_ns: Ints | int, usual: float | None) -> NDArray[np.bool_] | bool:
    """Whether so many numbers further agrees with the time that went by: to a tenth, or a second. Chosen here."""
    due = np.asarray(forward) * (usual or 0.0)
    found: NDArray[np.bool_] = np.abs(np.asarray(elapsed_ns) - due) <= np.maximum(due / 10, JUMP_S * 1e9)
    return found


def restarts(
    seq: Ints,
    sent_ns: Ints | None,
    rtt_ms: Floats,
    *,
    wraps: bool,
    exact: bool,
    every_s: float | None,
    again: NDArray[np.bool_] | None = None,
) -> list[int]:
    """The lines with which a new series begins, beside the first line.

    A number that is not above the one before is a duplicate or a late reply, if its probe was sent before the one
    before; or 65,536 were counted, if the time for that went by. Else it begins a new series: it is near the number
    that series begin with, or was sent later than any RTT lasts.

    Args:
        seq: Numbers as printed; shape (n,).
        sent_ns: When each was sent [ns since 1970]; of lines without an answer when they were printed, 0: not known;
            None: no line has a time.
        rtt_ms: RTTs; NaN: no answer; shape (n,).
        wraps: Whether the numbers have 16 bits.
        exact: Whether `sent_ns` is when probes were sent, and not when their replies came.
        every_s: Time between probes where there are no times [s]; None: not known.
        again: Which lines the tool itself calls duplicates: it knows its own probes, whatever the clock says of them;
            None: none.
    """
    if (seq[1:] > seq[:-1]).all():
        return []
    wraps = wraps and int(seq.max()) < WRAP
    silent = np.isnan(rtt_ms)
    known = ~silent if sent_ns is None else ~silent | (sent_ns > 0)
    # Nearly always all are: a day of pings, ten million, is not copied then.
    lines = None if known.all() else np.flatnonzero(known)

    def line_of(places: Ints) -> Ints:
        return places if lines is None else lines[places]

    number = seq if lines is None else seq[lines]
    down = np.flatnonzero(number[1:] <= number[:-1]) + 1
    if again is not None:
        down = down[~again[line_of(down)]]
    at = sent_ns if sent_ns is None or lines is None else sent_ns[lines]
    # Of lines without an answer between the replies (`ping -O`) no two numbers follow each other.
    usual = None
    if sent_ns is not None:
        answered = slice(None) if not silent.any() else ~silent
        usual = usual_ns(seq[answered], sent_ns[answered])
    trips = rtt_ms[line_of(down - 1)], rtt_ms[line_of(down)]
    down, later = _may_begin(down, number, at, *trips, exact=exact, every_s=every_s)
    found: list[int] = []
    # The earliest time of the series so far: the clock may have stepped back within it.
    start, earliest, looked_at = 0, None if at is None else int(at[0]), 1
    for i, comes_later in zip(down.tolist(), later.tolist(), strict=True):
        n, before, first = int(number[i]), int(number[i - 1]), int(number[start])
        dropped = before - n
        forward = (n - before) % WRAP
        elapsed = None if at is None else int(at[i] - at[i - 1])
        if wraps and dropped > 0 and _wrapped(n, forward, elapsed, usual):
            continue
        lacking, ages = MOST_LACKING, False
        if at is not None and elapsed is not None and earliest is not None:
            earliest = min(earliest, int(at[looked_at:i].min(initial=earliest)))
            looked_at = i
            earlier_ns = JUMP_S * 1e9 + max(0, first - n) * 2 * (usual or 0.0)  # it may be late itself
            back = dropped > 0 and elapsed < 0 and int(at[i]) < earliest - earlier_ns
            if not (comes_later or back):
                continue
            lacking += 0 if usual is None else round(1.5 * max(0, elapsed) / usual)
            ages = elapsed > MAX_RTT_MS * 1e6
        if n <= 1 + lacking or abs(n - first) <= lacking or ages:
            line, line_before = line_of(np.array([i, i - 1])).tolist()
            found.append(_with_silent(seq, silent, line, line_before))
            start, looked_at = i, i + 1
            earliest = None if at is None else int(at[i])
    return found


def _may_begin(
    down: Ints,
    number: Ints,
    at: Ints | None,
    rtt_before_ms: Floats,
    rtt_ms: Floats,
    *,
    exact: bool,
    every_s: float | None,
) -> tuple[Ints, NDArray[np.bool_]]:
    """The lines among `down`, whose number is not above the one before, that may begin a series; and which come late.

    One may that comes later than a late reply or a silence of the same series explains. Of the others one may that is
    of an earlier time than lines before it by more than a late reply is, and after which the old numbers do not go on.
    With `ping -O` at 10 ms every second of millions of lines is in `down`: all are looked at at once.
    """
    dropped = number[down - 1] - number[down]
    if at is None:
        if every_s is None:
            return down[:0], np.zeros(0, bool)
        later = np.zeros(down.size, bool)
        rather = dropped * every_s * 1e3 > rtt_ms - rtt_before_ms + BACK_S * 1e3
    else:
        late_ns = np.where(exact & (dropped != 0), 0.0, rtt_ms * 1e6)
        slack_ns = np.where(np.isnan(rtt_ms), SILENT_S * 1e9, BACK_S * 1e9 + late_ns)
        later = at[down] - at[down - 1] > slack_ns
        rather = later | (at[down] < np.maximum.accumulate(at)[down - 1] - JUMP_S * 1e9)
    after = number[np.minimum(down + 1, number.size - 1)] - number[down - 1]
    goes_on = ~later & (dropped >= 2) & (after > 0) & (after <= MOST_LACKING)
    may = rather & ~goes_on
    return down[may], later[may]


def _wrapped(n: int, forward: int, elapsed_ns: int | None, usual: float | None) -> bool:
    """Whether a number that fell to `n` was counted on, by `forward`.

    After a long outage few of all numbers are as low as one that begins a series: then it does.
    """
    if forward <= 2:
        return True
    if forward > MOST_WRAPPED and (elapsed_ns is None or n <= 1 + MOST_LACKING):
        return False
    return elapsed_ns is None or bool(fits(forward, elapsed_ns, usual))


def _with_silent(seq: Ints, silent: NDArray[np.bool_], line: int, before: int) -> int:
    """The first of the lines without an answer that stand before `line` and belong to it."""
    while line - 1 > before and silent[line - 1] and seq[line - 1] <= seq[line] and seq[line - 1] <= seq[before]:
        line -= 1
    return line
