"""The clock learned from this network namespace's own sockets.

The statistics are those of `inet_diag`, not of the loaded controllers: they are there for any controller, need no
rights, and are as new as the poll, where a controller tells its state ten times a second. `HostClock` of the native
module has the detector and the clock that the controllers themselves have (`crates/cc/src/leo/host/mod.rs`).
"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING

from bentpipe import _native
from bentpipe.kernel.clock.reading import Reading
from bentpipe.kernel.clock.record import Hint, wall_clock_ns
from bentpipe.kernel.clock.sockets import SocketTable
from bentpipe.measurements.dish.slots import SLOT_NS, SLOT_PHASE_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bentpipe.kernel.clock.sockets import SocketId, TcpSample

POLL_NS = 10_000_000
"""Time between two polls [ns]. Chosen here: a silence of 35 ms is the shortest that counts."""
SEARCH_NS = 1_000_000_000
"""Least time between the starts of two searches for sockets that send [ns]. Chosen here."""
SEARCH_SHARE = 0.01
"""Largest part of a processor that searches take: with many sockets there are fewer. Chosen here."""
TIME_OF_DAY_NS = 1_000_000_000
"""Time between two looks at the time of day [ns]. Chosen here."""
MOST_SOCKETS = 8
"""Most sockets that are polled: those that deliver most. Chosen here: more add cost, and no evidence."""
LEAST_RTT_NS = 5_000_000
"""Sockets with a smaller minimum RTT are left out [ns]. Chosen here: no path over a satellite is as short
(550 km up and down are 3.7 ms one way)."""
QUIET_SEARCHES = 5
"""A socket that delivers nothing in so many searches is no longer polled. Chosen here."""


class Watch:
    """Socket statistics into the learned clock: which sockets, how many ACKs.

    Example:
        >>> from bentpipe.kernel.clock.learning import Watch
        >>> Watch().read(0).doubt
        'no connection of this network namespace sends'
    """

    def __init__(self) -> None:
        """Watch no socket yet."""
        self._clock = _native.HostClock()
        self._acks: dict[int, tuple[int, int, int]] = {}
        self._delivered: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self._grown: dict[SocketId, int] = {}
        self._others: dict[SocketId, int] = {}
        self._quiet: dict[SocketId, int] = {}
        self._has_near = self._saw_near = False

    def set_time_of_day(self, wall_ns: int | None) -> None:
        """Set the wall-clock time when the monotonic clock is zero [ns since 1970]; None: it is not known.

        The published phase of the slots needs less evidence than another one. Without a time of day all are equal.
        """
        self._clock.set_published(None if wall_ns is None else (SLOT_PHASE_NS - wall_ns) % SLOT_NS)

    @property
    def sockets(self) -> list[SocketId]:
        """Sockets to poll."""
        return list(self._quiet)

    def consider(self, samples: list[TcpSample]) -> None:
        """Take a part of the established sockets for the next choice."""
        for sample in samples:
            number, delivered = sample.id.number, sample.delivered
            self._seen[number] = delivered
            before = self._delivered.get(number)
            if before is None or delivered == before:
                continue
            if not _is_far(sample):
                self._saw_near = True
            else:
                grown = self._grown if sample.id in self._quiet else self._others
                grown[sample.id] = (delivered - before) % 2**32
        most = heapq.nlargest(MOST_SOCKETS, self._others, key=self._others.__getitem__)
        self._others = {each: self._others[each] for each in most}

    def choose(self) -> None:
        """Choose the sockets to poll from all considered ones: those that delivered most since the last choice."""
        grown, self._grown, self._others = self._grown | self._others, {}, {}
        self._delivered, self._seen = self._seen, {}
        self._has_near, self._saw_near = self._saw_near, False
        kept = {each: 0 if each in grown else quiet + 1 for each, quiet in self._quiet.items()}
        kept = {
            each: quiet for each, quiet in kept.items() if quiet < QUIET_SEARCHES and each.number in self._delivered
        }
        # One that is polled gives way to one that delivers twice as much.
        worth = {each: grown.get(each, 0) * (2 if each in kept else 1) for each in kept | grown}
        most = sorted(worth, key=lambda each: worth[each], reverse=True)[:MOST_SOCKETS]
        kept = {each: kept.get(each, 0) for each in most}
        for gone in self._quiet.keys() - kept.keys():
            self._acks.pop(gone.number, None)
            self._clock.forget(gone.number)
        self._quiet = kept

    def take(self, now_ns: int, samples: list[TcpSample]) -> None:
        """Take a poll of the sockets."""
        polls = []
        for sample in samples:
            number = sample.id.number
            segments, delivered, acks = self._acks.get(number, (sample.acks, sample.delivered, 0))
            if sample.delivered != delivered:
                new = (sample.delivered - delivered) % 2**32
                acks += max(1, min((sample.acks - segments) % 2**32, new))
            self._acks[number] = (sample.acks, sample.delivered, acks)
            polls.append((number, sample.last_ack_ns, acks, sample.srtt_ns, sample.is_idle))
        self._clock.update(now_ns, polls)

    def read(self, now_ns: int) -> Reading:
        """Return the clock, or why there is none."""
        timing, watched = self._clock.timing(), self._clock.watched(now_ns)
        detections, hits, reviews = self._clock.evidence()
        many = f"{watched} socket{'s' if watched != 1 else ''} watched, {detections} detected"
        evidence = f"{many}, {hits} of {reviews} expected" if reviews else many
        if timing is None:
            return Reading(evidence=evidence, doubt=self._clock.doubt() or self._no_traffic())
        period_ns, at_ns, confidence = timing
        return Reading(Hint(period_ns, at_ns), confidence, evidence)

    def _no_traffic(self) -> str:
        if self._quiet:
            return "too little traffic"
        if self._has_near:
            return f"all data that is sent stays within this machine, or has an RTT below {LEAST_RTT_NS / 1e6:g} ms"
        return "no connection of this network namespace sends"

    def restart(self) -> None:
        """Forget everything."""
        self._clock.reset()
        self._acks.clear()
        self._delivered.clear()
        self._seen.clear()
        self._grown.clear()
        self._others.clear()
        self._quiet.clear()
        self._has_near = self._saw_near = False


def _is_far(sample: TcpSample) -> bool:
    return sample.min_rtt_ns >= LEAST_RTT_NS and not sample.id.is_local


class Learned:
    """The source of `bentpipe clock --learn`.

    Args:
        watch: What takes the polls; None: one of its own.
        trusts_time: Whether the host's time of day tells the published phase now; default: always.

    Raises:
        UserError: This system has no socket statistics.
    """

    uses_time_of_day = False

    def __init__(self, watch: Watch | None = None, trusts_time: Callable[[], bool] = lambda: True) -> None:
        """Open the table of sockets."""
        self._polled, self._searched, self._watch = SocketTable(), SocketTable(), watch or Watch()
        self._search: Iterator[list[TcpSample]] | None = None
        self._search_ns = self._begun_ns = self._took_ns = self._time_ns = 0
        self._trusts_time = trusts_time

    def wait(self, until_ns: int) -> None:
        """Poll; see `Source`."""
        while (now_ns := time.monotonic_ns()) < until_ns:
            if now_ns >= self._time_ns:
                self._watch.set_time_of_day(wall_clock_ns() if self._trusts_time() else None)
                self._time_ns = now_ns + TIME_OF_DAY_NS
            samples = self._polled.poll(self._watch.sockets)
            self._watch.take(time.monotonic_ns(), samples)
            self._go_on_searching(now_ns)
            is_busy = self._watch.sockets or self._search
            due_ns = min(until_ns, now_ns + POLL_NS if is_busy else min(self._search_ns, self._time_ns))
            time.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)

    def _go_on_searching(self, now_ns: int) -> None:
        """Begin a search if it is time, and consider one datagram: a search of many sockets must not delay polls."""
        if self._search is None:
            if now_ns < self._search_ns:
                return
            self._search, self._begun_ns, self._took_ns = self._searched.established(), now_ns, 0
        before_ns = time.thread_time_ns()
        samples = next(self._search, None)
        if samples is None:
            self._watch.choose()
            self._search = None
        else:
            self._watch.consider(samples)
        self._took_ns += time.thread_time_ns() - before_ns
        self._search_ns = self._begun_ns + max(SEARCH_NS, round(self._took_ns / SEARCH_SHARE))

    def read(self, now_ns: int) -> Reading:
        """Return the clock; see `Source`."""
        return self._watch.read(now_ns)

    def restart(self) -> None:
        """Forget everything; see `Source`."""
        self._watch.restart()

    def close(self) -> None:
        """Close the tables."""
        self._polled.close()
        self._searched.close()
