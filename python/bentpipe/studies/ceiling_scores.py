"""Results of `cc-ceiling` by scheme and Profile, relative to the oracle's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bentpipe.studies import field
from bentpipe.studies.study import Row

ORACLE = "oracle"
PARENT = "bbr3"

#: A mean or ratio with its interval.
Figure = tuple[float, float, float]


@dataclass(frozen=True)
class Ceilings:
    """Results of every scheme on the Profiles on which the oracle has goodput.

    Attributes:
        profiles: Names of these Profiles.
        shares: Scheme → goodput over the oracle's, by Profile.
        queues_ms: Scheme → mean queueing delay, by Profile; NaN: no packet arrived.
        queues_p95_ms: Scheme → 95th percentile of the mean in a packet's second, by Profile.
    """

    profiles: Sequence[str]
    shares: Mapping[str, Sequence[float]]
    queues_ms: Mapping[str, Sequence[float]]
    queues_p95_ms: Mapping[str, Sequence[float]]

    @classmethod
    def of(
        cls,
        scores: Mapping[tuple[str, str], Sequence[field.Score]],
        paths: Sequence[field.Path],
        schemes: Sequence[str],
    ) -> Ceilings:
        """Return the results of a race of these schemes, the oracle among them."""
        names = [path.name for path in paths if scores[path.name, ORACLE][0].goodput_bps[0] > 0]

        def by_scheme(value: Callable[[str, str], float]) -> dict[str, list[float]]:
            return {scheme: [value(name, scheme) for name in names] for scheme in schemes}

        def goodput(name: str, scheme: str) -> float:
            return scores[name, scheme][0].goodput_bps[0]

        return cls(
            names,
            by_scheme(lambda name, scheme: goodput(name, scheme) / goodput(name, ORACLE)),
            by_scheme(lambda name, scheme: _or_nan(scores[name, scheme][0].queue_ms)),
            by_scheme(lambda name, scheme: _or_nan(scores[name, scheme][0].queue_p95_ms)),
        )

    def goodput_taken(self, scheme: str) -> Figure:
        """Return the share of the distance from BBRv3's goodput to the oracle's, with its interval over Profiles."""
        parent = np.asarray(self.shares[PARENT])
        gained = np.asarray(self.shares[scheme]) - parent
        return field.bootstrap_ratio(list(gained), list(1.0 - parent))

    def queue_taken(self, scheme: str) -> Figure:
        """Return the same for the mean queueing delay."""
        ours, parent, oracle = self._known(scheme, PARENT, ORACLE)
        return field.bootstrap_ratio(list(parent - ours), list(parent - oracle))

    def queue_ratio(self, scheme: str) -> Figure:
        """Return the mean queueing delay over BBRv3's, with its interval."""
        ours, parent = self._known(scheme, PARENT)
        return field.bootstrap_ratio(list(ours), list(parent))

    def gain(self, scheme: str, base: str) -> Figure:
        """Return the difference of two schemes' shares of the oracle's goodput, with its interval."""
        return field.bootstrap([a - b for a, b in zip(self.shares[scheme], self.shares[base], strict=True)])

    def queue_cost_ms(self, scheme: str, base: str) -> Figure:
        """Return the difference of two schemes' mean queueing delays [ms], with its interval."""
        ours, other = self._known(scheme, base)
        return field.bootstrap(list(ours - other))

    def by_profile(self) -> dict[str, dict[str, dict[str, float | None]]]:
        """Return all values: quantity → scheme → Profile."""
        quantities = {
            "goodput, share of the oracle's": self.shares,
            "mean queueing delay [ms]": self.queues_ms,
            "95th percentile of seconds' mean queueing delay [ms]": self.queues_p95_ms,
        }
        return {
            quantity: {scheme: self._named(values) for scheme, values in of.items()}
            for quantity, of in quantities.items()
        }

    def _named(self, values: Sequence[float]) -> dict[str, float | None]:
        rounded = [finite_or_none(round(value, 4)) for value in values]
        return dict(zip(self.profiles, rounded, strict=True))

    def _known(self, *schemes: str) -> list[np.ndarray]:
        """Return the queueing delays of some schemes on the Profiles on which all of them have one."""
        values = np.array([self.queues_ms[scheme] for scheme in schemes], np.float64)
        return list(values[:, np.isfinite(values).all(axis=0)])


def figure_row(quantity: str, unit: str, figure: Figure, basis: str) -> Row:
    """Return a row of a figure with its interval."""
    mean, low, high = figure
    return Row(quantity, unit, None, finite_or_none(mean), f"95 %: {low:.3f} to {high:.3f}", basis)


def finite_or_none(value: float) -> float | None:
    """Return None for a value that is not finite."""
    return value if math.isfinite(value) else None


def known(values: Sequence[float]) -> list[float]:
    """Return the values that are finite."""
    return [value for value in values if math.isfinite(value)]


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
