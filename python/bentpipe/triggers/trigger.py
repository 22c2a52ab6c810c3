"""A trigger: an expression that is evaluated at the end of each window, and fires when it begins to hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.triggers.expression import compile_expression
from bentpipe.triggers.windows import Windows, evaluate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from bentpipe.triggers.language import Expression


@dataclass(frozen=True)
class Firing:
    """A firing.

    Attributes:
        t_s: End of the window in which the condition came to hold [s].
        values: The signals' means in that window.
        firings: Number of firings so far, this one included.
    """

    t_s: float
    values: dict[str, float]
    firings: int


class Trigger:
    """Fires on rising edges of a condition.

    Attributes:
        expression: The compiled condition.
        evaluations, missing, holding, firings: Counts; `missing`: windows without a sample that was needed, which do
            not hold; `holding`: windows in which the condition held.

    Example:
        >>> trigger = Trigger("rtt > 2 * mean(rtt, 3)", window_s=1.0)
        >>> samples = [(float(t), {"rtt": 100.0 if t == 5 else 30.0}) for t in range(8)]
        >>> [firing.t_s for firing in fire(trigger, samples)]
        [6.0]
    """

    def __init__(
        self,
        expression: str,
        signals: Collection[str] | None = None,
        *,
        window_s: float = 1.0,
        for_windows: int = 1,
        cooldown_s: float = 0.0,
    ) -> None:
        """Compile the condition.

        Args:
            expression: The condition.
            signals: Names of the signals that there are; None: any.
            window_s: Length of a window [s].
            for_windows: Windows in sequence that it must hold for.
            cooldown_s: Least time between two firings [s].

        Raises:
            UserError: Not a condition, or a number out of range.
        """
        _in_range(window_s, 0.01, 3600.0, "window", "s")
        _in_range(float(for_windows), 1.0, 36_000.0, "for", "windows")
        _in_range(cooldown_s, 0.0, 1e7, "cooldown", "s")
        self.expression: Expression = compile_expression(expression, signals, window_s)
        self.window_s = window_s
        self.for_windows = for_windows
        self.cooldown_s = cooldown_s
        self.evaluations = 0
        self.missing = 0
        self.holding = 0
        self.firings = 0
        self._windows = Windows(self.expression.signals, self.expression.longest, window_s)
        self._held = 0
        self._last_s: float | None = None

    def push(self, t_s: float, values: Mapping[str, float]) -> Firing | None:
        """Add samples; return a firing if a window closed in which the condition came to hold."""
        first = self._first(t_s)
        return self._closed(self._windows.add(t_s, values), can_fire=first is None) or first

    def advance(self, t_s: float) -> Firing | None:
        """Let time pass without samples, so that the last window ends."""
        first = self._first(t_s)
        return self._closed(self._windows.advance(t_s), can_fire=first is None) or first

    def restart(self, shift_s: float = 0.0) -> None:
        """Forget all windows: the clock was set by `shift_s`. Counts stay, and the pause after a firing goes on."""
        self._windows = Windows(self.expression.signals, self.expression.longest, self.window_s)
        self._held = 0
        if self._last_s is not None:
            self._last_s += shift_s

    def _first(self, t_s: float) -> Firing | None:
        """Evaluate the oldest window that ends by `t_s`: those after it have no samples."""
        return self._closed(self._windows.advance(t_s, most=1))

    def _closed(self, count: int, *, can_fire: bool = True) -> Firing | None:
        if count == 0:
            return None
        self.evaluations += 1
        if count > 1:
            # Windows without any sample followed: the condition does not hold in them.
            self.missing += count - 1
            self._held = 0
        holds = evaluate(self.expression, self._windows)
        if holds is None:
            self.missing += 1
        elif holds:
            self.holding += 1
        self._held = self._held + 1 if holds else 0
        t_s = self._windows.end_s
        if self._held != self.for_windows or not can_fire:
            return None
        # A clock that was set back ends the time without firings.
        if self._last_s is not None and 0 <= t_s - self._last_s < self.cooldown_s:
            return None
        self.firings += 1
        self._last_s = t_s
        values = {name: self._windows.newest(name) for name in sorted(self.expression.signals)}
        return Firing(t_s, values, self.firings)


def fire(trigger: Trigger, samples: Iterable[tuple[float, Mapping[str, float]]]) -> Iterator[Firing]:
    """Yield the firings over samples in sequence: the dry run of a trigger on a recording."""
    last_s = None
    for t_s, values in samples:
        firing = trigger.push(t_s, values)
        last_s = t_s
        if firing is not None:
            yield firing
    firing = None if last_s is None else trigger.advance(last_s + trigger.window_s)
    if firing is not None:
        yield firing


def _in_range(value: float, least: float, most: float, name: str, unit: str) -> None:
    if not least <= value <= most:
        raise UserError(f"{value:g} {unit}", where=name, expected=f"{least:g} to {most:g} {unit}")
