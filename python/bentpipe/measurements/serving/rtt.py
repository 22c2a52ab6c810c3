"""Identify the serving satellite from RTTs alone: the RTT floor of each slot against the path over each satellite.

The floor has little information, because many satellites have paths of equal length. Most answers have a low
confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe import _native
from bentpipe.analysis.tables import Series
from bentpipe.errors import UserError
from bentpipe.measurements.dish.slots import SLOT_NS, SLOT_PHASE_NS
from bentpipe.measurements.serving.candidates import Sky, skies
from bentpipe.measurements.serving.frames import vectors_to_sky
from bentpipe.measurements.serving.matching import Answer, OnProgress, answer
from bentpipe.scenarios.fibre import fibre_one_way_ms, great_circle_km
from bentpipe.scenarios.ground import load_gateways, nearest_pop, pop_by_code
from bentpipe.scenarios.sites import Place

Floats = NDArray[np.float64]

KM_PER_MS = 299.792458
#: Lowest elevation [deg] at which a terminal uses a satellite (arXiv:2307.00402).
MIN_ELEVATION_DEG = 25.0
#: Quantile of a slot's RTTs that is its floor, smallest number of replies, and seconds ignored after an edge. Chosen
#: here: replies below it met an empty grant; handovers last under a second.
FLOOR, MIN_REPLIES, EDGE_S = 0.05, 5, 1.0
#: Number of nearest gateways considered, and their largest distance [km]: twice the 940 km at which a satellite at
#: 550 km is seen at 25 degrees.
MAX_GATEWAYS, REACH_KM = 8, 1900.0
#: Probability that a terminal keeps its satellite from one slot to the next: 115 of 499 edges at Louvain, July 2024
#: (SatInView).
KEEP_PROBABILITY = 0.23
#: Odds of a satellite at 45 degrees and above against one below: 80 % of choices and 30 % of candidates are there;
#: and of one poleward of the terminal: 82 % and 58 % (arXiv:2307.00402).
HIGH_ODDS, POLEWARD_ODDS = (0.8 / 0.2) / (0.3 / 0.7), (0.82 / 0.18) / (0.58 / 0.42)
#: Smallest spread of floors about the path's RTT [ms]: a frame's 1.3 ms (Humphreys et al., 2023).
MIN_SPREAD_MS = 1.3


@dataclass(frozen=True)
class Floors:
    """RTT floors of the slots of a series.

    Attributes:
        start_unix_ns: Begins of the slots [ns since 1970]; shape (n,).
        rtt_ms: RTT floors [ms]; shape (n,).
    """

    start_unix_ns: NDArray[np.int64]
    rtt_ms: Floats


def floors(series: Series) -> Floors:
    """Return the RTT floors of the slots with enough replies."""
    t_s, rtt_ms = series.replies()
    unix_ns = series.start_unix_ns + np.round(t_s * 1e9).astype(np.int64)
    number, within = np.divmod(unix_ns - SLOT_PHASE_NS, SLOT_NS)
    rows = pl.DataFrame({"slot": number, "rtt_ms": rtt_ms}).filter(pl.Series(within >= EDGE_S * 1e9))
    slots = (
        rows.group_by("slot").agg(pl.len().alias("replies"), pl.col("rtt_ms").quantile(FLOOR))
        .filter(pl.col("replies") >= MIN_REPLIES).sort("slot")
    )  # fmt: skip
    return Floors(slots["slot"].to_numpy() * SLOT_NS + SLOT_PHASE_NS, slots["rtt_ms"].to_numpy())


def by_rtt(
    series: Series,
    satellites: _native.Satellites,
    place: Place,
    *,
    gateways: Sequence[Place] = (),
    on_progress: OnProgress = lambda _: None,
) -> list[Answer]:
    """Identify the serving satellites of the slots with enough replies.

    Delay other than propagation to the PoP (frames, processing, fibre behind the PoP) is one constant, estimated with
    the answers.

    Args:
        series: RTTs to one target.
        satellites: The candidates.
        place: Place of the terminal.
        gateways: Gateways, if known; default: the packaged ones nearby, each with the fibre to the terminal's PoP.
        on_progress: Called with the fraction done, 0 to 1.

    Raises:
        UserError: No slot has enough replies, or no gateway is near.
    """
    measured = floors(series)
    if not len(measured.rtt_ms):
        raise UserError(
            f"{series.name}: no slot of 15 s has {MIN_REPLIES} replies; expected pings every 3 s or more often"
        )
    ground = [(gateway, 0.0) for gateway in gateways] or _gateways(place)
    up = []
    for sky in skies(satellites, place, measured.start_unix_ns.tolist(), MIN_ELEVATION_DEG):
        up.append(sky)
        on_progress(0.5 * len(up) / len(measured.rtt_ms))
    paths_ms = _path_rtts_ms(satellites, up, measured.start_unix_ns, ground, lambda part: on_progress(0.5 + 0.4 * part))
    probability = _smoothed(up, paths_ms, measured, place)
    elements = satellites.elements()
    on_progress(1.0)
    return [
        answer(int(start), sky, np.append(p, 0.0), elements)
        for start, sky, p in zip(measured.start_unix_ns, up, probability, strict=True)
        if len(sky.index)
    ]


def _gateways(place: Place) -> list[tuple[Place, float]]:
    """Return the packaged gateways nearby, each with its one-path_ms fibre delay to the PoP [ms]."""
    here = (place.lat_deg, place.lon_deg)
    near = sorted((great_circle_km(here, (g.lat_deg, g.lon_deg)), k, g) for k, g in enumerate(load_gateways().gateways))
    chosen = [g for distance, _, g in near[:MAX_GATEWAYS] if distance <= REACH_KM]
    if not chosen:
        raise UserError(f"no gateway known within {REACH_KM:g} km of {place.name}; try one of your own, as LAT,LON")
    pop = pop_by_code(place.pop) if place.pop else nearest_pop(*here)
    to = (pop.lat_deg, pop.lon_deg)
    return [
        (Place(g.label, g.lat_deg, g.lon_deg), fibre_one_way_ms((g.lat_deg, g.lon_deg), to).one_way_ms) for g in chosen
    ]


def _path_rtts_ms(
    satellites: _native.Satellites,
    up: Sequence[Sky],
    starts: NDArray[np.int64],
    ground: Sequence[tuple[Place, float]],
    on_progress: OnProgress,
) -> list[Floats]:
    """Return the RTT over each satellite of each slot and its nearest gateway [ms]; infinite if no gateway sees it."""
    down = [np.full(len(sky.index), np.inf) for sky in up]
    lowest = load_gateways().min_elevation_deg
    for k, (gateway, fibre_ms) in enumerate(ground):
        for slot, visible in enumerate(skies(satellites, gateway, starts.tolist(), lowest)):
            where = np.searchsorted(visible.index, up[slot].index).clip(0, max(len(visible.index) - 1, 0))
            if len(visible.index):
                is_visible = visible.index[where] == up[slot].index
                ms = np.where(is_visible, visible.range_km[where, 1] / KM_PER_MS + fibre_ms, np.inf)
                down[slot] = np.minimum(down[slot], ms)
        on_progress((k + 1) / len(ground))
    return [2 * (sky.range_km[:, 1] / KM_PER_MS + ms) for sky, ms in zip(up, down, strict=True)]


def _smoothed(up: Sequence[Sky], paths_ms: Sequence[Floats], measured: Floors, place: Place) -> list[Floats]:
    """Return probabilities of each slot's satellites by a hidden Markov model; constant and spread are fitted."""
    priors = [_prior(sky, path_ms, place) for sky, path_ms in zip(up, paths_ms, strict=True)]
    apart = [
        np.where(np.isfinite(path_ms), floor - path_ms, 0.0)
        for path_ms, floor in zip(paths_ms, measured.rtt_ms, strict=True)
    ]
    means = np.array([float(p @ a) for p, a in zip(priors, apart, strict=True)])
    constant, spread = float(np.median(means)), 4.0
    follows = np.diff(measured.start_unix_ns, prepend=0) == SLOT_NS
    probability = priors
    for _ in range(20):
        fits = [np.exp(-np.abs(a - constant) / spread) for a in apart]
        probability = _forward_backward(up, priors, fits, follows)
        weight = np.concatenate(probability)
        residual = np.concatenate(apart)
        order = np.argsort(residual)
        constant = float(
            residual[order][np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2).clip(0, len(order) - 1)]
        )
        spread = max(float((weight * np.abs(residual - constant)).sum() / weight.sum()), MIN_SPREAD_MS)
    return probability


def _prior(sky: Sky, path_ms: Floats, place: Place) -> Floats:
    """Return the prior by the scheduler's preferences; 0 if no gateway sees the satellite."""
    azimuth, elevation = vectors_to_sky(sky.knots[:, 1])
    poleward = (np.cos(np.radians(azimuth)) > 0) == (place.lat_deg >= 0)
    weight = np.where(elevation >= 45.0, HIGH_ODDS, 1.0) * np.where(poleward, POLEWARD_ODDS, 1.0) * np.isfinite(path_ms)
    if not weight.sum():
        weight = np.ones(len(path_ms))
    whole: Floats = weight / max(weight.sum(), 1.0) if not len(weight) else weight / weight.sum()
    return whole


def _forward_backward(
    up: Sequence[Sky], priors: Sequence[Floats], fits: Sequence[Floats], follows: NDArray[np.bool_]
) -> list[Floats]:
    """Return the posterior of each slot: a satellite is kept with `KEEP_PROBABILITY`, or chosen by the prior."""
    n = len(up)
    forward: list[Floats] = []
    for k in range(n):
        expected = priors[k]
        if k and follows[k]:
            expected = (
                KEEP_PROBABILITY * _map_values(up[k - 1], forward[-1], up[k]) + (1 - KEEP_PROBABILITY) * priors[k]
            )
        now = expected * fits[k]
        forward.append(now / now.sum() if now.sum() > 0 else priors[k])
    backward = [np.ones(len(sky.index)) for sky in up]
    for k in range(n - 2, -1, -1):
        if not follows[k + 1] or not len(up[k + 1].index):
            continue
        ahead = fits[k + 1] * backward[k + 1]
        back = KEEP_PROBABILITY * _map_values(up[k + 1], ahead, up[k]) + (1 - KEEP_PROBABILITY) * float(
            priors[k + 1] @ ahead
        )
        backward[k] = back / back.max() if back.max(initial=0.0) > 0 else np.ones(len(back))
    both = [f * b for f, b in zip(forward, backward, strict=True)]
    return [p / p.sum() if p.sum() > 0 else q for p, q in zip(both, priors, strict=True)]


def _map_values(source: Sky, values: Floats, to: Sky) -> Floats:
    """Map values of one sky's satellites to those of another; 0 for satellites not in the first."""
    if not len(source.index) or not len(to.index):
        return np.zeros(len(to.index))
    where = np.searchsorted(source.index, to.index).clip(0, len(source.index) - 1)
    return np.where(source.index[where] == to.index, values[where], 0.0)
