"""Verdicts on the statements of De Silva and Pokhrel (2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np

from bentpipe.studies.agreement import Claim, above_zero, all_hold, values_text
from bentpipe.studies.bbr3_plan import DEFAULT, PARTS, Plan, take_cwnd, take_retransmits_per_thousand, track_values
from bentpipe.studies.flows import Key, StudyRun
from bentpipe.studies.study import Verdict

#: Least ratio of retransmissions for "substantially higher" (BBRv3: 10 to 30 a second, downwards often above 300)
#: against "comparatively minimal". Chosen here: the paper gives no value for the others.
MUCH_MORE = 3.0
#: Largest ratio of medians for RTT variation that is "relatively consistent across all CCAs". Chosen here.
CONSISTENT = 2.0


def verdicts_of(runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> list[Verdict]:
    """Judge every statement of the paper."""
    verdicts = []
    for buffers, direction in PARTS:
        for city in plan.cities:
            verdicts += city_verdicts(runs, plan, buffers, direction, city)
        verdicts.append(_grows_with_rtt(runs, plan, buffers, direction, _figure_of(direction)))
    return [*verdicts, *_place_verdicts(runs, plan), *_window_verdicts(runs, plan), *_rtt_verdicts(runs, plan)]


def _figure_of(direction: str) -> str:
    return "figure 2" if direction == "up" else "figure 4"


def city_verdicts(
    runs: Mapping[Key, Sequence[StudyRun]], plan: Plan, buffers: str, direction: str, city: str
) -> list[Verdict]:
    """Compare BBRv3's goodput and retransmissions with the others' to one city."""
    ran = {name: runs[buffers, direction, city, name] for name in plan.controllers}
    means = {name: [run.tracks[0].mean_bps / 1e6 for run in of] for name, of in ran.items()}
    retransmits = {name: [float(run.tracks[0].retransmits.sum()) for run in of] for name, of in ran.items()}
    parts = {
        name: values_text(
            [float(values) for each in track_values(of, take_retransmits_per_thousand) for values in each],
            "per thousand",
        )
        for name, of in ran.items()
    }
    others = plan.controllers[1:]
    return [
        all_hold(
            f"{city}, {direction}, {buffers} buffers: BBRv3 gets more than CUBIC and Hybla",
            [Claim(f"over {name}", means["bbr3"], means[name]) for name in others],
            f"{_figure_of(direction)}a",
            plan.basis,
            "; ".join(f"{name} {values_text(values, 'Mbit/s')}" for name, values in means.items()),
        ),
        all_hold(
            f"{city}, {direction}, {buffers} buffers: BBRv3 retransmits {MUCH_MORE:g} times as much as others",
            [Claim(f"over {name}", retransmits["bbr3"], retransmits[name], MUCH_MORE) for name in others],
            f"{_figure_of(direction)}b",
            plan.basis,
            "; ".join(
                f"{name} {values_text(values, 'segments')}, {parts[name]}" for name, values in retransmits.items()
            ),
        ),
    ]


def _place_verdicts(runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> list[Verdict]:
    """Judge to which cities BBRv3 retransmits most, downwards."""
    retransmits = {
        city: [float(run.tracks[0].retransmits.sum()) for run in runs[DEFAULT, "down", city, "bbr3"]]
        for city in plan.cities
    }
    most = [city for city in ("tokyo", "mumbai") if city in plan.cities]
    rest = [city for city in plan.cities if city not in most]
    if not most:
        return []
    return [
        all_hold(
            "downwards BBRv3 retransmits most to Tokyo and Mumbai",
            [Claim(f"{one} over {other}", retransmits[one], retransmits[other]) for one, other in product(most, rest)],
            "section III.B, figure 4b",
            plan.basis,
            "; ".join(f"{city} {values_text(values, 'segments')}" for city, values in retransmits.items()),
        )
    ]


def _window_verdicts(runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> list[Verdict]:
    """Judge which controller's congestion window varies most, upwards."""
    verdicts = []
    for city in plan.cities:
        spread = {
            name: [float(np.nanstd(take_cwnd(run.tracks[0]))) for run in runs[DEFAULT, "up", city, name]]
            for name in plan.controllers
        }
        verdicts.append(
            all_hold(
                f"{city}, up: BBRv3's congestion window varies most",
                [Claim(f"over {name}", spread["bbr3"], spread[name]) for name in plan.controllers[1:]],
                "section III.A, figure 2c",
                plan.basis,
                "standard deviation: "
                + "; ".join(f"{name} {values_text(values, 'MB')}" for name, values in spread.items()),
            )
        )
    return verdicts


def _grows_with_rtt(
    runs: Mapping[Key, Sequence[StudyRun]], plan: Plan, buffers: str, direction: str, source: str
) -> Verdict:
    """Judge BBRv3's retransmissions against the path's RTT, the least of any controller, by city."""
    rtt_ms = np.array(
        [
            [
                min(
                    float(np.nanmin(runs[buffers, direction, city, name][i].tracks[0].rtt_ms))
                    for name in plan.controllers
                )
                for i in range(len(plan.hours))
            ]
            for city in plan.cities
        ]
    )
    retransmits = np.array(
        [
            [float(run.tracks[0].retransmits.mean()) for run in runs[buffers, direction, city, "bbr3"]]
            for city in plan.cities
        ]
    )
    slopes = [float(np.polyfit(rtt_ms[:, i], retransmits[:, i], 1)[0]) for i in range(len(plan.hours))]
    means = ", ".join(f"{city} {value:.3g}" for city, value in zip(plan.cities, retransmits.mean(axis=1), strict=True))
    return above_zero(
        f"{direction}, {buffers} buffers: BBRv3 retransmits more at longer RTTs",
        slopes,
        f"section III, {source}b",
        plan.basis,
        f"segments a second: {means}; slope over the cities' least RTT "
        f"{values_text([100 * slope for slope in slopes], 'a second in 100 ms')}",
    )


def _rtt_verdicts(runs: Mapping[Key, Sequence[StudyRun]], plan: Plan) -> list[Verdict]:
    median = {
        city: [float(np.nanmedian(run.tracks[0].rtt_ms)) for run in runs[DEFAULT, "down", city, "bbr3"]]
        for city in plan.cities
    }
    seeds = range(len(plan.hours))
    medians = "; ".join(f"{city} {values_text(values, 'ms')}" for city, values in median.items())
    spread = {
        name: [
            float(
                np.nanmedian(
                    np.concatenate([runs[DEFAULT, "down", city, name][i].tracks[0].rtt_var_ms for city in plan.cities])
                )
            )
            for i in seeds
        ]
        for name in plan.controllers
    }
    return [
        all_hold(
            "the RTT is lowest to Sydney and highest to São Paulo",
            [Claim(f"Sydney over {city}", median["sydney"], median[city], 0.0, 1.0) for city in plan.cities[1:]]
            + [Claim(f"São Paulo over {city}", median["sao-paulo"], median[city]) for city in plan.cities[:-1]],
            "figures 2e and 4e",
            plan.basis,
            medians,
        ),
        all_hold(
            "RTT variation is about the same with every controller",
            [
                Claim(f"{one} over {other}", spread[one], spread[other], 1 / CONSISTENT, CONSISTENT)
                for one, other in combinations(spread, 2)
            ],
            "figures 2f and 4f",
            plan.basis,
            "; ".join(f"{name} {values_text(values, 'ms')}" for name, values in spread.items()),
        ),
    ]
