"""What expressions of triggers consist of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FUNCTIONS = {
    "mean": "mean of the last N windows before the newest",
    "ewma": "exponentially weighted mean of them, weight 2 / (N + 1)",
    "median": "their median",
    "min": "their minimum",
    "max": "their maximum",
    "quantile": "their quantile: quantile(x, 0.95, N)",
    "stdev": "their standard deviation",
    "delta": "the newest window less the one N windows before it",
    "count": "number of them that have samples",
}
"""Functions over windows, and what each returns; N is a number of windows or a time, as '5s'."""


@dataclass(frozen=True)
class Expression:
    """A compiled expression.

    Attributes:
        text: As it was given.
        signals: Names of the signals that it uses.
        longest: Most windows that it looks back.
        windows: Sum of the windows that its functions look at: what an evaluation costs.
        program: The compiled CEL program.
    """

    text: str
    signals: frozenset[str]
    longest: int
    windows: int
    program: Any
