"""Delay and loss of a ping over Starlink, slot by slot (Huston 2024, figures 3 to 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from bentpipe.analysis.evidence import spacing_s
from bentpipe.analysis.handovers import DENSE_S, Handovers, analyze_handovers
from bentpipe.analysis.latency import latency_summary
from bentpipe.analysis.tables import Series, only_series
from bentpipe.plots.pings import plot_ping_profile
from bentpipe.studies.files import HustonPing
from bentpipe.studies.measured import Part, probe_series
from bentpipe.studies.scenario import Published
from bentpipe.studies.simulated import simulated_pings, windows_of
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

#: `ping -f`: a probe with each reply, but every 10 ms at least (ping(8)); Starlink's replies take longer.
FLOOD_EVERY_S = 0.01
PACED_EVERY_S = 1.0
#: Measured pings count for the loss "over an extended period" if they are this long, and one comes at least every so
#: often [s]; chosen here.
LONG_S, PACED_S = 3600.0, 2.0
#: Largest distance of a measured period from the published one [s]; chosen here: the search grid is finer.
NEAR_S = 0.1
_SEED = 1


@dataclass(frozen=True)
class _Flood:
    """A dense ping series and its slots."""

    part: Part
    series: Series
    handovers: Handovers


def _run(request: Request) -> Result:
    file = HustonPing.load()
    measured = [(part, only_series(part.table)) for part in probe_series(request.data)]
    dense = [part for part, series in measured if spacing_s(series.t_s) <= DENSE_S]
    long = [
        part
        for part, series in measured
        if part.losses_known and series.duration_s >= LONG_S and spacing_s(series.t_s) <= PACED_S
    ]
    simulated = _Simulated(file, request)
    dense = dense or [simulated.flood()]
    long = long or [simulated.paced()]
    request.on_progress(0.8)
    floods = [
        _Flood(part, only_series(part.table), analyze_handovers(part.table, clock_known=part.clock_known))
        for part in dense
    ]
    losses = [(part, float(latency_summary(part.table)["loss"][0])) for part in long]
    rows = [row for flood in floods for row in _flood_rows(file.published, flood)]
    rows += [file.published["loss"].row(loss, part.basis, of=part.name) for part, loss in losses]
    verdicts = [verdict for flood in floods for verdict in _flood_verdicts(flood)]
    verdicts += [_loss_verdict(part, loss) for part, loss in losses]
    figures = {
        f"figures-3-5{f'-{number}' if number else ''}": plot_ping_profile(
            flood.series, flood.handovers, title=f"{flood.part.name} ({flood.part.basis.partition(':')[0]})"
        )
        for number, flood in enumerate(floods)
    }
    basis = [part.text for part in (*dense, *long)]
    return Result(rows, verdicts, basis, figures, _notes(floods))


class _Simulated:
    """Pings over computed Profiles, simulated on demand."""

    def __init__(self, file: HustonPing, request: Request) -> None:
        self._site, self._server = file.terminal.place("terminal"), file.server.place("server")
        self._flood = windows_of(file.flood)
        self._paced = windows_of(file.paced_quick if request.quick else file.paced)
        self._on_progress = request.on_progress

    def flood(self) -> Part:
        pings = simulated_pings(self._site, self._server, self._flood, FLOOD_EVERY_S, _SEED)
        return self._part(f"every {FLOOD_EVERY_S * 1e3:g} ms, {self._flood.text}", pings)

    def paced(self) -> Part:
        pings = simulated_pings(
            self._site, self._server, self._paced, PACED_EVERY_S, _SEED, lambda done: self._on_progress(0.8 * done)
        )
        return self._part(f"every {PACED_EVERY_S:g} s, {self._paced.text}", pings)

    def _part(self, how: str, pings: pl.DataFrame) -> Part:
        return Part(f"{self._site.name} → {self._server.name}", f"simulated: {how}", pings)


def _flood_rows(published: Mapping[str, Published], flood: _Flood) -> list[Row]:
    handovers, edges = flood.handovers, flood.handovers.edges
    ours = {
        "period": handovers.period_s,
        "jitter": handovers.jitter_ms,
        "spike-low": edges.excess_ms if edges else None,
        "spike-high": edges.excess_p95_ms if edges else None,
    }
    return [published[key].row(value, flood.part.basis, of=flood.part.name) for key, value in ours.items()]


def _flood_verdicts(flood: _Flood) -> list[Verdict]:
    """Judge the statements of figures 3 and 4 on a dense ping series."""
    handovers, edges, basis, name = flood.handovers, flood.handovers.edges, flood.part.basis, flood.part.name
    period = handovers.period_s
    verdicts = [
        Verdict(
            "latency changes regularly every 15 seconds",
            None if handovers.undecided else period is not None and abs(period - 15.0) <= NEAR_S,
            "figure 3",
            basis,
            f"{name}: {handovers.reason}",
        )
    ]
    if edges is None:
        return verdicts
    if edges.excess_ms is not None and edges.excess_mid_ms is not None:
        verdicts.append(
            Verdict(
                "latency rises when the terminal is assigned to another satellite",
                edges.excess_ms > edges.excess_mid_ms,
                "figure 4",
                basis,
                f"{name}: above the slot's median {edges.excess_ms:.1f} ms in the first second of a slot, "
                f"{edges.excess_mid_ms:.1f} ms in one from its middle on (medians)",
            )
        )
    if edges.loss is not None and edges.loss_elsewhere is not None:
        known = flood.part.losses_known
        verdicts.append(
            Verdict(
                "loss events occur at switchover, and less often otherwise",
                edges.loss > edges.loss_elsewhere if known else None,
                "figures 3 and 4",
                basis,
                f"{name}: {edges.loss:.2%} lost within 0.5 s of an edge, {edges.loss_elsewhere:.2%} elsewhere"
                if known
                else f"{name}: lost probes have no rows in this file",
            )
        )
    return verdicts


def _loss_verdict(part: Part, loss: float) -> Verdict:
    return Verdict(
        "over an extended period a little over 1 % of pings are lost (1 to 2 %)",
        0.01 <= loss <= 0.02,
        "text after figure 5; 'around 1%-2%' under Protocol Tuning",
        part.basis,
        f"{part.name}: {loss:.2%}",
    )


def _notes(floods: list[_Flood]) -> list[str]:
    """Return the notes on the rows."""
    notes = ["the article gives the worst shift of its figure 4 as 30 to 80 ms: a single file of 380 s, so no row here"]
    notes += [
        f"{flood.part.name}, {flood.part.basis}: medians of successive slots differ by "
        f"{flood.handovers.step_ms:.1f} ms in the median, {flood.handovers.step_p95_ms:.1f} ms at the 95th percentile"
        for flood in floods
        if flood.handovers.step_ms is not None and flood.handovers.step_p95_ms is not None
    ]
    return notes


STUDY = Study(
    name="huston-ping",
    title="A ping over Starlink: slots of 15 s, loss and delay where they meet, jitter inside",
    source="Huston, A Transport Protocol's View of Starlink (APNIC, May 2024), figures 3 to 5",
    takes="half a minute; --quick: seconds",
    run=_run,
    measured="pings",
)
