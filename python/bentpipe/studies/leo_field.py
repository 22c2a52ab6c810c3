"""All controllers on many LEO paths: goodput against queueing delay, and verdicts on bentpipe's own controllers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bentpipe.experiments.schemes import deployable_controllers
from bentpipe.runs.estimates import jain_index
from bentpipe.studies import field
from bentpipe.studies.agreement import FEWEST, Claim, all_hold, values_text
from bentpipe.studies.files import LeoField
from bentpipe.studies.scenario import Published
from bentpipe.studies.study import Relation, Request, Result, Row, Study, Verdict

Scores = Mapping[tuple[str, str], Sequence[field.Score]]
#: Scheme → mean queueing delay on each Profile [ms]; None: no packet arrived.
Queues = Mapping[str, Sequence[float | None]]
Figures = Mapping[str, Published]


def _run(request: Request) -> Result:
    file = LeoField.load()
    published, design, duration_s, warmup_s = file.published, file.design, file.duration_s, file.warmup_s
    schemes = [name for name in deployable_controllers() if name not in file.left_out]
    paths = field.make_paths(file.paths[: 4 if request.quick else None], duration_s)
    controls = [field.preset_path(preset, duration_s) for preset in file.controls]
    seeds = 1 if request.quick else file.control_seeds
    times = (duration_s, warmup_s)
    alone = field.race_field(request, paths, schemes, times, shares=(0.0, 0.7))
    pairs = ["bbr3+cubic", "bbr3-leo+cubic", "cubic+cubic", "cubic-leo+cubic"]
    beside = field.race_field(request, paths, pairs, times, shares=(0.7, 0.85))
    families = ["cubic", "cubic-leo", "bbr3", "bbr3-leo"]
    still = field.race_field(request, controls, families, times, seeds=seeds, shares=(0.85, 1.0))
    names = [path.name for path in paths]
    basis = field.basis(paths, times)
    known = _known(alone, names, schemes)
    shares, queues = _shares(alone, known, schemes), _queues(alone, known, schemes)
    points = {scheme: _of_both(queues[scheme], shares[scheme]) for scheme in schemes}
    rows: list[Row] = []
    for scheme in schemes:
        mean, low, high = field.bootstrap(shares[scheme])
        quantity = f"goodput, share of the best on each Profile: {scheme}"
        rows.append(Row(quantity, "", None, mean, f"95 %: {low:.3f} to {high:.3f}", basis))
        wait_ms, low, high = field.bootstrap(points[scheme][0])
        source = f"from the link elements; 95 %: {low:.1f} to {high:.1f}"
        known_ms = wait_ms if math.isfinite(wait_ms) else None
        rows.append(Row(f"mean queueing delay: {scheme}", "ms", None, known_ms, source, basis))
    results = [
        _ours(shares, queues, published, basis),
        _fair(beside, known, published, basis),
        _still(still, controls, published, f"simulated: static paths × {duration_s:g} s × {seeds} seeds"),
    ]
    rows = [row for judged, _ in results for row in judged] + rows
    verdicts = [verdict for _, judged in results for verdict in judged]
    figure = field.pareto_figure(points, "goodput, share of the best on each Profile")
    notes = [
        f"{sum(len(judged) for _, judged in results)} verdicts at 5 % each; one is undecided where its interval "
        f"contains the limit, or has fewer than {FEWEST} Profiles or seeds",
        f"{len(names) - len(known)} of {len(names)} Profiles are left out: no packets arrived there; "
        "a controller that got nothing there has a share of 0 and no delay",
        "queueing delay: the mean time a flow's packets spent in the hops, less a lone packet's at those moments",
        "send and receive buffers are 64 MB, so that no host default limits a flow",
        f"none of these paths is among the {len(design)} used to design our controllers (leo-field.toml)",
    ]
    return Result(rows, verdicts, [basis], {"pareto": figure}, notes)


def _known(scores: Scores, names: Sequence[str], schemes: Sequence[str]) -> list[str]:
    """Return the Profiles on which any scheme has goodput; a scheme without has a share of 0 there."""
    return [name for name in names if max(scores[name, scheme][0].goodput_bps[0] for scheme in schemes) > 0]


def _shares(scores: Scores, names: Sequence[str], schemes: Sequence[str]) -> dict[str, list[float]]:
    best = {name: max(scores[name, scheme][0].goodput_bps[0] for scheme in schemes) for name in names}
    return {scheme: [scores[name, scheme][0].goodput_bps[0] / best[name] for name in names] for scheme in schemes}


def _queues(scores: Scores, names: Sequence[str], schemes: Sequence[str]) -> Queues:
    return {scheme: [scores[name, scheme][0].queue_ms for name in names] for scheme in schemes}


def _of_both(one: Sequence[float | None], other: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """Return two series of values, only for Profiles that have both."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return [a for a, _ in pairs], [b for _, b in pairs]


@dataclass(frozen=True)
class _Interval:
    """A figure with its interval over `n` Profiles or seeds; `reported` is the row's value, `why` explains it."""

    reported: float
    low: float
    high: float
    n: int
    why: str

    def meets(self, limit: float, relation: Relation) -> bool | None:
        """Return whether the whole interval meets a limit; None: it contains the limit or has too few values."""
        if relation == "<":
            return field.decided(-self.high, -self.low, -limit, self.n)
        return field.decided(self.low, self.high, limit, self.n)


def _ours(
    shares: Mapping[str, list[float]], queues: Queues, published: Figures, basis: str
) -> tuple[list[Row], list[Verdict]]:
    many = len(shares["bbr3-leo"])
    mean, low, high = field.bootstrap(shares["bbr3-leo"])
    ratio, least, most = field.bootstrap_ratio(*_of_both(queues["bbr3-leo"], queues["bbr"]))
    gain, worst, top = field.bootstrap_ratio(shares["cubic-leo"], shares["cubic"])
    cost, cheapest, dearest = field.bootstrap_ratio(*_of_both(queues["cubic-leo"], queues["cubic"]))
    least_share = f"least of a Profile {min(shares['bbr3-leo']):.3f}"
    estimates = {
        "goodput": _Interval(low, low, high, many, f"{mean:.3f}, 95 %: {low:.3f} to {high:.3f}; {least_share}"),
        "queue": _Interval(ratio, least, most, many, f"{ratio:.3f}, 95 %: {least:.3f} to {most:.3f}"),
        "cubic": _Interval(worst, worst, top, many, f"× {gain:.3f}, 95 %: {worst:.3f} to {top:.3f}"),
        "cubic-queue": _Interval(cost, cheapest, dearest, many, f"× {cost:.3f}, 95 %: {cheapest:.3f} to {dearest:.3f}"),
    }
    return _judged(estimates, published, basis)


def _fair(scores: Scores, names: Sequence[str], published: Figures, basis: str) -> tuple[list[Row], list[Verdict]]:
    """Compare Jain's index and CUBIC's goodput beside our controllers with those beside their parents."""

    def of(scheme: str) -> tuple[list[float], list[float]]:
        flows = [scores[name, scheme][0].goodput_bps for name in names]
        # A pair without goodput has an index of 0.
        return [jain_index(pair) or 0.0 for pair in flows], [pair[1] for pair in flows]

    estimates = {}
    for key, one, parent in (("fair", "bbr3-leo", "bbr3"), ("cubic-fair", "cubic-leo", "cubic")):
        (ours, ours_cubic), (theirs, theirs_cubic) = of(f"{one}+cubic"), of(f"{parent}+cubic")
        mean, low, high = field.bootstrap([a - b for a, b in zip(ours, theirs, strict=True)])
        ratio, least, most = field.bootstrap_ratio(ours_cubic, theirs_cubic)
        why = (
            f"Jain's index {np.mean(ours):.3f} beside {np.mean(theirs):.3f}, difference {mean:+.3f}, "
            f"95 %: {low:+.3f} to {high:+.3f}; CUBIC's goodput × {ratio:.3f}, 95 %: {least:.3f} to {most:.3f}"
        )
        estimates[key] = _Interval(mean, low, high, len(names), why)
    return _judged(estimates, published, basis)


def _still(
    scores: Scores, controls: Sequence[field.Path], published: Figures, basis: str
) -> tuple[list[Row], list[Verdict]]:
    """Compare our controllers with their parents on static paths: alone, with losses and with cross traffic."""
    limit = published["still"]
    rows, verdicts = [], []
    for ours, parent in (("bbr3-leo", "bbr3"), ("cubic-leo", "cubic")):
        for path in controls:
            mine, theirs = ([score.goodput_bps[0] for score in scores[path.name, e]] for e in (ours, parent))
            of = f"{ours} over {parent}, {path.name}"
            ratios = [a / b for a, b in zip(mine, theirs, strict=True) if b > 0]
            rows.append(limit.row(min(ratios, default=None), basis, of=of))
            verdicts.append(
                Verdict(
                    f"{of}: never below {limit.value:g} of the goodput",
                    min(ratios) >= limit.value if ratios else None,
                    limit.source,
                    basis,
                    f"least of {len(ratios)} seeds {min(ratios, default=math.nan):.3f}",
                )
            )
            drawn = path.traffic is not None or "loss" in path.name
            verdicts.append(
                all_hold(
                    f"{of}: on average at least {limit.value:g} of the goodput",
                    [Claim(of, mine, theirs, limit.value)],
                    limit.source,
                    basis,
                    f"by seed: {values_text(ratios, '')}" + ("" if drawn else "; one static path without random draws"),
                )
            )
    return rows, verdicts


def _judged(estimates: Mapping[str, _Interval], published: Figures, basis: str) -> tuple[list[Row], list[Verdict]]:
    """Return a row and a verdict for each limit, with the values that decide it."""
    rows, verdicts = [], []
    for key, interval in estimates.items():
        row = published[key].row(interval.reported if math.isfinite(interval.reported) else None, basis)
        rows.append(row)
        side = "at most" if row.relation == "<" else "at least"
        statement = f"{row.quantity}: {side} {row.published:g}"
        holds = interval.meets(published[key].value, row.relation)
        verdicts.append(Verdict(statement, holds, row.source, basis, f"{interval.why} (n = {interval.n})"))
    return rows, verdicts


STUDY = Study(
    name="leo-field",
    title="All controllers on 24 LEO paths: goodput against queueing delay",
    source="bentpipe's own question; docs/design/007-leo-controllers.md",
    takes="three minutes on two cores; --quick: under one",
    run=_run,
    sweeps=True,
)
