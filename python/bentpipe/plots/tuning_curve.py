"""Gain of a setting against the interval between loss episodes, a line for each bandwidth-delay product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plots.canvas import canvas
from bentpipe.plots.style import SPARE, log_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.runs.estimates import Estimate
    from bentpipe.tuning.scores import Score


@dataclass(frozen=True)
class Curve:
    """A setting's scores by the mean interval between loss episodes [s]."""

    name: str
    intervals_s: tuple[float, ...]
    scores: tuple[Score, ...]


def plot_gain_curve(curves: list[Curve], *, gain: float, inflation: float, title: str, ax: AxesLike = None) -> Figure:
    """Plot goodput and p95 of the RTT relative to the default's, with the published ratios as dotted lines.

    Args:
        curves: The settings.
        gain: Published ratio of goodputs.
        inflation: Published ratio of RTTs.
        title: Title of the whole.
        ax: Two axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.runs import estimate
        >>> from bentpipe.tuning.scores import Score
        >>> ratio = estimate([1.1, 1.2, 1.4])
        >>> scores = (Score(9e6, ratio, ratio, ratio), Score(9e6, ratio, ratio, ratio))
        >>> curve = Curve("loss_thresh=0.2", (1.0, 10.0), scores)
        >>> figure = plot_gain_curve([curve], gain=1.3, inflation=1.1, title="BBRv2")
    """
    with canvas(ax, 2, size_in=(9.0, 3.4), columns=2) as drawing:
        drawing.title(title)
        left, right = drawing.axes
        for axes, name, label, mark in (
            (left, "gain", "goodput, relative to the default [%]", gain),
            (right, "rtt_p95", "p95 of the RTT, relative to the default [%]", inflation),
        ):
            for number, curve in enumerate(curves):
                known = [
                    (interval, estimate)
                    for interval, each in zip(curve.intervals_s, curve.scores, strict=True)
                    if (estimate := getattr(each, name)) is not None
                ]
                means = [_percent(estimate.mean) for _, estimate in known]
                spread = [
                    [_reach(estimate, "low") for _, estimate in known],
                    [_reach(estimate, "high") for _, estimate in known],
                ]
                colour = SPARE[number % len(SPARE)]
                axes.errorbar(
                    [x for x, _ in known], means, yerr=spread, marker="o", capsize=3, color=colour, label=curve.name
                )
            axes.axhline(_percent(mark), color="#5F6368", linestyle=":", label=f"published: {_percent(mark):+.0f} %")
            if any(getattr(each, name) is not None for curve in curves for each in curve.scores):
                log_scale(axes, "x")  # an empty axis cannot be logarithmic
            axes.set_xlabel("mean interval between loss episodes [s]")
            axes.set_ylabel(label)
        left.legend(fontsize="x-small")
    return drawing.figure


def _percent(ratio: float) -> float:
    return 100.0 * (ratio - 1.0)


def _reach(estimate: Estimate, end: str) -> float:
    """Return the distance of an end of the interval from the mean [%]; 0 if there is none."""
    value: float | None = getattr(estimate, end)
    return 0.0 if value is None else abs(_percent(value) - _percent(estimate.mean))
