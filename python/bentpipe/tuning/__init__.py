"""Tuning: a controller's tunables over a grid, held against its defaults on the same paths.

- `parse_grid`: what to try. `tune`: tries it, with confidence, and scores the winner again on fresh paths.
- `score`, `by_second`: one setting against the default; what of each Run is kept for it.
"""

from __future__ import annotations

from bentpipe.tuning.grid import Grid, parse_grid
from bentpipe.tuning.scores import Score, by_second, score
from bentpipe.tuning.search import Cell, Tuned, best_of, tune

__all__ = ["Cell", "Grid", "Score", "Tuned", "best_of", "by_second", "parse_grid", "score", "tune"]
