"""Compute the probability of each satellite, and of none of them, from distances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.serving.tracks import AHEAD_S, Distances

Floats = NDArray[np.float64]

#: Standard deviation of a sighting from the serving satellite's track [deg], and correlation within a slot, in which
#: sightings share the errors of elements and attitude. These and the next were fitted by maximum likelihood to the
#: generated maps `bentpipe.validation.serving.generated.FITTED`; the claim scores them on others.
SIGMA_DEG, CORRELATION = 1.5, 0.63
#: At this distance [deg] a satellite is as likely as a satellite that is not in the elements.
NONE_DEG = 5.0
#: Along-track error of the elements [s]: scale of a Laplace distribution. A record of `ENOUGH` slots estimates it, with
#: this value as a prior of as many slots: the elements of one file have the same age.
AHEAD_SCALE_S = 2.2
#: Share of slots in which no satellite of the elements serves: the share in those maps if the record has fewer slots
#: than `ENOUGH`; otherwise it is estimated from the record, within `MIN_SHARE` to `MAX_SHARE`. Chosen here: half of
#: that share, and below certainty.
NONE_SHARE, ENOUGH, MIN_SHARE, MAX_SHARE = 0.04, 12, 0.02, 0.98
#: Number of iterations that estimate the record's parameters. Chosen here.
ROUNDS = 3


def evidence(slot_distances: Distances, ahead_scale_s: float = AHEAD_SCALE_S) -> Floats:
    """Return the log likelihood ratio of each satellite against "none of the elements"; shape (n,).

    Satellites are equally likely a priori. Distances are Gaussian, sightings of one slot count as
    n / (1 + (n - 1) correlation) independent ones (Kish, Survey Sampling, 1965: the design effect), and a satellite may
    have an along-track error.
    """
    fits = _fits(slot_distances, ahead_scale_s)
    highest = fits.max(axis=1, initial=-np.inf, keepdims=True)
    each: Floats = highest[:, 0] + np.log(np.exp(fits - highest).sum(axis=1)) - np.log(max(len(fits), 1))
    return each


def posterior(ratios: Floats, none_share: float) -> Floats:
    """Return the probability of each satellite and, last, of none; shape (satellites + 1,), sum 1."""
    scores = np.append(ratios + np.log(1 - none_share), np.log(none_share))
    weight = np.exp(scores - scores.max())
    whole: Floats = weight / weight.sum()
    return whole


def slot_posteriors(every: Sequence[Distances]) -> list[Floats]:
    """Return `posterior` of each slot of a record, with the share of "none" and the along-track scale of the record.

    Both are estimated by expectation maximisation. With elements of another time or place, most slots are "none", and
    chance fits get a low probability.
    """
    share, scale = NONE_SHARE, AHEAD_SCALE_S
    ratios = [evidence(slot_distances, scale) for slot_distances in every]
    for _ in range(ROUNDS if len(every) >= ENOUGH else 0):
        share = _none_share(ratios, share)
        scale = _ahead_scale_s(every, [posterior(slot, share) for slot in ratios], scale)
        ratios = [evidence(slot_distances, scale) for slot_distances in every]
    return [posterior(slot, share) for slot in ratios]


def _none_share(every: Sequence[Floats], share: float) -> float:
    for _ in range(30):
        share = float(np.clip(np.mean([posterior(slot, share)[-1] for slot in every]), MIN_SHARE, MAX_SHARE))
    return share


def _ahead_scale_s(every: Sequence[Distances], probability: Sequence[Floats], scale_s: float) -> float:
    total, count = AHEAD_SCALE_S * ENOUGH, float(ENOUGH)
    for slot_distances, each in zip(every, probability, strict=True):
        fits = _fits(slot_distances, scale_s)
        weight = np.exp(fits - fits.max(axis=1, initial=-np.inf, keepdims=True))
        weight *= (each[:-1] / weight.sum(axis=1))[:, None]
        total += float((weight * np.abs(AHEAD_S)).sum())
        count += float(each[:-1].sum())
    return total / count


def _fits(slot_distances: Distances, ahead_scale_s: float) -> Floats:
    """Return the log likelihood ratio of each satellite and shift; shape (n, shifts)."""
    counts = np.maximum(slot_distances.weight, 1.0)
    independent = counts / (1 + (counts - 1) * CORRELATION)
    ahead = np.log(np.gradient(AHEAD_S)) - np.abs(AHEAD_S) / ahead_scale_s
    ahead -= np.log(np.exp(ahead).sum())
    fits: Floats = ahead - independent * (slot_distances.rms_deg**2 - NONE_DEG**2) / (2 * SIGMA_DEG**2)
    return fits
