"""The access model against measurements: rank tests, a classifier, a transport test, and their negative controls.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.access_model import parts
from bentpipe.validation.access_model.classifier import LIMIT, ClassifierResult
from bentpipe.validation.access_model.model import FITTED, Params, frozen_params, get
from bentpipe.validation.access_model.parts import FULL, QUICK, SHIPPED, SITE_OWN, Drawn, Raced, SessionComparison
from bentpipe.validation.access_model.pings import load_sites
from bentpipe.validation.access_model.rank_test import Rank
from bentpipe.validation.access_model.transport import CONTROLLERS, FIGURES, Flows

__all__ = ["SITE_OWN", "check"]

#: Windows at each site for the one-window control.
_REPLAYED = 12


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False) -> Outcome:
    """Compare the frozen parameters with the campaigns below `data`; skip the claim if the pings are absent.

    Args:
        data: Folder with the campaigns.
        on_progress: Called with the part done.
        quick: Fewer windows, paths and tests.
    """
    effort = QUICK if quick else FULL
    sites = load_sites(data) if data is not None else None
    if data is None or sites is None:
        return Outcome("access-model", skipped="needs the ping campaigns named in its README; give their folder")
    params = frozen_params()
    drawn = []
    for i, site in enumerate(sites):
        drawn.append(parts.draw(site, params, effort))
        on_progress(0.35 * (i + 1) / len(sites))
    delays = {d.site.name: parts.delay_ranks(d) for d in drawn}
    areas = parts.areas(drawn)
    sessions = parts.sessions_apart(drawn)
    on_progress(0.5)
    lost = parts.loss_ranks(drawn, data, params, effort)
    on_progress(0.6)
    capacity = parts.capacity_ranks(data, params, effort)
    on_progress(0.65)
    flows = []
    for i, d in enumerate(drawn):
        raced = parts.raced(d, data, effort, lambda part, i=i: on_progress(0.65 + 0.35 * (i + part) / len(drawn)))  # type: ignore[misc]
        if raced is not None:
            flows.append(raced)
    rows = [row for site, of in delays.items() for row in parts.rank_rows(site, of[""])]
    rows += parts.rank_rows("fjordlink", parts.slot_mean_ranks(data, params, effort))
    rows += [row for where, ranks in lost.items() for row in parts.rank_rows(f"loss, {where}", ranks)]
    rows += [row for where, ranks in capacity.items() for row in parts.rank_rows(f"capacity, {where}", ranks)]
    rows += parts.area_rows(areas[""])
    rows += parts.beside_rows(areas[SHIPPED], sessions)
    for raced in flows:
        rows += parts.rank_rows(f"transport, {raced.site}", raced.ranks[""])
        rows += flow_rows(raced)
    rows += control_rows(delays, areas, flows)
    replayed = [ranks for d in drawn for ranks in parts.replay_ranks(d.site, _REPLAYED)]
    rows.append(replay_row(replayed))
    on_progress(1.0)
    return Outcome("access-model", rows, notes(params, drawn, areas, sessions))


def flow_rows(raced: Raced) -> list[Row]:
    """Report both worlds' distributions without a limit: the rank test decides."""
    scales = (1e6, 1.0, 1.0, 1.0)
    rows = []
    for controller in CONTROLLERS:
        for k, (_, key) in enumerate(FIGURES):

            def lines(of: Mapping[str, Flows], k: int = k, controller: str = controller) -> str:
                return " / ".join(f"{value / scales[k]:.3g}" for value in of[controller].quantiles(k))

            quantity = f"transport, {raced.site}: {controller} {key.replace('_bps', '_mbps')} p10/p50/p90"
            rows.append(Row(quantity, lines(raced.model), f"real {lines(raced.real)}", "–", None))
    return rows


def control_rows(
    delays: Mapping[str, Mapping[str, Sequence[Rank]]],
    areas: Mapping[str, Sequence[ClassifierResult]],
    flows: Sequence[Raced],
) -> list[Row]:
    """Check that each control fails each of the three tests at some site, and name the site."""
    rows = []
    for name in areas:
        if name in ("", SHIPPED):
            continue
        ranked = _failing((site, of[name]) for site, of in delays.items())
        rows.append(_must_fail(name, "rank test", ranked))
        best = max(areas[name], key=lambda t: t.area)
        rows.append(_must_fail(name, "classifier", f"AUC {best.area:.2f} at {best.where}" if best.area > LIMIT else ""))
        if flows:
            rows.append(
                _must_fail(name, "transport test", _failing((raced.site, raced.ranks[name]) for raced in flows))
            )
    return rows


def _failing(of: Iterable[tuple[str, Sequence[Rank]]]) -> str:
    return ", ".join(f"{site} {r.statistic.split(' [')[0]}" for site, ranks in of for r in ranks if not r.passes)


def _must_fail(name: str, test: str, where: str) -> Row:
    return Row(
        f"negative control: {name}, {test}", f"fails: {where or 'nowhere'}", "must fail", "somewhere", bool(where)
    )


def replay_row(tried: Sequence[Sequence[Rank]]) -> Row:
    """A model that replays one window must fail the rank test."""
    failed = sum(any(not r.passes for r in ranks) for ranks in tried)
    return Row(
        "negative control: fitted to one window, rank test",
        f"{failed} of {len(tried)} windows fail",
        "must fail",
        "90 % of windows",
        failed >= 0.9 * len(tried),
    )


def notes(
    params: Params,
    drawn: Sequence[Drawn],
    areas: Mapping[str, Sequence[ClassifierResult]],
    sessions: Sequence[SessionComparison],
) -> list[str]:
    """Describe the parameters, their fit, the sessions' levels and the areas of single features."""
    fitted = ", ".join(f"{path} {get(params, path):.3g}" for path in FITTED)
    own = "; ".join(
        f"{site} " + ", ".join(f"{path} {value:.3g}" for path, value in of.items())
        for site, of in SITE_OWN.items()
        if of
    )
    windows = ", ".join(f"{d.site.name} {len(d.site.fitted)} + {len(d.site.held_out)}" for d in drawn)
    lines = [
        f"{len(FITTED)} fitted parameters for all sites: {fitted}",
        f"of a site its own at the level of its session: {own}",
        "level of the delay on fitted windows: " + "; ".join(_level_of(d) for d in drawn),
        f"windows of 120 s, fitted + held out: {windows}",
    ]
    lines += [parts.differences(d) for d in drawn if d.site.fitted]
    lines += [
        f"{t.where}: {t.slots[0]} real slots trained on, {t.slots[1]} tested; single features: {_alone(t)}"
        for t in areas[""]
    ]
    lines += [f"{SHIPPED}, {t.where}: single features: {_alone(t)}" for t in areas[SHIPPED]]
    lines += [f"real against real, {one.real.where}: single features: {_alone(one.real)}" for one in sessions]
    return lines


def _level_of(d: Drawn) -> str:
    if d.level is None:
        return f"{d.site.name} none, drawn anew"
    return f"{d.site.name} {math.exp(d.level.log_load):.2f} times the load, offset {d.level.offset_ms:.2f} ms"


def _alone(t: ClassifierResult) -> str:
    return ", ".join(f"{name} {area:.2f}" for name, area in sorted(t.alone.items(), key=lambda item: -item[1])[:4])
