"""Simulated Runs on hosts with a handover clock: what `bentpipe clock` writes for the controllers of a kernel.

The controllers that read it (`bbr3-leo`, `cubic-leo`) are then those of the kernel, compiled for user space
(`crates/twins`): the simulator's own have no such clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.execution.drawn import with_references
from bentpipe.execution.job import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Experiment


@dataclass(frozen=True)
class ClockWrite:
    """One write to the host's clock; times count from the Profile's beginning [s].

    Attributes:
        written_s: When it is written.
        period_s: Time between two handovers; less than 1 s: no clock.
        at_s: Time of one of them, not negative.
        until_s: End of its validity.
    """

    written_s: float
    period_s: float
    at_s: float
    until_s: float

    def in_ns(self) -> tuple[int, int, int, int]:
        """Return the four times as the native module takes them [ns].

        Raises:
            UserError: One is negative or not finite.
        """
        times_s = (self.written_s, self.period_s, self.at_s, self.until_s)
        if not all(0 <= each < 2**33 for each in times_s):
            raise UserError(f"{times_s}", where="host's clock", expected="times from 0 s on")
        written, period, at, until = (round(each * 1e9) for each in times_s)
        return written, period, at, until


def simulate_with_clock(experiment: Experiment, path: Profile, clock: Sequence[ClockWrite]) -> Outcome:
    """Simulate an Experiment over a Profile, with the host's clock of its senders.

    Args:
        experiment: The Experiment; its seed is in it, and the Profile is used as given.
        path: The Profile.
        clock: Writes to the clock, in order of time.

    Raises:
        UserError: The Experiment cannot be run, or a time is impossible.

    Example:
        >>> from bentpipe.execution.host_clock import ClockWrite, simulate_with_clock
        >>> from bentpipe.experiments.experiment import Experiment, Flow, ProfileRef
        >>> from bentpipe.profiles.presets import preset_profile
        >>> path = preset_profile("fibre", 3.0)
        >>> reference = ProfileRef(role="path", name=path.name, hash=path.content_hash())
        >>> flows = (Flow(controller="bbr3-leo"),)
        >>> race = Experiment(name="one", seed=0, duration_ns=2 * 10**9, profiles=(reference,), flows=flows)
        >>> outcome = simulate_with_clock(race, path, [ClockWrite(0.0, 15.0, 7.0, 60.0)])
        >>> outcome.summary["flows"][0]["controller"]
        'bbr3-leo'
    """
    experiment = with_references(experiment, [path])
    rows = [each.in_ns() for each in clock]
    data = _native.simulate(experiment.to_json(), [path], host_clock=rows)
    return Outcome(experiment, json.loads(data.summary_json()), data)
