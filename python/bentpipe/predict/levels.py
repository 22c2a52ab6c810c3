"""Quantile levels of every prediction."""

LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels at which models give quantiles; the first and the last bound the 90 % interval."""

MEDIAN = LEVELS.index(0.5)
"""Place of the median."""
