"""BBRv2's two knobs over a grid (T3P, figures 5b and 5c): the best point, again on fresh paths, and what it hangs on.

The loss process is the access model's, fixed before this study and the same for it as for every Profile; the curve of
the gain against the interval of loss episodes and the bandwidth-delay product says what path the published gain would
need. Nothing is chosen for the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bentpipe.plots.heatmap import plot_heatmaps
from bentpipe.plots.tuning_curve import Curve, plot_gain_curve
from bentpipe.profiles.access import default_parameters
from bentpipe.runs.estimates import Estimate
from bentpipe.scenarios import Place
from bentpipe.studies.scenario import load_scenario, take_place
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import load_terminals
from bentpipe.studies.t3p_uplink import starts_of_tests, uplink_paths
from bentpipe.sweeps import race_jobs, run_sweep
from bentpipe.tuning import Cell, Grid, Score, Tuned, by_second, parse_grid, score

CONTROLLER = "bbr2"
SEED = 5000
FRESH_SEED = 9000


@dataclass(frozen=True)
class _Asked:
    """The study's file."""

    grid: Grid
    tests: int
    elsewhere_tests: int
    curve_tests: int
    fresh_tests: int
    duration_s: float
    first: str
    hours: list[int]
    most_inflation: float
    elsewhere: list[str]
    intervals_s: list[int]
    server: Place
    far: Place
    chosen: tuple[str, ...]


def _run(request: Request) -> Result:
    scenario = load_scenario("t3p-bbr2-grid")
    asked = _take(scenario.table, request.quick)
    terminals = load_terminals()
    parts = _Parts(request, 3 + len(asked.elsewhere))
    tuned = _tuned(parts, asked, terminals["bcn-1"], asked.tests)
    best = tuned.best
    chosen = next(cell for cell in tuned.cells if cell.point == asked.chosen)
    again = _fresh(parts, asked, terminals["bcn-1"], [chosen] if best in (None, chosen) else [chosen, best])
    others = {key: _tuned(parts, asked, terminals[key], asked.elsewhere_tests) for key in asked.elsewhere}
    curves = _curves(parts, asked, terminals["bcn-1"], chosen.entrant)
    basis = f"simulated: {asked.tests} tests of {asked.duration_s:g} s"
    published = scenario.published
    rows = [
        published["gain"].row(_mean(chosen.score.gain), basis),
        published["inflation"].row(_mean(chosen.score.rtt_p95), basis),
        published["best-probe"].row(float(best.point[0]) if best else None, basis),
        published["best-loss"].row(float(best.point[1]) if best else None, basis),
    ]
    rows += _fresh_rows(asked, again)
    rows += [
        Row(
            f"best point within 10 %, {terminals[key].name}: {axis}",
            unit,
            None,
            float(found.best.point[i]),
            "section 5.2",
            f"simulated: {asked.elsewhere_tests} tests of {asked.duration_s:g} s",
        )
        for key, found in others.items()
        if found.best
        for i, (axis, unit) in enumerate((("probe_rtt_win_ms", "ms"), ("loss_thresh", "")))
    ]
    figures = {
        "figures-5b-5c": plot_heatmaps(
            tuned, f"BBRv2, uploads from BCN-1: {asked.tests} tests of {asked.duration_s:g} s"
        ),
        "gain-against-loss": plot_gain_curve(
            curves, published["gain"].value, published["inflation"].value, "BBRv2 at 4000 ms, 8 % against its default"
        ),
    } | {
        f"figures-5b-5c-{key}": plot_heatmaps(found, f"BBRv2, uploads from {terminals[key].name}")
        for key, found in others.items()
    }
    verdicts = _verdicts(asked, tuned, others, again, basis)
    return Result(rows, verdicts, _basis(asked), figures, _notes(tuned, curves, published["gain"].value))


class _Parts:
    """Shares the study's progress evenly among what it does, and says where Runs go."""

    def __init__(self, request: Request, parts: int) -> None:
        self._request, self._parts, self._done = request, parts, 0

    def sweep(self, paths: list[Any], entrants: list[str], duration_s: float) -> list[Any]:
        jobs = race_jobs(paths, entrants, direction="up", duration_s=duration_s, phase_s=0.0, measure=by_second)
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


def _take(table: Any, quick: bool) -> _Asked:  # noqa: ANN401 - a scenario's table
    probes, losses = table.texts("probe_rtt_win_ms"), table.texts("loss_thresh")
    tests, tests_quick = (table.integer(key, 1, 1000) for key in ("tests", "tests_quick"))
    elsewhere, curve, fresh = (table.integer(key, 1, 1000) for key in ("tests_elsewhere", "tests_curve", "fresh_quick"))
    full_s, quick_s = (table.number(key, 10, 3600) for key in ("duration_s", "duration_quick_s"))
    chosen = table.table("chosen")
    asked = _Asked(
        grid=parse_grid(CONTROLLER, [f"probe_rtt_win_ms={','.join(probes)}", f"loss_thresh={','.join(losses)}"]),
        tests=tests_quick if quick else tests,
        elsewhere_tests=tests_quick if quick else elsewhere,
        curve_tests=tests_quick if quick else curve,
        fresh_tests=fresh if quick else tests,
        duration_s=quick_s if quick else full_s,
        first=table.text("first"),
        hours=table.integers("hours", 0, 23),
        most_inflation=table.number("most_inflation", 0, 10),
        elsewhere=table.texts("elsewhere")[: 1 if quick else None],
        intervals_s=table.integers("intervals_s", 1, 3600),
        server=take_place("server", table.table("server")),
        far=take_place("far", table.table("far")),
        chosen=(chosen.text("probe_rtt_win_ms"), chosen.text("loss_thresh")),
    )
    chosen.done()
    table.done()
    return asked


def _tuned(parts: _Parts, asked: _Asked, terminal: Place, tests: int) -> Tuned:
    """The grid at one terminal."""
    paths = uplink_paths(
        terminal, asked.server, starts_of_tests(asked.first, asked.hours, tests), asked.duration_s, seed=SEED
    )
    settings = {asked.grid.entrant(point): point for point in asked.grid.points()}
    runs = parts.sweep(paths, [CONTROLLER, *settings], asked.duration_s)
    parts.next()
    cells = tuple(Cell(point, entrant, score(runs, entrant, CONTROLLER)) for entrant, point in settings.items())
    within = [cell for cell in cells if cell.score.within(asked.most_inflation) and _mean(cell.score.gain) > 1.0]
    best = max(within, key=lambda cell: _mean(cell.score.gain), default=None)
    return Tuned(asked.grid, CONTROLLER, cells, asked.most_inflation, best, None)


def _fresh(parts: _Parts, asked: _Asked, terminal: Place, cells: list[Cell]) -> dict[tuple[str, ...], Score]:
    """Some points again on days and draws that had no part in choosing one."""
    starts = starts_of_tests(asked.first, asked.hours, asked.fresh_tests, skip=asked.tests)
    paths = uplink_paths(terminal, asked.server, starts, asked.duration_s, seed=FRESH_SEED)
    runs = parts.sweep(paths, [CONTROLLER, *dict.fromkeys(cell.entrant for cell in cells)], asked.duration_s)
    parts.next()
    return {cell.point: score(runs, cell.entrant, CONTROLLER) for cell in cells}


def _curves(parts: _Parts, asked: _Asked, terminal: Place, entrant: str) -> list[Curve]:
    """The published point's gain against how often loss episodes begin, on a short and on a long way."""
    starts = starts_of_tests(asked.first, asked.hours, asked.curve_tests)
    curves = []
    for server in (asked.server, asked.far):
        scores = []
        for interval_s in asked.intervals_s:
            rate = {"loss": {"up": {"episodes_per_s": 1.0 / interval_s}}}
            paths = uplink_paths(terminal, server, starts, asked.duration_s, seed=SEED, parameters=rate)
            runs = parts.sweep(paths, [CONTROLLER, entrant], asked.duration_s)
            scores.append(score(runs, entrant, CONTROLLER))
        bdp_bytes = _bdp_bytes(runs)
        curves.append(Curve(f"{server.name}, BDP {bdp_bytes / 1e3:.0f} kB", tuple(asked.intervals_s), tuple(scores)))
    parts.next()
    return curves


def _bdp_bytes(runs: list[Any]) -> float:
    """Median goodput of the better half of the seconds, times the shortest round-trip time [bytes]."""
    import numpy as np

    seconds = np.concatenate([run.measures["goodput_bps"] for run in runs])
    rtts = [value for run in runs for value in run.measures["rtt_ms"] if value is not None]
    return float(np.quantile(seconds, 0.95) / 8 * min(rtts) / 1e3)


def _mean(value: Estimate | None) -> float:
    return float("nan") if value is None else value.mean


def _percent(value: Estimate | None) -> str:
    if value is None:
        return "unknown"
    ends = (
        ""
        if value.low is None or value.high is None
        else f" ({100 * (value.low - 1):+.1f} … {100 * (value.high - 1):+.1f})"
    )
    return f"{100 * (value.mean - 1):+.1f}{ends} %"


def _fresh_rows(asked: _Asked, again: dict[tuple[str, ...], Score]) -> list[Row]:
    basis = f"simulated: {asked.fresh_tests} other tests of {asked.duration_s:g} s"
    rows = []
    for point, found in again.items():
        what = "the paper's point" if point == asked.chosen else "our best point"
        for name, value in (("goodput", found.gain), ("p95 of the RTT", found.rtt_p95)):
            rows.append(
                Row(f"{what} again on fresh paths: {name}, over the default's", "", None, _mean(value), "", basis)
            )
    return rows


def _verdicts(
    asked: _Asked, tuned: Tuned, others: dict[str, Tuned], again: dict[tuple[str, ...], Score], basis: str
) -> list[Verdict]:
    corner = next(cell for cell in tuned.cells if cell.point == ("1000", "0.16"))
    best = tuned.best
    chosen = again[asked.chosen]
    places = {"bcn-1": best, **{key: found.best for key, found in others.items()}}
    where = "; ".join(f"{key}: {' ms, '.join(cell.point) if cell else 'none'}" for key, cell in places.items())
    loss = [_mean(cell.score.gain) for cell in tuned.cells if cell.point[0] == "5000"]
    return [
        Verdict(
            "lower probe_rtt_win_ms and higher loss_thresh give more throughput than the default",
            _above_one(corner.score.gain),
            "figure 5b",
            basis,
            f"at 1000 ms, 16 %: goodput {_percent(corner.score.gain)}; over loss_thresh alone, at 5000 ms: "
            + ", ".join(f"{100 * (value - 1):+.1f}" for value in loss)
            + " %",
        ),
        Verdict(
            "often at the cost of latency",
            _above_one(corner.score.rtt_p95),
            "figure 5c",
            basis,
            f"at 1000 ms, 16 %: p95 of the RTT {_percent(corner.score.rtt_p95)}",
        ),
        Verdict(
            "at 4000 ms and 8 % throughput is 115 % above the default's with 5 % more RTT",
            (chosen.gain is not None and (chosen.gain.high or chosen.gain.mean) >= 2.15),
            "section 5.2",
            f"simulated: {asked.fresh_tests} other tests",
            f"on fresh paths goodput {_percent(chosen.gain)}, p95 of the RTT {_percent(chosen.rtt_p95)}",
        ),
        Verdict(
            "the best combinations vary across locations",
            _differ({"bcn-1": tuned, **others}),
            "section 5.2",
            basis,
            where + "; points whose intervals overlap are not told apart",
        ),
    ]


def _above_one(value: Estimate | None) -> bool | None:
    """Whether a ratio is above 1; None where its interval has 1 in it."""
    if value is None or (value.low is not None and value.high is not None and value.low <= 1.0 <= value.high):
        return None
    return value.mean > 1.0


def _differ(places: dict[str, Tuned]) -> bool | None:
    """Whether the best points differ; None where at some place another's best point is as good within the intervals."""
    best = {key: found.best for key, found in places.items()}
    if len({cell.point for cell in best.values() if cell}) < 2:
        return None if None in best.values() else False
    for key, found in places.items():
        own = best[key]
        theirs = [cell for cell in found.cells if any(cell.point == each.point for each in best.values() if each)]
        if own is None or any(cell.point != own.point and _overlap(cell.score.gain, own.score.gain) for cell in theirs):
            return None
    return True


def _basis(asked: _Asked) -> list[str]:
    loss = default_parameters()["loss"]
    hours = ", ".join(map(str, asked.hours))
    return [
        f"BCN-1 to {asked.server.name}: {asked.tests} tests of {asked.duration_s:g} s at {hours} h UTC from "
        f"{asked.first} on; the same for every setting",
        f"loss, as the access model has it, fixed before this study: {loss['up']['episodes_per_s']:g} episodes a "
        f"second upwards, median length {loss['length_median_ms']:g} ms, {loss['probability_inside']:g} of those "
        "inside it",
        "intervals: Student's t over tests of the logarithm of the ratio to the default on the same path",
    ]


def _notes(tuned: Tuned, curves: list[Curve], published: float) -> list[str]:
    largest = max(
        (
            (_mean(each.gain), curve.name, interval)
            for curve in curves
            for interval, each in zip(curve.intervals_s, curve.scores, strict=True)
        ),
        default=(float("nan"), "", 0.0),
    )
    notes = [
        f"on the curve the largest gain of the paper's point is {100 * (largest[0] - 1):+.1f} %, at {largest[2]:g} s "
        f"between episodes to {largest[1]}; published: {100 * (published - 1):+.0f} %"
    ]
    overlap = [cell for cell in tuned.cells if tuned.best and _overlap(cell.score.gain, tuned.best.score.gain)]
    if tuned.best is not None:
        notes.append(f"{len(overlap)} of {len(tuned.cells)} points gain what the best does within its interval")
    notes.append(
        "where ours differs: the gain of loss_thresh depends on how often more than 2 % of a round trip's packets are "
        "lost, which the paper gives no figure for; the access model's loss was set from published bursts, not from it"
    )
    return notes


def _overlap(one: Estimate | None, other: Estimate | None) -> bool:
    return None not in (one, other) and (one.high or one.mean) >= (other.low or other.mean)  # type: ignore[union-attr]


STUDY = Study(
    name="t3p-bbr2-grid",
    title="BBRv2's probe_rtt_win_ms and loss_thresh over a grid: gain, inflation, the best point and where it moves",
    source="T3P (arXiv:2310.11835), figures 5b and 5c",
    takes="half an hour on two cores; --quick: a few minutes",
    run=_run,
    sweeps=True,
)
