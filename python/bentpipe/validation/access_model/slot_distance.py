"""Distance between two sets of slots by the classifier's features: an energy distance with bounded terms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bentpipe.validation.access_model.pings import Floats

#: Weight of the energy distance by all features together; that by each feature alone has weight 1.
_TOGETHER = 5.0


@dataclass(frozen=True)
class Slots:
    """Real slots by their features, shape (slots, features), and the features' scales."""

    x: Floats
    scale: Floats

    @classmethod
    def of(cls, x: Floats) -> Slots:
        """Create with the median distance between two slots as the scale of each feature."""
        one, other = np.triu_indices(len(x), 1)
        return cls(x, np.maximum(np.nanmedian(np.abs(x[one] - x[other]), 0), 1e-6))

    @cached_property
    def within(self) -> tuple[Floats, float]:
        """Return the mean bounded distance between two of them, by each feature and by all together."""
        return self._mean(self.x, self.x)

    def energy(self, model: Floats) -> float:
        """Return the bounded energy distance: the sum over features, and `_TOGETHER` times that of all together."""
        across, ours = self._mean(model, self.x), self._mean(model, model)
        each = float(np.nansum(2 * across[0] - ours[0] - self.within[0]))
        return each + _TOGETHER * (2 * across[1] - ours[1] - self.within[1])

    def _mean(self, a: Floats, b: Floats) -> tuple[Floats, float]:
        d = np.abs(a[:, None] - b[None])
        d /= d + self.scale
        # Without the zero distance of a slot to itself.
        share = 1.0 if a is not b else len(a) / (len(a) - 1)
        each: Floats = share * np.nanmean(d, (0, 1))
        return each, share * float(np.sqrt(np.nanmean(d * d, 2)).mean())
