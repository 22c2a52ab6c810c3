"""All controllers on many LEO paths: goodput against queueing delay, and whether bentpipe's own earn their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bentpipe.plots import pareto
from bentpipe.runs import jain_index
from bentpipe.studies import field
from bentpipe.studies.scenario import Published, load_scenario
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

Scores = Mapping[tuple[str, str], Sequence[field.Score]]
Figures = Mapping[str, Published]


def _run(request: Request) -> Result:
    loaded = load_scenario("leo-field")
    scenario, published = loaded.table, loaded.published
    duration_s, warmup_s = scenario.number("duration_s", 20, 3600), scenario.number("warmup_s", 0, 600)
    entrants = scenario.texts("entrants")
    paths = field.take_paths(scenario, duration_s, quick=4 if request.quick else None)
    controls = [field.preset_path(preset, duration_s) for preset in scenario.texts("controls")]
    seeds = scenario.integer("control_seeds", 1, 100)
    scenario.done()
    if request.quick:
        seeds = 1
    times = (duration_s, warmup_s)
    alone = field.race_field(request, paths, entrants, times, shares=(0.0, 0.7))
    pairs = ["bbr3+cubic", "bbr3-leo+cubic"]
    beside = field.race_field(request, paths, pairs, times, shares=(0.7, 0.85))
    families = ["cubic", "cubic-leo", "bbr3", "bbr3-leo"]
    still = field.race_field(request, controls, families, times, seeds=seeds, shares=(0.85, 1.0))
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
    found = [
        _ours(shares, queues, published, basis),
        _fair(beside, names, published, basis),
        _still(still, controls, published, f"simulated: static paths × {duration_s:g} s × {seeds} seeds"),
    ]
    rows = [row for judged, _ in found for row in judged] + rows
    verdicts = [verdict for _, judged in found for verdict in judged]
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


def _ours(
    shares: Mapping[str, list[float]], queues: Mapping[str, list[float]], published: Figures, basis: str
) -> tuple[list[Row], list[Verdict]]:
    mean, low, high = field.bootstrap(shares["bbr3-leo"])
    ratio, least, most = field.bootstrap_ratio(queues["bbr3-leo"], queues["bbr"])
    gain, worst, top = field.bootstrap_ratio(shares["cubic-leo"], shares["cubic"])
    said = {
        "goodput": (
            low,
            f"{mean:.3f}, 95 %: {low:.3f} to {high:.3f}; least of a Profile {min(shares['bbr3-leo']):.3f}",
        ),
        "queue": (ratio, f"{ratio:.3f}, 95 %: {least:.3f} to {most:.3f}"),
        "cubic": (worst, f"× {gain:.3f}, 95 %: {worst:.3f} to {top:.3f}"),
    }
    return _judged(said, published, basis)


def _fair(scores: Scores, names: Sequence[str], published: Figures, basis: str) -> tuple[list[Row], list[Verdict]]:
    """Jain's index of each pair, and CUBIC's own goodput, beside ours and beside BBRv3."""

    def of(entrant: str) -> tuple[list[float], list[float]]:
        flows = [scores[name, entrant][0].goodput_bps for name in names]
        # Nobody gets anything where there is no path.
        return [jain_index(pair) or 0.0 for pair in flows], [pair[1] for pair in flows]

    (ours, ours_cubic), (theirs, theirs_cubic) = of("bbr3-leo+cubic"), of("bbr3+cubic")
    mean, low, high = field.bootstrap([a - b for a, b in zip(ours, theirs, strict=True)])
    ratio, least, most = field.bootstrap_ratio(ours_cubic, theirs_cubic)
    why = (
        f"Jain's index {np.mean(ours):.3f} beside {np.mean(theirs):.3f}, difference {mean:+.3f}, "
        f"95 %: {low:+.3f} to {high:+.3f}; CUBIC's goodput × {ratio:.3f}, 95 %: {least:.3f} to {most:.3f}"
    )
    return _judged({"fair": (mean, why)}, published, basis)


def _still(
    scores: Scores, controls: Sequence[field.Path], published: Figures, basis: str
) -> tuple[list[Row], list[Verdict]]:
    """Each of ours beside its parent where nothing is ever reconfigured."""
    rows, verdicts = [], []
    for ours, parent in (("bbr3-leo", "bbr3"), ("cubic-leo", "cubic")):
        for path in controls:
            pairs = zip(scores[path.name, ours], scores[path.name, parent], strict=True)
            ratios = [a.goodput_bps[0] / b.goodput_bps[0] for a, b in pairs]
            why = f"by seed: {', '.join(f'{ratio:.4f}' for ratio in ratios)}"
            row, verdict = _judged(
                {"still": (min(ratios), why)}, published, basis, of=f"{ours} over {parent}, {path.name}"
            )
            rows += row
            verdicts += verdict
    return rows, verdicts


def _judged(
    said: Mapping[str, tuple[float, str]], published: Figures, basis: str, of: str = ""
) -> tuple[list[Row], list[Verdict]]:
    """A row and a verdict for each limit: what was found, and the figures that it was decided by."""
    rows = [published[key].row(found, basis, of=of) for key, (found, _) in said.items()]
    verdicts = [
        Verdict(
            f"{row.quantity}: {'at most' if row.relation == '<' else 'at least'} {row.published:g}",
            found <= limit if row.relation == "<" else found >= limit,
            row.source,
            basis,
            why,
        )
        for row, (found, why) in zip(rows, said.values(), strict=True)
        if (limit := row.published) is not None
    ]
    return rows, verdicts


STUDY = Study(
    name="leo-field",
    title="All controllers on 24 LEO paths: goodput against queueing delay",
    source="bentpipe's own question; docs/design/007-ours.md",
    takes="ten minutes on two cores; --quick: one",
    run=_run,
    sweeps=True,
)
