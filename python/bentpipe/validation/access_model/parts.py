"""The parts of the claim that need campaigns: each gives rows of the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bentpipe.profiles import Profile
from bentpipe.profiles.measured import read_capacity
from bentpipe.validation import Row
from bentpipe.validation.access_model import capacities, losses, transport
from bentpipe.validation.access_model.classifier import LIMIT, Told, Windows, joined, slots_of, told
from bentpipe.validation.access_model.controls import CHANGES, NO_SLOTS, replays, without_slots
from bentpipe.validation.access_model.model import Params, at_site, model_windows, reduced
from bentpipe.validation.access_model.pings import Floats, Site, Window
from bentpipe.validation.access_model.rank_test import Rank, rank, rank_by
from bentpipe.validation.access_model.statistics import Summary, summarise

#: What sites have of their own, found by the fit: the offset, and how long a reconfiguration stops the path.
SITE_OWN = {
    "victoria": {"delay.site_offset_ms": 2.4, "delay.interruption.median_ms": 83.8},
    "seattle": {"delay.site_offset_ms": 5.04, "delay.interruption.median_ms": 52.8},
}

#: Seeds of the model's windows for the test and for the classifier's training; the fit has others.
FIRST_SEED, TRAINING_SEED = 5000, 7000


@dataclass(frozen=True)
class Effort:
    """How much is drawn.

    Attributes:
        windows: Windows of the model and of each control at each site.
        loss: Stretches of the model for the loss test.
        capacity: Tests of the model for the capacity test.
        paths: Real and model windows at a site whose Profiles are raced over.
        control_paths: The same of each control.
    """

    windows: int = 40
    loss: int = 18
    capacity: int = 60
    paths: int = 8
    control_paths: int = 5


FULL = Effort()
QUICK = Effort(windows=12, loss=6, capacity=16, paths=3, control_paths=2)


@dataclass(frozen=True)
class Drawn:
    """One site with windows of the model and of the controls.

    Attributes:
        site: The campaign.
        params: The model's, with what the site has of its own.
        training: Windows of the model at the hours of the fitted ones.
        model: At those of the held-out ones.
        controls: Name → windows for training and for the test.
    """

    site: Site
    params: Params
    training: Windows
    model: Windows
    controls: Mapping[str, tuple[Windows, Windows]]


def draw(site: Site, params: Params, effort: Effort) -> Drawn:
    """Windows of the model and of every control at a site."""
    ours = at_site(params, SITE_OWN[site.own_of])
    sides = ((site.fitted or site.held_out, TRAINING_SEED), (site.held_out, FIRST_SEED))
    made = [model_windows(site, windows, ours, effort.windows, seed) for windows, seed in sides]
    flat = [
        model_windows(site, windows, without_slots(ours), effort.windows, seed, flat=True) for windows, seed in sides
    ]
    controls: dict[str, tuple[Windows, Windows]] = {NO_SLOTS: (flat[0], flat[1])}
    for name, change in CHANGES.items():
        rng = np.random.default_rng(0)
        changed = [[(t_s, change(t_s, rtt_ms, rng)) for t_s, rtt_ms in windows] for windows in made]
        controls[name] = (changed[0], changed[1])
    return Drawn(site, ours, made[0], made[1], controls)


def pairs_of(windows: Sequence[Window]) -> list[tuple[Floats, Floats]]:
    """Times and round trips."""
    return [(w.t_s, w.rtt_ms) for w in windows]


# Rank test of round trips.


def delay_ranks(drawn: Drawn) -> dict[str, list[Rank]]:
    """The model under "", and each control, by distance."""
    site = drawn.site
    reduce = partial(summarise, lags_s=site.lags_s)
    held_out = [reduce(*w) for w in pairs_of(site.held_out)]
    real = [*(reduce(*w) for w in pairs_of(site.fitted)), *held_out]
    kinds = {"": drawn.model} | {name: windows for name, (_, windows) in drawn.controls.items()}
    return {name: rank(real, held_out, reduced(windows, site)) for name, windows in kinds.items()}


def replay_ranks(site: Site, count: int) -> list[list[Rank]]:
    """A model fitted to one window: for each of `count` windows, evenly spread."""
    rng = np.random.default_rng(0)
    reduce: Callable[[Floats, Floats], Summary] = partial(summarise, lags_s=site.lags_s)
    held_out = [reduce(*w) for w in pairs_of(site.held_out)]
    real = [*(reduce(*w) for w in pairs_of(site.fitted)), *held_out]
    candidates = site.fitted or site.held_out
    chosen = [candidates[i] for i in np.unique(np.linspace(0, len(candidates) - 1, count).astype(int))]
    return [rank(real, held_out, replays(window, 10, rng, reduce)) for window in chosen]


# Classifier.


def areas(every: Sequence[Drawn]) -> dict[str, list[Told]]:
    """The model under "", and each control: how well slots are told at each place.

    Fine features at the dense campaign, from one session to the other; coarse ones trained at all campaigns that are
    fitted, tested at each campaign's held-out windows.
    """
    found: dict[str, list[Told]] = {}
    for name in ("", *every[0].controls):
        sides = [d.controls[name] if name else (d.training, d.model) for d in every]
        found[name] = []
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
            found[name] += told(
                "fine features" if fine else "coarse features", train, tests, fine=fine, explain=not name
            )
    return found


# Loss.


def loss_ranks(drawn: Sequence[Drawn], data: Path, params: Params, effort: Effort) -> dict[str, list[Rank]]:
    """By instrument: silences of the dense campaign, lossy seconds of a terminal (where its hours are at hand)."""
    found = {}
    for d in drawn:
        if d.site.name == "victoria":
            held_out = [losses.of_silences(w.t_s) for w in d.site.held_out]
            real = [*(losses.of_silences(w.t_s) for w in d.site.fitted), *held_out]
            made = losses.model_silences(
                d.site, d.site.held_out, losses.at_level(d.params, "victoria"), effort.loss, FIRST_SEED
            )
            found["victoria silences"] = rank_by(losses.distance, losses.NAMES, real, held_out, made)
    hours = losses.dish_hours(data)
    if hours is not None:
        dish = losses.model_dish(hours, losses.at_level(params, "fjordlink"), effort.loss, FIRST_SEED)
        real_hours = [*hours.fitted, *hours.held_out]
        found["fjordlink seconds"] = rank_by(losses.distance, losses.NAMES, real_hours, hours.held_out, dish)
    return found


# Capacity.


def capacity_ranks(data: Path, params: Params, effort: Effort) -> dict[str, list[Rank]]:
    """By campaign and direction."""
    found = {}
    for way in ("down", "up"):
        real = capacities.osnabrueck(data, way)
        if real is None:
            continue
        both = [*real.fitted, *real.held_out]
        asked = partial(capacities.model_tests, real.starts_unix_s, way, count=effort.capacity)
        at_site = capacities.at_level(params, way, real.median_mbps, asked(params, first_seed=TRAINING_SEED))
        made = asked(at_site, first_seed=FIRST_SEED)
        found[f"osnabrück {way}"] = rank_by(capacities.distance, capacities.NAMES, both, real.held_out, made)
        trace = capacities.leocc(data) if way == "down" else None
        if trace is not None:  # one trace has one level: its tests against the shapes alone
            found["leocc down"] = rank_by(capacities.distance, capacities.NAMES, both, trace, made)[1:]
    return found


# Transport.


@dataclass(frozen=True)
class Raced:
    """A site's flows over held-out windows and over the model's, and the ranks of the model (under "") and controls."""

    site: str
    real: dict[str, transport.Flows]
    model: dict[str, transport.Flows]
    ranks: dict[str, list[Rank]]


def raced(drawn: Drawn, data: Path, effort: Effort, on_progress: Callable[[float], None]) -> Raced | None:
    """The transport test at a site; None without the capacity trace."""
    trace = data / "throughput_leocc_example" / "bw_example.txt"
    if not trace.is_file():
        return None
    site = drawn.site
    lost = site.name != "seattle"  # its prober waits five seconds after a loss: that is no loss of five seconds
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
    """Both halves of each distance."""
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


def area_rows(found: Sequence[Told]) -> list[Row]:
    """One for each place."""
    return [
        Row(
            f"classifier, {t.where}",
            f"AUC {t.area:.2f} ({t.low:.2f}–{t.high:.2f}), {t.kind}; by {', '.join(f'{n} {d:+.2f}' for n, d in t.by)}",
            "0.5",
            f"≤ {LIMIT}",
            t.area <= LIMIT,
        )
        for t in found
    ]
