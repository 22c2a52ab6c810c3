"""Forecasts as text."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bentpipe.predict.forecaster import Forecast, level_name

if TYPE_CHECKING:
    import polars as pl


def forecast_rows(table: pl.DataFrame, *, newest_only: bool) -> list[dict[str, float]]:
    """Return the rows of `forecast_table`, or the newest alone."""
    return (table.tail(1) if newest_only else table).to_dicts()


def forecast_line(forecast: Forecast | dict[str, float], *, unit: str = "", as_json: bool = False) -> str:
    """Return a forecast as a line: the time that it is for, median and 90 % interval; or as JSON.

    Example:
        >>> forecast_line({"from_s": 12.0, "to_s": 27.0, "q05": 20.0, "q50": 31.5, "q95": 60.0}, unit="ms")
        '1970-01-01 00:00:12 to 00:00:27 UTC: 31.5 ms, 90 % in 20.0 to 60.0'
    """
    row: dict[str, Any]
    if isinstance(forecast, Forecast):
        if as_json:
            return json.dumps(asdict(forecast))
        unit = forecast.unit
        row = {level_name(level): value for level, value in zip(forecast.levels, forecast.values, strict=True)}
        row |= {"from_s": forecast.from_s, "to_s": forecast.to_s}
    else:
        row = forecast
    begin, end = (datetime.fromtimestamp(row[each], UTC) for each in ("from_s", "to_s"))
    times = f"{begin:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC"
    return f"{times}: {row['q50']:.1f} {unit}, 90 % in {row['q05']:.1f} to {row['q95']:.1f}"
