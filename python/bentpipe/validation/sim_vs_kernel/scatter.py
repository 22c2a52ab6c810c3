"""How much of a difference may be chance: the same Runs in the simulator, with every flow some microseconds later.

A loss is due at a moment, not to a packet. Which packet it takes, and whether slow start ends there, hangs on
microseconds, on a kernel as in the simulator. Where the simulator's own means scatter by more than the limit, a
difference beyond the limit says nothing; how far it reaches then is what `Scatter` holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.runs.experiment import Experiment
    from bentpipe.validation.sim_vs_kernel.figures import Figures

VARIANTS = 8
"""Other starts per seed. Chosen here: an interval of means over ten seeds is the same within a tenth with sixteen."""

STEP_NS = 1_000
"""Between them: far less than the emulator's own lateness, so that nothing but chance is different."""

DRAWS = 2_000
LEVEL = 0.95
SEED = 1
"""Of the draws, so that the same Runs give the same answer."""

VALUES: dict[str, Callable[[Figures], float]] = {
    "goodput": lambda run: run.goodput_bps,
    "delay": lambda run: run.delay_ms,
    "retransmits": lambda run: run.retransmit_rate,
    "shares": lambda run: run.shares[0],
}
"""What a verdict may find outside, of one Run."""


def later(experiment: Experiment, variant: int) -> Experiment:
    """The same with every flow `variant` steps later."""
    flows = (replace(flow, start_ns=flow.start_ns + variant * STEP_NS) for flow in experiment.flows)
    return replace(experiment, flows=tuple(flows))


@dataclass(frozen=True, slots=True)
class Scatter:
    """Simulated Runs of one cell: seed by seed the one that was compared and its variants."""

    runs: tuple[tuple[Figures, ...], ...]

    def interval(self, quantity: str) -> tuple[float, float]:
        """Where `LEVEL` of the means over the seeds lie if of each seed any of its variants may have come."""
        values = np.array([[VALUES[quantity](run) for run in seed] for seed in self.runs])
        rng = np.random.default_rng(SEED)
        chosen = rng.integers(0, values.shape[1], size=(DRAWS, values.shape[0]))
        means = values[np.arange(values.shape[0]), chosen].mean(axis=1)
        low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)

    def reaches(self, quantity: str, kernel: Sequence[Figures], limit: float) -> bool:
        """Whether the kernel's mean is within `limit` of the interval, and the interval is wider than that.

        A simulator that gives the same every time, or means a hair apart, has nothing to blame on chance.
        """
        low, high = self.interval(quantity)
        mean = float(np.mean([VALUES[quantity](run) for run in kernel]))
        return high - low > limit and low - limit <= mean <= high + limit
