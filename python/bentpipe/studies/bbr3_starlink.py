"""BBRv3, CUBIC and Hybla from Melbourne to five cities, up and down (De Silva and Pokhrel 2025, figures 2 to 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from bentpipe.experiments.experiment import NS_PER_S, ROLE, Experiment, Flow, ProfileRef
from bentpipe.plots import style
from bentpipe.plots.groups import Boxes, plot_boxes
from bentpipe.plots.streams import Line, Panel, plot_panels
from bentpipe.profiles.presets import preset_profile
from bentpipe.scenarios.losses import DEFAULT_LOSS
from bentpipe.scenarios.services import load_services
from bentpipe.studies.bbr3_plan import (
    DEFAULT,
    PARTS,
    Plan,
    take_cwnd,
    take_retransmits,
    take_retransmits_per_thousand,
    take_rtt,
    take_rtt_var,
    take_throughput,
    track_values,
)
from bentpipe.studies.bbr3_verdicts import city_verdicts, verdicts_of
from bentpipe.studies.counterfactual import QUICK, Counterfactual, counterfactuals_of
from bentpipe.studies.files import Bbr3Starlink
from bentpipe.studies.flows import Floats, Key, RunBatch, StudyRun, Track, as_drawn, quantile
from bentpipe.studies.orders import Level, by_level, share_lost
from bentpipe.studies.scenario import Published
from bentpipe.studies.study import LevelOrder, Request, Result, Row, Study
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from bentpipe._native import Profile

HOUR_NS = 3600 * NS_PER_S


def _run(request: Request) -> Result:
    file = Bbr3Starlink.load()
    plan = _plan(file, request.quick)
    field = RunBatch()

    def add(key: Key, path: Profile, seed: int) -> None:
        """Add a Run of each controller over a path; `key` lacks the controller."""
        buffers, direction, _ = key
        host = plan.buffers[buffers if buffers in plan.buffers else DEFAULT]
        for controller in plan.controllers:
            experiment = Experiment(
                name=f"bbr3-starlink-{direction}",
                seed=seed,
                duration_ns=round(plan.duration_s * NS_PER_S),
                warmup_ns=0,  # iperf3 leaves nothing out
                profiles=(ProfileRef(role=ROLE, name=path.name, hash=path.content_hash()),),
                flows=(
                    Flow(
                        controller=controller,
                        direction="up" if direction == "up" else "down",
                        sender="host",
                        receiver="host",
                    ),
                ),
                sample_step_ns=NS_PER_S,
                hosts={"host": host.host()},
            )
            field.add((*key, controller), experiment, path)

    lost = {}
    for number, city in enumerate(plan.cities):
        own = _paths(plan, city)
        lost[DEFAULT, city] = share_lost(as_drawn(own), "down")
        for seed, path in enumerate(own):
            for buffers, direction in PARTS:
                add((buffers, direction, city), path, seed)
        request.on_progress(0.3 * (number + 1) / len(plan.cities))
    lost_rows = []
    for each in plan.counterfactuals:
        paths = _paths(plan, each.on, each)
        lost[each.name, each.on] = share_lost(as_drawn(paths), "down")
        lost_rows.append(each.lost_row(as_drawn(paths), "down", _of(plan, each).basis))
        for seed, path in enumerate(paths):
            add((each.name, "down", each.on), path, seed)
    runs = field.run(request, (0.3, 0.95))
    rows, what_if = _rows(file.published, runs, plan), []
    for each, lost_row in zip(plan.counterfactuals, lost_rows, strict=True):
        its = {(DEFAULT, *key[1:]): ran for key, ran in runs.items() if key[0] == each.name}
        rows += [lost_row, *each.rows(_download_rows(file.published, its, _of(plan, each)))]
        what_if += each.statements(city_verdicts(its, _of(plan, each), DEFAULT, "down", each.on))
    orders: list[LevelOrder] = []
    for city, entry in file.order.items():
        worlds = {DEFAULT: DEFAULT_LOSS, **{each.name: each.loss for each in plan.counterfactuals if each.on == city}}
        levels = [
            Level(
                loss,
                lost[world, city],
                {
                    name: [run.tracks[0].mean_bps / 1e6 for run in runs[world, "down", city, name]]
                    for name in plan.controllers
                },
            )
            for world, loss in worlds.items()
        ]
        orders += by_level(f"{city}, down", "Mbit/s", entry, levels)
    return Result(
        rows,
        verdicts_of(runs, plan),
        [
            f"{plan.preset}-{', '.join(plan.cities)}: {plan.duration_s:g} s at {', '.join(map(str, plan.hours))} h UTC "
            "of successive days, each with its own Profile; Ubuntu 24.04's buffers (4 MB to send), and for "
            "downloads also buffers of 64 MB"
        ],
        _figures(runs, plan),
        _notes(runs, plan),
        what_if,
        orders,
    )


def _paths(plan: Plan, city: str, changed: Counterfactual | None = None) -> list[Profile]:
    """Return a city's path at each of the hours, or at a counterfactual's first hours."""
    service = load_services()[f"{plan.preset}-{city}"]
    midnight_ns = parse_utc(service.start) // (24 * HOUR_NS) * (24 * HOUR_NS)
    return [
        preset_profile(
            service.name,
            plan.duration_s,
            start_unix_ns=midnight_ns + (seed * 24 + hour) * HOUR_NS,
            seed=seed,
            parameters=changed.parameters if changed else None,
        )
        for seed, hour in enumerate(_of(plan, changed).hours if changed else plan.hours)
    ]


def _of(plan: Plan, changed: Counterfactual) -> Plan:
    """Reduce the plan to a counterfactual's city and hours."""
    return replace(plan, cities=[changed.on], hours=plan.hours[: changed.tests])


def _plan(file: Bbr3Starlink, quick: bool) -> Plan:
    return Plan(
        preset=file.preset,
        cities=file.cities_quick if quick else file.cities,
        controllers=file.controllers,
        hours=file.hours_quick if quick else file.hours,
        duration_s=file.duration_quick_s if quick else file.duration_s,
        buffers=file.buffers,
        counterfactuals=counterfactuals_of(file.counterfactual)[: QUICK if quick else None],
    )


def _rows(published: Mapping[str, Published], runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> list[Row]:
    rows: list[Row] = []

    def add(key: str, at: Key, take: Callable[[Track], Floats], q: float) -> None:
        rows.append(_quantile_row(published[key], runs, at, take, q, plan.basis))

    for city in plan.cities:
        for buffers in plan.buffers:
            down = (buffers, "down", city)
            add("down-bbr3", (*down, "bbr3"), take_throughput, 0.5)
            add("down-bbr3-peak", (*down, "bbr3"), take_throughput, 1.0)
            for controller in plan.controllers[1:]:
                add("down-others", (*down, controller), take_throughput, 0.5)
                whisker = _upper_whisker(track_values(runs[(*down, controller)], take_throughput))
                of = f"{city}, {controller}, {buffers} buffers"
                rows.append(published["down-others-whisker"].row(whisker, plan.basis, of=of))
        down, up = (DEFAULT, "down", city), (DEFAULT, "up", city)
        add("down-bbr3-again", (*down, "bbr3"), take_retransmits, 0.9)
        add("rtt-var", (*down, "bbr3"), take_rtt_var, 0.5)
        for key in ("up-bbr3-again-low", "up-bbr3-again-high"):
            add(key, (*up, "bbr3"), take_retransmits, 0.5)
        add("up-bbr3-again-third", (*up, "bbr3"), take_retransmits, 0.75)
        add("up-bbr3-cwnd", (*up, "bbr3"), take_cwnd, 0.5)
        whisker = _upper_whisker(track_values(runs[(*up, "bbr3")], take_throughput))
        rows.append(published["up-bbr3-whisker"].row(whisker, plan.basis, of=f"{city}, bbr3, default buffers"))
    for direction in ("down", "up"):
        for city in ("sydney", "sao-paulo"):
            for controller in plan.controllers:
                add(f"{direction}-rtt-{city}", (DEFAULT, direction, city, controller), take_rtt, 0.5)
    return [*rows, *_retransmission_rows(runs, plan)]


def _quantile_row(
    published: Published,
    runs: Mapping[Key, Sequence[StudyRun]],
    at: Key,
    take: Callable[[Track], Floats],
    q: float,
    basis: str,
) -> Row:
    buffers, _, city, controller = at
    of = f"{city}, {controller}, {buffers} buffers"
    return published.row(quantile(track_values(runs[at], take), q), basis, of=of)


def _download_rows(published: Mapping[str, Published], runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> list[Row]:
    """Return a counterfactual's rows: downloads from its city, with the default buffers."""
    values = [(DEFAULT, "down", city, controller) for city in plan.cities for controller in plan.controllers]
    rows = [
        _quantile_row(
            published["down-bbr3" if at[-1] == "bbr3" else "down-others"], runs, at, take_throughput, 0.5, plan.basis
        )
        for at in values
    ]
    return rows + [_retransmission_row(runs, at, plan.basis) for at in values]


def _retransmission_rows(runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> list[Row]:
    """Return rows of segments retransmitted per thousand that arrived, which the paper does not report."""
    return [
        _retransmission_row(runs, (*part, *of), plan.basis)
        for part in PARTS
        for of in product(plan.cities, plan.controllers)
    ]


def _retransmission_row(runs: Mapping[Key, Sequence[StudyRun]], at: Key, basis: str) -> Row:
    buffers, direction, city, controller = at
    share = quantile(track_values(runs[at], take_retransmits_per_thousand), 0.5)
    quantity = f"{direction}: retransmitted per thousand segments: {city}, {controller}, {buffers} buffers"
    return Row(quantity, "", None, share, "–", basis)


def _upper_whisker(values: Sequence[Floats]) -> float:
    """Return the largest value within 1.5 box heights above the box (Tukey)."""
    joined = np.concatenate(values)
    low, high = np.quantile(joined, [0.25, 0.75])
    return float(joined[joined <= high + 1.5 * (high - low)].max())


def _figures(runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> dict[str, Figure]:
    figures = {}
    for buffers, direction in PARTS:

        def values(
            take: Callable[[Track], Floats], buffers: str = buffers, direction: str = direction
        ) -> dict[tuple[str, str], Floats]:
            return {
                (city, name): np.concatenate(track_values(runs[buffers, direction, city, name], take))
                for city in plan.cities
                for name in plan.controllers
            }

        panels = [
            Boxes("Throughput", "Mbit/s", values(take_throughput)),
            Boxes("Retransmitted", "segments a second", values(take_retransmits)),
            Boxes("Congestion window", "MB", values(take_cwnd)),
            Boxes("RTT", "ms", values(take_rtt)),
            Boxes("RTT variation", "ms", values(take_rtt_var)),
        ]
        number = 2 if direction == "up" else 4
        name = f"figure-{number}" + ("" if buffers == DEFAULT else f"-{buffers}-buffers")
        figures[name] = plot_boxes(panels, places=plan.cities, controllers=plan.controllers)
        if buffers == DEFAULT:
            figures[f"figure-{number + 1}"] = _time_series(runs, plan, direction)
    return figures


def _time_series(runs: Mapping[Key, Sequence[StudyRun]], plan: Plan, direction: str) -> Figure:
    cities = [city for city in ("sydney", "london") if city in plan.cities]
    panels = []
    for city in cities:
        row = []
        for title, unit, take in (
            ("throughput", "Mbit/s", take_throughput),
            ("congestion window", "MB", take_cwnd),
            ("RTT variation", "ms", take_rtt_var),
        ):
            lines = []
            for name in plan.controllers:
                track = runs[DEFAULT, direction, city, name][0].tracks[0]
                lines.append(Line(style.legend_name(name), track.t_s, take(track), style.look(name)))
            row.append(Panel(f"{city}: {title}", unit, lines))
        panels.append(row)
    return plot_panels(panels)


def _notes(runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> list[str]:
    caps = []
    for city in plan.cities:
        rtt_ms = quantile(track_values(runs[DEFAULT, "down", city, "bbr3"], take_rtt), 0.5)
        if rtt_ms is not None:
            wmem = plan.buffers[DEFAULT].wmem_max_bytes
            caps.append(f"{city} {wmem * 0.69 * 8 / rtt_ms / 1e3:.0f}")
    return [
        "a send buffer of 4 MB holds 2.9 MB of data in flight (66 Mbit/s at 350 ms, measured on a kernel): it limits "
        f"the goodput to {', '.join(caps)} Mbit/s; more than 100 to every city needs larger buffers, which the paper "
        "does not mention",
        "the access model's uplink has a median of 17 Mbit/s (published tests of 2022 to 2024) and never more than 64; "
        "the paper's terminal of 2025 was faster",
        "terrestrial delays are those of fibre.toml (Azure's table), the same for every study",
        f"some {2 * len(plan.cities) * len(PARTS)} statements at 5 % each: one in twenty may be decided by chance",
    ]


STUDY = Study(
    name="bbr3-starlink",
    title="BBRv3, CUBIC and Hybla from a terminal in Melbourne to five cities, up and down",
    source="De Silva and Pokhrel, Understanding BBR-v3 Dynamics over Starlink (2025), figures 2 to 5",
    takes="three and a half minutes on two cores; --quick: under one",
    run=_run,
    sweeps=True,
)
