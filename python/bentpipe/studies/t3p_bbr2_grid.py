"""BBRv2's two tunables over a grid (T3P, figures 5b and 5c): the best point, its check on fresh paths, and its causes.

The loss process is that of the access model, fitted to measurements and not to this study. A curve of the gain against
the interval of loss episodes and the bandwidth-delay product shows which path the published gain needs. Nothing is
chosen for the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bentpipe.execution.job import race_jobs
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.plots.heatmap import plot_heatmaps
from bentpipe.plots.tuning_curve import Curve, plot_gain_curve
from bentpipe.profiles.access import default_parameters
from bentpipe.scenarios.sites import Place
from bentpipe.studies.counterfactual import QUICK, Counterfactual
from bentpipe.studies.scenario import Published
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import load_terminals
from bentpipe.studies.t3p_bbr2_verdicts import GridResults, PlaceGrid, mean, percent, published_gain, verdicts
from bentpipe.studies.t3p_files import T3pBbr2Grid
from bentpipe.studies.t3p_pooled import Pooled, pooled
from bentpipe.studies.t3p_uplink import Uplink, load_uplink
from bentpipe.tuning.grid import Grid, parse_grid
from bentpipe.tuning.scores import by_second, score
from bentpipe.tuning.search import Cell, Tuned, best_of

CONTROLLER = "bbr2"


@dataclass(frozen=True)
class _Setup:
    """Parameters from the study's file."""

    grid: Grid
    tests: int
    elsewhere_tests: int
    curve_tests: int
    fresh_tests: int
    duration_s: float
    most_inflation: float
    elsewhere: Sequence[str]
    good_elsewhere: tuple[tuple[str, ...], ...]
    intervals_s: Sequence[int]
    uplink: Uplink
    far: Place
    chosen: tuple[str, ...]
    counterfactuals: Sequence[Counterfactual]


def _run(request: Request) -> Result:
    file = T3pBbr2Grid.load()
    setup = _setup(file, request.quick)
    terminals = load_terminals()
    parts = _Parts(request, 4 + len(setup.elsewhere))
    at_home = _tuned(parts, setup, setup.uplink.terminal, setup.tests)
    tuned = at_home.tuned
    best = tuned.best
    chosen = next(cell for cell in tuned.cells if cell.point == setup.chosen)
    again = _fresh(parts, setup, [chosen] if best in (None, chosen) else [chosen, best])
    others = {key: _tuned(parts, setup, terminals[key], setup.elsewhere_tests) for key in setup.elsewhere}
    curves = _curves(parts, setup, chosen.scheme)
    basis = f"simulated: {setup.tests} tests of {setup.duration_s:g} s"
    elsewhere = f"simulated: {setup.elsewhere_tests} tests of {setup.duration_s:g} s"
    published = file.published
    home = pooled(at_home.runs, chosen.scheme, CONTROLLER)
    rows = [*_point_rows(published, home, basis, "all seconds together")]
    rows += [
        published["gain"].row(mean(chosen.score.gain), f"{basis}; {percent(chosen.score.gain)}", of=_BY_TEST),
        published["inflation"].row(
            mean(chosen.score.rtt_p95), f"{basis}; {percent(chosen.score.rtt_p95)}", of=_BY_TEST
        ),
        published["best-probe"].row(float(best.point[0]) if best else None, basis),
        published["best-loss"].row(float(best.point[1]) if best else None, basis),
    ]
    rows += _fresh_rows(published, setup, again)
    rows += _elsewhere_rows(setup, others, {key: terminals[key].name for key in others}, elsewhere)
    changed_rows, what_if = _supposed(parts, setup, published, chosen.scheme)
    rows += changed_rows
    figures = {
        "figures-5b-5c": plot_heatmaps(
            tuned, title=f"BBRv2, uploads from BCN-1: {setup.tests} tests of {setup.duration_s:g} s"
        ),
        "gain-against-loss": plot_gain_curve(
            curves,
            gain=published["gain"].value,
            inflation=published["inflation"].value,
            title="BBRv2 at 4000 ms, 8 % against its default",
        ),
    } | {
        f"figures-5b-5c-{key}": plot_heatmaps(pooled_result.tuned, title=f"BBRv2, uploads from {terminals[key].name}")
        for key, pooled_result in others.items()
    }
    fresh = f"simulated: {setup.fresh_tests} other tests of {setup.duration_s:g} s"
    results = GridResults(
        at_home,
        {terminals[key].name: pooled_result for key, pooled_result in others.items()},
        again[setup.chosen],
        setup.good_elsewhere,
        (published["gain"].value, published["inflation"].value),
        (basis, fresh, elsewhere),
    )
    notes = _notes(at_home, curves, published["gain"].value)
    return Result(rows, verdicts(results), _basis(setup), figures, notes, what_if)


#: The statistic of `bentpipe.tuning.score`.
_BY_TEST = "geometric mean of the tests' ratios"


class _Parts:
    """Runs the study's sweeps; each part has an equal share of the progress."""

    def __init__(self, request: Request, parts: int) -> None:
        self._request, self._parts, self._done = request, parts, 0

    def sweep(self, paths: list[Any], schemes: list[str], duration_s: float) -> list[Any]:
        jobs = race_jobs(paths, schemes, direction="up", duration_s=duration_s, phase_s=0.0, measure=by_second)
        begin = self._done / self._parts
        swept = run_sweep(
            jobs,
            out=self._request.out,
            on=self._request.on,
            on_progress=lambda each: self._request.on_progress(min(1.0, begin + each.share / self._parts)),
        )
        return swept.whole()

    def next(self) -> None:
        self._done += 1


def _setup(file: T3pBbr2Grid, quick: bool) -> _Setup:
    uplink, good = load_uplink(), file.good_elsewhere
    axes = [f"probe_rtt_win_ms={','.join(file.probe_rtt_win_ms)}", f"loss_thresh={','.join(file.loss_thresh)}"]
    return _Setup(
        grid=parse_grid(CONTROLLER, axes),
        tests=file.tests_quick if quick else uplink.tests,
        elsewhere_tests=file.tests_quick if quick else file.tests_elsewhere,
        curve_tests=file.tests_quick if quick else file.tests_curve,
        fresh_tests=file.fresh_quick if quick else uplink.tests,
        duration_s=file.duration_quick_s if quick else uplink.duration_s,
        most_inflation=file.most_inflation,
        elsewhere=file.elsewhere[: 1 if quick else None],
        good_elsewhere=(good.probe_rtt_win_ms, good.loss_thresh),
        intervals_s=file.intervals_s,
        uplink=uplink,
        far=file.far.place("far"),
        chosen=(file.chosen.probe_rtt_win_ms, file.chosen.loss_thresh),
        counterfactuals=uplink.counterfactuals[: QUICK if quick else None],
    )


def _tuned(parts: _Parts, setup: _Setup, terminal: Place, tests: int) -> PlaceGrid:
    """Run the grid at one terminal."""
    paths = setup.uplink.paths(tests, setup.duration_s, terminal=terminal)
    settings = {setup.grid.scheme(point): point for point in setup.grid.points()}
    runs = parts.sweep(paths, [CONTROLLER, *settings], setup.duration_s)
    parts.next()
    cells = tuple(Cell(point, scheme, score(runs, scheme, CONTROLLER)) for scheme, point in settings.items())
    return PlaceGrid(
        Tuned(setup.grid, CONTROLLER, cells, setup.most_inflation, best_of(cells, setup.most_inflation), None), runs
    )


def _fresh(parts: _Parts, setup: _Setup, cells: list[Cell]) -> dict[tuple[str, ...], Pooled]:
    """Repeat some points on days and seeds that had no part in the choice."""
    paths = setup.uplink.paths(setup.fresh_tests, setup.duration_s, skip=setup.tests)
    runs = parts.sweep(paths, [CONTROLLER, *dict.fromkeys(cell.scheme for cell in cells)], setup.duration_s)
    parts.next()
    return {cell.point: pooled(runs, cell.scheme, CONTROLLER) for cell in cells}


def _curves(parts: _Parts, setup: _Setup, scheme: str) -> list[Curve]:
    """Measure the published point's gain against the rate of loss episodes, on a short and on a long path."""
    curves = []
    for server in (setup.uplink.server, setup.far):
        scores, defaults = [], []
        for interval_s in setup.intervals_s:
            rate = {"loss": {"up": {"episodes_per_s": 1.0 / interval_s}}}
            paths = setup.uplink.paths(setup.curve_tests, setup.duration_s, server=server, parameters=rate)
            runs = parts.sweep(paths, [CONTROLLER, scheme], setup.duration_s)
            scores.append(score(runs, scheme, CONTROLLER))
            defaults += [run for run in runs if run.scheme == CONTROLLER]
        bdp = _bdp_bytes(defaults)
        name = server.name if bdp is None else f"{server.name}, BDP {bdp / 1e3:.0f} kB"
        curves.append(Curve(name, tuple(setup.intervals_s), tuple(scores)))
    parts.next()
    return curves


def _supposed(
    parts: _Parts, setup: _Setup, published: Mapping[str, Published], scheme: str
) -> tuple[list[Row], list[Verdict]]:
    """Compare the published point with the default over paths with one published change."""
    rows, verdict_list = [], []
    for each in setup.counterfactuals:
        paths = setup.uplink.paths(min(setup.tests, each.tests), setup.duration_s, parameters=each.parameters)
        pooled_result = pooled(parts.sweep(paths, [CONTROLLER, scheme], setup.duration_s), scheme, CONTROLLER)
        basis = f"simulated: {len(paths)} tests of {setup.duration_s:g} s"
        rows += [each.lost_row(paths, "up", basis)]
        rows += each.rows(_point_rows(published, pooled_result, basis, "all seconds together"))
        limits = published["gain"].value, published["inflation"].value
        verdict_list += each.statements([published_gain(pooled_result, limits, basis)])
    parts.next()
    return rows, verdict_list


def _bdp_bytes(runs: list[Any]) -> float | None:
    """Return the default's 95th percentile of goodput over all seconds, times its shortest RTT [bytes]."""
    seconds = np.concatenate([run.measures["goodput_bps"] for run in runs])
    rtts = [value for run in runs for value in run.measures["rtt_ms"] if value is not None]
    return float(np.quantile(seconds, 0.95) / 8 * min(rtts) / 1e3) if rtts and len(seconds) else None


def _point_rows(published: Mapping[str, Published], pooled_result: Pooled, basis: str, of: str) -> list[Row]:
    """Return rows with a point's published gain and inflation beside ours, by the paper's statistic."""
    return [
        published[key].row(None if span is None else span.value, f"{basis}; {span.text if span else 'unknown'}", of=of)
        for key, span in (("gain", pooled_result.gain), ("inflation", pooled_result.rtt_p95))
    ]


def _fresh_rows(
    published: Mapping[str, Published], setup: _Setup, again: Mapping[tuple[str, ...], Pooled]
) -> list[Row]:
    basis = f"simulated: {setup.fresh_tests} other tests of {setup.duration_s:g} s"
    rows = _point_rows(published, again[setup.chosen], basis, "on fresh paths, all seconds together")
    for point, pooled_result in again.items():
        if point == setup.chosen:
            continue
        for name, span in (("goodput", pooled_result.gain), ("p95 of the RTT", pooled_result.rtt_p95)):
            quantity = f"our best point ({' ms, '.join(point)}) on fresh paths: {name}, over the default's"
            value, verdict_list = (span.value, span.text) if span else (None, "unknown")
            rows.append(Row(quantity, "", None, value, "", f"{basis}; {verdict_list}"))
    return rows


def _elsewhere_rows(setup: _Setup, others: dict[str, PlaceGrid], names: dict[str, str], basis: str) -> list[Row]:
    """Return rows with the best point at other places, and the paper's set of best points."""
    rows = []
    for key, pooled_result in others.items():
        best = pooled_result.tuned.best
        for i, (axis, unit) in enumerate((("probe_rtt_win_ms", "ms"), ("loss_thresh", ""))):
            source = f"section 5.2: one of {', '.join(setup.good_elsewhere[i])}"
            value = float(best.point[i]) if best else None
            rows.append(Row(f"best point within 10 %, {names[key]}: {axis}", unit, None, value, source, basis))
    return rows


def _basis(setup: _Setup) -> list[str]:
    loss = default_parameters()["loss"]
    per_s = loss["up"]["episodes_per_s"]
    return [
        f"{setup.uplink.text}: {setup.tests} tests of {setup.duration_s:g} s, the same for every setting",
        f"loss, as the access model has it for every Profile: {per_s:g} episodes a second upwards (one in "
        f"{1 / per_s:.3g} s), median length {loss['length_median_ms']:g} ms, {loss['probability_inside']:g} of those "
        "inside it",
        "the paper's statistic: mean goodput and p95 of the RTT of all 1 s samples of all tests over the default's, "
        "with a bootstrap interval over tests; heatmaps and geometric means: Student's t over tests of the logarithm "
        "of the ratio to the default on the same path",
    ]


def _notes(at_home: PlaceGrid, curves: list[Curve], published: float) -> list[str]:
    gains = [
        (gain, curve.name, interval)
        for curve in curves
        for interval, each in zip(curve.intervals_s, curve.scores, strict=True)
        if (gain := mean(each.gain)) is not None
    ]
    notes = []
    if gains:
        gain, where, interval = max(gains)
        notes.append(
            f"on the curve the largest gain of the paper's point is {100 * (gain - 1):+.1f} %, at {interval:g} s "
            f"between episodes to {where}; published: {100 * (published - 1):+.0f} %"
        )
    best = at_home.tuned.best
    if best is not None:
        alike = [cell for cell in at_home.tuned.cells if cell != best and at_home.beats(best, cell) is not True]
        notes.append(
            f"the best point was chosen of {len(at_home.tuned.cells)}; {len(alike)} others do not differ from it in "
            "paired differences over the same tests"
        )
    notes.append(
        "reason for differences: the gain of loss_thresh depends on how often more than 2 % of an RTT's packets are "
        "lost, for which the paper gives no value; the access model's loss was set from published bursts, not from it"
    )
    return notes


STUDY = Study(
    name="t3p-bbr2-grid",
    title="BBRv2's probe_rtt_win_ms and loss_thresh over a grid: gain, inflation, the best point and where it moves",
    source="T3P (arXiv:2310.11835), figures 5b and 5c",
    takes="six minutes on two cores; --quick: one",
    run=_run,
    sweeps=True,
)
