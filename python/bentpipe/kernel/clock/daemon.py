"""The program that keeps the host's clock: it reads a source, writes the maps, and reports each change."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.kernel import requirements
from bentpipe.kernel.clock.record import NO_HINT, HostClockMaps, second_of_minute, wall_clock_ns
from bentpipe.kernel.libbpf import KernelRefusedError
from bentpipe.kernel.only_one import holder_of, only_one
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from bentpipe._native import Profile
    from bentpipe.kernel.clock.reading import Reading, Source

TASK = "clock"
"""Name of the task for `only_one`."""
RENEW_NS = 500_000_000
"""Time between two writes [ns]. Chosen here: a handover that a Profile announces is known within it."""
VALID_NS = 5_000_000_000
"""Validity of a hint that is not renewed [ns]: so long sockets follow the clock of a killed program. Chosen here."""
MOVED_S, LENGTHENED_S = 0.1, 0.02
"""Changes of phase and period that are reported [s]. Chosen here."""
MS = 10**6
STEP_NS = 100_000_000
"""Least step of the time of day, and least sleep of the host, that count [ns]. Chosen here."""


@dataclass(frozen=True)
class ClockEvent:
    """A change of the host's clock.

    Attributes:
        kind: ``found``, ``moved``, ``withdrawn``, ``controllers`` (which have the clock), ``waiting``, ``foreign``
            (another program changed a map), ``time`` (a step of the time of day, a sleep) or ``ended``.
        t_unix_ns: When [ns since 1970].
        text: One line about it.
        values: Values, as `--json` prints them.
    """

    kind: str
    t_unix_ns: int
    text: str
    values: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"t": format_utc(self.t_unix_ns), "event": self.kind, "text": self.text, **self.values}

    def to_line(self) -> str:
        """Return it as a line."""
        return f"{format_utc(self.t_unix_ns)} {self.kind}: {self.text}"


def keep_clock(
    *,
    profile: Profile | None = None,
    start_unix_ns: int | None = None,
    file: Path | None = None,
    dish: str | None = None,
    for_s: float | None = None,
    on_event: Callable[[ClockEvent], object] = lambda _: None,
) -> bool:
    """Keep the handover clock of this host in all loaded controllers; withdraw it in the end.

    Args:
        profile: Profile that is being emulated.
        start_unix_ns: When its beginning was emulated [ns since 1970]; None: as `bentpipe run` begins it.
        file: The Profile's file: when the last Run of it on this machine ends, the clock is withdrawn.
        dish: Address of a terminal. Without it and a Profile, the clock is learned from this network namespace's
            sockets.
        for_s: How long [s]; None: until SIGTERM or Ctrl-C.
        on_event: Called at each change.

    Returns:
        Whether there was a clock at some time.

    Raises:
        UserError: What this machine lacks, another such program, or a Profile without a clock.
    """
    if profile is not None and dish is not None:
        raise UserError("profile and dish", expected="one of the two")
    if for_s is not None and not 0 < for_s < 1e9:
        raise UserError(f"{for_s:g} s", where="for_s", expected="more than 0 s")
    source = _source(profile, start_unix_ns, file, dish)
    try:
        requirements.check()
        with only_one(TASK, "keeps the clock of this host"):
            return Keeping(source, on_event).run(for_s)
    finally:
        source.close()


def clock_program() -> str | None:
    """Return which process keeps the clock of this host, as `123 on host`; None: none, or it may not be asked."""
    with contextlib.suppress(KernelRefusedError):
        return holder_of(TASK)
    return None


def _source(profile: Profile | None, start_unix_ns: int | None, file: Path | None, dish: str | None) -> Source:
    if profile is not None:
        from bentpipe.kernel.clock.profile import Emulated

        return Emulated(profile, start_unix_ns, file)
    if start_unix_ns is not None:
        raise UserError("a start without a Profile", where="start", expected="`profile` with it")
    if dish is not None:
        from bentpipe.measurements.dish.extra import require_extra

        require_extra()
        from bentpipe.kernel.clock.dish import Terminal

        return Terminal(dish)
    from bentpipe.kernel.clock.learning import Learned

    return Learned()


class Keeping:
    """One program's work: from the first reading to the withdrawal."""

    def __init__(
        self, source: Source, on_event: Callable[[ClockEvent], object], maps: HostClockMaps | None = None
    ) -> None:
        """Begin without a clock."""
        self._source, self._on_event = source, on_event
        self._maps = maps or HostClockMaps(lambda name: self._report("foreign", f"another program changed {name}"))
        self._shown: Reading | None = None
        self._names: list[str] | None = None
        self._doubt = ""
        self._since_ns = 0
        self._had_clock = False
        self._stop = threading.Event()

    def run(self, for_s: float | None) -> bool:
        """Keep the clock until SIGTERM, Ctrl-C or the end of `for_s` [s]; return whether there was one."""
        begun_ns = time.monotonic_ns()
        end_ns = None if for_s is None else begun_ns + round(for_s * 1e9)
        offsets = _offsets()
        with _on_sigterm(self._stop.set):
            try:
                due_ns = begun_ns
                while not self._stop.is_set() and (end_ns is None or due_ns < end_ns):
                    due_ns += RENEW_NS
                    self._source.wait(due_ns)
                    offsets = self._check_time(offsets)
                    now_ns = time.monotonic_ns()
                    self.step(now_ns, self._source.read(now_ns))
                    due_ns = max(due_ns, now_ns - RENEW_NS)
            finally:
                with contextlib.suppress(KernelRefusedError):
                    self._maps.withdraw()
        self._report("ended", "the clock is withdrawn" if self._had_clock else "there was no clock")
        return self._had_clock

    def step(self, now_ns: int, reading: Reading) -> None:
        """Write a reading, and report what it changed."""
        try:
            names = self._maps.write(reading.hint if reading.is_sure else NO_HINT, now_ns + VALID_NS)
        except KernelRefusedError as error:
            raise UserError(f"the kernel refused its maps: {error}", expected="root on the host") from None
        if names != self._names:
            self._names = names
            shown = ", ".join(names).replace("_", "-")
            if names:
                self._report("controllers", shown, controllers=shown.split(", "))
            else:
                self._report("waiting", "no controller is loaded; `bentpipe kernel load` loads one")
        if reading.is_sure:
            self._report_clock(now_ns, reading)
        elif self._shown is not None:
            kept_s = (now_ns - self._since_ns) / 1e9
            self._shown, self._doubt = None, reading.doubt
            self._report("withdrawn", f"{reading.doubt}; it was {kept_s:.0f} s old", age_s=round(kept_s, 1))
        elif reading.doubt != self._doubt:
            self._doubt = reading.doubt
            self._report("waiting", f"no clock: {reading.doubt}")

    def _report_clock(self, now_ns: int, reading: Reading) -> None:
        before, hint = self._shown, reading.hint
        kind = "found" if before is None else "moved"
        if before is not None:
            period_ns = max(hint.period_ns, 1)
            off_ns = (hint.at_ns - before.hint.at_ns + period_ns // 2) % period_ns - period_ns // 2
            is_same = abs(hint.period_ns - before.hint.period_ns) < LENGTHENED_S * 1e9
            if not hint.period_ns or (is_same and abs(off_ns) < MOVED_S * 1e9):
                return
        else:
            self._since_ns, self._had_clock, self._doubt = now_ns, True, ""
        self._shown = reading
        if not hint.period_ns:
            self._report(kind, f"announcements only; {reading.evidence}", evidence=reading.evidence)
            return
        second = second_of_minute(hint.at_ns, hint.period_ns, wall_clock_ns())
        age_s = (now_ns - self._since_ns) / 1e9
        self._report(
            kind,
            f"period {hint.period_ns / 1e9:.3f} s, second {second:.2f} of the minute, "
            f"confidence {reading.confidence:.3f}; {reading.evidence}; {age_s:.0f} s old",
            period_s=hint.period_ns / 1e9,
            second_of_minute=second,
            at_unix_ns=hint.at_ns + wall_clock_ns(),
            confidence=round(reading.confidence, 6),
            evidence=reading.evidence,
            age_s=round(age_s, 1),
        )

    def _check_time(self, before: tuple[int, int]) -> tuple[int, int]:
        """Report a sleep and a step of the time of day; the source begins anew where it must."""
        after = _offsets()
        wall_ns, slept_ns = after[0] - before[0], after[1] - before[1]
        if slept_ns > STEP_NS:
            self._source.restart()
            self._report("time", f"the host slept for {slept_ns / 1e9:.1f} s", slept_s=slept_ns / 1e9)
        elif abs(wall_ns) > STEP_NS:
            if self._source.uses_time_of_day:
                self._source.restart()
            self._report("time", f"the time of day was set by {wall_ns / 1e9:+.2f} s", step_s=wall_ns / 1e9)
        return after

    def _report(self, kind: str, text: str, **values: Any) -> None:  # noqa: ANN401 - JSON is anything
        self._on_event(ClockEvent(kind, time.time_ns() // MS * MS, text, values))


def _offsets() -> tuple[int, int]:
    """Return the time of day and the time since the machine started, both minus the monotonic clock [ns]."""
    return wall_clock_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


@contextlib.contextmanager
def _on_sigterm(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at SIGTERM; only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def received(_: int, __: FrameType | None) -> None:
        stop()

    before = signal.signal(signal.SIGTERM, received)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
