"""Every controller's distance to a sender that knows the path to come, and the value of each piece of knowledge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bentpipe.experiments.schemes import deployable_controllers
from bentpipe.studies import field
from bentpipe.studies.bound import bound_bps
from bentpipe.studies.files import Ceiling
from bentpipe.studies.scenario import Published
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

ORACLE = "oracle"
PARENT = "bbr3"
#: Excess over the bound that is no error: losses are drawn packet by packet (five standard deviations are below 0.002
#: in a minute from 10 Mbit/s on), and data behind a hole at the end of the warm-up is delivered after it.
_BY_CHANCE = 1.005


@dataclass(frozen=True)
class Ceilings:
    """Results of every scheme on the Profiles on which the oracle has goodput.

    Attributes:
        shares: Scheme → goodput over the oracle's, by Profile.
        queues_ms: Scheme → mean queueing delay, by Profile; NaN: no packet arrived.
        of_bound: Scheme → goodput over the bound that follows from the Profile, by Profile.
    """

    shares: Mapping[str, Sequence[float]]
    queues_ms: Mapping[str, Sequence[float]]
    of_bound: Mapping[str, Sequence[float]]

    def goodput_taken(self, scheme: str) -> tuple[float, float, float]:
        """Return the share of the distance from BBRv3's goodput to the oracle's, with its interval over Profiles."""
        parent = np.asarray(self.shares[PARENT])
        gained = np.asarray(self.shares[scheme]) - parent
        return field.bootstrap_ratio(list(gained), list(1.0 - parent))

    def queue_taken(self, scheme: str) -> tuple[float, float, float]:
        """Return the same for the mean queueing delay."""
        ours, parent, oracle = self._known(scheme, PARENT, ORACLE)
        return field.bootstrap_ratio(list(parent - ours), list(parent - oracle))

    def queue_ratio(self, scheme: str) -> tuple[float, float, float]:
        """Return the mean queueing delay over BBRv3's, with its interval."""
        ours, parent = self._known(scheme, PARENT)
        return field.bootstrap_ratio(list(ours), list(parent))

    def gain(self, scheme: str, base: str) -> tuple[float, float, float]:
        """Return the difference of two schemes' shares of the oracle's goodput, with its interval."""
        return field.bootstrap([a - b for a, b in zip(self.shares[scheme], self.shares[base], strict=True)])

    def queue_cost_ms(self, scheme: str, base: str) -> tuple[float, float, float]:
        """Return the difference of two schemes' mean queueing delays [ms], with its interval."""
        ours, other = self._known(scheme, base)
        return field.bootstrap(list(ours - other))

    def _known(self, *schemes: str) -> list[np.ndarray]:
        """Return the queueing delays of some schemes on the Profiles on which all of them have one."""
        values = np.array([self.queues_ms[scheme] for scheme in schemes], np.float64)
        return list(values[:, np.isfinite(values).all(axis=0)])


def _run(request: Request) -> Result:
    file = Ceiling.load()
    times = (file.duration_s, file.warmup_s)
    paths = field.make_paths(file.paths[: 4 if request.quick else None], file.duration_s)
    curve = {f"{queue:g} ms": f"{ORACLE}:queue_ms={queue:g}" for queue in file.queues_ms}
    controllers = deployable_controllers()
    schemes = list(dict.fromkeys([*controllers, ORACLE, *file.knowledge.values(), *curve.values()]))
    scores = field.race_field(request, paths, schemes, times)
    bounds = {path.name: bound_bps(path.profile, path.direction, file.warmup_s, file.duration_s) for path in paths}
    of = _ceilings(scores, bounds, schemes)
    n = len(of.shares[ORACLE])
    basis = f"simulated: {len(paths)} Profiles × {file.duration_s:g} s, the first {file.warmup_s:g} s left out"
    best, judged, verdicts = _judge(of, file.ours, file.published, basis)
    rows = [
        *judged,
        *_controller_rows(of, [*controllers, ORACLE], basis),
        *_curve_rows(of, curve, basis),
        *_knowledge_rows(of, file.knowledge, basis),
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
        "send and receive buffers are 64 MB, so that no host default limits a flow",
    ]
    return Result(rows, verdicts, [basis], {"pareto": figure}, notes)


def _ceilings(
    scores: Mapping[tuple[str, str], Sequence[field.Score]], bounds: Mapping[str, float], schemes: Sequence[str]
) -> Ceilings:
    names = [name for name in bounds if scores[name, ORACLE][0].goodput_bps[0] > 0]

    def goodput(name: str, scheme: str) -> float:
        return scores[name, scheme][0].goodput_bps[0]

    def queue_ms(name: str, scheme: str) -> float:
        queue = scores[name, scheme][0].queue_ms
        return math.nan if queue is None else queue

    return Ceilings(
        {scheme: [goodput(name, scheme) / goodput(name, ORACLE) for name in names] for scheme in schemes},
        {scheme: [queue_ms(name, scheme) for name in names] for scheme in schemes},
        {scheme: [goodput(name, scheme) / bounds[name] for name in names] for scheme in schemes},
    )


def _judge(
    of: Ceilings, ours: Sequence[str], published: Mapping[str, Published], basis: str
) -> tuple[str, list[Row], list[Verdict]]:
    """Return the best of ours, and rows and verdicts on it and on the oracle."""
    allowed = [scheme for scheme in ours if of.queue_ratio(scheme)[0] <= 1.0] or list(ours)
    best = max(allowed, key=lambda scheme: float(np.mean(of.shares[scheme])))
    n = len(of.shares[best])
    taken, low, high = of.goodput_taken(best)
    ratio, least, most = of.queue_ratio(best)
    reached, worst, top = field.bootstrap(of.of_bound[ORACLE])
    limits = published["goodput"].value, published["queue"].value, published["oracle"].value
    rows = [
        published["goodput"].row(_finite_or_none(low), basis),
        published["queue"].row(_finite_or_none(most), basis),
        published["oracle"].row(_finite_or_none(reached), basis),
    ]
    greatest = max((max(values), scheme) for scheme, values in of.of_bound.items())
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
            f"{reached:.3f}, 95 %: {worst:.3f} to {top:.3f} (n = {n}); least {min(of.of_bound[ORACLE]):.3f}",
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
            _row(f"goodput, share of the oracle's: {scheme}", "", field.bootstrap(of.shares[scheme]), basis),
            _row(f"mean queueing delay: {scheme}", "ms", field.bootstrap(_known(of.queues_ms[scheme])), basis),
        ]
        if scheme not in (PARENT, ORACLE):
            rows += [
                _row(
                    f"share of BBRv3's distance to the oracle, goodput: {scheme}", "", of.goodput_taken(scheme), basis
                ),
                _row(f"share of BBRv3's distance to the oracle, delay: {scheme}", "", of.queue_taken(scheme), basis),
            ]
    return rows


def _curve_rows(of: Ceilings, curve: Mapping[str, str], basis: str) -> list[Row]:
    """Return what a queue adds to the oracle's goodput."""
    rows = []
    for allowed, scheme in curve.items():
        rows += [
            _row(
                f"oracle that allows {allowed}: goodput over its own without",
                "",
                field.bootstrap(of.shares[scheme]),
                basis,
            ),
            _row(
                f"oracle that allows {allowed}: mean queueing delay",
                "ms",
                field.bootstrap(_known(of.queues_ms[scheme])),
                basis,
            ),
        ]
    return rows


def _knowledge_rows(of: Ceilings, knowledge: Mapping[str, str], basis: str) -> list[Row]:
    """Return what each piece of knowledge adds to the goodput and to the queue of the first entry, which has none."""
    (_, base), *others = knowledge.items()
    rows = [_row("knowledge: none, share of the oracle's goodput", "", field.bootstrap(of.shares[base]), basis)]
    for name, scheme in others:
        rows += [
            _row(f"knowledge: {name}, added share of the oracle's goodput", "", of.gain(scheme, base), basis),
            _row(f"knowledge: {name}, added mean queueing delay", "ms", of.queue_cost_ms(scheme, base), basis),
        ]
    return rows


def _row(quantity: str, unit: str, figure: tuple[float, float, float], basis: str) -> Row:
    mean, low, high = figure
    return Row(quantity, unit, None, _finite_or_none(mean), f"95 %: {low:.3f} to {high:.3f}", basis)


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _finite(queues_ms: Sequence[float], shares: Sequence[float]) -> tuple[list[float], list[float]]:
    pairs = [(queue, share) for queue, share in zip(queues_ms, shares, strict=True) if math.isfinite(queue)]
    return [queue for queue, _ in pairs], [share for _, share in pairs]


STUDY = Study(
    name="cc-ceiling",
    title="Every controller's distance to a sender that knows the path, and the value of each piece of knowledge",
    source="bentpipe's own question; docs/design/023-ceiling.md",
    takes="four minutes on two cores; --quick: under one",
    run=_run,
    sweeps=True,
)
