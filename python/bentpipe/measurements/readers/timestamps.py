"""Whether a table's timestamps are send times or reply times, by the prober's rhythm and the order of its replies.

A prober sends at a steady distance, or a steady pause after each reply. Whichever timestamps a table has, one of the
two shows only in the times that really are send times: reply times add the changes of the RTT. And packets keep their
order on a path: if reply times are taken for send times of dense probes, many replies seem to overtake each other.
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

#: Pairs of successive replies that there must be; chosen here: the quartiles of fewer say little about a rhythm.
LEAST_PAIRS = 100
#: Part of the other spread that the steadier rhythm must be below. Chosen here: of reply times at Victoria (a probe
#: every 10 ms, or when a reply came) it is 0.57 to 0.60, at Seattle (a pause after each reply) 0.07, of send times at
#: random 1.
STEADIER = 0.75
#: Spread that is none [ms]: tools print RTTs to 0.1 ms.
PRINTED_MS = 0.1
#: Share of replies that overtake each other if the timestamps are taken for send times, from which on that is no
#: accident, and how much rarer disorder must be if they are taken for reply times; chosen here: of the same campaigns'
#: send times none is, of their reply times 3 to 20 %, and 0.01 % the other way.
DISORDER, RARER = 0.01, 0.1
#: Distances beyond so many usual ones are pauses; chosen here.
_PAUSE = 10
#: Probes of a series that are looked at, its first; chosen here: three hours of one every 10 ms.
_MOST = 1_000_000

Times = Literal["probe", "reply"]
#: The note where timestamps were found to be reply times.
FOUND = "timestamps are reply times ({}): the RTT is taken off each (--times probe keeps them)"
#: The note where the user said that they are send times, and they do not look so.
DOUBTED = "timestamps look like reply times ({}); kept as send times, as said"
#: The note where nothing is found, but a path keeps order.
DISORDERED = "{}, since a path keeps order: are its timestamps reply times (--times reply)?"


@dataclass(frozen=True)
class Timestamps:
    """What a table's timestamps look like.

    Attributes:
        replies: How many replies there are.
        overtaken: Of these, how many a later one overtakes, if the timestamps are send times.
        are_reply_times: Whether they look like reply times.
        reason: Why, in some words.
    """

    replies: int
    overtaken: int
    are_reply_times: bool
    reason: str


def look_at(unix_ns: Ints, rtt_ms: Floats) -> Timestamps:
    """What the timestamps of one series look like.

    Args:
        unix_ns: Timestamps in the table's order [ns]; shape (n,).
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
    reason = "the prober's rhythm shows when the RTT is off" if steadier else share
    return Timestamps(sent.size, overtaken, steadier, reason)


def timestamps_of(each: Iterable[tuple[Ints, Floats]], said: Times | None, notes: list[str]) -> Times:
    """Whose timestamps a table has, of the probes (send times) or of the replies: as said, else as they look.

    Args:
        each: Timestamps [ns] and RTTs [ms; NaN: lost] of each series, in the table's order.
        said: What the user says; None: nothing.
        notes: Lines on what was found go here.
    """
    if said == "reply":
        return said
    looks = [look_at(unix_ns, rtt_ms) for unix_ns, rtt_ms in each]
    whole = sum(look.replies for look in looks)
    of_replies = [look for look in looks if look.are_reply_times]
    if of_replies and 2 * sum(look.replies for look in of_replies) >= whole:
        reason = max(of_replies, key=lambda look: look.replies).reason
        notes.append((FOUND if said is None else DOUBTED).format(reason))
        return "reply" if said is None else said
    worst = max(looks, key=lambda look: look.overtaken, default=None)
    if worst is not None and worst.overtaken > DISORDER * max(worst.replies, LEAST_PAIRS):
        notes.append(DISORDERED.format(worst.reason))
    return "probe"


def _ratio(at_ms: Floats, rtt_ms: Floats, answered: NDArray[np.bool_]) -> float | None:
    """The spread of the prober's rhythm if the timestamps are reply times, over that if they are send times."""
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
    """Between the quartiles."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)
