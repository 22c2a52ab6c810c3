"""One sample after the other, for ever: a terminal that goes away is waited for, and every change is said once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient, DishError
from bentpipe.measurements.dish.clocks import Clock
from bentpipe.measurements.dish.status import Status

#: Longest wait between attempts [s]. Chosen here: one network slot, so that a terminal is missed for no longer than
#: that after it came back, and a machine that polls all night does not notice.
LONGEST_WAIT_S = 15.0
#: Shortest interval [s]. Chosen here: the terminal renews its values every second.
SHORTEST_S = 0.1
#: Longest time to follow a terminal for [s]: nanoseconds of it can still be counted.
LONGEST_S = 3.2e9


@dataclass(frozen=True, slots=True)
class Sample:
    """A status, and when it came: by the time of day [ns since 1970], and by a count that nobody sets [ns]."""

    t_unix_ns: int
    elapsed_ns: int
    status: Status


@dataclass(frozen=True, slots=True)
class Change:
    """What became different.

    `kind` is connected, lost, rebooted or firmware; a recorder's also damaged, clock or undated.
    """

    t_unix_ns: int
    kind: str
    text: str


class Follower:
    """Polls a terminal.

    Args:
        client: It.
        clock: Time and waiting.
        every_s: Interval of samples; held against an even count, not against the time of day.
        on_change: Told of each change once, however many polls fail between two.
    """

    def __init__(
        self, client: DishClient, clock: Clock, every_s: float = 1.0, on_change: Callable[[Change], None] | None = None
    ) -> None:
        """Nothing is asked yet."""
        if not SHORTEST_S <= every_s <= 86_400:
            raise UserError(f"every: {every_s:g} s; wanted {SHORTEST_S:g} s to a day")
        self._client, self._clock, self._every_ns = client, clock, round(every_s * 1e9)
        self._on_change = on_change or (lambda _: None)
        self._condition = ""
        self._last: Status | None = None

    def samples(self, until_s: float | None = None) -> Iterator[Sample]:
        """Samples, each after waiting for its turn; for ever, or as long as said [s].

        Raises:
            UserError: `until_s` is no time.
        """
        if until_s is not None and not 0 < until_s <= LONGEST_S:
            raise UserError(f"for: {until_s:g} s; wanted more than 0 s and at most {LONGEST_S:g} s (a hundred years)")
        due = self._clock.elapsed_ns()
        end = None if until_s is None else due + round(until_s * 1e9)
        wait_s = 1.0
        while end is None or due < end:
            self._clock.sleep_s((due - self._clock.elapsed_ns()) / 1e9)
            try:
                status = self._client.status()
            except DishError as error:
                self._say(error.kind, "lost", str(error))
                due = self._clock.elapsed_ns() + round(wait_s * 1e9)
                wait_s = min(wait_s * 2, LONGEST_WAIT_S)
                continue
            sample = Sample(self._clock.now_unix_ns(), self._clock.elapsed_ns(), status)
            self._compare(status)
            self._last, wait_s = status, 1.0
            yield sample
            due += self._every_ns
            late_ns = self._clock.elapsed_ns() - due
            if late_ns > 0:  # turns that passed are gone: none is made up for in a hurry
                due += late_ns // self._every_ns * self._every_ns

    def _compare(self, status: Status) -> None:
        what = f"{status.hardware_version or 'a terminal'}, firmware {status.software_version or 'not said'}"
        last = self._last
        if last is not None and _rebooted(last, status):
            self._tell("rebooted", f"the terminal rebooted {status.uptime_s or 0} s ago")
        if last is not None and last.software_version != status.software_version:
            self._tell("firmware", f"firmware changed from {last.software_version} to {status.software_version}")
        self._say("connected", "connected", f"connected: {what}, up {status.uptime_s or 0} s")

    def _say(self, condition: str, kind: str, text: str) -> None:
        if condition != self._condition:
            self._condition = condition
            self._tell(kind, text)

    def _tell(self, kind: str, text: str) -> None:
        self._on_change(Change(self._clock.now_unix_ns(), kind, text))


def _rebooted(before: Status, now: Status) -> bool:
    if before.uptime_s is not None and now.uptime_s is not None and now.uptime_s < before.uptime_s:
        return True
    return None not in (before.bootcount, now.bootcount) and before.bootcount != now.bootcount
