"""Parts of the claim that need campaigns: each returns rows of the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.profiles.measured.capacity import read_capacity
from bentpipe.validation import Row
from bentpipe.validation.access_model import capacities, levels, losses, slot_means, transport
from bentpipe.validation.access_model.classifier import (
    LIMIT,
    ClassifierResult,
    Windows,
    classify,
    classify_sessions,
    joined,
    singly,
    slots_of,
)
from bentpipe.validation.access_model.controls import CHANGES, NO_SLOTS, replays, without_slots
from bentpipe.validation.access_model.features import COARSE, FINE
from bentpipe.validation.access_model.model import Params, at_site, model_windows, reduced
from bentpipe.validation.access_model.rank_test import Rank, rank, rank_by
from bentpipe.validation.access_model.statistics import Summary, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bentpipe._native import Profile
    from bentpipe.validation.access_model.pings import Floats, Site, Window

#: Parameters of sites themselves beside a session's level: the interruption at a reconfiguration.
SITE_OWN: dict[str, dict[str, float]] = {"victoria": {}, "seattle": {"delay.interruption.median_ms": 52.8}}

#: First seeds of the model's windows for the test, the classifier's training and the level; the fit has others.
FIRST_SEED, TRAINING_SEED, LEVEL_SEED = 5000, 7000, 9000
#: The model as shipped: the default table, and a level drawn for each window. The rank test uses it; the classifier
#: reports it beside the model at the session's level.
SHIPPED = "as shipped"
#: Number of features in the output for a site's fitted slots.
_DIFFERENCES = 6
#: Repetitions of the comparison of sessions with windows of the model.
_PORTIONS = 3


@dataclass(frozen=True)
class Effort:
    """Numbers of draws.

    Attributes:
        windows: Windows of the model and of each control at each site.
        level: Windows of the model at each load tried for a session's level.
        loss: Stretches of the model for the loss test.
        capacity: Tests of the model for the capacity test.
        paths: Real and model windows at a site whose Profiles are raced over.
        control_paths: The same for each control.
    """

    windows: int = 40
    level: int = 24
    loss: int = 18
    capacity: int = 60
    paths: int = 8
    control_paths: int = 5


FULL = Effort()
QUICK = Effort(windows=12, level=12, loss=6, capacity=16, paths=3, control_paths=2)


@dataclass(frozen=True)
class Drawn:
    """One site with windows of the model and of the controls.

    Attributes:
        site: The campaign.
        level: Level of its delay, found on the fitted windows; None: no such windows, and it is drawn for each window.
        params: Parameters of the model, with the site's own, at that level.
        training: Windows of the model at the hours of the fitted ones.
        model: Windows of the model at the hours of the held-out ones.
        shipped: Both with the default table and a level drawn for each window.
        controls: Name → windows for training and for the test, derived from `shipped`.
    """

    site: Site
    level: levels.Level | None
    params: Params
    training: Windows
    model: Windows
    shipped: tuple[Windows, Windows]
    controls: Mapping[str, tuple[Windows, Windows]]

    def sides(self, name: str) -> tuple[Windows, Windows]:
        """Return windows for training and test: of the model (""), as shipped (`SHIPPED`), or of a control."""
        if name == SHIPPED:
            return self.shipped
        return self.controls[name] if name else (self.training, self.model)


def draw(site: Site, params: Params, effort: Effort) -> Drawn:
    """Draw windows of the model and of every control at a site."""
    table = at_site(params, SITE_OWN[site.own_of])
    sides = ((site.fitted or site.held_out, TRAINING_SEED), (site.held_out, FIRST_SEED))
    level = levels.find(site, table, effort.level, LEVEL_SEED) if site.fitted else None
    ours = levels.at_level(table, level) if level else table
    made = [model_windows(site, windows, ours, effort.windows, seed) for windows, seed in sides]
    shipped = [model_windows(site, windows, params, effort.windows, seed) for windows, seed in sides]
    flat = [
        model_windows(site, windows, without_slots(params), effort.windows, seed, flat=True) for windows, seed in sides
    ]
    controls: dict[str, tuple[Windows, Windows]] = {NO_SLOTS: (flat[0], flat[1])}
    for name, change in CHANGES.items():
        rng = np.random.default_rng(0)
        changed = [[(t_s, change(t_s, rtt_ms, rng)) for t_s, rtt_ms in windows] for windows in shipped]
        controls[name] = (changed[0], changed[1])
    return Drawn(site, level, ours, made[0], made[1], (shipped[0], shipped[1]), controls)


def pairs_of(windows: Sequence[Window]) -> list[tuple[Floats, Floats]]:
    """Return times and RTTs of windows."""
    return [(w.t_s, w.rtt_ms) for w in windows]


# Rank test of RTTs.


def delay_ranks(drawn: Drawn) -> dict[str, list[Rank]]:
    """Rank the model as shipped (under "") and each control by each distance."""
    site = drawn.site
    reduce = partial(summarise, lags_s=site.lags_s)
    held_out = [reduce(*w) for w in pairs_of(site.held_out)]
    real = [*(reduce(*w) for w in pairs_of(site.fitted)), *held_out]
    kinds = {"": drawn.shipped[1]} | {name: windows for name, (_, windows) in drawn.controls.items()}
    return {name: rank(real, held_out, reduced(windows, site)) for name, windows in kinds.items()}


def slot_mean_ranks(data: Path, params: Params, effort: Effort) -> list[Rank]:
    """Rank the model as shipped against a dish's slot means; empty: its days are absent."""
    days = slot_means.load(data)
    if days is None:
        return []
    made = slot_means.model_blocks(days.held_out, params, effort.windows, FIRST_SEED)
    return rank_by(slot_means.distance, slot_means.NAMES, [*days.fitted, *days.held_out], days.held_out, made)


def replay_ranks(site: Site, count: int) -> list[list[Rank]]:
    """Rank models fitted to one window each: `count` windows, evenly spread."""
    rng = np.random.default_rng(0)
    reduce: Callable[[Floats, Floats], Summary] = partial(summarise, lags_s=site.lags_s)
    held_out = [reduce(*w) for w in pairs_of(site.held_out)]
    real = [*(reduce(*w) for w in pairs_of(site.fitted)), *held_out]
    candidates = site.fitted or site.held_out
    chosen = [candidates[i] for i in np.unique(np.linspace(0, len(candidates) - 1, count).astype(int))]
    return [rank(real, held_out, replays(window, 10, rng, reduce)) for window in chosen]


# Classifier.


def areas(every: Sequence[Drawn]) -> dict[str, list[ClassifierResult]]:
    """Return how well slots are distinguished at each place: the model (""), as shipped (`SHIPPED`), each control.

    Fine features are used at the dense campaign, from one session to the other. Coarse ones are trained on all fitted
    campaigns and tested on each campaign's held-out windows.
    """
    results: dict[str, list[ClassifierResult]] = {}
    for name in ("", SHIPPED, *every[0].controls):
        sides = [d.sides(name) for d in every]
        results[name] = []
        for fine in (True, False):
            chosen = [(d, side) for d, side in zip(every, sides, strict=True) if not fine or d.site.is_dense]
            train = [
                (slots_of(pairs_of(d.site.fitted), fine=fine), slots_of(training, fine=fine))
                for d, (training, _) in chosen
                if d.site.fitted
            ]
            tests = [
                (d.site.name, slots_of(pairs_of(d.site.held_out), fine=fine), slots_of(made, fine=fine))
                for d, (_, made) in chosen
            ]
            if not fine:
                real, model = joined([test[1] for test in tests]), joined([test[2] for test in tests])
                tests.append(("all campaigns", real, model))
            results[name] += classify(
                "fine features" if fine else "coarse features", train, tests, fine=fine, explain=name in ("", SHIPPED)
            )
    return results


@dataclass(frozen=True)
class SessionComparison:
    """Held-out windows of a place distinguished from fitted ones, both real.

    Attributes:
        real: Result for the real windows: a model that repeats the fitted session could do no better.
        model: Mean area with as many windows of the model in place of the fitted ones.
    """

    real: ClassifierResult
    model: float


def sessions_apart(every: Sequence[Drawn]) -> list[SessionComparison]:
    """Compare sessions at each place with fitted windows: by coarse features, and by fine ones where it is dense."""
    results = []
    for d in every:
        for fine in (True, False):
            if d.site.fitted and (d.site.is_dense or not fine):
                where, count = f"{d.site.name}, {'fine' if fine else 'coarse'} features", len(d.site.fitted)
                held_out, fitted = (slots_of(pairs_of(w), fine=fine) for w in (d.site.held_out, d.site.fitted))
                starts = range(0, max(len(d.model) - count, 0) + 1, count)[:_PORTIONS]
                likewise = [
                    classify_sessions(where, held_out, slots_of(d.model[k : k + count], fine=fine), fine=fine).area
                    for k in starts
                ]
                results.append(
                    SessionComparison(classify_sessions(where, held_out, fitted, fine=fine), float(np.mean(likewise)))
                )
    return results


def differences(d: Drawn) -> str:
    """Return the features that differ most between fitted slots and the model's at their hours.

    Each has the area that it gives alone, and quartiles.
    """
    fine = d.site.is_dense
    real, made = (slots_of(windows, fine=fine) for windows in (pairs_of(d.site.fitted), d.training))
    names = FINE if fine else COARSE

    def quartiles(x: Floats) -> str:
        return " / ".join(f"{value:.3g}" for value in np.nanpercentile(x, [25, 50, 75]))

    texts = [
        f"{name} {area:.2f} ({quartiles(real.x[:, names.index(name)])}; {quartiles(made.x[:, names.index(name)])})"
        for name, area in sorted(singly(real, made, fine=fine).items(), key=lambda item: -item[1])[:_DIFFERENCES]
    ]
    return f"{d.site.name}, fitted slots; the model's: {', '.join(texts)}"


# Loss.


def loss_ranks(drawn: Sequence[Drawn], data: Path, params: Params, effort: Effort) -> dict[str, list[Rank]]:
    """Rank by instrument: silences of the dense campaign, lossy seconds of a terminal (if its hours are present)."""
    results = {}
    for d in drawn:
        if d.site.name == "victoria":
            held_out = [losses.of_silences(w.t_s) for w in d.site.held_out]
            real = [*(losses.of_silences(w.t_s) for w in d.site.fitted), *held_out]
            made = losses.model_silences(
                d.site, d.site.held_out, losses.at_level(d.params, "victoria"), effort.loss, FIRST_SEED
            )
            results["victoria silences"] = rank_by(losses.distance, losses.NAMES, real, held_out, made)
    hours = losses.dish_hours(data)
    if hours is not None:
        dish = losses.model_dish(hours, losses.at_level(params, "fjordlink"), effort.loss, FIRST_SEED)
        real_hours = [*hours.fitted, *hours.held_out]
        results["fjordlink seconds"] = rank_by(losses.distance, losses.NAMES, real_hours, hours.held_out, dish)
    return results


# Capacity.


def capacity_ranks(data: Path, params: Params, effort: Effort) -> dict[str, list[Rank]]:
    """Rank by campaign and direction."""
    results = {}
    for way in ("down", "up"):
        real = capacities.osnabrueck(data, way)
        if real is None:
            continue
        both = [*real.fitted, *real.held_out]
        make_tests = partial(capacities.model_tests, real.starts_unix_s, way, count=effort.capacity)
        at_site = capacities.at_level(params, way, real.median_mbps, make_tests(params, first_seed=TRAINING_SEED))
        made = make_tests(at_site, first_seed=FIRST_SEED)
        results[f"osnabrück {way}"] = rank_by(capacities.distance, capacities.NAMES, both, real.held_out, made)
        trace = capacities.leocc(data) if way == "down" else None
        if trace is not None:  # one trace has one level, so its tests compare the shapes only
            results["leocc down"] = rank_by(capacities.distance, capacities.NAMES, both, trace, made)[1:]
    return results


# Transport.


@dataclass(frozen=True)
class Raced:
    """A site's flows over held-out windows and over the model's, and the ranks of the model (under "") and controls."""

    site: str
    real: dict[str, transport.Flows]
    model: dict[str, transport.Flows]
    ranks: dict[str, list[Rank]]


def raced(drawn: Drawn, data: Path, effort: Effort, on_progress: Callable[[float], None]) -> Raced | None:
    """Run the transport test at a site; None: the capacity trace is absent."""
    trace = data / "throughput_leocc_example" / "bw_example.txt"
    if not trace.is_file():
        return None
    site = drawn.site
    lost = site.name != "seattle"  # its prober waits five seconds after a loss, which is no loss of five seconds
    rates = transport.turned(read_capacity(f"down={trace}"))
    chosen = _some(site.held_out, effort.paths)
    also = _some(site.fitted, effort.paths) if site.fitted else []

    def paths(windows: Windows, name: str) -> list[Profile]:
        return [
            transport.path_of(f"{name} {i}", t_s, rtt_ms, rates[i % len(rates)], silent_is_lost=lost)
            for i, (t_s, rtt_ms) in enumerate(windows)
        ]

    kinds = {
        "held out": paths(pairs_of(chosen), "held out"),
        "fitted": paths(pairs_of(also), "fitted"),
        "": paths(drawn.model[: effort.paths], "model"),
    }
    for name, (_, windows) in drawn.controls.items():
        kinds[name] = paths(windows[: effort.control_paths], name)
    flows = transport.flows([path for of in kinds.values() for path in of], on_progress)
    by_kind = transport.split(flows, {name: len(of) for name, of in kinds.items()})
    held_out = by_kind.pop("held out")
    real = transport.together(by_kind.pop("fitted"), held_out)
    ranks = {name: transport.ranks(real, held_out, of) for name, of in by_kind.items()}
    return Raced(site.name, held_out, by_kind[""], ranks)


def _some(of: Sequence[Window], most: int) -> list[Window]:
    return [of[k] for k in np.unique(np.linspace(0, len(of) - 1, most).astype(int))]


# Rows.


def rank_rows(where: str, ranks: Sequence[Rank]) -> list[Row]:
    """Return rows of both halves of each distance."""
    rows = []
    for r in ranks:
        near = f"{r.near:.2f} ({r.covered:.0%} of pairs within it)"
        rows.append(
            Row(f"{where}: {r.statistic}, near", near, f"real {r.real_p50:.2f}", f"≤ {r.real_p90:.2f}", r.is_near)
        )
        fits = r.real_p10 <= r.spread <= r.real_p90
        limits = f"{r.real_p10:.2f}–{r.real_p90:.2f}"
        rows.append(Row(f"{where}: {r.statistic}, spread", f"{r.spread:.2f}", f"real {r.real_p50:.2f}", limits, fits))
    return rows


def area_rows(results: Sequence[ClassifierResult]) -> list[Row]:
    """Return a row for each place."""
    return [
        Row(f"classifier, {t.where}", f"{_area_of(t)}; by {_by(t)}", "0.5", f"≤ {LIMIT}", t.area <= LIMIT)
        for t in results
    ]


def beside_rows(shipped: Sequence[ClassifierResult], sessions: Sequence[SessionComparison]) -> list[Row]:
    """Return rows without a limit: the model without a session's level, and real windows against real ones."""
    rows = [Row(f"classifier, {SHIPPED}: {t.where}", f"{_area_of(t)}; by {_by(t)}", "0.5", "–", None) for t in shipped]
    for one in sessions:
        quantity = f"classifier, real against real: {one.real.where}"
        rows.append(Row(quantity, _area_of(one.real), f"the model likewise {one.model:.2f}", "–", None))
    return rows


def _area_of(t: ClassifierResult) -> str:
    return f"AUC {t.area:.2f} ({t.low:.2f}–{t.high:.2f}), {t.kind}"


def _by(t: ClassifierResult) -> str:
    return ", ".join(f"{name} {fall:+.2f}" for name, fall in t.by)
