"""Published orderings held against several seeds."""

from __future__ import annotations

from collections.abc import Sequence

from bentpipe.studies.study import Verdict


def over_seeds(statement: str, agrees: Sequence[bool], source: str, basis: str, figures: str) -> Verdict:
    """A verdict from one answer per seed: it holds if it does with more than half of them; `figures` decided it."""
    many = sum(agrees)
    why = f"{many} of {len(agrees)} seeds agree: {figures}"
    return Verdict(statement, 2 * many > len(agrees) if agrees else None, source, basis, why)


def mbps(value_bps: float | None) -> float | None:
    """Mbit/s of bit/s."""
    return None if value_bps is None else value_bps / 1e6


def shown(values: Sequence[float | None], unit: str) -> str:
    """Values of the seeds, in order, as a text."""
    return ", ".join("–" if value is None else f"{value:.3g}" for value in values) + (f" {unit}" if unit else "")
