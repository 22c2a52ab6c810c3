"""Two downloads over fibre, GEO and LEO: the second joins, the first leaves (Huston 2022, figures 6 to 16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bentpipe.plots.streams import Line, Panel, plot_panels, stream_look
from bentpipe.profiles import preset_profile
from bentpipe.profiles.pings import ping_table
from bentpipe.runs import Experiment, Flow, ProfileRef, cross_traffic
from bentpipe.runs.experiment import NS_PER_S, ROLE
from bentpipe.scenarios.tables import Table
from bentpipe.studies.agreement import over_seeds, shown
from bentpipe.studies.flows import Field, Ran, Track
from bentpipe.studies.scenario import Published, load_scenario
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

#: Two streams share equally once two seconds of both are this near to each other (smaller over larger). Chosen here.
EQUAL, EQUAL_S = 0.8, 2.0
#: A path's capacity is reached with this part of it, in one sample. Chosen here, above what headers leave (0.965).
REACHED = 0.9
#: All controllers do alike if the least has this part of the most. Chosen here.
ALIKE = 0.9
#: Ends of seeds' second streams differ: each joins this much after the one before [s]. Static paths draw nothing else.
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
    scenario = load_scenario("apnic-2022")
    table = scenario.table
    seeds = table.integer("seeds", 1, 1000)
    quick_seeds = table.integer("seeds-quick", 1, 1000)
    controllers = table.texts("controllers")
    host = table.table("host")
    hosts = {"debian-10": {key: host.integer(key, 1, 2**40) for key in ("rmem_max_bytes", "wmem_max_bytes")}}
    paths = [_path(name, entry, request.quick) for name, entry in table.named_tables("paths").items()]
    ping = table.table("ping")
    full_ping_s, quick_ping_s = (ping.number(key, 10, 86_400) for key in ("duration_s", "duration_quick_s"))
    ping_s = quick_ping_s if request.quick else full_ping_s
    for part in (host, ping, table):
        part.done()
    seeds = quick_seeds if request.quick else seeds
    field = Field()
    for path in paths:
        profile = preset_profile(path.preset, path.ends_s)
        cross = () if path.traffic is None else (cross_traffic(profile, path.traffic, "down"),)
        for seed in range(seeds):
            for controller in controllers:
                first = Flow(controller, stop_ns=_ns(path.leaves_s), sender="debian-10", receiver="debian-10")
                joins_s = path.joins_s + seed * LATER_S
                second = Flow(controller, start_ns=_ns(joins_s), sender="debian-10", receiver="debian-10")
                experiment = Experiment(
                    name=f"apnic-2022-{path.name}",
                    seed=seed,
                    duration_ns=_ns(path.ends_s),
                    profiles=(ProfileRef(ROLE, profile.name, profile.content_hash()),),
                    flows=(first, second),
                    hosts=hosts,
                    cross=cross,
                )
                field.add((path.name, controller), experiment, profile)
        request.on_progress(0.1)
    runs = field.run(request, (0.1, 0.9))
    stages = {
        path.name: {controller: _Stages(path, runs[path.name, controller]) for controller in controllers}
        for path in paths
    }
    basis = f"simulated: {seeds} seeds"
    published = scenario.published
    leo = next(path for path in paths if path.name == "leo")
    rows = [*_fibre_rows(published, stages["fibre"], basis), *_geo_rows(published, stages["geo"], basis)]
    rows += [*_ping_rows(published, leo.preset, ping_s), *_leo_rows(published, stages["leo"], basis)]
    panels = [
        [_panel(path, controller, runs[path.name, controller][0]) for controller in controllers] for path in paths
    ]
    said = [
        f"{path.preset}: {path.ends_s:g} s, second stream from {path.joins_s:g} s, first until {path.leaves_s:g} s"
        + (f", with {path.traffic} traffic" if path.traffic else "")
        for path in paths
    ]
    return Result(rows, _verdicts(stages, basis), said, {"figures-6-16": plot_panels(panels)}, _notes(stages))


def _path(name: str, entry: Table, quick: bool) -> _Path:
    shrunk = entry.number("quick", 0.05, 1.0)
    times = {key: entry.number(key, 1, 3600) for key in ("joins_s", "leaves_s", "ends_s")}
    if quick:
        times = {key: round(value * shrunk, 1) for key, value in times.items()}
    times["bin_s"] = entry.number("bin_s", 0.1, 60)
    found = _Path(name, entry.text("preset"), entry.text("traffic") if entry.has("traffic") else None, **times)
    entry.done()
    return found


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


class _Stages:
    """The three parts of a two-stream test, by seed."""

    def __init__(self, path: _Path, runs: Sequence[Ran]) -> None:
        self.path, self.runs = path, runs

    def alone(self) -> list[float]:
        """The first stream before the second joins, its first second left out [bit/s]."""
        return [run.tracks[0].between(ENOUGH_S, self.path.joins_s).mean_bps for run in self.runs]

    def both(self) -> list[float]:
        """The two streams together while there are two [bit/s]."""
        start, end = self.path.joins_s + len(self.runs) * LATER_S, self.path.leaves_s
        return [sum(track.between(start, end).mean_bps for track in run.tracks) for run in self.runs]

    def fairness(self) -> list[float]:
        """Smaller over larger while there are two."""
        start, end = self.path.joins_s + len(self.runs) * LATER_S, self.path.leaves_s
        pairs = [[track.between(start, end).mean_bps for track in run.tracks] for run in self.runs]
        return [min(pair) / max(*pair, 1.0) for pair in pairs]

    def equal_after_s(self) -> list[float | None]:
        """When the two first share equally, after the second joined [s]; None: not while there are two."""
        return [_equal_after_s(run.tracks, self.path.leaves_s) for run in self.runs]

    def reached_s(self, capacity_bps: float) -> list[float | None]:
        """When the first stream first carries most of the capacity [s]."""
        found = []
        for run in self.runs:
            track = run.tracks[0]
            there = np.flatnonzero(track.goodput_bps >= REACHED * capacity_bps)
            found.append(float(track.t_s[there[0]]) if len(there) else None)
        return found


def _equal_after_s(tracks: Sequence[Track], until_s: float) -> float | None:
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
    near = np.flatnonzero(np.minimum(one, other) >= EQUAL * np.maximum(one, other))
    return float(near[0]) * step_s if len(near) else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _mbps(values: Sequence[float]) -> float:
    return float(np.median(values)) / 1e6


def _fibre_rows(published: Mapping[str, Published], of: Mapping[str, _Stages], basis: str) -> list[Row]:
    rows = [
        published["fibre-reno-start"].row(_median(of["reno"].reached_s(275e6)), basis),
        published["fibre-reno-equal"].row(_median(of["reno"].equal_after_s()), basis),
        published["fibre-bbr-equal"].row(_median(of["bbr"].equal_after_s()), basis),
    ]
    return rows + [published["fibre-total"].row(_mbps(one.both()), basis, of=name) for name, one in of.items()]


def _geo_rows(published: Mapping[str, Published], of: Mapping[str, _Stages], basis: str) -> list[Row]:
    return [published["geo-total"].row(_mbps(one.both()), basis, of=name) for name, one in of.items()]


def _ping_rows(published: Mapping[str, Published], preset: str, lasts_s: float) -> list[Row]:
    profile = preset_profile(preset, lasts_s + 2)
    # As ping does, a little more than a second apart, or every ping would meet slots at the same instant.
    pings = ping_table(profile, np.arange(0.0, lasts_s, 1.0 + 1 / 599))
    rtt_ms, basis = pings["rtt_ms"].drop_nulls().to_numpy(), f"simulated: {len(pings)} pings over {lasts_s:g} s"
    ours = {
        "leo-rtt-min": rtt_ms.min(),
        "leo-rtt-mean": rtt_ms.mean(),
        "leo-rtt-max": rtt_ms.max(),
        "leo-rtt-mdev": rtt_ms.std(),
        "leo-ping-loss": 100 * (1 - len(rtt_ms) / len(pings)),
    }
    return [published[key].row(float(value), basis) for key, value in ours.items()]


def _leo_rows(published: Mapping[str, Published], of: Mapping[str, _Stages], basis: str) -> list[Row]:
    bbr = _mbps(of["bbr"].alone())
    return [
        published["leo-reno"].row(_mbps(of["reno"].both()), basis),
        published["leo-cubic"].row(_mbps(of["cubic"].both()), basis),
        published["leo-bbr-low"].row(bbr, basis),
        published["leo-bbr-high"].row(bbr, basis),
    ]


def _verdicts(stages: Mapping[str, Mapping[str, _Stages]], basis: str) -> list[Verdict]:
    both = {path: {name: one.both() for name, one in of.items()} for path, of in stages.items()}
    alone = {name: one.alone() for name, one in stages["leo"].items()}
    names = list(both["fibre"])

    def figures(values: Mapping[str, Sequence[float]]) -> str:
        return "; ".join(
            f"{name} {shown([value / 1e6 for value in found], 'Mbit/s')}" for name, found in values.items()
        )

    def bbr_most(values: Mapping[str, Sequence[float]]) -> list[bool]:
        many = len(values["bbr"])
        return [all(values["bbr"][i] >= values[name][i] for name in names) for i in range(many)]

    fibre = both["fibre"]
    alike = [
        min(fibre[name][i] for name in names) >= ALIKE * max(fibre[name][i] for name in names)
        for i in range(len(fibre["bbr"]))
    ]
    fair = {name: one.fairness() for name, one in stages["fibre"].items()}
    fairer = [bbr >= cubic for bbr, cubic in zip(fair["bbr"], fair["cubic"], strict=True)]
    return [
        over_seeds(
            "over fibre Reno, CUBIC and BBR do alike", alike, "conclusions; figures 6 to 8", basis, figures(fibre)
        ),
        over_seeds(
            "over fibre two BBR streams share more equally than two of CUBIC",
            fairer,
            "figures 7 and 8",
            basis,
            "; ".join(f"{name} {shown(found, '')}" for name, found in fair.items()) + " (smaller over larger)",
        ),
        over_seeds(
            "over GEO BBR uses the path better than Reno and CUBIC",
            bbr_most(both["geo"]),
            "figures 10 to 12",
            basis,
            figures(both["geo"]),
        ),
        over_seeds(
            "over LEO one BBR stream gets more than one of Reno or CUBIC",
            bbr_most(alone),
            "figures 14 to 16",
            basis,
            figures(alone),
        ),
        over_seeds(
            "over LEO two BBR streams get more than two of Reno or CUBIC",
            bbr_most(both["leo"]),
            "figures 14 to 16",
            basis,
            figures(both["leo"]),
        ),
        over_seeds(
            "over LEO Reno cannot sustain 100 Mbit/s",
            [value < 100e6 for value in both["leo"]["reno"]],
            "figure 14",
            basis,
            figures({"reno": both["leo"]["reno"]}),
        ),
    ]


def _panel(path: _Path, controller: str, run: Ran) -> Panel:
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
        "our Linux caches no path metrics between connections (tcp_no_metrics_save), which the article suspects behind "
        "the flat rates of its figures 6, 7, 10 and 11",
        "the queues of fibre and GEO are chosen (one and two bandwidth-delay products): the article has none",
        f"over GEO {sum(one['transfers'] for one in cross)} transfers of others were on BBR's paths; the article's own "
        "disturbance at 105 s is not known well enough to be played",
    ]


STUDY = Study(
    name="apnic-2022",
    title="Two downloads over fibre, GEO and LEO, with Reno, CUBIC and BBR",
    source="Huston, Testing LEO and GEO satellite services in Australia (APNIC blog, 2 May 2022), figures 6 to 16",
    takes="three minutes; --quick: half of one",
    run=_run,
    sweeps=True,
)
