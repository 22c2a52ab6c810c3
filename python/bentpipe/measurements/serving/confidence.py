"""From distances to a probability for each satellite, and for none of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.serving.tracks import AHEAD_S, Distances

Floats = NDArray[np.float64]

#: Standard deviation of a sighting from the serving satellite's way [deg], and correlation of those of one slot, which
#: share the errors of elements and attitude. These and the next were fitted by maximum likelihood to the generated maps
#: `bentpipe.validation.serving.generated.FITTED`; the claim scores them on others.
SIGMA_DEG, CORRELATION = 1.5, 0.63
#: A satellite as near as this [deg] is as likely under "another one serves, which is not among the elements".
NONE_DEG = 5.0
#: How far satellites are ahead of their elements [s]: scale of a Laplace distribution. Where a record has `ENOUGH`
#: slots it is found from them, with this counting as so many slots more: elements of one file are as old for all of
#: them.
AHEAD_SCALE_S = 2.2
#: How often no satellite of the elements serves: the share in those maps, where the record has fewer slots than
#: `ENOUGH`; otherwise it is found from the record, within `LEAST` to `MOST`. Chosen here: half of that share, and
#: never sure.
NONE_SHARE, ENOUGH, LEAST, MOST = 0.04, 12, 0.02, 0.98
#: Rounds in which the record's own figures are found. Chosen here.
ROUNDS = 3


def evidence(found: Distances, ahead_scale_s: float = AHEAD_SCALE_S) -> Floats:
    """Logarithm of how much likelier the sightings are if this satellite served than if none of the elements did; (n,).

    Satellites are equally likely before. Distances are Gaussian, sightings of one slot count as
    n / (1 + (n - 1) correlation) independent ones (Kish, Survey Sampling, 1965: the design effect), and a satellite may
    be ahead of its elements.
    """
    fits = _fits(found, ahead_scale_s)
    highest = fits.max(axis=1, initial=-np.inf, keepdims=True)
    each: Floats = highest[:, 0] + np.log(np.exp(fits - highest).sum(axis=1)) - np.log(max(len(fits), 1))
    return each


def posterior(for_it: Floats, none_share: float) -> Floats:
    """Probability of each satellite and, last, of none; shape (satellites + 1,), sum 1."""
    scores = np.append(for_it + np.log(1 - none_share), np.log(none_share))
    weight = np.exp(scores - scores.max())
    whole: Floats = weight / weight.sum()
    return whole


def posteriors(every: Sequence[Distances]) -> list[Floats]:
    """`posterior` of each slot of a record, with the share of "none" and the scale of being ahead that it shows.

    Both by expectation maximisation. With elements of another time, or at another place, "none" is most of the slots:
    then chance fits are not believed.
    """
    share, scale = NONE_SHARE, AHEAD_SCALE_S
    for_it = [evidence(found, scale) for found in every]
    for _ in range(ROUNDS if len(every) >= ENOUGH else 0):
        share = _none_share(for_it, share)
        scale = _ahead_scale_s(every, [posterior(slot, share) for slot in for_it], scale)
        for_it = [evidence(found, scale) for found in every]
    return [posterior(slot, share) for slot in for_it]


def _none_share(every: Sequence[Floats], share: float) -> float:
    for _ in range(30):
        share = float(np.clip(np.mean([posterior(slot, share)[-1] for slot in every]), LEAST, MOST))
    return share


def _ahead_scale_s(every: Sequence[Distances], probability: Sequence[Floats], scale_s: float) -> float:
    total, count = AHEAD_SCALE_S * ENOUGH, float(ENOUGH)
    for found, each in zip(every, probability, strict=True):
        fits = _fits(found, scale_s)
        weight = np.exp(fits - fits.max(axis=1, initial=-np.inf, keepdims=True))
        weight *= (each[:-1] / weight.sum(axis=1))[:, None]
        total += float((weight * np.abs(AHEAD_S)).sum())
        count += float(each[:-1].sum())
    return total / count


def _fits(found: Distances, ahead_scale_s: float) -> Floats:
    """Logarithm of the likelihood ratio of each satellite and shift; shape (n, shifts)."""
    counts = np.maximum(found.weight, 1.0)
    independent = counts / (1 + (counts - 1) * CORRELATION)
    ahead = np.log(np.gradient(AHEAD_S)) - np.abs(AHEAD_S) / ahead_scale_s
    ahead -= np.log(np.exp(ahead).sum())
    fits: Floats = ahead - independent * (found.rms_deg**2 - NONE_DEG**2) / (2 * SIGMA_DEG**2)
    return fits
