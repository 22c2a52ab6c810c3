"""Distributions over all runs of a Profile: goodput and RTT as CDFs, and boxes by destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.plots import series, style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.runs.store import Run


SEGMENT_BYTES = 1448
"""Data in a full segment: an Ethernet frame of 1500 bytes less the headers of IPv4 and TCP with time stamps [bytes]."""


RTT_TITLES = {"rtt_latest_ms": "RTT", "rtt_smoothed_ms": "Smoothed RTT"}
"""Title of a panel of RTTs, by its column."""


def plot_cdfs(runs: Sequence[Run], *, absent: Sequence[str] = (), ax: AxesLike = None) -> Figure:
    """Plot CDFs over all seeds, after the warm-up: goodput in bins of 100 ms and of 1 s, and the RTT.

    The RTT is the latest one, or the smoothed one if only that is known.

    Args:
        runs: Runs over one Profile; Runs of several flows are left out.
        absent: Controllers without a valid Run; the legend names them.
        ax: Three axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.runs import find_runs
        >>> figure = plot_cdfs(find_runs("out/race"))
    """
    with canvas(ax, 3, size_in=(9.2, 3.1), columns=3, sharey=True) as drawing:
        axes = drawing.axes
        groups = {
            controller: [(run, run.samples()) for run in group]
            for controller, group in series.by_controller(runs).items()
        }
        column = series.finest_rtt(table for samples in groups.values() for _, table in samples)
        for controller, samples in groups.items():
            look = style.look(controller)
            line = {"color": look.colour, "linestyle": look.line, "label": style.legend_name(controller)}
            for axis, bin_s in ((axes[0], 0.1), (axes[1], 1.0)):
                bins = [series.flow_goodput(run, 0, bin_s) for run, _ in samples]
                _draw_cdf(axis, np.concatenate(bins) * 1e-6, line)
            rtt = [steady(run, *series.values(table, 0, column)) for run, table in samples]
            _draw_cdf(axes[2], np.concatenate(rtt), line)
        for axis, title, unit in zip(
            axes,
            ("Goodput, 100 ms bins", "Goodput, 1 s bins", RTT_TITLES[column]),
            ("Mbit/s", "Mbit/s", "ms"),
            strict=True,
        ):
            axis.set_title(title)
            axis.set_xlabel(unit)
            axis.grid(axis="x")
        for axis in axes:
            axis.set_ylim(0, 1)
        for axis in axes[:2]:
            axis.set_xlim(left=0)
        axes[0].set_ylabel("Share of samples at or below")
        drawing.legend([*axes[0].get_legend_handles_labels()[0], *style.absent_handles(absent)])
    return drawing.figure


#: If medians differ by more than this factor, the axis is logarithmic: on a linear one the smaller would be invisible.
MOST_SPREAD = 40


def plot_destinations(runs: Sequence[Run], *, absent: Sequence[str] = (), ax: AxesLike = None) -> Figure:
    """Plot goodput, share retransmitted, cwnd and RTT after the warm-up, by Profile and controller.

    Boxes of one-second values span the quartiles around the median; whiskers reach to the last value within 1.5 × the
    box (Tukey); values further out are not drawn. Retransmissions come in bursts, so most seconds have none: bars show
    the mean share of all Runs, dots each Run.

    Args:
        runs: Runs over any number of Profiles; Runs of several flows are left out.
        absent: Controllers without a valid Run; the legend names them.
        ax: Four axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.runs import find_runs
        >>> figure = plot_destinations(find_runs("out/race"))
    """
    groups = series.by_controller(runs)
    labels = list(dict.fromkeys(run.label for run in runs))
    with canvas(ax, 4, size_in=(9.2, 6.2), rows=2, columns=2) as drawing:
        axes = drawing.axes
        measures: tuple[tuple[str, str, Callable[[Run], series.Floats] | None], ...] = (
            ("Goodput", "Mbit/s", lambda run: series.flow_goodput(run, 0, 1.0) * 1e-6),
            ("Retransmitted (bar: mean, dots: runs)", "% of all segments", None),
            (
                "Congestion window",
                "MB",
                lambda run: steady(run, *series.values(run.samples(), 0, "cwnd_bytes")) * 1e-6,
            ),
            (
                RTT_TITLES["rtt_smoothed_ms"],
                "ms",
                lambda run: steady(run, *series.values(run.samples(), 0, "rtt_smoothed_ms")),
            ),
        )
        for axis, (title, unit, measure) in zip(axes, measures, strict=True):
            medians: list[float] = []
            for i, (controller, group) in enumerate(groups.items()):
                place = _Place(i, len(groups), style.look(controller), style.legend_name(controller))
                if measure is None:
                    shares = [[retransmit_share(run) for run in group if run.label == at] for at in labels]
                    _draw_bars(axis, shares, place)
                    continue
                boxes = [
                    np.concatenate([np.empty(0), *(measure(run) for run in group if run.label == at)]) for at in labels
                ]
                _draw_boxes(axis, boxes, place)
                medians += [float(np.median(values)) for values in boxes if values.size]
            axis.set_title(title)
            axis.set_ylabel(unit)
            if medians and 0 < min(medians) * MOST_SPREAD < max(medians):
                style.log_scale(axis, "y")
            else:
                axis.set_ylim(0, 1.06 * axis.get_ylim()[1])  # margins are relative to the data's span, which may be 0
            axis.set_xlim(-0.6, len(labels) - 0.4)
            # The name of a single Profile would look like a box's label.
            shown = labels if len(labels) > 1 else []
            letters = max(8, 56 // len(labels))
            axis.set_xticks(range(len(shown)), [style.in_lines(name, letters) for name in shown])
        drawing.legend([*axes[0].get_legend_handles_labels()[0], *style.absent_handles(absent)])
    return drawing.figure


def retransmit_share(run: Run, flow: int = 0) -> float:
    """Return the share of retransmissions in the segments that a flow sent after the warm-up [%]."""
    samples = run.samples().filter(pl.col("flow") == flow)
    before = samples.filter(pl.col("t_s") <= run.warmup_s)

    def growth(column: str) -> float:
        return float(samples[column].to_numpy().max(initial=0) - before[column].to_numpy().max(initial=0))

    retransmits = growth("retransmits")
    return 100 * retransmits / (growth("goodput_bytes") / SEGMENT_BYTES + retransmits or 1.0)


@dataclass(frozen=True)
class _Place:
    """Place and look of the `i`-th of `count` controllers in each group."""

    i: int
    count: int
    look: style.Look
    label: str

    @property
    def width(self) -> float:
        return 0.8 / self.count

    def positions(self, groups: int) -> list[float]:
        return [at - 0.4 + self.width * (self.i + 0.5) for at in range(groups)]


def _draw_bars(axis: Axes, groups: list[list[float]], place: _Place) -> None:
    """Draw a bar at the mean of each group and a dot for every value."""
    for at, shares in zip(place.positions(len(groups)), groups, strict=True):
        if shares:
            axis.bar(at, sum(shares) / len(shares), place.width * 0.78, color=place.look.colour, alpha=0.45)
            spread = np.linspace(-0.2, 0.2, len(shares)) * place.width if len(shares) > 1 else np.zeros(1)
            axis.plot(at + spread, shares, "o", color=place.look.colour, markersize=3.5, clip_on=False)


def _draw_boxes(axis: Axes, groups: list[series.Floats], place: _Place) -> None:
    look, width, positions = place.look, place.width, place.positions(len(groups))
    boxes = axis.boxplot(
        groups,
        positions=positions,
        widths=width * 0.78,
        showfliers=False,
        manage_ticks=False,
        patch_artist=True,
        medianprops={"color": "#202124", "linewidth": 1.2},
        boxprops={"facecolor": look.colour, "alpha": 0.75, "linewidth": 0.7},
        whiskerprops={"linewidth": 0.7},
        capprops={"linewidth": 0.7},
    )
    boxes["boxes"][0].set_label(place.label)


def _draw_cdf(axis: Axes, sample: series.Floats, line: dict[str, Any]) -> None:
    ordered, share = series.ecdf(sample)
    if len(ordered):
        axis.step(np.concatenate([ordered[:1], ordered]), np.concatenate([[0.0], share]), where="post", **line)


def steady(run: Run, t_s: series.Floats, values: series.Floats) -> series.Floats:
    """Return the values at times after the warm-up."""
    return values[t_s > run.warmup_s]
