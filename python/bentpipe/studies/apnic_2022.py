"""Two downloads over fibre, GEO and LEO: the second joins, the first leaves (Huston 2022, figures 6 to 16)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.experiments.experiment import NS_PER_S, ROLE, Experiment, Flow, ProfileRef
from bentpipe.experiments.traffic import cross_traffic
from bentpipe.plots import style
from bentpipe.plots.streams import Line, Panel, plot_panels, stream_look
from bentpipe.profiles.pings import ping_table
from bentpipe.profiles.presets import preset_profile
from bentpipe.scenarios.losses import DEFAULT_LOSS
from bentpipe.studies.agreement import Claim, all_hold, on_one_path, values_text
from bentpipe.studies.counterfactual import QUICK, Counterfactual, counterfactuals_of
from bentpipe.studies.files import Apnic2022, TwoStreamPath
from bentpipe.studies.flows import RunBatch, StudyRun, Track, as_drawn, on_day
from bentpipe.studies.orders import Level, by_level, share_lost
from bentpipe.studies.scenario import Published
from bentpipe.studies.study import LevelOrder, Request, Result, Row, Study, Verdict

if TYPE_CHECKING:
    from bentpipe._native import Profile

#: Two streams share equally once their means over two seconds are this near (smaller over larger). They must stay so in
#: all but this part of the later two-second windows (Reno's sawtooth leaves it for moments), and for at least this
#: time, since the last moments before one leaves are no evidence. Chosen here.
EQUAL, EQUAL_S, UNEQUAL_AFTER, STAYS_S = 0.8, 2.0, 0.05, 20.0
#: "After approximately 20 seconds": around that time after the second stream joined [s].
AFTER_S = (15.0, 25.0)
#: A window has collapsed, "not subsequently recovered", if in the last half of the shared time the two streams carry at
#: most this part of their best ten seconds. Chosen here.
COLLAPSED = 0.5
#: A path's capacity is reached with this part of it, in one sample. Chosen here, above what headers leave (0.965).
REACHED = 0.9
#: Controllers count as alike if the least has this part of the most. Chosen here.
ALIKE = 0.9
#: Each test's second stream joins this much later than in the test before [s]: on static paths nothing else differs.
LATER_S = 0.37
ENOUGH_S = 1.0


@dataclass(frozen=True)
class _Path:
    """A path of the study; when the second stream joins, the first leaves, and the test ends; the figure's bins [s]."""

    name: str
    preset: str
    traffic: str | None
    joins_s: float
    leaves_s: float
    ends_s: float
    bin_s: float


def _run(request: Request) -> Result:
    file = Apnic2022.load()
    controllers = file.controllers
    hosts = {"debian-10": file.host.host()}
    paths = [_path(name, entry, request.quick) for name, entry in file.paths.items()]
    changed = counterfactuals_of(file.counterfactual)[: QUICK if request.quick else None]
    ping_s = file.ping.duration_quick_s if request.quick else file.ping.duration_s
    geo_ping_s = min(ping_s, file.ping.geo_s)
    seeds = file.seeds_quick if request.quick else file.seeds
    field = RunBatch()

    def add(path: _Path, count: int, parameters: Mapping[str, Any] | None = None) -> list[Profile]:
        """Add Runs of all controllers on `count` days of a path; return the days' Profiles."""
        days = [on_day(path.preset, path.ends_s, seed, parameters) for seed in range(count)]
        for seed, profile in enumerate(days):
            cross = () if path.traffic is None else (cross_traffic(profile, path.traffic, "down"),)
            for controller in controllers:
                first = Flow(
                    controller=controller, stop_ns=_ns(path.leaves_s), sender="debian-10", receiver="debian-10"
                )
                joins_s = path.joins_s + seed * LATER_S
                second = Flow(controller=controller, start_ns=_ns(joins_s), sender="debian-10", receiver="debian-10")
                experiment = Experiment(
                    name=f"apnic-2022-{path.name}",
                    seed=seed,
                    duration_ns=_ns(path.ends_s),
                    warmup_ns=0,  # iperf3 has no warm-up
                    profiles=(ProfileRef(role=ROLE, name=profile.name, hash=profile.content_hash()),),
                    flows=(first, second),
                    hosts=hosts,
                    cross=cross,
                )
                field.add((path.name, controller), experiment, profile)
        return days

    supposed = _supposed(paths, changed)
    # As they are drawn by the Runs.
    drawn = {path.name: as_drawn(add(path, seeds)) for path in paths}
    for each, path in supposed:
        drawn[path.name] = as_drawn(add(path, min(seeds, each.tests), each.parameters))
    request.on_progress(0.1)
    runs = field.run(request, (0.1, 0.9))
    stages = {
        path.name: {controller: _Stages(path, runs[path.name, controller]) for controller in controllers}
        for path in [*paths, *(path for _, path in supposed)]
    }
    basis = f"simulated: {seeds} tests"
    published = file.published
    pings = {
        path.name: _pings(path, geo_ping_s if path.name == "geo" else ping_s)
        for path in paths
        if path.name in ("geo", "leo")
    }
    rows = [*_fibre_rows(published, stages["fibre"], basis), *_geo_rows(published, stages["geo"], basis)]
    rows += [*_ping_rows(published, pings), *_leo_rows(published, stages["leo"], basis)]
    what_if: list[Verdict] = []
    for each, path in supposed:
        of, change_basis = stages[path.name], f"simulated: {len(runs[path.name, 'bbr'])} tests"
        rows_of, says = (_geo_rows, _geo_verdicts) if each.on == "geo" else (_leo_rows, _leo_verdicts)
        rows += [
            each.lost_row(drawn[path.name], "down", change_basis),
            *each.rows(rows_of(published, of, change_basis)),
        ]
        what_if += each.statements(says(of, change_basis))
    panels = [
        [_panel(path, controller, runs[path.name, controller][0]) for controller in controllers] for path in paths
    ]
    basis_lines = [
        f"{path.preset}: {path.ends_s:g} s, second stream from {path.joins_s:g} s, first until {path.leaves_s:g} s"
        + (f", with {path.traffic} traffic" if path.traffic else "")
        for path in paths
    ]
    basis_lines.append(
        f"{seeds} tests: LEO on as many days, each with other satellites; fibre and GEO are one static path each, on "
        f"which the second stream joins {LATER_S:g} s later from test to test, and over GEO cross traffic is drawn"
    )
    figures = {
        "figures-6-16": plot_panels(panels),
        "figures-9-13": plot_panels([[_ping_panel(name, table) for name, table in pings.items()]]),
    }
    levels = [(path.name, DEFAULT_LOSS if path.name == "leo" else path.preset, path.name) for path in paths]
    levels += [(each.on, each.loss or path.preset, path.name) for each, path in supposed if each.loss or each.preset]
    orders: list[LevelOrder] = []
    for on, entry in file.order.items():
        orders += by_level(
            on,
            "Mbit/s",
            entry,
            [
                Level(loss, share_lost(drawn[name], "down"), {key: of.both_mbps() for key, of in stages[name].items()})
                for path, loss, name in levels
                if path == on
            ],
        )
    return Result(rows, _verdicts(stages, basis), basis_lines, figures, _notes(stages), what_if, orders)


def _supposed(paths: Sequence[_Path], changed: Sequence[Counterfactual]) -> list[tuple[Counterfactual, _Path]]:
    """Return each counterfactual with its changed path."""
    by_name = {path.name: path for path in paths}
    return [
        (each, replace(path, name=each.name, preset=each.preset or path.preset, traffic=each.traffic or path.traffic))
        for each in changed
        for path in [by_name[each.on]]
    ]


def _path(name: str, entry: TwoStreamPath, quick: bool) -> _Path:
    joins_s, leaves_s, ends_s = (
        round(time_s * entry.quick, 1) if quick else time_s for time_s in (entry.joins_s, entry.leaves_s, entry.ends_s)
    )
    return _Path(name, entry.preset, entry.traffic, joins_s, leaves_s, ends_s, entry.bin_s)


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


class _Stages:
    """The three parts of a two-stream test, by seed."""

    def __init__(self, path: _Path, runs: Sequence[StudyRun]) -> None:
        self.path, self.runs = path, runs

    def alone(self) -> list[float]:
        """The first stream before the second joins, its first second left out [bit/s]."""
        return [run.tracks[0].between(ENOUGH_S, self.path.joins_s).mean_bps for run in self.runs]

    def both(self) -> list[float]:
        """The two streams together while there are two [bit/s]."""
        start, end = self.path.joins_s + len(self.runs) * LATER_S, self.path.leaves_s
        return [sum(track.between(start, end).mean_bps for track in run.tracks) for run in self.runs]

    def both_mbps(self) -> list[float]:
        """The same [Mbit/s]."""
        return [value / 1e6 for value in self.both()]

    def fairness(self) -> list[float]:
        """Smaller over larger while there are two."""
        start, end = self.path.joins_s + len(self.runs) * LATER_S, self.path.leaves_s
        pairs = [[track.between(start, end).mean_bps for track in run.tracks] for run in self.runs]
        return [min(pair) / max(*pair, 1.0) for pair in pairs]

    def equal_after_s(self) -> list[float | None]:
        """After what time the two share equally and stay so, from when the second joined [s]; None: never."""
        return [_equal_after_s(run.tracks, self.path.leaves_s) for run in self.runs]

    def first_equal_s(self) -> list[float | None]:
        """When the two first share equally, which need not last [s]; None: never."""
        return [_equal_after_s(run.tracks, self.path.leaves_s, unequal_after=1.0) for run in self.runs]

    def around(self, after_s: tuple[float, float]) -> list[float]:
        """The two together between two times after the second joined [bit/s]."""
        sums_bps = []
        for number, run in enumerate(self.runs):
            joined_s = self.path.joins_s + number * LATER_S
            start, end = (min(joined_s + each, self.path.leaves_s) for each in after_s)
            sums_bps.append(sum(track.between(start, end).mean_bps for track in run.tracks))
        return sums_bps

    def best(self) -> list[float]:
        """The largest that the two together carry over ten seconds, while there are two [bit/s]."""
        best_bps = []
        for number, run in enumerate(self.runs):
            joined_s = self.path.joins_s + number * LATER_S
            parts = [track.between(joined_s, self.path.leaves_s).goodput_bps for track in run.tracks]
            count = min(map(len, parts))
            step_s = float(np.median(np.diff(run.tracks[0].t_s)))
            window = max(1, min(count, round(10.0 / step_s)))
            together = np.sum([part[:count] for part in parts], axis=0)
            best_bps.append(float(np.convolve(together, np.ones(window) / window, "valid").max()))
        return best_bps

    def last_half(self) -> list[float]:
        """The two together in the last half of the time that there are two [bit/s]."""
        half_s = (self.path.leaves_s - self.path.joins_s) / 2
        return self.around((half_s, np.inf))

    def reached_s(self, capacity_bps: float) -> list[float | None]:
        """When the first stream first reaches the capacity [s]; None: never."""
        times_s = []
        for run in self.runs:
            track = run.tracks[0]
            reached = np.flatnonzero(track.goodput_bps >= REACHED * capacity_bps)
            times_s.append(float(track.t_s[reached[0]]) if len(reached) else None)
        return times_s


def _equal_after_s(tracks: Sequence[Track], until_s: float, unequal_after: float = UNEQUAL_AFTER) -> float | None:
    first, second = tracks
    step_s = float(np.median(np.diff(second.t_s)))
    joined_s = float(second.t_s[0]) - step_s
    window = max(1, round(EQUAL_S / step_s))
    both = [track.between(joined_s, until_s).goodput_bps for track in (first, second)]
    many = min(len(values) for values in both)
    if many < window:
        return None
    kernel = np.ones(window) / window
    one, other = (np.convolve(values[:many], kernel, "valid") for values in both)
    equal = np.minimum(one, other) >= EQUAL * np.maximum(one, other)
    # For each window: the part of it and all later ones that are unequal.
    left = np.arange(len(equal), 0, -1)
    unequal = np.cumsum(~equal[::-1])[::-1] / left
    lasting = (unequal <= unequal_after) & ((left * step_s >= STAYS_S) | (unequal_after >= 1.0))
    settled = np.flatnonzero(equal & lasting)
    return float(settled[0]) * step_s if len(settled) else None


def _median(values: Sequence[float | None]) -> float | None:
    """Return the median time, where a test without one counts as infinitely late; None: not in half of the tests."""
    median = float(np.median([math.inf if value is None else value for value in values])) if values else math.inf
    return median if math.isfinite(median) else None


def _mbps(values: Sequence[float]) -> float:
    return float(np.median(values)) / 1e6


def _fibre_rows(published: Mapping[str, Published], of: Mapping[str, _Stages], basis: str) -> list[Row]:
    rows = [
        published["fibre-reno-start"].row(_median(of["reno"].reached_s(275e6)), basis),
        published["fibre-reno-equal"].row(_median(of["reno"].equal_after_s()), basis),
        published["fibre-bbr-equal"].row(_median(of["bbr"].equal_after_s()), basis),
    ]
    rows += [
        Row(
            f"fibre, {name}: time until the two streams first share equally, which need not last",
            "s",
            None,
            _median(one.first_equal_s()),
            "–",
            basis,
        )
        for name, one in of.items()
    ]
    return rows + [published["fibre-total"].row(_mbps(one.both()), basis, of=name) for name, one in of.items()]


def _geo_rows(published: Mapping[str, Published], of: Mapping[str, _Stages], basis: str) -> list[Row]:
    return [published["geo-total"].row(_mbps(one.both()), basis, of=name) for name, one in of.items()]


def _pings(path: _Path, lasts_s: float) -> pl.DataFrame:
    """Simulate pings alone on a path: `t_s` [s] and `rtt_ms` (null: lost)."""
    # Slightly more than a second apart, as ping does; else every ping would meet slots at the same phase.
    sent_s = np.arange(0.0, lasts_s, 1.0 + 1 / 599)
    loss = "idle" if path.name == "leo" else None
    profile = preset_profile(path.preset, lasts_s + 2, loss=loss)
    return ping_table(profile, sent_s).select("rtt_ms", t_s=pl.Series(sent_s))


def _ping_panel(name: str, pings: pl.DataFrame) -> Panel:
    rtt_ms = pings["rtt_ms"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    line = Line("RTT of a ping", pings["t_s"].to_numpy(), rtt_ms, style.Look("ping", style.DELAY, "o"))
    return Panel(f"{name}: ping", "ms", [line])


def _ping_rows(published: Mapping[str, Published], of: Mapping[str, pl.DataFrame]) -> list[Row]:
    pings, geo = of["leo"], of["geo"]
    rtt_ms, basis = pings["rtt_ms"].drop_nulls().to_numpy(), f"simulated: {len(pings)} pings, one a second"
    ours = {
        "leo-rtt-min": rtt_ms.min(),
        "leo-rtt-mean": rtt_ms.mean(),
        "leo-rtt-max": rtt_ms.max(),
        "leo-rtt-mdev": rtt_ms.std(),
        "leo-ping-loss": 100 * (1 - len(rtt_ms) / len(pings)),
    }
    mean_ms = geo["rtt_ms"].drop_nulls().to_numpy().mean()
    basis_lines = f"simulated: {len(geo)} pings, one a second, no other traffic"
    return [
        published["geo-rtt"].row(float(mean_ms), basis_lines),
        *(published[key].row(float(value), basis) for key, value in ours.items()),
    ]


def _leo_rows(published: Mapping[str, Published], of: Mapping[str, _Stages], basis: str) -> list[Row]:
    bbr = _mbps(of["bbr"].alone())
    return [
        published["leo-reno"].row(_mbps(of["reno"].both()), basis),
        published["leo-cubic"].row(_mbps(of["cubic"].around(AFTER_S)), basis),
        published["leo-bbr-low"].row(bbr, basis),
        published["leo-bbr-high"].row(bbr, basis),
    ]


def _figures(values: Mapping[str, Sequence[float]]) -> str:
    return "; ".join(
        f"{name} {values_text([value / 1e6 for value in sample], 'Mbit/s')}" for name, sample in values.items()
    )


def _bbr_most(values: Mapping[str, Sequence[float]]) -> list[Claim]:
    return [Claim(f"bbr over {name}", values["bbr"], sample) for name, sample in values.items() if name != "bbr"]


def _verdicts(stages: Mapping[str, Mapping[str, _Stages]], basis: str) -> list[Verdict]:
    fibre = {name: one.both() for name, one in stages["fibre"].items()}
    alike = [
        min(sample[i] for sample in fibre.values()) >= ALIKE * max(sample[i] for sample in fibre.values())
        for i in range(len(fibre["bbr"]))
    ]
    fair = {name: one.fairness() for name, one in stages["fibre"].items()}
    fairer = [bbr >= cubic for bbr, cubic in zip(fair["bbr"], fair["cubic"], strict=True)]
    return [
        on_one_path(
            "over fibre Reno, CUBIC and BBR do alike",
            alike,
            "conclusions; figures 6 to 8",
            basis,
            _figures(fibre),
        ),
        on_one_path(
            "over fibre two BBR streams share more equally than two of CUBIC",
            fairer,
            "figures 7 and 8",
            basis,
            "; ".join(f"{name} {values_text(sample, '')}" for name, sample in fair.items()) + " (smaller over larger)",
        ),
        *_geo_verdicts(stages["geo"], basis),
        *_leo_verdicts(stages["leo"], basis),
    ]


def _geo_verdicts(of: Mapping[str, _Stages], basis: str) -> list[Verdict]:
    both = {name: one.both() for name, one in of.items()}
    return [
        all_hold(
            "over GEO BBR uses the path better than Reno and CUBIC",
            _bbr_most(both),
            "figures 10 to 12",
            basis,
            _figures(both),
        )
    ]


def _leo_verdicts(of: Mapping[str, _Stages], basis: str) -> list[Verdict]:
    both = {name: one.both() for name, one in of.items()}
    alone = {name: one.alone() for name, one in of.items()}
    cubic = of["cubic"]
    return [
        all_hold(
            "over LEO one BBR stream gets more than one of Reno or CUBIC",
            _bbr_most(alone),
            "figures 14 to 16",
            basis,
            _figures(alone),
        ),
        all_hold(
            "over LEO two BBR streams get more than two of Reno or CUBIC",
            _bbr_most(both),
            "figures 14 to 16",
            basis,
            _figures(both),
        ),
        all_hold(
            "over LEO Reno cannot sustain 100 Mbit/s",
            [Claim("Reno over 100 Mbit/s", both["reno"], [100e6] * len(both["reno"]), 0.0, 1.0)],
            "figure 14",
            basis,
            _figures({"reno": both["reno"]}),
        ),
        all_hold(
            "over LEO CUBIC's windows collapse and do not recover",
            [Claim("last half over the best 10 s", cubic.last_half(), cubic.best(), 0.0, COLLAPSED)],
            "text of figure 15",
            basis,
            f"collapsed: at most {COLLAPSED:g} of the best",
        ),
    ]


def _panel(path: _Path, controller: str, run: StudyRun) -> Panel:
    lines = []
    for number, track in enumerate(run.tracks):
        t_s, goodput_bps = track.binned(path.bin_s)
        if number == 0:
            t_s, goodput_bps = t_s[t_s <= path.leaves_s], goodput_bps[t_s <= path.leaves_s]
        lines.append(
            Line(f"{controller}, stream {number + 1}", t_s, goodput_bps / 1e6, stream_look(controller, number))
        )
    return Panel(f"{path.name}: {controller}", "Mbit/s", lines)


def _notes(stages: Mapping[str, Mapping[str, _Stages]]) -> list[str]:
    cross = [one for run in stages["geo"]["bbr"].runs for one in run.cross]
    return [
        f"two streams share equally once, for {STAYS_S:g} s at least, the smaller has {EQUAL:g} of the larger in all "
        f"but {UNEQUAL_AFTER:.0%} of windows of {EQUAL_S:g} s; without a value in ours they never do",
        "our Linux caches no path metrics between connections (tcp_no_metrics_save), which the article suspects behind "
        "the flat rates of its figures 6, 7, 10 and 11",
        "the queues of fibre and GEO are chosen (one and two bandwidth-delay products): the article has none",
        f"over GEO {sum(one['transfers'] for one in cross)} cross-traffic transfers were on BBR's paths; the article's "
        "disturbance at 105 s is not known well enough to be simulated",
    ]


STUDY = Study(
    name="apnic-2022",
    title="Two downloads over fibre, GEO and LEO, with Reno, CUBIC and BBR",
    source="Huston, Testing LEO and GEO satellite services in Australia (APNIC blog, 2 May 2022), figures 6 to 16",
    takes="a minute and a half; --quick: a quarter of one",
    run=_run,
    sweeps=True,
)
