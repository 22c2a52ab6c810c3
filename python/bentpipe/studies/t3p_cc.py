"""Uploads from Barcelona, over LEO and on the ground, normalised to the largest second of BBRv1 (T3P, figure 5a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots.groups import plot_normalised_cdfs
from bentpipe.profiles import preset_profile
from bentpipe.runs import Experiment, Flow, ProfileRef, cross_traffic
from bentpipe.runs.experiment import NS_PER_S, ROLE
from bentpipe.scenarios import load_services
from bentpipe.studies.agreement import over_seeds, shown
from bentpipe.studies.flows import Field, Floats, Ran
from bentpipe.studies.scenario import load_scenario
from bentpipe.studies.study import Request, Result, Study, Verdict
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from bentpipe import Profile

SECOND_NS = NS_PER_S
#: BBRv2 is "far below" BBRv1 with less than this part of it. Chosen here.
FAR_BELOW = 0.5
#: v1 and v2 are alike on the ground within this factor. Chosen here.
ALIKE = 0.9


def _run(request: Request) -> Result:
    scenario = load_scenario("t3p-cc")
    table = scenario.table
    controllers, ground = table.texts("controllers"), table.texts("terrestrial")
    full_s, quick_s = (table.number(key, 10, 3600) for key in ("duration_s", "duration_quick_s"))
    full, quick = (table.integer(key, 1, 1000) for key in ("tests", "tests_quick"))
    hours = table.integers("hours", 0, 23)
    leo, fibre, host = (table.table(key) for key in ("leo", "fibre", "host"))
    service = load_services()[leo.text("preset")]
    line, traffic = fibre.text("preset"), fibre.text("traffic")
    hosts = {"linux": {key: host.integer(key, 1, 2**40) for key in ("rmem_max_bytes", "wmem_max_bytes")}}
    for part in (leo, fibre, host, table):
        part.done()
    duration_s, tests = (quick_s, quick) if request.quick else (full_s, full)
    midnight_ns = parse_utc(service.start) // (24 * 3600 * SECOND_NS) * (24 * 3600 * SECOND_NS)
    field = Field()

    def add(where: str, controller: str, path: Profile, seed: int) -> None:
        cross = (cross_traffic(path, traffic, "up"),) if where == "fibre" else ()
        experiment = Experiment(
            name=f"t3p-cc-{where}",
            seed=seed,
            duration_ns=round(duration_s * SECOND_NS),
            profiles=(ProfileRef(ROLE, path.name, path.content_hash()),),
            flows=(Flow(controller, direction="up", sender="linux", receiver="linux"),),
            sample_step_ns=SECOND_NS,
            hosts=hosts,
            cross=cross,
        )
        field.add((where, controller), experiment, path)

    for test in range(tests):
        day, hour = divmod(test, len(hours))
        start_unix_ns = midnight_ns + (day * 24 + hours[hour]) * 3600 * SECOND_NS
        path = preset_profile(service.name, duration_s, start_unix_ns=start_unix_ns, seed=test)
        for controller in controllers:
            add("leo", controller, path, test)
        path = preset_profile(line, duration_s)
        for controller in ground:
            add("fibre", controller, path, test)
        request.on_progress(0.4 * (test + 1) / tests)
    runs = field.run(request, (0.4, 0.95))
    samples = {key: [run.tracks[0].goodput_bps for run in ran] for key, ran in runs.items()}
    largest = {where: max(float(found.max()) for found in samples[where, "bbr"]) for where in ("leo", "fibre")}
    shares = {key: np.concatenate(found) / largest[key[0]] for key, found in samples.items()}
    basis = f"simulated: {tests} tests of {duration_s:g} s"
    rows = [
        scenario.published["-".join(key)].row(float(np.median(found)), basis)
        for key, found in sorted(shares.items(), reverse=True)
    ]
    panels = {
        "LEO (uplink)": {name: shares["leo", name] for name in controllers},
        "Terrestrial": {name: shares["fibre", name] for name in ground},
    }
    return Result(
        rows,
        _verdicts(samples, shares, basis),
        [
            f"{service.name}: {tests} tests of {duration_s:g} s at {', '.join(map(str, hours))} h UTC; "
            f"{line} with {traffic} traffic"
        ],
        {"figure-5a": plot_normalised_cdfs(panels, "Throughput over the largest of BBRv1")},
        _notes(runs, largest),
    )


def _verdicts(
    samples: Mapping[tuple[str, ...], Sequence[Floats]], shares: Mapping[tuple[str, ...], Floats], basis: str
) -> list[Verdict]:
    median = {key: [float(np.median(found)) for found in seeds] for key, seeds in samples.items()}
    others = [name for where, name in median if where == "leo" and name != "bbr"]
    tests = range(len(median["leo", "bbr"]))
    whole = "; ".join(f"{where} {name} {np.median(found):.3g}" for (where, name), found in shares.items())
    of_bbr = {name: _ratios(median["leo", name], median["leo", "bbr"]) for name in others}
    return [
        over_seeds(
            "over LEO BBRv1 gets more than BBRv2, CUBIC and NewReno",
            [all(median["leo", "bbr"][i] >= median["leo", name][i] for name in others) for i in tests],
            "figure 5a",
            basis,
            f"medians of all seconds over the largest: {whole}",
        ),
        over_seeds(
            "over LEO BBRv2 with its defaults stays far below BBRv1",
            [ratio < FAR_BELOW for ratio in of_bbr["bbr2"]],
            "figure 5a; section 5.1",
            basis,
            f"BBRv2 over BBRv1, by test: {shown(of_bbr['bbr2'], '')}",
        ),
        over_seeds(
            "over LEO CUBIC and NewReno stay far below BBRv1",
            [all(of_bbr[name][i] < FAR_BELOW for name in ("cubic", "reno")) for i in tests],
            "figure 5a; section 5.1",
            basis,
            "over BBRv1, by test: " + "; ".join(f"{name} {shown(of_bbr[name], '')}" for name in ("cubic", "reno")),
        ),
        over_seeds(
            "on the ground BBRv1 and BBRv2 do alike",
            [ALIKE < ratio < 1 / ALIKE for ratio in _ratios(median["fibre", "bbr2"], median["fibre", "bbr"])],
            "figure 5a; section 5.1",
            basis,
            f"BBRv2 over BBRv1, by test: {shown(_ratios(median['fibre', 'bbr2'], median['fibre', 'bbr']), '')}",
        ),
        Verdict(
            "a smaller share of the largest is reached over LEO than on the ground",
            all(np.median(shares["leo", name]) < np.median(shares["fibre", name]) for name in ("bbr", "bbr2")),
            "section 5.1",
            basis,
            whole,
        ),
    ]


def _ratios(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a / max(b, 1.0) for a, b in zip(one, other, strict=True)]


def _notes(runs: Mapping[tuple[str, ...], Sequence[Ran]], largest: Mapping[str, float]) -> list[str]:
    again = {
        name: sum(float(run.tracks[0].retransmits.sum()) for run in ran)
        for (where, name), ran in runs.items()
        if where == "leo"
    }
    sent = ", ".join(f"{name} {count:.0f}" for name, count in again.items())
    return [
        f"BBRv1's largest second: {largest['leo'] / 1e6:.3g} Mbit/s over LEO, {largest['fibre'] / 1e6:.3g} on the "
        "ground; the paper gives no rates",
        f"segments sent again over LEO: {sent}",
        "where the shares differ: the largest second depends on how far the capacity's best moments are above its "
        "middle, and BBRv2's and the loss-based controllers' shares on how often losses come; the access model's loss "
        "constants are not fitted to this path",
    ]


STUDY = Study(
    name="t3p-cc",
    title="Uploads over LEO and on the ground with BBRv1, BBRv2, CUBIC and NewReno",
    source="T3P (arXiv:2310.11835), figure 5a",
    takes="four minutes; --quick: half of one",
    run=_run,
    sweeps=True,
)
