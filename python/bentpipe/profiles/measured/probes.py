"""Check a table of probes: one series, sorted by send time, without duplicates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.evidence import spacing_s
from bentpipe.analysis.loss import loss_episodes
from bentpipe.analysis.tables import KEYS, PINGS, check_columns, only_series
from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.checked import MAX_RTT_MS
from bentpipe.measurements.readers.timestamps import Times, timestamps_of
from bentpipe.profiles.build import MAX_DURATION_S
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Nanos = NDArray[np.int64]
    Mask = NDArray[np.bool_]

#: Smallest number of replies; chosen here: fewer have neither a spacing nor a distribution.
MIN_REPLIES = 10
#: Two parts of a table overlap in time if the sequence numbers go back `_BACK` times within `_AMONG` probes.
_BACK, _AMONG = 3, 10
#: Largest number of lost probes per logged probe that silences may stand for; chosen here: if nine tenths of a record
#: are missing, they are not losses.
_MAX_SILENT = 9


@dataclass(frozen=True)
class Probes:
    """Probes of one series, sorted by send time.

    Attributes:
        site, target: As in the table; None: unknown.
        start_unix_ns: Send time of the first probe [ns since 1970].
        sent_ns: Send times since then, increasing [ns]; shape (n,).
        rtt_ms: RTTs [ms]; NaN: lost; shape (n,).
        up_ms, down_ms: One-way delays [ms], known wherever `rtt_ms` is; None: not measured.
        gap: Whether there is a gap (no probing) between a probe and the next; shape (n - 1,).
        spacing_ns: Typical interval between probes [ns].
        notes: Notes about ignored rows.
    """

    site: str | None
    target: str | None
    start_unix_ns: int
    sent_ns: Nanos
    rtt_ms: NDArray[np.float64]
    up_ms: NDArray[np.float64] | None
    down_ms: NDArray[np.float64] | None
    gap: Mask
    spacing_ns: int
    notes: tuple[str, ...]

    @property
    def lost(self) -> Mask:
        """Whether each probe was lost; shape (n,)."""
        return np.isnan(self.rtt_ms)

    @property
    def name(self) -> str:
        """`site → target`, as far as known."""
        return " → ".join(part for part in (self.site, self.target) if part) or "pings"

    def gaps_ns(self) -> NDArray[np.int64]:
        """Return begin and end of each gap [ns since the start]; shape (m, 2).

        A probe covers half a spacing on each side.
        """
        half = self.spacing_ns // 2
        return np.stack([self.sent_ns[:-1][self.gap] + half, self.sent_ns[1:][self.gap] - half], axis=1)

    def probing_clock(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a clock that stops in gaps: real times [ns since the start] and its own times [ns]."""
        end = float(self.sent_ns[-1] + self.spacing_ns)
        real = np.concatenate([[0.0], np.sort(self.gaps_ns().ravel()), [end]])
        lasts = np.diff(real)
        lasts[1::2] = 0.0
        return real, np.concatenate([[0.0], np.cumsum(lasts)])

    def table(self) -> pl.DataFrame:
        """Return the probes as a table for `bentpipe.analysis`."""
        return pl.DataFrame({"unix_ns": self.start_unix_ns + self.sent_ns, "rtt_ms": self.rtt_ms}).with_columns(
            pl.col("rtt_ms").fill_nan(None)
        )


def choose_series(table: pl.DataFrame | pl.LazyFrame, **selection: str | None) -> pl.LazyFrame:
    """Return the rows of one series.

    Args:
        table: Probes.
        selection: `site`, `target` and `kind`; None: the only one.

    Raises:
        UserError: The table lacks the selected series, or several remain; the message names them.
    """
    lazy = table.lazy()
    columns = lazy.collect_schema().names()
    for key in KEYS:
        value = selection.get(key)
        if key not in columns:
            if value is not None:
                raise UserError(f"no column {key!r}; `{key}` cannot choose", where="pings")
            continue
        options = sorted(str(name) for name in lazy.select(pl.col(key).unique()).collect()[key].drop_nulls())
        names = ", ".join(options[:6]) + (", …" if options[6:] else "")
        if value is None and len(options) > 1:
            raise UserError(
                f"{len(options)} {key}s ({names}); a Profile is one path: choose with `{key}`", where="pings"
            )
        if value is not None:
            if value not in options:
                raise UserError(f"no probe with {key} {shown(value)}; there are: {names or 'none'}", where="pings")
            lazy = lazy.filter(pl.col(key) == value)
    return lazy


def read_probes(
    table: pl.DataFrame | pl.LazyFrame, *, silent_is_lost: bool = False, times: Times | None = None
) -> Probes:
    """Read the probes of a table of one series (`choose_series`).

    Args:
        table: Columns `tables.PINGS`; `up_ms` and `down_ms`, `seq` and `duplicate` where there are any.
        silent_is_lost: Times without rows are lost probes: the prober logged only replies.
        times: Whether `unix_ns` are send times (`probe`) or reply times; None: as they look.

    Raises:
        UserError: Several series, none, or fewer replies than `MIN_REPLIES`; an RTT or a span that is too
            long; a clock that was set back; or what `tables.series` refuses.
    """
    lazy = table.lazy()
    schema = check_columns(lazy, PINGS, "pings")
    if "duplicate" in schema:
        lazy = lazy.filter(~pl.col("duplicate").fill_null(value=False))
    extra = [name for name in ("seq", "up_ms", "down_ms") if name in schema]
    rows = lazy.select(*PINGS, *(key for key in KEYS if key in schema), *extra).sort("unix_ns", maintain_order=True)
    frame = rows.collect()
    if not frame.height:
        raise UserError("the table has no rows", where="pings", expected="one row for each probe")
    notes: list[str] = []
    frame = _sort_by_send_time(frame, times, notes)
    one = only_series(frame)
    if "seq" in extra:
        _refuse_overlapping(frame["seq"].to_numpy(), frame["unix_ns"].to_numpy())
    sent_ns = frame["unix_ns"].to_numpy() - one.start_unix_ns
    if sent_ns[-1] > MAX_DURATION_S * 1e9:
        raise UserError(
            f"they span {sent_ns[-1] / 86_400e9:.1f} days",
            where="pings",
            expected=f"at most {MAX_DURATION_S / 86_400:g}",
        )
    too_long = one.rtt_ms > MAX_RTT_MS
    if too_long.any():
        at = format_utc(one.start_unix_ns + int(sent_ns[int(too_long.argmax())]))
        raise UserError(
            f"rtt_ms is {one.rtt_ms[too_long][0]:g} at {at}",
            where="pings",
            expected=f"at most {MAX_RTT_MS:g} (a minute): is it in ms?",
        )
    fresh = np.concatenate([[True], np.diff(sent_ns) > 0])
    notes += [f"{int((~fresh).sum())} probe(s) with the time of another left out"] if not fresh.all() else []
    replies = int((fresh & ~one.lost).sum())
    if replies < MIN_REPLIES:
        problem = (
            "every probe was lost" if replies == 0 else f"only {replies} of {int(fresh.sum())} probes were answered"
        )
        raise UserError(f"{problem}", where="pings", expected=f"at least {MIN_REPLIES} replies to take the delay from")
    one_way_ms = [_one_way(frame, name, fresh, one.rtt_ms) for name in ("up_ms", "down_ms") if name in extra]
    known = len(one_way_ms) == 2 and all(delays is not None for delays in one_way_ms)
    probes = Probes(
        one.site,
        one.target,
        one.start_unix_ns,
        sent_ns[fresh],
        one.rtt_ms[fresh],
        one_way_ms[0] if known else None,
        one_way_ms[1] if known else None,
        np.zeros(int(fresh.sum()) - 1, bool),
        max(1, round(spacing_s(one.t_s[fresh]) * 1e9)),
        tuple(notes),
    )
    return _with_gaps(probes, silent_is_lost)


def _sort_by_send_time(frame: pl.DataFrame, times: Times | None, notes: list[str]) -> pl.DataFrame:
    """Sort the rows by send time: reply times minus the RTT; a lost probe keeps its time."""
    rtt_ms = frame["rtt_ms"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    if timestamps_of([(frame["unix_ns"].to_numpy(), rtt_ms)], times, notes) == "probe":
        return frame
    rtt_ns = pl.Series(np.round(np.nan_to_num(rtt_ms) * 1e6).astype(np.int64))
    return frame.with_columns(frame["unix_ns"] - rtt_ns).sort("unix_ns", maintain_order=True)


def _one_way(frame: pl.DataFrame, name: str, fresh: Mask, rtt_ms: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return a column of one-way delays if it is known and possible for every reply; otherwise None."""
    delays = frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
    answered = ~np.isnan(rtt_ms)
    # Unsynchronised clocks give delays below zero, or beyond the RTT.
    possible = (delays[answered] >= 0) & (delays[answered] <= rtt_ms[answered])
    return delays[fresh] if possible.all() else None


def _refuse_overlapping(seq: NDArray[np.float64], unix_ns: Nanos) -> None:
    """Refuse probes whose sequence numbers jump to and fro: the clock was set back, or two probers wrote the table."""
    back = np.diff(seq.astype(np.float64)) < -_AMONG  # NaN: not numbered
    often = np.convolve(back, np.ones(_AMONG), "valid") >= _BACK if back.size >= _AMONG else np.zeros(0, bool)
    if often.any():
        first = int(often.argmax())
        at = first + int(back[first:].argmax())
        raise UserError(
            f"from {format_utc(int(unix_ns[at]))} on, two parts have the same times (number "
            f"{int(seq[at + 1])} comes after {int(seq[at])}): the prober's clock was set back, or two "
            "probers wrote it; cut the measurement there",
            where="pings",
        )


def _with_gaps(probes: Probes, silent_is_lost: bool) -> Probes:
    """Mark silences as gaps, or fill them with lost probes."""
    silences = loss_episodes(probes.table()).silences
    places = np.searchsorted(probes.sent_ns, silences["start_unix_ns"].to_numpy() - probes.start_unix_ns)
    gap = np.zeros(probes.gap.shape, bool)
    gap[places] = True
    if not silent_is_lost or not places.size:
        return replace(probes, gap=gap)
    # Evenly, at the mean interval of the others: the typical interval may be shorter than the mean.
    begin, whole = probes.sent_ns[places], probes.sent_ns[places + 1] - probes.sent_ns[places]
    mean_ns = (int(probes.sent_ns[-1]) - int(whole.sum())) / max(1, gap.size - places.size)
    count = np.maximum(np.round(whole / mean_ns).astype(np.int64) - 1, 1)
    if count.sum() > _MAX_SILENT * probes.sent_ns.size:
        raise UserError(
            f"silences would be {int(count.sum())} lost probes for {probes.sent_ns.size} logged ones",
            where="pings",
            expected=f"at most {_MAX_SILENT} for each: leave them gaps",
        )
    number = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + 1
    missing_ns = np.repeat(begin, count) + number * np.repeat(whole, count) // np.repeat(count + 1, count)
    order = np.argsort(np.concatenate([probes.sent_ns, missing_ns]), kind="stable")

    def filled(column: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        return None if column is None else np.concatenate([column, np.full(missing_ns.size, np.nan)])[order]

    rtt_ms = filled(probes.rtt_ms)
    assert rtt_ms is not None
    return replace(
        probes,
        sent_ns=np.concatenate([probes.sent_ns, missing_ns])[order],
        rtt_ms=rtt_ms,
        up_ms=filled(probes.up_ms),
        down_ms=filled(probes.down_ms),
        gap=np.zeros(order.size - 1, bool),
        notes=(*probes.notes, f"{missing_ns.size} probes in {places.size} silences counted as lost, as requested"),
    )
