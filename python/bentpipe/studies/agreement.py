"""Published orderings held against several seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bentpipe.studies.study import Verdict

#: More values than this are told by their median and range. Chosen here: a line's worth.
MANY = 12


def over_seeds(statement: str, agrees: Sequence[bool], source: str, basis: str, figures: str) -> Verdict:
    """A verdict from one answer per seed: it holds if it does with more than half of them; `figures` decided it."""
    many = sum(agrees)
    why = f"{many} of {len(agrees)} seeds agree: {figures}"
    return Verdict(statement, 2 * many > len(agrees) if agrees else None, source, basis, why)


def shown(values: Sequence[float | None], unit: str) -> str:
    """Values of the seeds as a text: in order, or of many the median and the range."""
    known = [value for value in values if value is not None]
    if len(values) > MANY and known:
        text = f"median {statistics.median(known):.3g} ({min(known):.3g} to {max(known):.3g})"
    else:
        text = ", ".join("–" if value is None else f"{value:.3g}" for value in values)
    return text + (f" {unit}" if unit else "")
