"""Poll a terminal for samples: wait while it does not answer, and report each change of state once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient, DishError
from bentpipe.measurements.dish.clocks import Clock
from bentpipe.measurements.dish.status import Status

#: Longest wait between attempts [s]. Chosen here: one network slot, which bounds the delay after a terminal returns and
#: costs little when polling all night.
MAX_WAIT_S = 15.0
#: Shortest sampling interval [s]. Chosen here: the terminal updates its values every second.
MIN_INTERVAL_S = 0.1
#: Longest duration [s]: its nanoseconds fit into 64 bits.
MAX_DURATION_S = 3.2e9


@dataclass(frozen=True, slots=True)
class Sample:
    """A status with its arrival time: time of day [ns since 1970] and monotonic time [ns]."""

    t_unix_ns: int
    elapsed_ns: int
    status: Status


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the terminal's state.

    `kind` is connected, lost, rebooted or firmware; a recorder also reports damaged, clock, disk and undated.
    """

    t_unix_ns: int
    kind: str
    text: str


class Follower:
    """Polls a terminal at an interval.

    Args:
        client: Client of the terminal.
        clock: The clock.
        every_s: Sampling interval [s] of monotonic time.
        on_change: Called once for each change, however many polls fail in between.
    """

    def __init__(
        self, client: DishClient, clock: Clock, every_s: float = 1.0, on_change: Callable[[Change], None] | None = None
    ) -> None:
        """Check the interval; polling starts with `samples`."""
        if not MIN_INTERVAL_S <= every_s <= 86_400:
            raise UserError(f"every: {every_s:g} s; expected {MIN_INTERVAL_S:g} s to a day")
        self._client, self._clock, self._every_ns = client, clock, round(every_s * 1e9)
        self._on_change = on_change or (lambda _: None)
        self._condition = ""
        self._last: Status | None = None

    def samples(self, until_s: float | None = None) -> Iterator[Sample]:
        """Yield a sample at each interval, for ever or for `until_s` [s].

        Raises:
            UserError: `until_s` is out of range.
        """
        if until_s is not None and not 0 < until_s <= MAX_DURATION_S:
            raise UserError(
                f"for: {until_s:g} s; expected more than 0 s and at most {MAX_DURATION_S:g} s (a hundred years)"
            )
        due = self._clock.elapsed_ns()
        end = None if until_s is None else due + round(until_s * 1e9)
        wait_s = 1.0
        while end is None or due < end:
            self._clock.sleep_s((due - self._clock.elapsed_ns()) / 1e9)
            try:
                status = self._client.status()
            except DishError as error:
                self._report_condition(error.kind, "lost", str(error))
                due = self._clock.elapsed_ns() + round(wait_s * 1e9)
                wait_s = min(wait_s * 2, MAX_WAIT_S)
                continue
            sample = Sample(self._clock.now_unix_ns(), self._clock.elapsed_ns(), status)
            self._compare(status)
            self._last, wait_s = status, 1.0
            yield sample
            due += self._every_ns
            late_ns = self._clock.elapsed_ns() - due
            if late_ns > 0:  # missed samples are skipped, not made up for
                due += late_ns // self._every_ns * self._every_ns

    def _compare(self, status: Status) -> None:
        version = f"{status.hardware_version or 'a terminal'}, firmware {status.software_version or 'unknown'}"
        last = self._last
        if last is not None and _rebooted(last, status):
            self._report("rebooted", f"the terminal rebooted {status.uptime_s or 0} s ago")
        if last is not None and last.software_version != status.software_version:
            self._report("firmware", f"firmware changed from {last.software_version} to {status.software_version}")
        self._report_condition("connected", "connected", f"connected: {version}, up {status.uptime_s or 0} s")

    def _report_condition(self, condition: str, kind: str, text: str) -> None:
        if condition != self._condition:
            self._condition = condition
            self._report(kind, text)

    def _report(self, kind: str, text: str) -> None:
        self._on_change(Change(self._clock.now_unix_ns(), kind, text))


def _rebooted(before: Status, now: Status) -> bool:
    if before.uptime_s is not None and now.uptime_s is not None and now.uptime_s < before.uptime_s:
        return True
    return None not in (before.bootcount, now.bootcount) and before.bootcount != now.bootcount
