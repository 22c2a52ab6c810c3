"""Every controller's distance to a sender that knows the path to come, and the value of each piece of knowledge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bentpipe.experiments.schemes import deployable_controllers
from bentpipe.studies import field
from bentpipe.studies.bound import bound_bps
from bentpipe.studies.ceiling_knowledge import Pieces, clock_rows, knowledge_rows, piece_rows
from bentpipe.studies.ceiling_scores import ORACLE, PARENT, Ceilings, figure_row, finite_or_none, known
from bentpipe.studies.files import Ceiling
from bentpipe.studies.scenario import Published
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

#: Excess over the bound that is no error: losses are drawn packet by packet (five standard deviations are below 0.002
#: in a minute from 10 Mbit/s on), and data behind a hole at the end of the warm-up is delivered after it.
_BY_CHANCE = 1.005


def _run(request: Request) -> Result:
    file = Ceiling.load()
    times = (file.duration_s, file.warmup_s)
    paths = field.make_paths(file.paths[: 4 if request.quick else None], file.duration_s)
    curve = {f"{queue:g} ms": f"{ORACLE}:queue_ms={queue:g}" for queue in file.queues_ms}
    controllers = deployable_controllers()
    pieces = [Pieces.of(name, options) for name, options in file.pieces.items()]
    of_pieces = [scheme for each in pieces for scheme in each.schemes()]
    schemes = list(dict.fromkeys([*controllers, ORACLE, *file.knowledge.values(), *of_pieces, *curve.values()]))
    scores = field.race_field(request, paths, schemes, times, shares=(0.0, 0.8))
    of = Ceilings.of(scores, paths, schemes)
    clock, clock_basis = _race_clock(request, file)
    n = len(of.profiles)
    basis = field.basis(paths, times)
    bounds = {path.name: bound_bps(path.profile, path.direction, file.warmup_s, file.duration_s) for path in paths}
    of_bound = {
        scheme: [scores[name, scheme][0].goodput_bps[0] / bounds[name] for name in of.profiles] for scheme in schemes
    }
    best, judged, verdicts = _judge(of, of_bound, file.ours, file.published, basis)
    rows = [
        *judged,
        *_controller_rows(of, [*controllers, ORACLE], basis),
        *_curve_rows(of, curve, basis),
        *knowledge_rows(of, file.knowledge, basis),
        *piece_rows(of, pieces, next(iter(file.knowledge.values())), basis),
        *clock_rows(clock, file.clock.cases, clock_basis),
    ]
    points = {scheme: _finite(of.queues_ms[scheme], of.shares[scheme]) for scheme in [*controllers, ORACLE]}
    figure = field.pareto_figure(points, "goodput, share of the oracle's on each Profile")
    notes = [
        f"intervals: bootstrap over {n} Profiles, paired by Profile; {len(paths) - n} more, where no packet of the "
        "oracle arrived, are left out",
        f"the best of ours is {best}: of {', '.join(file.ours)} the one with most goodput of those whose mean "
        "queueing delay is not above BBRv3's",
        "the oracle knows the capacity to come and sends each packet so that it meets no queue; handshake, recovery, "
        "ACKs and buffers are those of the simulated transport; it cannot be deployed",
        "the bound follows from the Profile alone: capacity times the chance of arrival; a queue adds nothing to it",
        "95th percentiles are those of the mean queueing delay in a packet's second, averaged over Profiles: a longer "
        "delay within a second does not show",
        "a learned clock is set in a minute or later, so only the longer Runs test it",
        "send and receive buffers are 64 MB, so that no host default limits a flow",
    ]
    by_profile = {
        f"{name}, Runs of {seconds:g} s": values
        for each, seconds in ((of, file.duration_s), (clock, file.clock.duration_s))
        for name, values in each.by_profile().items()
    }
    return Result(rows, verdicts, [basis, clock_basis], {"pareto": figure}, notes, by_profile=by_profile)


def _race_clock(request: Request, file: Ceiling) -> tuple[Ceilings, str]:
    """Run the cases of the clock, long enough for it to be learned; return the results and their basis."""
    clock = file.clock
    paths = field.make_paths(file.paths[: 2 if request.quick else clock.paths], clock.duration_s)
    schemes = [*clock.cases.values(), ORACLE]
    times = (clock.duration_s, clock.warmup_s)
    scores = field.race_field(request, paths, schemes, times, shares=(0.8, 1.0))
    return Ceilings.of(scores, paths, schemes), field.basis(paths, times)


def _judge(
    of: Ceilings,
    of_bound: Mapping[str, Sequence[float]],
    ours: Sequence[str],
    published: Mapping[str, Published],
    basis: str,
) -> tuple[str, list[Row], list[Verdict]]:
    """Return the best of ours, and rows and verdicts on it and on the oracle.

    `of_bound` is the goodput of each scheme over the bound that follows from the Profile, by Profile.
    """
    allowed = [scheme for scheme in ours if of.queue_ratio(scheme)[0] <= 1.0] or list(ours)
    best = max(allowed, key=lambda scheme: float(np.mean(of.shares[scheme])))
    n = len(of.shares[best])
    taken, low, high = of.goodput_taken(best)
    ratio, least, most = of.queue_ratio(best)
    reached, worst, top = field.bootstrap(of_bound[ORACLE])
    limits = published["goodput"].value, published["queue"].value, published["oracle"].value
    rows = [
        published["goodput"].row(finite_or_none(low), basis),
        published["queue"].row(finite_or_none(most), basis),
        published["oracle"].row(finite_or_none(reached), basis),
    ]
    greatest = max((max(values), scheme) for scheme, values in of_bound.items())
    verdicts = [
        Verdict(
            f"{best} takes at least {limits[0]:g} of the distance from BBRv3's goodput to the oracle's",
            field.decided(low, high, limits[0], n),
            rows[0].source,
            basis,
            f"{taken:.3f}, 95 %: {low:.3f} to {high:.3f} (n = {n})",
        ),
        Verdict(
            f"{best}: at most {limits[1]:g} of BBRv3's mean queueing delay",
            field.decided(-most, -least, -limits[1], n),
            rows[1].source,
            basis,
            f"{ratio:.3f}, 95 %: {least:.3f} to {most:.3f} (n = {n})",
        ),
        Verdict(
            f"the oracle in the simulator reaches {limits[2]:g} of the bound",
            field.decided(worst, top, limits[2], n),
            rows[2].source,
            basis,
            f"{reached:.3f}, 95 %: {worst:.3f} to {top:.3f} (n = {n}); least {min(of_bound[ORACLE]):.3f}",
        ),
        Verdict(
            "no controller has more goodput than the bound, on any Profile",
            greatest[0] <= _BY_CHANCE,
            rows[2].source,
            basis,
            f"most: {greatest[0]:.4f} of it, {greatest[1]}; {_BY_CHANCE:g} is within chance",
        ),
    ]
    return best, rows, verdicts


def _controller_rows(of: Ceilings, schemes: Sequence[str], basis: str) -> list[Row]:
    rows = []
    for scheme in schemes:
        rows += [
            figure_row(f"goodput, share of the oracle's: {scheme}", "", field.bootstrap(of.shares[scheme]), basis),
            figure_row(f"mean queueing delay: {scheme}", "ms", field.bootstrap(known(of.queues_ms[scheme])), basis),
            figure_row(
                f"95th percentile of seconds' mean queueing delay: {scheme}",
                "ms",
                field.bootstrap(known(of.queues_p95_ms[scheme])),
                basis,
            ),
        ]
        if scheme not in (PARENT, ORACLE):
            rows += [
                figure_row(
                    f"share of BBRv3's distance to the oracle, goodput: {scheme}", "", of.goodput_taken(scheme), basis
                ),
                figure_row(
                    f"share of BBRv3's distance to the oracle, delay: {scheme}", "", of.queue_taken(scheme), basis
                ),
            ]
    return rows


def _curve_rows(of: Ceilings, curve: Mapping[str, str], basis: str) -> list[Row]:
    """Return what a queue adds to the oracle's goodput."""
    rows = []
    for allowed, scheme in curve.items():
        rows += [
            figure_row(
                f"oracle that allows {allowed}: goodput over its own without",
                "",
                field.bootstrap(of.shares[scheme]),
                basis,
            ),
            figure_row(
                f"oracle that allows {allowed}: mean queueing delay",
                "ms",
                field.bootstrap(known(of.queues_ms[scheme])),
                basis,
            ),
        ]
    return rows


def _finite(queues_ms: Sequence[float], shares: Sequence[float]) -> tuple[list[float], list[float]]:
    pairs = [(queue, share) for queue, share in zip(queues_ms, shares, strict=True) if math.isfinite(queue)]
    return [queue for queue, _ in pairs], [share for _, share in pairs]


STUDY = Study(
    name="cc-ceiling",
    title="Every controller's distance to a sender that knows the path, and the value of each piece of knowledge",
    source="bentpipe's own question; docs/design/023-ceiling.md",
    takes="six minutes on two cores; --quick: under one",
    run=_run,
    sweeps=True,
)
