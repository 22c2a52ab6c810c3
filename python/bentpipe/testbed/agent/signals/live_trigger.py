"""A trigger over the merged values of several feeds: slow values are held, and windows end with the time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.triggers.trigger import Firing, Trigger

MOST_WINDOWS = 36_000
"""Most windows that one call fills with held values: an hour of 0.1 s."""

_NUDGE = 1e-3
"""Part of a window by which its end is passed, so that rounding cannot leave it open."""


@dataclass(frozen=True, slots=True)
class Held:
    """The newest value of a signal.

    Attributes:
        t_s: When it became known [s since 1970].
        value: The value.
        hold_s: How long it counts as the present one [s].
    """

    t_s: float
    value: float
    hold_s: float


class LiveTrigger:
    """Feeds one trigger from a board's values.

    A window in which a signal has no sample of its own gets the newest one while that still counts: weather that is
    read every five minutes has a value in every window of a second.

    Example:
        >>> from bentpipe.triggers.trigger import Trigger
        >>> live = LiveTrigger(Trigger("ping_ms > 50 && rain_mm_per_h > 1"))
        >>> held = {"rain_mm_per_h": Held(0.0, 4.0, 600.0)}
        >>> live.push(100.2, {"ping_ms": 90.0}, held), [firing.t_s for firing in live.pass_time(101.1, held)]
        ([], [101.0])
    """

    def __init__(self, trigger: Trigger) -> None:
        """Begin without windows."""
        self.trigger = trigger
        self._open: int | None = None
        self._seen: set[str] = set()

    @property
    def signals(self) -> frozenset[str]:
        """Names of the signals that it uses."""
        return self.trigger.expression.signals

    @property
    def next_end_s(self) -> float | None:
        """End of the open window [s since 1970]; None: none is open."""
        return None if self._open is None else (self._open + 1) * self.trigger.window_s

    def push(self, t_s: float, values: Mapping[str, float], held: Mapping[str, Held]) -> list[Firing]:
        """Add samples; return the firings of windows that ended before them."""
        firings = self.pass_time(t_s, held)
        mine = {name: values[name] for name in self.signals & values.keys()}
        if mine and (firing := self.trigger.push(t_s, mine)) is not None:
            firings.append(firing)
        self._seen |= mine.keys()
        return firings

    def pass_time(self, t_s: float, held: Mapping[str, Held]) -> list[Firing]:
        """End the windows that are over at `t_s`; `held` are the newest values before it."""
        width_s = self.trigger.window_s
        now = math.floor(t_s / width_s)
        if self._open is None:
            self._open = now
            self.trigger.advance(t_s)
            return []
        firings: list[Firing | None] = []
        until_s = max((each.t_s + each.hold_s for name in self.signals if (each := held.get(name))), default=0.0)
        held_for = math.floor(until_s / width_s) - self._open  # windows that a held value may still reach
        most = max(self.trigger.expression.longest, min(held_for, MOST_WINDOWS)) + 2
        for _ in range(min(now - self._open, most)):
            start_s = self._open * width_s
            values = {
                name: newest.value
                for name in self.signals - self._seen
                if (newest := held.get(name)) is not None and start_s - newest.t_s <= newest.hold_s
            }
            if values:
                firings.append(self.trigger.push(start_s + width_s / 2, values))
            self._open += 1
            self._seen.clear()
            firings.append(self.trigger.advance(start_s + width_s * (1 + _NUDGE)))
        if now > self._open:
            self._open = now
            firings.append(self.trigger.advance(t_s))
        return [firing for firing in firings if firing is not None]

    def restart(self, shift_s: float) -> None:
        """Forget all windows: the clock was set by `shift_s`."""
        self.trigger.restart(shift_s)
        self._open = None
        self._seen.clear()
