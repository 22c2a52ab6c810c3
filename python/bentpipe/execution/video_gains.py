"""What policies gain over RobustMPC, and how much of what perfect knowledge would gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bentpipe.execution.videos import VideoResult
    from bentpipe.experiments.videos import PolicyName

    Floats = NDArray[np.float64]

REFERENCE: PolicyName = "robust-mpc"
"""Policy that gains are over."""

_DRAWS = 10_000


@dataclass(frozen=True)
class Gain:
    """A gain over RobustMPC [%], with the 95 % interval of a bootstrap over windows."""

    percent: float
    low: float
    high: float


@dataclass(frozen=True)
class PolicySummary:
    """A policy over all windows.

    Attributes:
        policy: The policy.
        n: Number of windows.
        qoe_median: Median of the windows' mean quality of experience.
        qoe_mean: Its mean.
        bitrate_mbps: Mean bitrate [Mbit/s].
        stall_s: Mean stall of a window [s].
        switches: Mean changes of quality in a window.
        gain_median: Gain in the median over RobustMPC; None: RobustMPC did not play.
        gain_mean: Gain in the mean; likewise.
        share_of_oracle: Gain of the mean over that of the oracle; None: one of them is missing, or has no gain.
    """

    policy: PolicyName
    n: int
    qoe_median: float
    qoe_mean: float
    bitrate_mbps: float
    stall_s: float
    switches: float
    gain_median: Gain | None = None
    gain_mean: Gain | None = None
    share_of_oracle: float | None = None


def summarize(results: Sequence[VideoResult]) -> list[PolicySummary]:
    """Return a summary of each policy. Every policy has played the same windows, in the same sequence.

    A window with a Run that is not valid is left out for all of them, unless that leaves none.

    Example:
        >>> from bentpipe.execution.videos import VideoResult
        >>> def result(trace, policy, qoe):
        ...     return VideoResult(trace, policy, qoe, 2.0, 0.0, 1, 0.5, 49)
        >>> played = [result("a", "robust-mpc", 1.0), result("a", "mpc", 1.5)]
        >>> summarize(played)[1].gain_mean.percent
        50.0
    """
    disturbed = {result.trace for result in results if not result.valid}
    results = [result for result in results if result.trace not in disturbed] or results
    policies = list(dict.fromkeys(result.policy for result in results))
    own = {policy: [result for result in results if result.policy == policy] for policy in policies}
    qoe = {policy: np.array([result.qoe_mean for result in own[policy]]) for policy in policies}
    best = float(qoe["mpc-oracle"].mean()) if "mpc-oracle" in qoe else None
    base = qoe.get(REFERENCE)
    summaries = []
    for policy in policies:
        median, mean, share = None, None, None
        if base is not None and policy != REFERENCE:
            median, mean = gain(qoe[policy], base, np.median), gain(qoe[policy], base, np.mean)
            if best is not None and best > base.mean():
                share = float((qoe[policy].mean() - base.mean()) / (best - base.mean()))
        means = {
            name: float(np.mean([getattr(result, name) for result in own[policy]]))
            for name in ("bitrate_mbps", "stall_s", "switches")
        }
        summaries.append(
            PolicySummary(
                policy=policy,
                n=len(own[policy]),
                qoe_median=float(np.median(qoe[policy])),
                qoe_mean=float(qoe[policy].mean()),
                **means,
                gain_median=median,
                gain_mean=mean,
                share_of_oracle=share,
            )
        )
    return summaries


def gain(above: Floats, below: Floats, middle: Callable[..., Floats]) -> Gain | None:
    """Return the gain of paired samples in their median or mean; None: that of `below` is not above zero.

    Args:
        above: Values of the policy, shape (n,).
        below: Those of the one it is compared with, shape (n,).
        middle: `numpy.median` or `numpy.mean`.

    Example:
        >>> gain(np.array([2.0, 3.0]), np.array([1.0, 1.5]), np.mean)
        Gain(percent=100.0, low=100.0, high=100.0)
    """
    if middle(below) <= 0:
        return None
    picks = np.random.default_rng(0).integers(0, len(above), (_DRAWS, len(above)))
    tops, bases = middle(above[picks], axis=1), middle(below[picks], axis=1)
    ratios = np.divide(tops, bases, out=np.full(len(tops), np.inf), where=bases > 0)
    low, high = np.quantile(ratios, [0.025, 0.975], method="nearest")
    return Gain(
        percent=100 * (float(middle(above) / middle(below)) - 1),
        low=100 * (float(low) - 1),
        high=100 * (float(high) - 1),
    )
