"""Detection of send times and reply times in a table, by probe spacing and reply order.

A prober sends at a constant interval, or a constant pause after each reply. That regularity shows only in send times:
reply times add the variation of the RTT. Paths also preserve packet order: if reply times of dense probes are treated
as send times, many replies appear to overtake each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bentpipe.measurements.readers.restarts import spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

#: Fewest pairs of successive replies; chosen here: quartiles of fewer pairs do not characterise a spacing.
LEAST_PAIRS = 100
#: Greatest ratio of the spacing's spread as reply times to its spread as send times at which timestamps count as reply
#: times. Chosen here: for reply times it is 0.57 to 0.60 at Victoria (a probe every 10 ms, or after each reply) and
#: 0.07 at Seattle (a pause after each reply); for random send times it is 1.
STEADIER = 0.75
#: Resolution of printed RTTs [ms]; a smaller spread counts as zero.
PRINTED_MS = 0.1
#: Share of overtaken replies, under the assumption of send times, above which it is not chance; and how much rarer
#: overtaking must be under the assumption of reply times. Chosen here: the same campaigns have none with send times, 3
#: to 20 % with reply times, and 0.01 % the other way.
DISORDER, RARER = 0.01, 0.1
#: Spacings above this multiple of the median are pauses; chosen here.
_PAUSE = 10
#: Probes examined at the start of a series; chosen here: three hours of one every 10 ms.
_MOST = 1_000_000

Times = Literal["probe", "reply"]
#: The note on detected reply times.
DETECTED = "timestamps are reply times ({}): the RTT is subtracted from each (`times` probe keeps them)"
#: The note on timestamps that the user calls send times, and that look like reply times.
DOUBTED = "timestamps look like reply times ({}); kept as send times, as requested"
#: The note on undecided timestamps with overtaken replies.
DISORDERED = "{}, but paths preserve order: are its timestamps reply times (`times` reply)?"


@dataclass(frozen=True)
class Timestamps:
    """Evidence on whether timestamps are reply times.

    Attributes:
        replies: Number of replies.
        overtaken: Number of replies that a later one overtakes, if the timestamps are send times.
        are_reply_times: Whether they look like reply times.
        reason: The evidence, for a note.
    """

    replies: int
    overtaken: int
    are_reply_times: bool
    reason: str


def classify(unix_ns: Ints, rtt_ms: Floats) -> Timestamps:
    """Classify the timestamps of one series.

    Args:
        unix_ns: Timestamps in table order [ns]; shape (n,).
        rtt_ms: RTTs [ms]; NaN: lost; shape (n,).
    """
    unix_ns, rtt_ms = unix_ns[:_MOST], rtt_ms[:_MOST]
    answered = ~np.isnan(rtt_ms)
    at_ms = (unix_ns - unix_ns[:1]) / 1e6
    sent, trips = at_ms[answered], rtt_ms[answered]
    arrived = sent + trips
    overtaken = int((arrived - np.minimum.accumulate(arrived[::-1])[::-1] > PRINTED_MS).sum())
    left = sent - trips
    late = int((np.maximum.accumulate(left) - left > PRINTED_MS).sum())
    share = f"as send times, {overtaken} of {sent.size} replies would be overtaken by later ones"
    if overtaken > max(DISORDER * sent.size, DISORDER * LEAST_PAIRS) and late <= RARER * overtaken:
        return Timestamps(sent.size, overtaken, are_reply_times=sent.size > LEAST_PAIRS, reason=share)
    ratio = _ratio(at_ms, rtt_ms, answered)
    steadier = ratio is not None and ratio < STEADIER and late <= max(overtaken, DISORDER * sent.size)
    reason = "probe spacing is regular once the RTT is subtracted" if steadier else share
    return Timestamps(sent.size, overtaken, steadier, reason)


def timestamps_of(each: Iterable[tuple[Ints, Floats]], stated: Times | None, notes: list[str]) -> Times:
    """Return whether timestamps are send times (`probe`) or reply times: as the user states, else as detected.

    Args:
        each: Timestamps [ns] and RTTs [ms; NaN: lost] of each series, in table order.
        stated: The user's statement; None: detect.
        notes: Receives notes on the decision.
    """
    if stated == "reply":
        return stated
    verdicts = [classify(unix_ns, rtt_ms) for unix_ns, rtt_ms in each]
    whole = sum(verdict.replies for verdict in verdicts)
    of_replies = [verdict for verdict in verdicts if verdict.are_reply_times]
    if of_replies and 2 * sum(verdict.replies for verdict in of_replies) >= whole:
        reason = max(of_replies, key=lambda verdict: verdict.replies).reason
        notes.append((DETECTED if stated is None else DOUBTED).format(reason))
        return "reply" if stated is None else stated
    worst = max(verdicts, key=lambda verdict: verdict.overtaken, default=None)
    if worst is not None and worst.overtaken > DISORDER * max(worst.replies, LEAST_PAIRS):
        notes.append(DISORDERED.format(worst.reason))
    return "probe"


def _ratio(at_ms: Floats, rtt_ms: Floats, answered: NDArray[np.bool_]) -> float | None:
    """Return the spread of probe spacing as reply times divided by that as send times; None: too few pairs."""
    step = np.diff(at_ms)
    use = answered[1:] & answered[:-1] & (step > 0)
    if int(use.sum()) < LEAST_PAIRS:
        return None
    use &= step <= _PAUSE * float(np.median(step[use][spread(int(use.sum()))]))
    step, before, after = step[use], rtt_ms[:-1][use], rtt_ms[1:][use]
    if step.size < LEAST_PAIRS:
        return None
    sent = min(_spread(step), _spread(step - before))
    replied = min(_spread(step - (after - before)), _spread(step - after))
    return (replied + PRINTED_MS) / (sent + PRINTED_MS)


def _spread(values: Floats) -> float:
    """Return the interquartile range."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)
