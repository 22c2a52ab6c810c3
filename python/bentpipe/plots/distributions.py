"""Distributions over all runs of a Profile: goodput and round-trip time as CDFs, and boxes by destination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from bentpipe.plots import series, style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from bentpipe.runs import Run


def plot_cdfs(runs: Sequence[Run]) -> Figure:
    """CDFs over all seeds, after the warm-up: goodput in bins of 100 ms and of 1 s, and the latest RTT.

    Args:
        runs: Runs over one Profile; those of several flows are left out.
    """
    with style.styled():
        figure = Figure(figsize=(9.2, 3.1), layout="constrained")
        axes = figure.subplots(1, 3, sharey=True)
        for controller, group in series.by_controller(runs).items():
            look = style.look(controller)
            line = {"color": look.colour, "linestyle": look.line, "label": look.name}
            samples = [(run, run.samples()) for run in group]
            for axis, bin_s in ((axes[0], 0.1), (axes[1], 1.0)):
                bins = [_steady(run, *series.goodput(table, 0, bin_s)) for run, table in samples]
                _draw_cdf(axis, np.concatenate(bins) * 1e-6, line)
            rtt = [_steady(run, *series.values(table, 0, "rtt_latest_ms")) for run, table in samples]
            _draw_cdf(axes[2], np.concatenate(rtt), line)
        for axis, title, unit in zip(
            axes,
            ("Goodput, 100 ms bins", "Goodput, 1 s bins", "Round-trip time"),
            ("Mbit/s", "Mbit/s", "ms"),
            strict=True,
        ):
            axis.set_title(title)
            axis.set_xlabel(unit)
            axis.grid(axis="x")
        axes[0].set_xlim(left=0)
        axes[1].set_xlim(left=0)
        axes[0].set_ylabel("Share of samples at or below")
        axes[0].set_ylim(0, 1)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def plot_destinations(runs: Sequence[Run]) -> Figure:
    """Boxes of one-second values by Profile and controller: goodput, retransmits, cwnd, RTT; after the warm-up.

    A box spans the quartiles with the median in it; whiskers reach to the last value within 1.5 × the box (Tukey).
    Values further out are not drawn.
    """
    with style.styled():
        groups = series.by_controller(runs)
        labels = list(dict.fromkeys(run.label for run in runs))
        figure = Figure(figsize=(9.2, 6.2), layout="constrained")
        axes = figure.subplots(2, 2).ravel()
        measures: tuple[tuple[str, str, Callable[[Run], series.Floats]], ...] = (
            ("Goodput", "Mbit/s", lambda run: _steady(run, *series.goodput(run.samples(), 0, 1.0)) * 1e-6),
            ("Retransmits", "segments in 1 s", _retransmits),
            (
                "Congestion window",
                "MB",
                lambda run: _steady(run, *series.values(run.samples(), 0, "cwnd_bytes")) * 1e-6,
            ),
            ("Round-trip time", "ms", lambda run: _steady(run, *series.values(run.samples(), 0, "rtt_smoothed_ms"))),
        )
        for axis, (title, unit, measure) in zip(axes, measures, strict=True):
            for i, (controller, group) in enumerate(groups.items()):
                found = [
                    np.concatenate([np.empty(0), *(measure(run) for run in group if run.label == at)]) for at in labels
                ]
                _draw_boxes(axis, found, i, len(groups), style.look(controller))
            axis.set_title(title)
            axis.set_ylabel(unit)
            axis.set_ylim(bottom=0)
            axis.set_xlim(-0.6, len(labels) - 0.4)
            axis.set_xticks(range(len(labels)), labels, rotation=0 if len(labels) <= 3 else 20)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def _draw_boxes(axis: Axes, found: list[series.Floats], i: int, count: int, look: style.Look) -> None:
    width = 0.8 / count
    positions = [at - 0.4 + width * (i + 0.5) for at in range(len(found))]
    boxes = axis.boxplot(
        found,
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
    boxes["boxes"][0].set_label(look.name)


def _draw_cdf(axis: Axes, sample: series.Floats, line: dict[str, Any]) -> None:
    found, share = series.ecdf(sample)
    if len(found):
        axis.step(np.concatenate([found[:1], found]), np.concatenate([[0.0], share]), where="post", **line)


def _steady(run: Run, t_s: series.Floats, found: series.Floats) -> series.Floats:
    return found[t_s > run.warmup_s]


def _retransmits(run: Run) -> series.Floats:
    return series.per_second(run.samples(), 0, "retransmits")[int(np.ceil(run.warmup_s)) :]
