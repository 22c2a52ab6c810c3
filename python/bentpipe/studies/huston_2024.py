"""CUBIC and BBR over Starlink among cross traffic, peak and off-peak (Huston 2024, figures 3 to 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from bentpipe.experiments.experiment import NS_PER_S, ROLE, Experiment, Flow, ProfileRef
from bentpipe.experiments.traffic import cross_traffic, traffic_share
from bentpipe.plots import style
from bentpipe.plots.streams import Line, Panel, plot_panels
from bentpipe.scenarios.losses import DEFAULT_LOSS
from bentpipe.scenarios.traffic import find_traffic
from bentpipe.studies import huston_ping
from bentpipe.studies.agreement import Claim, all_hold, values_text
from bentpipe.studies.counterfactual import QUICK, Counterfactual, counterfactuals_of
from bentpipe.studies.files import Huston2024
from bentpipe.studies.flows import RunBatch, StudyRun, as_drawn, on_day
from bentpipe.studies.orders import Level, by_level, share_lost
from bentpipe.studies.scenario import Published
from bentpipe.studies.study import LevelOrder, Request, Result, Row, Study, Verdict

if TYPE_CHECKING:
    from bentpipe._native import Profile

#: Width of bins for slow start [s]; the article does not state its bins.
BIN_S = 0.5
#: Its figure 7 settles at "second 12".
SETTLED_S = 12.0
SLOW_START_S = 3.0
#: Largest factor between BBR's two outcomes for "very similar". Chosen here.
SIMILAR = 1.5
#: First part of a `Key` (…, hour, controller): the study's own paths; otherwise a counterfactual's name.
OWN = "own"


def _run(request: Request) -> Result:
    file = Huston2024.load()
    seeds = file.seeds_quick if request.quick else file.seeds
    preset, duration_s, controllers, hours = file.preset, file.duration_s, file.controllers, file.traffic
    hosts = {"linux": file.host.host()}
    changed = counterfactuals_of(file.counterfactual)[: QUICK if request.quick else None]
    pings = huston_ping.STUDY.run(replace(request, on_progress=lambda done: request.on_progress(0.3 * done)))
    field = RunBatch()

    def add(world: str, hour: str, traffic: str, profile: Profile, seed: int) -> None:
        for controller in controllers:
            experiment = Experiment(
                name=f"huston-2024-{traffic}",
                seed=seed,
                duration_ns=round(duration_s * NS_PER_S),
                warmup_ns=0,  # iperf3 has no warm-up
                profiles=(ProfileRef(role=ROLE, name=profile.name, hash=profile.content_hash()),),
                flows=(Flow(controller=controller, sender="linux", receiver="linux"),),
                hosts=hosts,
                cross=(cross_traffic(profile, traffic, "down"),),
            )
            field.add((world, hour, controller), experiment, profile)

    days = [on_day(preset, duration_s, day) for day in range(seeds)]
    for seed, profile in enumerate(days):
        for hour in hours:
            add(OWN, hour, hour, profile, seed)
    lost_rows, lost = [], {OWN: share_lost(as_drawn(days), "down")}
    for each in changed:
        others = [on_day(preset, duration_s, day, each.parameters) for day in range(min(seeds, each.tests))]
        lost_rows.append(each.lost_row(as_drawn(others), "down", _basis(len(others), duration_s)))
        lost[each.name] = share_lost(as_drawn(others), "down")
        for seed, (profile, other) in enumerate(zip(days, others, strict=False)):
            for hour in hours:
                struck = each.on in ("", hour)  # the other hour's Runs are the study's own and run once
                traffic = (each.traffic or hour) if struck else hour
                add(each.name, hour, traffic, other if struck else profile, seed)
    all_runs = field.run(request, (0.3, 0.95))

    def of(world: str) -> dict[tuple[str, ...], list[StudyRun]]:
        return {key[1:]: ran for key, ran in all_runs.items() if key[0] == world}

    runs, basis = of(OWN), _basis(seeds, duration_s)
    means = _means(runs)
    rows, what_if = _rows(file.published, runs, means, basis), []
    for each, lost_row in zip(changed, lost_rows, strict=True):
        its, its_basis = of(each.name), _basis(min(seeds, each.tests), duration_s)
        rows += [lost_row, *each.rows(_rows(file.published, its, _means(its), its_basis))]
        what_if += each.statements(_verdicts(_means(its), its_basis))
    orders: list[LevelOrder] = []
    for hour, entry in file.order.items():
        worlds = {
            OWN: DEFAULT_LOSS,
            **{each.name: _loss_text(each) for each in changed if each.loss and each.on in ("", hour)},
        }
        orders += by_level(
            hour,
            "Mbit/s",
            entry,
            [
                Level(loss, lost[world], {name: _mbps(all_runs[world, hour, name]) for name in controllers})
                for world, loss in worlds.items()
            ],
        )
    basis_lines = [f"{preset}, {duration_s:g} s on {seeds} days, with peak and off-peak traffic of traffic.toml"]
    return Result(
        [*pings.rows, *rows],
        [*pings.verdicts, *_verdicts(means, basis)],
        [*pings.basis, *basis_lines],
        {**pings.figures, "figures-6-9": _figure(runs, controllers, hours)},
        [*pings.notes, *_notes(runs)],
        what_if,
        orders,
    )


def _basis(tests: int, duration_s: float) -> str:
    return f"simulated: {tests} tests of {duration_s:g} s"


def _loss_text(change: Counterfactual) -> str:
    return f"{change.loss}, {change.traffic} traffic" if change.traffic else change.loss


def _mbps(runs: Sequence[StudyRun]) -> list[float]:
    return [run.tracks[0].mean_bps / 1e6 for run in runs]


def _means(runs: Mapping[tuple[str, ...], Sequence[StudyRun]]) -> dict[tuple[str, ...], list[float]]:
    return {key: [run.tracks[0].mean_bps for run in ran] for key, ran in runs.items()}


def _rows(
    published: Mapping[str, Published],
    runs: Mapping[tuple[str, ...], Sequence[StudyRun]],
    means: Mapping[tuple[str, ...], Sequence[float]],
    basis: str,
) -> list[Row]:
    start = [run.tracks[0].between(0.0, SLOW_START_S).binned(BIN_S)[1].max() for run in runs["peak", "cubic"]]
    settled = [run.tracks[0].between(SETTLED_S, np.inf).mean_bps for run in runs["off-peak", "cubic"]]
    ratio = _ratio(means, "cubic")
    ours = {
        "cubic-peak": np.median(means["peak", "cubic"]) / 1e6,
        "cubic-peak-start": np.median(start) / 1e6,
        "cubic-off-peak": np.median(settled) / 1e6,
        "cubic-ratio-low": ratio,
        "cubic-ratio-high": ratio,
        "bbr-peak": np.median(means["peak", "bbr"]) / 1e6,
    }
    off_peak = float(np.median(means["off-peak", "bbr"])) / 1e6
    basis_lines = "text of figure 9: a very similar outcome, without figures"
    return [
        *(published[key].row(float(value), basis) for key, value in ours.items()),
        Row("BBR, off-peak: mean", "Mbit/s", None, off_peak, basis_lines, basis),
    ]


def _ratio(means: Mapping[tuple[str, ...], Sequence[float]], controller: str) -> float:
    """Return off-peak over peak goodput, the median of the seeds."""
    pairs = zip(means["off-peak", controller], means["peak", controller], strict=True)
    return float(np.median([off / max(peak, 1.0) for off, peak in pairs]))


def _verdicts(means: Mapping[tuple[str, ...], Sequence[float]], basis: str) -> list[Verdict]:
    figures = {key: values_text([value / 1e6 for value in values], "Mbit/s") for key, values in means.items()}

    def hours(name: str) -> tuple[Sequence[float], Sequence[float]]:
        return means["off-peak", name], means["peak", name]

    gains = {
        name: [off / max(peak, 1.0) for off, peak in zip(means["off-peak", name], means["peak", name], strict=True)]
        for name in ("cubic", "bbr")
    }
    return [
        *(
            all_hold(
                f"at {hour} BBR gets more than CUBIC",
                [Claim("BBR over CUBIC", means[hour, "bbr"], means[hour, "cubic"])],
                source,
                basis,
                f"BBR {figures[hour, 'bbr']}; CUBIC {figures[hour, 'cubic']}",
            )
            for hour, source in (("peak", "figures 6 and 8"), ("off-peak", "figures 7 and 9"))
        ),
        all_hold(
            "CUBIC gets more off-peak than at peak",
            [Claim("off-peak over peak", *hours("cubic"))],
            "figures 6 and 7",
            basis,
            f"off-peak {figures['off-peak', 'cubic']}; peak {figures['peak', 'cubic']}",
        ),
        all_hold(
            "CUBIC gets three to four times as much off-peak",
            [Claim("off-peak over peak", *hours("cubic"), 3.0, 4.0)],
            "text of figure 7",
            basis,
        ),
        all_hold(
            "the hour matters less to BBR than to CUBIC",
            [Claim("BBR's off-peak over peak over CUBIC's", gains["bbr"], gains["cubic"], 0.0, 1.0)],
            "figures 6 to 9",
            basis,
            f"off-peak over peak: BBR {values_text(gains['bbr'], '')}; CUBIC {values_text(gains['cubic'], '')}",
        ),
        all_hold(
            "BBR's outcome is very similar at peak and off-peak",
            [Claim("off-peak over peak", *hours("bbr"), 1 / SIMILAR, SIMILAR)],
            "text of figure 9",
            basis,
            f"off-peak over peak {values_text(gains['bbr'], '')} (similar: from 1/{SIMILAR:g} to {SIMILAR:g})",
        ),
    ]


def _figure(
    runs: Mapping[tuple[str, ...], Sequence[StudyRun]], controllers: Sequence[str], hours: Sequence[str]
) -> Figure:
    rows = []
    for controller in controllers:
        row = []
        for hour in hours:
            ran = runs[hour, controller]
            median = sorted(ran, key=lambda run: run.tracks[0].mean_bps)[len(ran) // 2]
            t_s, goodput_bps = median.tracks[0].binned(BIN_S)
            line = Line(style.legend_name(controller), t_s, goodput_bps / 1e6, style.look(controller))
            row.append(Panel(f"{style.look(controller).name}, {hour}", "Mbit/s", [line]))
        rows.append(row)
    return plot_panels(rows)


def _notes(runs: Mapping[tuple[str, ...], Sequence[StudyRun]]) -> list[str]:
    def took(hour: str, controller: str) -> float:
        known = [one["mean_s"] for run in runs[hour, controller] for one in run.cross if one["mean_s"] is not None]
        return float(np.mean(known)) if known else float("nan")

    return [
        f"peak: cross traffic of {traffic_share(find_traffic('peak')):.0%} of the path's mean capacity, the difference "
        "between the access model's busiest and quietest hours, whose daily load was fitted to pings",
        f"effect on cross traffic: at peak a transfer takes {took('peak', 'cubic'):.2f} s beside CUBIC and "
        f"{took('peak', 'bbr'):.2f} s beside BBR, on average",
    ]


STUDY = Study(
    name="huston-2024",
    title="CUBIC and BBR over Starlink at peak and off-peak, and the ping beside them",
    source="Huston, A Transport Protocol's View of Starlink (APNIC, May 2024), figures 3 to 9",
    takes="a minute; --quick: seconds",
    run=_run,
    sweeps=True,
)
