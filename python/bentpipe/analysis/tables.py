"""Input tables of analyses: columns, validation, and splitting into series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Probes with RTTs, one row each. `rtt_ms` null: lost.
PINGS: Mapping[str, pl.DataType] = {"unix_ns": pl.Int64(), "rtt_ms": pl.Float64()}
#: Columns that identify a series; `kind` is the probing method (`icmp`, `tcp`, `udp`). A table may lack any.
KEYS = ("site", "target", "kind")


def series_name(site: str | None, target: str | None, kind: str | None) -> str:
    """Return `site → target (kind)` for messages and figures; empty if all are unknown."""
    ends = " → ".join(part for part in (site, target) if part)
    return f"{ends} ({kind})".lstrip() if kind else ends


@dataclass(frozen=True)
class Series:
    """Probes of one kind from one site to one target, in time order.

    Attributes:
        site: Source; None: unknown.
        target: Target; None: unknown.
        kind: Probing method; None: unknown.
        start_unix_ns: Time of the first probe [ns since 1970].
        t_s: Times of the probes since `start_unix_ns` [s], not decreasing; shape (n,).
        rtt_ms: RTTs [ms]; NaN: lost; shape (n,).
    """

    site: str | None
    target: str | None
    kind: str | None
    start_unix_ns: int
    t_s: Floats
    rtt_ms: Floats

    @property
    def name(self) -> str:
        """`site → target (kind)` for messages and figures."""
        return series_name(self.site, self.target, self.kind) or "the series"

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Which probes were lost."""
        return np.isnan(self.rtt_ms)

    @property
    def duration_s(self) -> float:
        """Time from the first to the last probe [s]."""
        return float(self.t_s[-1]) if self.t_s.size else 0.0

    @property
    def times_unix_ns(self) -> NDArray[np.int64]:
        """Times of the probes [ns since 1970]; shape (n,)."""
        return self.start_unix_ns + (self.t_s * 1e9).astype(np.int64)

    def only(self, chosen: NDArray[np.bool_]) -> Series:
        """Return a series of the chosen probes, at least one; shape (n,)."""
        first_s = float(self.t_s[chosen][0])
        start = self.start_unix_ns + round(first_s * 1e9)
        return replace(self, start_unix_ns=start, t_s=self.t_s[chosen] - first_s, rtt_ms=self.rtt_ms[chosen])

    def replies(self) -> tuple[Floats, Floats]:
        """Return times [s] and RTTs [ms] of the answered probes."""
        answered = ~self.lost
        return self.t_s[answered], self.rtt_ms[answered]


def check_columns(table: pl.LazyFrame, expected: Mapping[str, pl.DataType], where: str) -> pl.Schema:
    """Check the columns of a table, and return its schema; `where` names it in messages.

    Raises:
        UserError: A column is missing or of another type; the message names it.
    """
    schema = table.collect_schema()
    for name, kind in expected.items():
        if name not in schema:
            raise UserError(f"{where}: no column {name!r} (found: {', '.join(schema) or 'none'}); expected {kind}")
        # A column without any value has type Null.
        if schema[name] != kind and schema[name] != pl.Null():
            raise UserError(f"{where}: column {name!r} is {schema[name]}; expected {kind}")
    return schema


def with_names(table: pl.LazyFrame) -> pl.LazyFrame:
    """Return the table with the columns that identify a series as text, whatever their type."""
    schema = table.collect_schema()
    return table.with_columns(
        pl.col(key).cast(pl.String) for key in KEYS if schema.get(key, pl.String()) != pl.String()
    )


def series(table: pl.DataFrame | pl.LazyFrame) -> Iterator[Series]:
    """Yield the series of a table of pings, sorted by site, target and kind; each is loaded on demand.

    An RTT of 0, below the resolution of its tool, is accepted.

    Raises:
        UserError: A column is missing or of another type, a time is null, or an RTT is negative or not a number (a
            lost probe is null).
    """
    lazy = with_names(table.lazy())
    schema = check_columns(lazy, PINGS, "pings")
    keys = [key for key in KEYS if key in schema]
    groups = lazy.select(keys).unique().collect(engine="streaming").sort(keys, nulls_last=True) if keys else None
    for group in groups.iter_rows(named=True) if groups is not None else [{}]:
        here = lazy.filter([pl.col(key).eq_missing(pl.lit(value)) for key, value in group.items()] or pl.lit(True))
        yield _series(here.select(*PINGS).collect(engine="streaming"), *(group.get(key) for key in KEYS))


def only_series(table: pl.DataFrame | pl.LazyFrame) -> Series:
    """Return the only series of a table.

    Raises:
        UserError: There are several or none, or see `series`.
    """
    every = iter(series(table))
    first = next(every, None)
    if first is None:
        raise UserError("pings: the table has no rows; expected one row for each probe")
    second = next(every, None)
    if second is not None:
        more = ", …" if next(every, None) is not None else ""
        raise UserError(
            f"pings: several series ({first.name}, {second.name}{more}); expected one (`site`, `target`, `kind`)"
        )
    return first


def _series(rows: pl.DataFrame, site: str | None, target: str | None, kind: str | None) -> Series:
    if rows["unix_ns"].null_count():
        raise UserError(f"pings: {rows['unix_ns'].null_count()} rows have no 'unix_ns'; expected a time for each probe")
    if not rows["unix_ns"].is_sorted():
        rows = rows.sort("unix_ns", maintain_order=True)
    unix_ns = rows["unix_ns"].to_numpy()
    rtt_ms = rows["rtt_ms"].cast(pl.Float64).to_numpy()
    bad = (rtt_ms < 0) | np.isinf(rtt_ms)
    if bad.any():
        value = f"rtt_ms is {rtt_ms[bad][0]:g} at unix_ns {unix_ns[bad][0]}"
        raise UserError(f"pings: {value}; expected 0 ms or more, or null for a lost probe")
    start = int(unix_ns[0]) if unix_ns.size else 0
    t_s = (unix_ns - start).astype(np.float64)
    t_s /= 1e9
    return Series(site, target, kind, start, t_s, rtt_ms)
