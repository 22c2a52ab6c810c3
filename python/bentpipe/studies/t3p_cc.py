"""Uploads from Barcelona, over LEO and on the ground, normalised to the largest second of BBRv1 (T3P, figure 5a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.experiments.experiment import NS_PER_S, ROLE, Experiment, Flow, ProfileRef
from bentpipe.experiments.traffic import cross_traffic
from bentpipe.plots.groups import plot_normalised_cdfs
from bentpipe.profiles.presets import preset_profile
from bentpipe.scenarios.losses import DEFAULT_LOSS
from bentpipe.studies.agreement import Claim, all_hold, values_text
from bentpipe.studies.counterfactual import QUICK
from bentpipe.studies.flows import Floats, RunBatch, StudyRun
from bentpipe.studies.orders import Level, by_level, share_lost
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p_files import T3pCc
from bentpipe.studies.t3p_uplink import load_uplink

if TYPE_CHECKING:
    from bentpipe._native import Profile

SECOND_NS = NS_PER_S
#: BBRv2 is "far below" BBRv1 with less than this part of it. Chosen here.
FAR_BELOW = 0.5
#: Factor within which v1 and v2 count as alike on the ground. Chosen here.
ALIKE = 0.9


def _run(request: Request) -> Result:
    file, uplink = T3pCc.load(), load_uplink()
    controllers, ground = file.controllers, file.terrestrial
    line, traffic = file.fibre.preset, file.fibre.traffic
    changed = uplink.counterfactuals[: QUICK if request.quick else None]
    duration_s, tests = (
        (file.duration_quick_s, file.tests_quick) if request.quick else (uplink.duration_s, uplink.tests)
    )
    field = RunBatch()

    def add(where: str, controller: str, path: Profile, seed: int) -> None:
        cross = (cross_traffic(path, traffic, "up"),) if where == "fibre" else ()
        experiment = Experiment(
            name=f"t3p-cc-{where}",
            seed=seed,
            duration_ns=round(duration_s * SECOND_NS),
            warmup_ns=0,  # iperf3 has no warm-up
            profiles=(ProfileRef(role=ROLE, name=path.name, hash=path.content_hash()),),
            flows=(Flow(controller=controller, direction="up"),),
            sample_step_ns=SECOND_NS,
            cross=cross,
        )
        field.add((where, controller), experiment, path)

    # Seed 0 uses the Profiles unchanged, the same as in the grid's and the fairness study's tests.
    own = uplink.paths(tests, duration_s, on_progress=lambda done: request.on_progress(0.3 * done))
    for path in own:
        for controller in controllers:
            add("leo", controller, path, 0)
    lost = {"leo": share_lost(own, "up")}
    lost_rows: list[Row] = []
    for number, each in enumerate(changed):
        paths = uplink.paths(min(tests, each.tests), duration_s, parameters=each.parameters)
        lost[each.name] = share_lost(paths, "up")
        lost_rows.append(each.lost_row(paths, "up", _basis(len(paths), duration_s)))
        for path in paths:
            for controller in controllers:
                add(each.name, controller, path, 0)
        request.on_progress(0.3 + 0.1 * (number + 1) / len(changed))
    ground_path = preset_profile(line, duration_s)
    for test in range(tests):  # the seed draws the cross traffic
        for controller in ground:
            add("fibre", controller, ground_path, test)
    runs = field.run(request, (0.4, 0.95))
    samples = {key: [run.tracks[0].goodput_bps for run in ran] for key, ran in runs.items()}
    largest = {where: max(float(tests_bps.max()) for tests_bps in samples[where, "bbr"]) for where, _ in samples}
    shares = {key: np.concatenate(tests_bps) / largest[key[0]] for key, tests_bps in samples.items()}
    basis = _basis(tests, duration_s)

    def rows_of(where: str, schemes: Sequence[str], world: str, basis_text: str) -> list[Row]:
        return [
            file.published[f"{where}-{name}"].row(float(np.median(shares[world, name])), basis_text)
            for name in sorted(schemes, reverse=True)
        ]

    rows = rows_of("leo", controllers, "leo", basis) + rows_of("fibre", ground, "fibre", basis)
    supposed: list[Verdict] = []
    for each, lost_row in zip(changed, lost_rows, strict=True):
        basis_text = _basis(len(samples[each.name, "bbr"]), duration_s)
        rows += [lost_row, *each.rows(rows_of("leo", controllers, each.name, basis_text))]
        supposed += each.statements(_leo_verdicts(samples, shares, each.name, basis_text))
    panels = {
        "LEO (uplink)": {name: shares["leo", name] for name in controllers},
        "Terrestrial": {name: shares["fibre", name] for name in ground},
    }
    losses = {"leo": DEFAULT_LOSS, **{each.name: each.loss for each in changed if each.loss}}
    orders = by_level(
        "leo",
        "of BBRv1's largest",
        file.order["leo"],
        [
            Level(
                loss,
                lost[world],
                {
                    name: [float(np.median(test)) / largest[world] for test in samples[world, name]]
                    for name in controllers
                },
            )
            for world, loss in losses.items()
        ],
    )
    return Result(
        rows,
        _verdicts(samples, shares, largest, basis),
        [
            f"{uplink.text}: {tests} tests of {duration_s:g} s, hosts as Linux sets them (4 MB to send); "
            f"{line} with {traffic} traffic"
        ],
        {"figure-5a": plot_normalised_cdfs(panels, label="Throughput over the largest of BBRv1")},
        _notes(runs, largest),
        supposed,
        orders,
    )


def _basis(tests: int, duration_s: float) -> str:
    return f"simulated: {tests} tests of {duration_s:g} s"


def _leo_verdicts(
    samples: Mapping[tuple[str, ...], Sequence[Floats]],
    shares: Mapping[tuple[str, ...], Floats],
    world: str,
    basis: str,
) -> list[Verdict]:
    """Judge the paper's statements about uploads over LEO on the Runs that `world` names."""
    median = {
        name: [float(np.median(tests_bps)) for tests_bps in tests] for (w, name), tests in samples.items() if w == world
    }
    whole = "; ".join(f"{name} {np.median(tests_bps):.3g}" for (w, name), tests_bps in shares.items() if w == world)
    of_bbr = {name: _ratios(median[name], median["bbr"]) for name in median if name != "bbr"}

    def far_below(name: str) -> Claim:
        return Claim(f"{name} over BBRv1", median[name], median["bbr"], 0.0, FAR_BELOW)

    return [
        all_hold(
            "over LEO BBRv1 gets more than BBRv2, CUBIC and NewReno",
            [Claim(f"BBRv1 over {name}", median["bbr"], median[name]) for name in of_bbr],
            "figure 5a",
            basis,
            f"medians of all seconds over the largest: {whole}",
        ),
        all_hold(
            "over LEO BBRv2 with its defaults stays far below BBRv1",
            [far_below("bbr2")],
            "figure 5a; section 5.1",
            basis,
            f"BBRv2 over BBRv1, by test: {values_text(of_bbr['bbr2'], '')}",
        ),
        all_hold(
            "over LEO CUBIC and NewReno stay far below BBRv1",
            [far_below("cubic"), far_below("reno")],
            "figure 5a; section 5.1",
            basis,
            "over BBRv1, by test: "
            + "; ".join(f"{name} {values_text(of_bbr[name], '')}" for name in ("cubic", "reno")),
        ),
    ]


def _verdicts(
    samples: Mapping[tuple[str, ...], Sequence[Floats]],
    shares: Mapping[tuple[str, ...], Floats],
    largest: Mapping[str, float],
    basis: str,
) -> list[Verdict]:
    median = {key: [float(np.median(tests_bps)) for tests_bps in seeds] for key, seeds in samples.items()}

    def of_largest(where: str, name: str) -> list[float]:
        return [value / largest[where] for value in median[where, name]]

    return [
        *_leo_verdicts(samples, shares, "leo", basis),
        all_hold(
            "on the ground BBRv1 and BBRv2 do alike",
            [Claim("BBRv2 over BBRv1", median["fibre", "bbr2"], median["fibre", "bbr"], ALIKE, 1 / ALIKE)],
            "figure 5a; section 5.1",
            basis,
            "one static path, on which each test draws its cross traffic",
        ),
        all_hold(
            "a smaller share of the largest is reached over LEO than on the ground",
            [
                Claim(f"{name}, LEO over ground", of_largest("leo", name), of_largest("fibre", name), 0.0, 1.0)
                for name in ("bbr", "bbr2")
            ],
            "section 5.1",
            basis,
            "; ".join(
                f"{where} {name} {np.median(shares[where, name]):.3g}"
                for where in ("leo", "fibre")
                for name in ("bbr", "bbr2")
            ),
        ),
    ]


def _ratios(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a / max(b, 1.0) for a, b in zip(one, other, strict=True)]


def _notes(runs: Mapping[tuple[str, ...], Sequence[StudyRun]], largest: Mapping[str, float]) -> list[str]:
    again = {
        name: sum(float(run.tracks[0].retransmits.sum()) for run in ran)
        for (where, name), ran in runs.items()
        if where == "leo"
    }
    sent = ", ".join(f"{name} {count:.0f}" for name, count in again.items())
    return [
        f"BBRv1's largest second: {largest['leo'] / 1e6:.3g} Mbit/s over LEO, {largest['fibre'] / 1e6:.3g} on the "
        "ground; the paper gives no rates",
        f"segments retransmitted over LEO: {sent}",
        "reasons for differences: the largest second depends on how far the capacity's maximum is above its "
        "median, and BBRv2's and the loss-based controllers' shares on how often losses occur; the access model's loss "
        "constants are not fitted to this path",
    ]


STUDY = Study(
    name="t3p-cc",
    title="Uploads over LEO and on the ground with BBRv1, BBRv2, CUBIC and NewReno",
    source="T3P (arXiv:2310.11835), figure 5a",
    takes="two minutes; --quick: a quarter of one",
    run=_run,
    sweeps=True,
)
