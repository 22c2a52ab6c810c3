"""Tuning: a grid of a controller's tunables compared with its defaults on the same paths.

- `parse_grid`: the grid. `tune`: scores it with confidence intervals, and the best point again on fresh paths.
- `score`, `by_second`: one setting relative to the default, and the measure of each Run.
"""

from __future__ import annotations

from bentpipe.tuning.grid import Grid, parse_grid
from bentpipe.tuning.scores import Score, by_second, score
from bentpipe.tuning.search import Cell, Tuned, best_of, tune

__all__ = ["Cell", "Grid", "Score", "Tuned", "best_of", "by_second", "parse_grid", "score", "tune"]
