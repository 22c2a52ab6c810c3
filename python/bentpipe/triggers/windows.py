"""Closed windows of signals, and expressions over them.

A signal's name is the mean of its newest closed window; a function sees the windows *before* that one: a window that is
part of its own mean of ten could never be ten times it.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.triggers.language import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe.triggers.language import Expression

    Look = Callable[[str, str, float | None, int], float]


class MissingError(Exception):
    """A window that an expression needs has no sample, or there are too few windows."""


class Windows:
    """Windows of several signals, aligned to multiples of their length.

    Example:
        >>> windows = Windows({"a"}, longest=2, window_s=1.0)
        >>> windows.add(0.2, {"a": 1.0}), windows.add(0.7, {"a": 3.0}), windows.add(1.1, {"a": 9.0})
        (0, 0, 1)
        >>> windows.newest("a")
        2.0
    """

    def __init__(self, signals: frozenset[str] | set[str], longest: int, window_s: float) -> None:
        """Begin without windows; of each signal the newest `longest` + 1 are kept."""
        self.window_s = window_s
        self._means: dict[str, deque[float]] = {name: deque(maxlen=longest + 1) for name in signals}
        self._sums: dict[str, tuple[float, int]] = dict.fromkeys(signals, (0.0, 0))
        self._open: int | None = None
        self._longest = longest

    def add(self, t_s: float, values: Mapping[str, float]) -> int:
        """Add samples at `t_s`; return how many windows closed. Older samples and numbers not finite are left out."""
        closed = self.advance(t_s)
        if not math.isfinite(t_s) or self._open is None or math.floor(t_s / self.window_s) < self._open:
            return closed
        for name in self._sums.keys() & values.keys():
            value = values[name]
            if isinstance(value, (int, float)) and math.isfinite(value):
                total, count = self._sums[name]
                self._sums[name] = (total + value, count + 1)
        return closed

    def advance(self, t_s: float, most: int | None = None) -> int:
        """Close the windows that end by `t_s`, at most `most`; return how many, at most one more than are kept."""
        if not math.isfinite(t_s):
            return 0
        now = math.floor(t_s / self.window_s)
        if self._open is None:
            self._open = now
            return 0
        if now < self._open - self._longest - 2:  # the clock was set back: begin anew
            self._open = now
            for name, means in self._means.items():
                means.clear()
                self._sums[name] = (0.0, 0)
            return 0
        closed = max(0, min(now - self._open, self._longest + 2))
        if most is not None and closed > most:
            closed, now = most, self._open + most
        for _ in range(closed):
            for name, (total, count) in self._sums.items():
                self._means[name].append(total / count if count else math.nan)
                self._sums[name] = (0.0, 0)
        self._open = max(self._open, now)
        return closed

    @property
    def end_s(self) -> float:
        """End of the newest closed window [s]."""
        return (self._open or 0) * self.window_s

    def newest(self, name: str) -> float:
        """Return the mean of the newest closed window; NaN: it has no sample."""
        means = self._means[name]
        return means[-1] if means else math.nan

    def look(self, function: str, name: str, level: float | None, count: int) -> float:
        """Return a function of the `count` windows before the newest. Raises `MissingError`."""
        means = self._means[name]
        if len(means) < count + 1:
            raise MissingError(name)
        before = np.fromiter(islice(means, len(means) - 1 - count, len(means) - 1), float, count)
        known = before[np.isfinite(before)]
        if function == "count":
            return float(len(known))
        if function == "delta":
            if not (math.isfinite(before[0]) and math.isfinite(means[-1])):
                raise MissingError(name)
            return float(means[-1] - before[0])
        if not len(known):
            raise MissingError(name)
        if function == "ewma":
            return _ewma(known, count)
        simple: dict[str, Callable[[Any], Any]] = {
            "mean": np.mean,
            "median": np.median,
            "min": np.min,
            "max": np.max,
            "stdev": np.std,
            "quantile": lambda each: np.quantile(each, 0.5 if level is None else level),
        }
        return float(simple[function](known))


def _ewma(values: Any, count: int) -> float:  # noqa: ANN401 - an array
    weight, mean = 2 / (count + 1), float(values[0])
    for value in values[1:]:
        mean += weight * (float(value) - mean)
    return mean


def evaluate(expression: Expression, windows: Windows) -> bool | None:
    """Return whether the expression holds for the newest closed window; None: a sample that it needs is missing."""
    newest = {name: windows.newest(name) for name in expression.signals}
    result = run(expression, newest, windows.look)
    return result if isinstance(result, bool) else None


def run(expression: Expression, newest: Mapping[str, float], look: Look) -> object:
    """Run a program with values of signals and a function over windows; None: it needs what is missing."""
    import cel

    is_missing = False

    def called(function: str) -> Callable[..., float | None]:
        def call(name: str, *values: float) -> float | None:
            nonlocal is_missing
            try:
                return look(function, name, values[0] if len(values) > 1 else None, int(values[-1]))
            except MissingError:
                is_missing = True
                return None  # the library would log an exception

        return call

    context = cel.Context()
    for name, value in newest.items():
        # A name that is not there raises where it is used, and only there: `a > 1 || b > 1` holds without b.
        if math.isfinite(value):
            context.add_variable(name, value)
    for function in FUNCTIONS:
        context.add_function(function, called(function))
    try:
        result: object = expression.program.execute(context)
    except Exception:  # noqa: BLE001 - the library has several kinds; each is a value that is missing or undefined
        return None
    return None if is_missing else result
