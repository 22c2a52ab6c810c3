"""Latency that stays above twice the median for slots on end (T3P, section 3.3, figure 3a)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from bentpipe.analysis.evidence import spacing_s
from bentpipe.analysis.handovers import Handovers, analyze_handovers
from bentpipe.analysis.loss import loss_episodes
from bentpipe.analysis.spikes import BIN_S, LASTING_S, Spikes, latency_spikes
from bentpipe.analysis.tables import Series, only_series
from bentpipe.plots.pings import plot_spikes_within
from bentpipe.studies.measured import Part, joint_basis, probe_series
from bentpipe.studies.simulated import windows_of
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import SOURCE, simulated_probes
from bentpipe.studies.t3p_files import T3pSpikes

#: Least number of lasting spikes for a share; chosen here.
LEAST_SPIKES = 10
#: Length of the plotted window [s] (figure 3a).
DRAWN_S = 900.0
#: Largest spacing of measured pings that count [s]: as dense as the paper's.
DENSEST_NEEDED_S = 1.5
_3A = "figure 3a, section 3.3"
#: Standard deviations by which a share must exceed chance; chosen here: a level of 1 %.
BEYOND_CHANCE = 2.33


@dataclass(frozen=True)
class _SeriesSpikes:
    part: Part
    series: Series
    slots: Handovers
    spikes: Spikes

    @property
    def lasting(self) -> pl.DataFrame:
        return self.spikes.spikes.filter("lasting")


def _run(request: Request) -> Result:
    file = T3pSpikes.load()
    windows, quick = windows_of(file.windows), windows_of(file.windows_quick)
    parts = [part for part in probe_series(request.data) if _is_enough(only_series(part.table))]
    if not parts:
        parts = list(simulated_probes(["bcn-1"], quick if request.quick else windows, request.on_progress).values())
    every = [_analyze(part) for part in parts]
    rows, notes = [], []
    for series_spikes in every:
        lengths = series_spikes.lasting["duration_s"]
        ours = {
            "median": series_spikes.spikes.median_ms,
            "threshold": series_spikes.spikes.threshold_ms,
            "duration": float(np.median(lengths.to_numpy())) if lengths.len() else None,
        }
        rows += [
            file.published[key].row(value, series_spikes.part.basis, of=series_spikes.part.name)
            for key, value in ours.items()
        ]
        rows += _beside(series_spikes)
        notes.append(
            f"{series_spikes.part.name}, {series_spikes.part.basis}: drawn are the {DRAWN_S:g} s "
            "with most lasting spikes; the paper drew 15 minutes at random"
        )
    figures = {}
    for number, series_spikes in enumerate(every):
        title = f"{series_spikes.part.name} ({series_spikes.part.basis.partition(':')[0]})"
        figure = plot_spikes_within(
            series_spikes.series,
            series_spikes.spikes,
            from_s=_busiest_s(series_spikes),
            length_s=DRAWN_S,
            title=title,
        )
        figures[f"figure-3a{f'-{number}' if number else ''}"] = figure
    return Result(rows, _verdicts(every), [part.text for part in parts], figures, notes)


def _is_enough(one: Series) -> bool:
    return one.duration_s >= DRAWN_S * 0.8 and spacing_s(one.t_s) <= DENSEST_NEEDED_S


def _analyze(part: Part) -> _SeriesSpikes:
    slots = analyze_handovers(part.table)
    return _SeriesSpikes(part, only_series(part.table), slots, latency_spikes(part.table, slots.period_s))


def _beside(series_spikes: _SeriesSpikes) -> list[Row]:
    """Return rows of quantities that the paper shows only in a plot."""
    basis, name = series_spikes.part.basis, series_spikes.part.name
    hours = _probed_s(series_spikes.series) / 3600
    per_piece = series_spikes.lasting.height / (hours * 3600 / DRAWN_S)
    return [
        Row(f"lasting spikes in {DRAWN_S:g} s ('a few'): {name}", "", None, per_piece, _3A, basis),
        Row(f"share of time inside them: {name}", "", None, series_spikes.spikes.share_lasting, _3A, basis),
        Row(
            f"share of them near a multiple of the slot: {name}",
            "",
            None,
            series_spikes.spikes.near_multiple,
            _3A,
            basis,
        ),
    ]


def _verdicts(every: list[_SeriesSpikes]) -> list[Verdict]:
    """Judge the paper's statements on all series together, since one has few spikes."""
    return [_last(every), _multiples(every), _losses(every)]


def _last(every: list[_SeriesSpikes]) -> Verdict:
    lasting = sum(series_spikes.lasting.height for series_spikes in every)
    spikes = sum(series_spikes.spikes.spikes.height for series_spikes in every)
    hours = sum(_probed_s(series_spikes.series) for series_spikes in every) / 3600
    return Verdict(
        "spikes above 2 × the median persist for roughly 15 seconds or more",
        lasting > 0,
        _3A,
        joint_basis([series_spikes.part for series_spikes in every]),
        f"{lasting} of {spikes} spikes last, in {hours:.2g} hours",
    )


def _multiples(every: list[_SeriesSpikes]) -> Verdict:
    """Compare the share of lengths near a multiple of the slot with the share by chance (`_chance`)."""
    statement = "they last for multiples of 15 seconds"
    known = [
        series_spikes
        for series_spikes in every
        if series_spikes.slots.period_s is not None and series_spikes.lasting.height
    ]
    lasting = sum(series_spikes.lasting.height for series_spikes in known)
    basis = joint_basis([series_spikes.part for series_spikes in known or every])
    if lasting < LEAST_SPIKES:
        few = f"{lasting} lasting spikes in series whose slots were found; fewer than {LEAST_SPIKES} decide nothing"
        return Verdict(statement, None, _3A, basis, few)
    near = (
        sum((series_spikes.spikes.near_multiple or 0.0) * series_spikes.lasting.height for series_spikes in known)
        / lasting
    )
    chance = sum(_chance(series_spikes) * series_spikes.lasting.height for series_spikes in known) / lasting
    spread = float(np.sqrt(chance * (1 - chance) / lasting))
    return Verdict(
        statement,
        near > chance + BEYOND_CHANCE * spread,
        _3A,
        basis,
        f"{near:.0%} of {lasting} are within {BIN_S:g} s of a multiple of the slot, {chance:.0%} if they end at random",
    )


def _chance(series_spikes: _SeriesSpikes) -> float:
    """Return the share near a multiple if spikes ended at random, at a rate that gives their mean length.

    This is the geometric distribution above `LASTING_S`: short spikes favour the first multiple by chance, too.
    """
    period_s = series_spikes.slots.period_s or 15.0
    lengths = series_spikes.lasting["duration_s"].to_numpy()
    end = 1 / (1 + (lengths.mean() - LASTING_S) / BIN_S)
    later = np.arange(int(40 / end) + 1)
    length_s = LASTING_S + later * BIN_S
    near = np.abs(length_s - np.maximum(np.round(length_s / period_s), 1) * period_s) <= BIN_S
    return float((end * (1 - end) ** later)[near].sum())


def _losses(every: list[_SeriesSpikes]) -> Verdict:
    statement = "packets are often lost when spikes start or end"
    known = [
        series_spikes for series_spikes in every if series_spikes.part.losses_known and series_spikes.lasting.height
    ]
    basis = joint_basis([series_spikes.part for series_spikes in known or every])
    if not known:
        return Verdict(statement, None, _3A, basis, "no spike lasts, or lost probes have no rows")
    lasting = sum(series_spikes.lasting.height for series_spikes in known)
    ends = sum(int(series_spikes.lasting["lost_at_ends"].sum()) for series_spikes in known) / lasting
    usual = sum(_usual_loss(series_spikes) * series_spikes.lasting.height for series_spikes in known) / lasting
    return Verdict(
        statement,
        ends > usual,
        _3A,
        basis,
        f"{ends:.0%} of {lasting} have a loss where they start or end; {usual:.0%} of as many seconds anywhere do",
    )


def _usual_loss(series_spikes: _SeriesSpikes) -> float:
    """Return the chance of a loss in six random seconds: `lost_at_ends` checks two ends of three bins."""
    episodes = loss_episodes(series_spikes.part.table).episodes
    seconds = np.unique((episodes["start_unix_ns"].to_numpy() // 10**9).astype(np.int64)).size
    each = seconds / _probed_s(series_spikes.series)
    return float(1 - (1 - each) ** 6)


def _probed_s(one: Series) -> float:
    """Return the seconds with a probe, since windows may lie hours apart."""
    return float(np.unique((one.t_s // BIN_S).astype(np.int64)).size * BIN_S)


def _busiest_s(series_spikes: _SeriesSpikes) -> float:
    """Return the start of the `DRAWN_S` with most lasting spikes [s since the first probe]."""
    starts = (series_spikes.lasting["start_unix_ns"].to_numpy() - series_spikes.series.start_unix_ns) / 1e9
    if not starts.size:
        return 0.0
    begin = np.maximum(starts - 60.0, 0.0)
    counts = [int(((starts >= at) & (starts < at + DRAWN_S)).sum()) for at in begin]
    return float(begin[int(np.argmax(counts))])


STUDY = Study(
    name="t3p-spikes",
    title="Latency above twice the median that stays for multiples of 15 s",
    source=f"{SOURCE}, figure 3a",
    takes="a minute; --quick: seconds",
    run=_run,
    measured="pings",
)
