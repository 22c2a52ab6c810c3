"""Detection of restarted sequence numbers: a new series, rather than duplicates or an outage of 65,000 probes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.readers.checked import MAX_RTT_MS

#: Echo requests have numbers of 16 bits (RFC 792).
WRAP = 1 << 16
#: Smallest clock step that counts as a jump [s], beyond the time that the sequence numbers account for; chosen here:
#: above the delay of a probe on a busy machine, and above slewing (500 ppm, adjtimex(2)) between two probes.
JUMP_S = 1.0
#: Smallest backward step between successive printed times that counts as a jump [s]; chosen here: output lines may
#: overtake each other by less.
BACK_S = 0.01
#: Replies that may be missing at the start of a series, beside those that fit into the time before; chosen here.
MOST_LACKING = 10
#: Largest forward distance that is a wrap even to a low number, or without times; chosen here: beyond it a new series
#: is likelier.
MOST_WRAPPED = 1000
#: Silence after an unanswered line beyond which a new series may begin [s]; chosen here: above every tool's default
#: timeout.
SILENT_S = 10.0
#: Spacings sampled for their median; chosen here: it is then accurate to a percent of their spread.
_MOST_SPACINGS = 100_000

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def spread(size: int) -> slice:
    """Return a slice that takes about `_MOST_SPACINGS` evenly spaced elements of `size`."""
    return slice(None, None, max(1, size // _MOST_SPACINGS))


def median(values: Floats | Ints) -> float:
    """Return the upper median of at most about `_MOST_SPACINGS` sampled values, for use in thresholds.

    `numpy.median` imports masked arrays first, which takes longer than reading a log of a minute.
    """
    values = values[spread(values.size)]
    return float(np.partition(values, values.size // 2)[values.size // 2])


def usual_ns(seq: Ints, sent_ns: Ints) -> float | None:
    """Return the median interval between consecutive numbers [ns]; None: no two numbers are consecutive."""
    some = spread(seq.size)
    steps = (sent_ns[1:][some] - sent_ns[:-1][some])[seq[1:][some] - seq[:-1][some] == 1]
    middle = median(steps[steps > 0].astype(np.float64)) if (steps > 0).any() else 0.0
    return middle or None


def fits(forward: Ints | int, elapsed_ns: Ints | int, usual: float | None) -> NDArray[np.bool_] | bool:
    """Return whether an advance of `forward` numbers agrees with the elapsed time.

    The tolerance is a tenth of the expected time, or a second. Chosen here.
    """
    due = np.asarray(forward) * (usual or 0.0)
    agrees: NDArray[np.bool_] = np.abs(np.asarray(elapsed_ns) - due) <= np.maximum(due / 10, JUMP_S * 1e9)
    return agrees


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
    """Return the indices of the lines that begin a new series, except line 0.

    A number that does not increase is a duplicate or a late reply if its probe was sent before the previous one. It is
    a wrap of the 16-bit number if enough time passed. Otherwise it begins a new series: the number is close to the
    first of a series, or was sent later than any RTT explains.

    Args:
        seq: Sequence numbers as printed; shape (n,).
        sent_ns: Send times [ns since 1970]; for unanswered lines the print time, 0: unknown; None: no line has a time.
        rtt_ms: RTTs; NaN: unanswered; shape (n,).
        wraps: Whether the numbers have 16 bits.
        exact: Whether `sent_ns` has send times, rather than reply times.
        every_s: Probe interval for logs without times [s]; None: unknown.
        again: Lines that the tool itself marks as duplicates; it knows its probes, whatever the clock says. None: none.
    """
    if (seq[1:] > seq[:-1]).all():
        return []
    wraps = wraps and int(seq.max()) < WRAP
    silent = np.isnan(rtt_ms)
    known = ~silent if sent_ns is None else ~silent | (sent_ns > 0)
    # Usually every line is known; then a day of pings (ten million) is not copied.
    lines = None if known.all() else np.flatnonzero(known)

    def line_of(places: Ints) -> Ints:
        return places if lines is None else lines[places]

    number = seq if lines is None else seq[lines]
    down = np.flatnonzero(number[1:] <= number[:-1]) + 1
    if again is not None:
        down = down[~again[line_of(down)]]
    at = sent_ns if sent_ns is None or lines is None else sent_ns[lines]
    # With unanswered lines between the replies (`ping -O`) no two numbers are consecutive.
    usual = None
    if sent_ns is not None:
        answered = slice(None) if not silent.any() else ~silent
        usual = usual_ns(seq[answered], sent_ns[answered])
    trips = rtt_ms[line_of(down - 1)], rtt_ms[line_of(down)]
    down, later = _may_begin(down, number, at, *trips, exact=exact, every_s=every_s)
    begins: list[int] = []
    # Earliest time in the current series: the clock may have stepped back within it.
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
            earlier_ns = JUMP_S * 1e9 + max(0, first - n) * 2 * (usual or 0.0)  # the first reply may be late itself
            back = dropped > 0 and elapsed < 0 and int(at[i]) < earliest - earlier_ns
            if not (comes_later or back):
                continue
            lacking += 0 if usual is None else round(1.5 * max(0, elapsed) / usual)
            ages = elapsed > MAX_RTT_MS * 1e6
        if n <= 1 + lacking or abs(n - first) <= lacking or ages:
            line, line_before = line_of(np.array([i, i - 1])).tolist()
            begins.append(_with_silent(seq, silent, line, line_before))
            start, looked_at = i, i + 1
            earliest = None if at is None else int(at[i])
    return begins


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
    """Return the lines among `down` that may begin a series, and which of these come later than a late reply.

    `down` has the lines whose number does not increase. A line qualifies if it comes later than a late reply or a
    silence of the same series explains. It also qualifies if its time is earlier than preceding lines by more than a
    late reply explains, and the old numbers do not continue after it. This is vectorised: with `ping -O` at 10 ms
    every second line of millions is in `down`.
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
    """Return whether a number that fell to `n` is a wrap, an advance by `forward`.

    After a long outage a number as low as the first of a series is unlikely by chance, so it is a new series.
    """
    if forward <= 2:
        return True
    if forward > MOST_WRAPPED and (elapsed_ns is None or n <= 1 + MOST_LACKING):
        return False
    return elapsed_ns is None or bool(fits(forward, elapsed_ns, usual))


def _with_silent(seq: Ints, silent: NDArray[np.bool_], line: int, before: int) -> int:
    """Return the first of the unanswered lines directly before `line` that belong to its series."""
    while line - 1 > before and silent[line - 1] and seq[line - 1] <= seq[line] and seq[line - 1] <= seq[before]:
        line -= 1
    return line
