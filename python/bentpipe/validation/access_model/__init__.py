"""The access model's delay against measured round-trip times: the fit, the rank test and its negative controls.

README.md beside this file says what is claimed and how it is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.access_model.fit import FITTED, get
from bentpipe.validation.access_model.model import (
    Params,
    frozen_params,
    model_windows,
    reduced,
    replays,
    shuffled,
    with_offset,
    without_slots,
)
from bentpipe.validation.access_model.pings import Site, load_sites
from bentpipe.validation.access_model.rank_test import Rank, rank
from bentpipe.validation.access_model.statistics import Summary, summarise

#: Site offsets found by the fit [ms, two-way].
SITE_OFFSETS_MS = {"victoria": 1.84, "seattle": 4.28}

#: Windows of the model and of each control at each site. Their seeds are not those of the fit.
WINDOWS = 40
_FIRST_SEED = 5000
#: Windows that the one-window control is tried with at each site, evenly spaced.
_REPLAYED = 12


@dataclass(frozen=True)
class SiteResult:
    """One site: the model and the controls, each by distance. `replays` holds one list a replayed window."""

    site: str
    windows: tuple[int, int]
    model: list[Rank]
    shuffle: list[Rank]
    no_slots: list[Rank]
    replays: list[list[Rank]]


def site_result(site: Site, params: Params, on_progress: OnProgress) -> SiteResult:
    """Rank test of the model and of the three controls at one site."""
    rng = np.random.default_rng(0)
    reduce = partial(summarise, lags_s=site.lags_s)
    held_out = [reduce(w.t_s, w.rtt_ms) for w in site.held_out]
    real = [*(reduce(w.t_s, w.rtt_ms) for w in site.fitted), *held_out]

    def ranked(model: Sequence[Summary]) -> list[Rank]:
        return rank(real, held_out, model)

    made = model_windows(site, site.held_out, params, WINDOWS, _FIRST_SEED)
    on_progress(0.4)
    flat = model_windows(site, site.held_out, without_slots(params), WINDOWS, _FIRST_SEED, flat=True)
    on_progress(0.8)
    candidates = site.fitted or site.held_out
    replayed = [candidates[i] for i in np.unique(np.linspace(0, len(candidates) - 1, _REPLAYED).astype(int))]
    return SiteResult(
        site.name,
        (len(site.fitted), len(site.held_out)),
        ranked(reduced(made, site)),
        ranked([reduce(t_s, shuffled(t_s, rtt_ms, rng)) for t_s, rtt_ms in made]),
        ranked(reduced(flat, site)),
        [ranked(replays(window, 10, rng, reduce)) for window in replayed],
    )


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Hold the frozen parameters against the pings below `data`; skipped where they are absent."""
    sites = load_sites(data) if data is not None else None
    if sites is None:
        return Outcome("access-model", skipped="needs the ping campaigns named in its README; give their folder")
    params = frozen_params()
    results = []
    for i, site in enumerate(sites):
        at_site = with_offset(params, SITE_OFFSETS_MS[site.offset_of])
        results.append(site_result(site, at_site, lambda part, i=i: on_progress((i + part) / len(sites))))  # type: ignore[misc]
    return Outcome("access-model", [*model_rows(results), *control_rows(results)], notes(params, results))


def model_rows(results: Sequence[SiteResult]) -> list[Row]:
    """One row for each site and distance, and half of the test."""
    rows = []
    for result in results:
        for r in result.model:
            what = f"{result.site}: {r.statistic}"
            covered = f"{r.covered:.0%} of pairs within it"
            rows.append(
                Row(
                    f"{what}, near",
                    f"{r.near:.2f} ({covered})",
                    f"real {r.real_p50:.2f}",
                    f"≤ {r.real_p90:.2f}",
                    r.is_near,
                )
            )
            spread_fits = r.real_p10 <= r.spread <= r.real_p90
            rows.append(
                Row(
                    f"{what}, spread",
                    f"{r.spread:.2f}",
                    f"real {r.real_p50:.2f}",
                    f"{r.real_p10:.2f}–{r.real_p90:.2f}",
                    spread_fits,
                )
            )
    return rows


def control_rows(results: Sequence[SiteResult]) -> list[Row]:
    """Each control must fail somewhere; the row says where it does."""

    def failing(of: dict[str, list[Rank]]) -> str:
        return ", ".join(
            f"{site} {r.statistic.split(' [')[0]}" for site, ranks in of.items() for r in ranks if not r.passes
        )

    rows = []
    for name, of in (
        ("in-slot shuffle", {r.site: r.shuffle for r in results}),
        ("no slots", {r.site: r.no_slots for r in results}),
    ):
        where = failing(of)
        rows.append(
            Row(
                f"negative control: {name}",
                f"fails: {where or 'nowhere'}",
                "must fail",
                "one distance at least",
                bool(where),
            )
        )
    tried = [ranks for result in results for ranks in result.replays]
    failed = sum(any(not r.passes for r in ranks) for ranks in tried)
    share = failed / len(tried)
    rows.append(
        Row(
            "negative control: fitted to one window",
            f"{failed} of {len(tried)} windows fail",
            "must fail",
            "90 % of windows",
            share >= 0.9,
        )
    )
    return rows


def notes(params: Params, results: Sequence[SiteResult]) -> list[str]:
    """The parameter count and the fit, for the printout."""
    fitted = ", ".join(f"{path} {get(params, path):.3g}" for path in FITTED)
    offsets = ", ".join(f"{site} {ms:.2f}" for site, ms in SITE_OFFSETS_MS.items())
    windows = ", ".join(f"{r.site} {r.windows[0]} + {r.windows[1]}" for r in results)
    return [
        f"{len(FITTED)} fitted parameters for all sites: {fitted}",
        f"one offset a site [ms]: {offsets}; joint uses Victoria's",
        f"windows of 120 s, fitted + held out: {windows}",
    ]
