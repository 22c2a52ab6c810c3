"""The clock of a Profile that is being emulated, and its handovers ahead of time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.kernel.clock.emulations import Emulations
from bentpipe.kernel.clock.reading import Reading
from bentpipe.kernel.clock.record import Hint, wall_clock_ns
from bentpipe.measurements.dish.slots import SLOT_NS
from bentpipe.profiles.path import PathView
from bentpipe.times import aligned_ns

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe._native import Profile

TOLERANCE_S = 0.2
"""Largest deviation of a handover from a periodic clock [s]. Chosen here: of the order of an interruption."""
STARLINK_S = 15.0
"""Period that is known beforehand [s]."""
FEWEST = 6
"""Handovers that show another period. Chosen here: of six at random intervals of 8 to 22 s one in a hundred has one."""
LEAST_S, MOST_S = 4.0, 60.0
"""Shortest and longest period, as in the learned clock (`crates/cc/src/leo/search.rs`)."""


class NoClockError(UserError):
    """The Profile has no reconfigurations."""

    exit_code = 3


def handover_times_s(profile: Profile) -> list[float]:
    """Return the times of a Profile's handovers and reconfigurations after its start [s].

    Example:
        >>> import bentpipe as bp
        >>> from bentpipe.kernel.clock.profile import handover_times_s
        >>> from bentpipe.profiles.presets import preset_profile
        >>> handover_times_s(preset_profile("fibre", 60.0))
        []
    """
    times = {event["at_ns"] / 1e9 for event in PathView(profile).handovers()}
    return sorted(each for each in times if 0 < each < profile.duration_s)


def regular_clock(times_s: list[float]) -> tuple[float, float] | None:
    """Return period and time of one handover [s] if all are at multiples of a period; None: they are not.

    Some multiples may have none, half of them at most: a satellite that serves for two slots. `FEWEST` handovers are
    needed, or the period is Starlink's: fewer random times have a common one too often.

    Example:
        >>> from bentpipe.kernel.clock.profile import regular_clock
        >>> regular_clock([12.0, 27.0, 57.0])
        (15.0, 12.0)
        >>> regular_clock([12.0, 21.5, 57.0]) is None, regular_clock([12.0, 25.0, 38.0]) is None
        (True, True)
    """
    if len(times_s) < 2:
        return None
    at = np.array(times_s)
    shortest = float(np.diff(at).min())
    for parts in range(1, 5):
        period = shortest / parts
        slots = np.round((at - at[0]) / period)
        if slots[-1] > 0:
            period = float(np.polyfit(slots, at, 1)[0]) if len(at) > 2 else (at[-1] - at[0]) / slots[-1]
        error = (at - at[0]) - slots * period
        is_known = len(at) >= FEWEST or abs(period - STARLINK_S) <= 0.05
        is_fit = LEAST_S <= period <= MOST_S and np.abs(error - np.median(error)).max() <= TOLERANCE_S
        if is_fit and is_known and slots[-1] <= 2 * (len(at) - 1):
            return round(period, 6), round(float(at[0] + np.median(error)), 6)
    return None


class Emulated:
    """The source of `bentpipe clock --profile`.

    Args:
        profile: The Profile.
        start_unix_ns: Wall-clock time at which its beginning was, or will be, emulated; None: as `bentpipe run` begins
            it, so that its seconds are those of the minute (of the slot of 15 s, if it is shorter than two minutes).
            Only its periodic clock is known then, not which slot it is in.
        file: The Profile's file: when the last Run of it on this machine ends, the clock ends; None: it does not.

    A Run that is longer than the Profile repeats it: from its beginning, or from where the seconds agree again. Where
    the two differ, a start tells only the first passage.

    Raises:
        NoClockError: It has no reconfigurations.
        UserError: They are irregular, or their period does not divide the minute (the slot), and there is no start.
    """

    uses_time_of_day = False
    """An emulation follows the monotonic clock once it runs."""

    def __init__(self, profile: Profile, start_unix_ns: int | None = None, file: Path | None = None) -> None:
        """Find its clock."""
        times_s = handover_times_s(profile)
        if not times_s:
            raise NoClockError(
                f"{profile.name} has no reconfigurations, so it has no clock",
                where="profile",
                expected="a Profile with handovers, as of `bentpipe profile make`",
            )
        self._duration_ns = round(profile.duration_s * 1e9)
        self._at_ns = [round(each * 1e9) for each in times_s]
        self._clock = regular_clock(times_s)
        self._start_unix_ns, self._wall_ns = start_unix_ns, wall_clock_ns()
        self._made_for_unix_ns = profile.start_unix_ns
        self._emulations, self._have_ended = Emulations(file), False
        self._aligned_ns = aligned_ns(self._duration_ns)
        is_aligned = self._clock is not None and self._aligned_ns % round(self._clock[0] * 1e9) == 0
        if start_unix_ns is None and not (is_aligned and self._duration_ns >= SLOT_NS):
            every = "each minute" if self._aligned_ns > SLOT_NS else f"every 15 s, in its {profile.duration_s:g} s"
            raise UserError(
                f"the handovers of {profile.name} do not repeat {every}",
                where="start",
                expected="the time at which its beginning was emulated",
            )

    def wait(self, until_ns: int) -> None:
        """Sleep; see `Source`."""
        time.sleep(max(until_ns - time.monotonic_ns(), 0) / 1e9)

    def read(self, now_ns: int) -> Reading:
        """Return the clock; see `Source`."""
        # A start is that of one emulation; without it the next one has the same clock.
        self._have_ended = self._emulations.have_ended() or (self._have_ended and self._start_unix_ns is not None)
        if self._have_ended:
            return Reading(doubt="the emulation has ended")
        start_unix_ns = self._made_for_unix_ns if self._start_unix_ns is None else self._start_unix_ns
        begin_ns, hint = start_unix_ns - self._wall_ns, Hint()
        if self._start_unix_ns is not None:
            passage = (now_ns - begin_ns) // self._duration_ns
            if passage > 0 and self._duration_ns >= SLOT_NS and self._duration_ns % self._aligned_ns:
                s = f"{self._duration_ns / 1e9:g} s"
                return Reading(doubt=f"the Profile of {s} is over; where its Run repeats it from is not known")
            begin_ns += passage * self._duration_ns
            hint = self._around(now_ns, begin_ns)
        if self._clock is None:
            return Reading(hint, 1.0, f"{len(self._at_ns)} handovers, at irregular times")
        period_ns, first_ns = (round(each * 1e9) for each in self._clock)
        at_ns = begin_ns + first_ns
        if self._start_unix_ns is None or at_ns < 0:  # the time of another day, or before the monotonic clock began
            at_ns %= period_ns
        hint = replace(hint, period_ns=period_ns, at_ns=at_ns)
        return Reading(hint, 1.0, f"{len(self._at_ns)} handovers of the Profile")

    def _around(self, now_ns: int, begin_ns: int) -> Hint:
        """Return the handovers before and after now, if both are known and a second apart."""
        ends = [begin_ns + turn * self._duration_ns + at for turn in (-1, 0, 1) for at in self._at_ns]
        last_ns, next_ns = max(at for at in ends if at <= now_ns), min(at for at in ends if at > now_ns)
        return Hint(last_ns=last_ns, next_ns=next_ns) if last_ns >= 0 and next_ns - last_ns >= 10**9 else Hint()

    def restart(self) -> None:
        """Read the time of day anew; see `Source`."""
        self._wall_ns = wall_clock_ns()

    def close(self) -> None:
        """Do nothing."""
