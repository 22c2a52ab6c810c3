"""The clock of a terminal's network: the published slots on this host's time, while the terminal is connected.

A terminal does not tell when it is reconfigured. Its latency has one value a second, smoothed in firmware since 2025:
too coarse for the phase. It tells the period, though, so a latency that changes with another one withdraws the clock.
Its own time may be cut to whole seconds: it shows that this host's time is wrong by more. Below that, the kernel says
whether NTP or PTP keep it right. A phase learned from this host's own sockets is compared with the published one, and
has precedence: it is measured. While the time of day is in doubt, the published phase is no evidence for it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.analysis.handovers import analyze_handovers
from bentpipe.errors import BentpipeError, UserError
from bentpipe.kernel.clock.learning import Learned
from bentpipe.kernel.clock.reading import Reading
from bentpipe.kernel.clock.record import Hint, wall_clock_ns
from bentpipe.kernel.clock.time_of_day import TimeOfDay, time_of_day
from bentpipe.measurements.dish.client import DishClient
from bentpipe.measurements.dish.slots import SLOT_NS, SLOT_PHASE_NS
from bentpipe.times import SLOT_S

if TYPE_CHECKING:
    from bentpipe.measurements.dish.history import History

STATUS_S, HISTORY_S, ANALYSIS_S = 1.0, 15.0, 300.0
"""Time between two status requests, two histories and two analyses of the latency [s]. Chosen here."""
MAX_SILENCE_S = 3.0 * SLOT_S
"""Longest time without an answer or a connection [s]. Chosen here: as many periods as the learned clock waits."""
MOST_UNSURE_NS = 200_000_000
"""Longest time of a request that tells the terminal's time [ns]. Chosen here: half of it is the error."""
MOST_AHEAD_NS = 1_500_000_000
"""Largest difference of its time from this host's [ns]. Chosen here: a whole second, and half of one for requests."""
AGREES_S = 0.6
"""Largest difference of a learned phase that agrees with the published one [s]. Chosen here: measured edges were at
11.5 to 12.0 s."""
CONFIDENCE, CONFIRMED = 0.9, 0.99
"""Confidence of the published slots, and if the latency changes with their period. Chosen here."""


@dataclass(frozen=True)
class TerminalState:
    """What a terminal has reported; times are monotonic [ns].

    Attributes:
        answered_ns: Time of the last answer; 0: none yet.
        connected_ns: Time of the last answer with a connection.
        trouble: Why there is no answer or no connection.
        ahead_ns: Its time minus this host's [ns]; None: it does not tell the time.
        period_s: Period of the changes of its latency [s]; None: none was found.
    """

    answered_ns: int = 0
    connected_ns: int = 0
    trouble: str = "no answer yet"
    ahead_ns: int | None = None
    period_s: float | None = None


def reading_of(
    state: TerminalState, now_ns: int, learned: Reading | None = None, host: TimeOfDay | None = None
) -> Reading:
    """Return the clock from what a terminal has reported.

    Args:
        state: What it has reported.
        now_ns: Monotonic time [ns].
        learned: The clock learned from this host's sockets; None: it has no statistics of them.
        host: This host's time of day, as the kernel describes it; None: not known.

    Example:
        >>> from bentpipe.kernel.clock.dish import TerminalState, reading_of
        >>> reading_of(TerminalState(), 10**12).doubt
        'no answer yet'
        >>> reading_of(TerminalState(10**12, 10**12, "", 0), 10**12).hint.period_ns
        15000000000
    """
    if not state.connected_ns or now_ns - state.connected_ns > MAX_SILENCE_S * 1e9:
        return Reading(doubt=state.trouble or "no answer")
    if state.period_s is not None and abs(state.period_s - SLOT_S) > SLOT_S * 0.02:
        return Reading(doubt=f"its latency changes every {state.period_s:.1f} s, not every {SLOT_S} s")
    at_ns = max(now_ns - (now_ns + wall_clock_ns() - SLOT_PHASE_NS) % SLOT_NS, 0)
    if learned is not None and abs(learned.hint.period_ns - SLOT_NS) < SLOT_NS // 100:
        off_s = ((learned.hint.at_ns - at_ns + SLOT_NS // 2) % SLOT_NS - SLOT_NS // 2) / 1e9
        agrees = "as" if abs(off_s) <= AGREES_S else f"{off_s:+.1f} s from"
        return replace(learned, evidence=f"{learned.evidence}, {agrees} the published slots on this host's time")
    if doubt := time_doubt(state, host or TimeOfDay()):
        return Reading(doubt=doubt)
    agrees = "" if state.ahead_ns is None else f", {abs(state.ahead_ns) / 1e9:.1f} s from the terminal's"
    confirmed = "" if state.period_s is None else "; its latency changes with their period"
    confidence = CONFIDENCE if state.period_s is None else CONFIRMED
    return Reading(Hint(SLOT_NS, at_ns), confidence, f"published slots on this host's time{agrees}{confirmed}")


def time_doubt(state: TerminalState, host: TimeOfDay) -> str:
    """Return why this host's time of day does not tell the published phase; empty if it does.

    Example:
        >>> from bentpipe.kernel.clock.dish import TerminalState, time_doubt
        >>> from bentpipe.kernel.clock.time_of_day import TimeOfDay
        >>> time_doubt(TerminalState(ahead_ns=3 * 10**9), TimeOfDay(True))
        "its time is +3.0 s from this host's; one of the two is wrong"
    """
    if state.ahead_ns is not None and abs(state.ahead_ns) > MOST_AHEAD_NS:
        return f"its time is {state.ahead_ns / 1e9:+.1f} s from this host's; one of the two is wrong"
    return host.trouble


class Terminal:
    """The source of `bentpipe clock --dish`.

    Args:
        host: The terminal: HOST, HOST:PORT, or http://HOST[:PORT].

    Raises:
        UserError: No such address.
    """

    uses_time_of_day = True

    def __init__(self, host: str) -> None:
        """Begin to ask it."""
        self._client, self._state = DishClient(host), TerminalState()
        self._learned: Learned | None = None
        with contextlib.suppress(UserError):  # no statistics of sockets
            self._learned = Learned(trusts_time=lambda: not time_doubt(self._state, time_of_day()))
        self._stop, self._history_due_s, self._analysis_due_s = threading.Event(), 0.0, 0.0
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait(self, until_ns: int) -> None:
        """Learn, or sleep; see `Source`."""
        if self._learned is not None:
            try:
                self._learned.wait(until_ns)
            except UserError:  # no statistics of connections
                self._learned.close()
                self._learned = None
        time.sleep(max(until_ns - time.monotonic_ns(), 0) / 1e9)

    def read(self, now_ns: int) -> Reading:
        """Return the clock; see `Source`."""
        learned = None if self._learned is None else self._learned.read(now_ns)
        return reading_of(self._state, now_ns, learned, time_of_day())

    def restart(self) -> None:
        """Forget the answers; see `Source`."""
        if self._learned is not None:
            self._learned.restart()
        self._history_due_s = self._analysis_due_s = 0.0
        self._state = TerminalState()

    def close(self) -> None:
        """Ask no more."""
        self._stop.set()
        self._thread.join(timeout=10)
        self._client.close()
        if self._learned is not None:
            self._learned.close()

    def _follow(self) -> None:
        while not self._stop.wait(STATUS_S):
            now_s = time.monotonic()
            try:
                if now_s >= self._history_due_s:
                    history = self._take_history()
                    self._history_due_s = now_s + HISTORY_S
                    if now_s >= self._analysis_due_s:
                        self._analysis_due_s = now_s + ANALYSIS_S
                        self._state = replace(self._state, period_s=period_of(history, time.time_ns()))
                self._take_status()
            except BentpipeError as error:
                self._state = replace(self._state, trouble=str(error))

    def _take_status(self) -> None:
        status, now_ns = self._client.status(), time.monotonic_ns()
        if status.state == "CONNECTED":
            self._state = replace(self._state, answered_ns=now_ns, connected_ns=now_ns, trouble="")
        else:
            self._state = replace(
                self._state, answered_ns=now_ns, trouble=f"the terminal is not connected: {status.state}"
            )

    def _take_history(self) -> History:
        before_ns = time.time_ns()
        history = self._client.history()
        after_ns = time.time_ns()
        if history.log_unix_ns is None:
            self._state = replace(self._state, ahead_ns=None)
        elif after_ns - before_ns <= MOST_UNSURE_NS:
            self._state = replace(self._state, ahead_ns=history.log_unix_ns - (before_ns + after_ns) // 2)
        return history


def period_of(history: History, received_unix_ns: int) -> float | None:
    """Return the period with which a terminal's latency changes [s]; None: none is significant."""
    table = pl.DataFrame(
        {
            "unix_ns": history.times_unix_ns(received_unix_ns),
            "rtt_ms": pl.Series(history.pop_ping_latency_ms).cast(pl.Float64).fill_nan(None),
        }
    )
    try:
        handovers = analyze_handovers(table)
    except UserError:
        return None  # too few samples
    return handovers.period_s if handovers.found else None
