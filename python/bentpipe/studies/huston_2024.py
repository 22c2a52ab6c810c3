"""CUBIC and BBR over Starlink among other people's traffic, peak and off-peak (Huston 2024, figures 3 to 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from bentpipe.plots import style
from bentpipe.plots.streams import Line, Panel, plot_panels
from bentpipe.profiles import preset_profile
from bentpipe.runs import Experiment, Flow, ProfileRef, cross_traffic
from bentpipe.runs.experiment import NS_PER_S, ROLE
from bentpipe.studies import huston_ping
from bentpipe.studies.agreement import over_seeds, shown
from bentpipe.studies.flows import Field, Ran
from bentpipe.studies.scenario import Published, load_scenario
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

#: The article's own bins are not stated; slow start is looked for in bins of so much [s].
BIN_S = 0.5
#: Its figure 7 settles at "second 12".
SETTLED_S = 12.0
SLOW_START_S = 3.0
#: BBR's two outcomes are "very similar" if they differ by less than this factor. Chosen here.
SIMILAR = 1.5


def _run(request: Request) -> Result:
    scenario = load_scenario("huston-2024")
    table = scenario.table
    seeds, quick_seeds = (table.integer(key, 1, 1000) for key in ("seeds", "seeds-quick"))
    seeds = quick_seeds if request.quick else seeds
    preset, duration_s = table.text("preset"), table.number("duration_s", SETTLED_S + 1, 3600)
    controllers, hours = table.texts("controllers"), table.texts("traffic")
    host = table.table("host")
    hosts = {"linux": {key: host.integer(key, 1, 2**40) for key in ("rmem_max_bytes", "wmem_max_bytes")}}
    host.done()
    table.done()
    pings = huston_ping.STUDY.run(replace(request, on_progress=lambda done: request.on_progress(0.3 * done)))
    field = Field()
    profile = preset_profile(preset, duration_s)
    crossing = {hour: cross_traffic(profile, hour, "down") for hour in hours}
    for seed in range(seeds):
        for hour in hours:
            for controller in controllers:
                experiment = Experiment(
                    name=f"huston-2024-{hour}",
                    seed=seed,
                    duration_ns=round(duration_s * NS_PER_S),
                    profiles=(ProfileRef(ROLE, profile.name, profile.content_hash()),),
                    flows=(Flow(controller, sender="linux", receiver="linux"),),
                    hosts=hosts,
                    cross=(crossing[hour],),
                )
                field.add((hour, controller), experiment, profile)
    runs = field.run(request, (0.3, 0.95))
    means = {key: [run.tracks[0].mean_bps for run in ran] for key, ran in runs.items()}
    basis = f"simulated: {seeds} seeds of {duration_s:g} s"
    said = [f"{preset}, {duration_s:g} s, {seeds} seeds, with peak and off-peak traffic of traffic.toml"]
    return Result(
        [*pings.rows, *_rows(scenario.published, runs, means, basis)],
        [*pings.verdicts, *_verdicts(means, basis)],
        [*pings.basis, *said],
        {**pings.figures, "figures-6-9": _figure(runs, controllers, hours)},
        [*pings.notes, *_notes(runs)],
    )


def _rows(
    published: Mapping[str, Published],
    runs: Mapping[tuple[str, ...], Sequence[Ran]],
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
        "bbr-off-peak": np.median(means["off-peak", "bbr"]) / 1e6,
    }
    return [published[key].row(float(value), basis) for key, value in ours.items()]


def _ratio(means: Mapping[tuple[str, ...], Sequence[float]], controller: str) -> float:
    """Off-peak over peak, the median of the seeds."""
    pairs = zip(means["off-peak", controller], means["peak", controller], strict=True)
    return float(np.median([off / max(peak, 1.0) for off, peak in pairs]))


def _verdicts(means: Mapping[tuple[str, ...], Sequence[float]], basis: str) -> list[Verdict]:
    figures = {key: shown([value / 1e6 for value in values], "Mbit/s") for key, values in means.items()}

    def more(one: tuple[str, str], other: tuple[str, str]) -> list[bool]:
        return [a > b for a, b in zip(means[one], means[other], strict=True)]

    gains = {
        name: [off / max(peak, 1.0) for off, peak in zip(means["off-peak", name], means["peak", name], strict=True)]
        for name in ("cubic", "bbr")
    }
    return [
        *(
            over_seeds(
                f"at {hour} BBR gets more than CUBIC",
                more((hour, "bbr"), (hour, "cubic")),
                source,
                basis,
                f"BBR {figures[hour, 'bbr']}; CUBIC {figures[hour, 'cubic']}",
            )
            for hour, source in (("peak", "figures 6 and 8"), ("off-peak", "figures 7 and 9"))
        ),
        over_seeds(
            "CUBIC gets more off-peak than at peak",
            more(("off-peak", "cubic"), ("peak", "cubic")),
            "figures 6 and 7",
            basis,
            f"off-peak {figures['off-peak', 'cubic']}; peak {figures['peak', 'cubic']}",
        ),
        over_seeds(
            "the hour matters less to BBR than to CUBIC",
            [bbr < cubic for bbr, cubic in zip(gains["bbr"], gains["cubic"], strict=True)],
            "figures 6 to 9",
            basis,
            f"off-peak over peak: BBR {shown(gains['bbr'], '')}; CUBIC {shown(gains['cubic'], '')}",
        ),
        over_seeds(
            "BBR's outcome is very similar at peak and off-peak",
            [gain < SIMILAR for gain in gains["bbr"]],
            "text of figure 9",
            basis,
            f"off-peak over peak {shown(gains['bbr'], '')} (similar: below {SIMILAR:g})",
        ),
    ]


def _figure(runs: Mapping[tuple[str, ...], Sequence[Ran]], controllers: Sequence[str], hours: Sequence[str]) -> Figure:
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


def _notes(runs: Mapping[tuple[str, ...], Sequence[Ran]]) -> list[str]:
    def took(hour: str, controller: str) -> float:
        known = [one["mean_s"] for run in runs[hour, controller] for one in run.cross if one["mean_s"] is not None]
        return float(np.mean(known)) if known else float("nan")

    return [
        "peak: transfers of others that bring 58 % of the path's mean capacity, from the access model's daily load, "
        "which was fitted to pings; nothing was fitted to the article's rates",
        f"what the others pay: at peak a transfer of theirs takes {took('peak', 'cubic'):.2f} s beside CUBIC and "
        f"{took('peak', 'bbr'):.2f} s beside BBR, on average",
    ]


STUDY = Study(
    name="huston-2024",
    title="CUBIC and BBR over Starlink at peak and off-peak, and the ping beside them",
    source="Huston, A Transport Protocol's View of Starlink (APNIC, May 2024), figures 3 to 9",
    takes="two minutes; --quick: half of one",
    run=_run,
    sweeps=True,
)
