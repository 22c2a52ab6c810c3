"""All controllers on many LEO paths: goodput against queueing delay, and whether bentpipe's own earn their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bentpipe.plots import pareto
from bentpipe.runs import jain_index
from bentpipe.studies import field
from bentpipe.studies.scenario import load_scenario
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

#: The four that bentpipe's own are held against, and their parents.
_BEST_SHARE, _QUEUE_SHARE, _CONTROL_SHARE = 0.95, 0.5, 0.98
_SOURCE = "no publication: what bbr3-leo and cubic-leo have to show (docs/design/007-ours.md)"

Scores = Mapping[tuple[str, str], Sequence[field.Score]]


def _run(request: Request) -> Result:
    scenario = load_scenario("leo-field").table
    duration_s, warmup_s = scenario.number("duration_s", 20, 3600), scenario.number("warmup_s", 0, 600)
    entrants = scenario.texts("entrants")
    paths = field.take_paths(scenario, duration_s, quick=4 if request.quick else None)
    controls = [field.preset_path(preset, duration_s) for preset in scenario.texts("controls")]
    seeds = scenario.integer("control_seeds", 1, 100)
    scenario.done()
    if request.quick:
        seeds = 1
    times = {"duration_s": duration_s, "warmup_s": warmup_s}
    alone = field.race_field(request, paths, entrants, **times, shares=(0.0, 0.7))
    pairs = ["bbr3+cubic", "bbr3-leo+cubic"]
    beside = field.race_field(request, paths, pairs, **times, shares=(0.7, 0.85))
    families = ["cubic", "cubic-leo", "bbr3", "bbr3-leo"]
    still = field.race_field(request, controls, families, **times, seeds=seeds, shares=(0.85, 1.0))
    names = [path.name for path in paths]
    basis = f"simulated: {len(paths)} Profiles × {duration_s:g} s, the first {warmup_s:g} s left out"
    shares, queues = _shares(alone, names, entrants), _queues(alone, names, entrants)
    rows = []
    for entrant in entrants:
        mean, low, high = field.bootstrap(shares[entrant])
        rows.append(
            Row(
                f"goodput, share of the best on each Profile: {entrant}",
                "",
                None,
                mean,
                f"95 %: {low:.3f} to {high:.3f}",
                basis,
            )
        )
        rows.append(
            Row(
                f"mean queueing delay: {entrant}",
                "ms",
                None,
                float(np.mean(queues[entrant])),
                "from the link elements",
                basis,
            )
        )
    verdicts = [*_ours(shares, queues, basis), *_fair(beside, names, basis), *_costs_nothing(still, controls, basis)]
    points = {entrant: (queues[entrant], shares[entrant]) for entrant in entrants}
    figure = pareto.plot(points, "mean queueing delay [ms]", "goodput, share of the best on each Profile")
    notes = [
        "queueing delay: the mean time a flow's packets spent in the hops, less a lone packet's at those moments",
        "send and receive buffers are 64 MB, so that no default of a host is the ceiling",
        "paths of this study were not used to design a controller",
    ]
    return Result(rows, verdicts, [basis], {"pareto": figure}, notes)


def _shares(scores: Scores, names: Sequence[str], entrants: Sequence[str]) -> dict[str, list[float]]:
    best = {name: max(scores[name, entrant][0].goodput_bps[0] for entrant in entrants) for name in names}
    return {
        entrant: [scores[name, entrant][0].goodput_bps[0] / best[name] for name in names if best[name] > 0]
        for entrant in entrants
    }


def _queues(scores: Scores, names: Sequence[str], entrants: Sequence[str]) -> dict[str, list[float]]:
    known = [name for name in names if all(scores[name, entrant][0].queue_ms is not None for entrant in entrants)]
    return {entrant: [scores[name, entrant][0].queue_ms or 0.0 for name in known] for entrant in entrants}


def _ours(shares: Mapping[str, list[float]], queues: Mapping[str, list[float]], basis: str) -> list[Verdict]:
    mean, low, high = field.bootstrap(shares["bbr3-leo"])
    ratio, least, most = field.bootstrap_ratio(queues["bbr3-leo"], queues["bbr"])
    gain, worst, top = field.bootstrap_ratio(shares["cubic-leo"], shares["cubic"])
    return [
        Verdict(
            "bbr3-leo has at least 95 % of the goodput of the best controller per Profile (lower end of the interval)",
            low >= _BEST_SHARE,
            _SOURCE,
            basis,
            f"{mean:.3f}, 95 %: {low:.3f} to {high:.3f}; the least of a Profile {min(shares['bbr3-leo']):.3f}",
        ),
        Verdict(
            "bbr3-leo's mean queueing delay is at most half of BBRv1's",
            ratio <= _QUEUE_SHARE,
            _SOURCE,
            basis,
            f"{ratio:.3f}, 95 %: {least:.3f} to {most:.3f}",
        ),
        Verdict(
            "cubic-leo beats CUBIC on LEO",
            worst > 1.0,
            _SOURCE,
            basis,
            f"goodput × {gain:.3f}, 95 %: {worst:.3f} to {top:.3f}",
        ),
    ]


def _fair(scores: Scores, names: Sequence[str], basis: str) -> list[Verdict]:
    """Jain's index of each pair, and CUBIC's own goodput, beside ours less beside BBRv3."""

    def of(entrant: str) -> tuple[list[float], list[float]]:
        flows = [scores[name, entrant][0].goodput_bps for name in names]
        return [jain_index(pair) for pair in flows], [pair[1] for pair in flows]

    (ours, ours_cubic), (theirs, theirs_cubic) = of("bbr3-leo+cubic"), of("bbr3+cubic")
    mean, low, high = field.bootstrap([a - b for a, b in zip(ours, theirs, strict=True)])
    ratio, least, most = field.bootstrap_ratio(ours_cubic, theirs_cubic)
    return [
        Verdict(
            "bbr3-leo is at least as fair to CUBIC as BBRv3",
            mean >= 0,
            _SOURCE,
            basis,
            f"Jain's index {np.mean(ours):.3f} beside {np.mean(theirs):.3f}, difference {mean:+.3f}, "
            f"95 %: {low:+.3f} to {high:+.3f}; "
            f"CUBIC's goodput × {ratio:.3f}, 95 %: {least:.3f} to {most:.3f}",
        )
    ]


def _costs_nothing(scores: Scores, controls: Sequence[field.Path], basis: str) -> list[Verdict]:
    verdicts = []
    for ours, parent in (("bbr3-leo", "bbr3"), ("cubic-leo", "cubic")):
        for path in controls:
            pairs = zip(scores[path.name, ours], scores[path.name, parent], strict=True)
            ratios = [a.goodput_bps[0] / b.goodput_bps[0] for a, b in pairs]
            verdicts.append(
                Verdict(
                    f"{ours} is never more than 2 % below {parent} on {path.name}",
                    min(ratios) >= _CONTROL_SHARE,
                    _SOURCE,
                    basis,
                    f"goodput ratio by seed: {', '.join(f'{ratio:.4f}' for ratio in ratios)}",
                )
            )
    return verdicts


STUDY = Study(
    name="leo-field",
    title="All controllers on 24 LEO paths: goodput against queueing delay",
    source="bentpipe's own question; docs/design/007-ours.md",
    takes="ten minutes on two cores; --quick: one",
    run=_run,
)
