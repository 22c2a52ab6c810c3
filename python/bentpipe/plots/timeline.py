"""Runs on one path over time: goodput, congestion window, RTT and queue, with slots and handovers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.plots import series, style
from bentpipe.plots.canvas import canvas
from bentpipe.runs.path import raced_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.profiles.table import Direction
    from bentpipe.runs.store import Run

LETTER_SHARE = 0.0062
"""Width of a character of the serving strip, as a share of the strip. Measured: 6.5 points in 9.2 inches."""

BIN_S = 1.0
"""Bin of drawn goodput [s]: at 100 ms a delayed ACK train already shows as a spike."""


HEIGHTS = (0.28, 1.35, 1, 1, 1)
"""Relative heights of the timeline's panels in a new figure."""


def plot_timeline(runs: Sequence[Run], *, absent: Sequence[str] = (), ax: AxesLike = None) -> Figure:
    """Plot a panel each for the path (serving satellite, loss), goodput, cwnd, RTT and backlog; one line per Run.

    Args:
        runs: Runs of one flow each over the same Profile with the same seed, and so over the same path.
        absent: Controllers whose Run with this seed is not valid; the legend names them.
        ax: Five axes to draw into, from top to bottom: path, goodput, cwnd, RTT, backlog; None: a new figure.

    Example:
        >>> from bentpipe.runs import find_runs
        >>> runs = [run for run in find_runs("out/race") if run.seed == 0 and len(run.flows) == 1]
        >>> figure = plot_timeline(runs)
    """
    with canvas(ax, 5, size_in=(9.2, 8.7), rows=5, sharex=True, height_ratios=HEIGHTS) as drawing:
        strip, *axes = drawing.axes
        mark_path(runs[0], list(axes))
        direction = runs[0].flows[0]["direction"]
        has_peak = True
        _draw_strip(strip, runs[0], direction)
        for i, run in enumerate(runs):
            controller = run.names[0]
            look = style.look(controller)
            samples, path = run.samples(), series.path_series(run.links(), direction)
            if i == 0:
                draw_capacity(axes[0], run)
            line = {
                "color": look.colour,
                "linestyle": look.line,
                "label": style.legend_name(controller),
            }
            axes[0].plot(*_scaled(series.flow_bins(run, 0, BIN_S), 1e-6), **line)
            axes[1].plot(*_scaled(series.values(samples, 0, "cwnd_bytes"), 1e-6), **line)
            axes[2].plot(*series.values(samples, 0, "rtt_smoothed_ms"), **line)
            has_peak &= path.has_peak
            axes[3].plot(path.t_s, path.backlog_bytes * 1e-3, **line)
            _draw_drops(axes[3], path, look.colour, row=i, rows=len(runs))
        for axis, title, unit in zip(
            axes,
            (
                "Goodput and capacity (1 s means)",
                "Congestion window",
                "Smoothed RTT",
                f"Backlog of the path's queues ({'peak of each second' if has_peak else 'sampled once a second'})",
            ),
            ("Goodput [Mbit/s]", "cwnd [MB]", "RTT [ms]", "Backlog [kB]"),
            strict=True,
        ):
            axis.set_title(title)
            axis.set_ylabel(unit)
            if axis is not axes[2]:  # propagation keeps the RTT far from zero
                axis.set_ylim(bottom=0)
        axes[3].set_xlabel("Time since the run began [s]")
        for axis in drawing.axes:
            axis.set_xlim(0, runs[0].duration_s)
        drawing.legend([*axes[0].get_legend_handles_labels()[0], *style.absent_handles(absent)])
    return drawing.figure


def plot_sharing(runs: Sequence[Run], *, ax: AxesLike = None) -> Figure:
    """Plot the goodput of flows that share the path over time, one panel per Run.

    Args:
        runs: Runs of equal length.
        ax: Axes to draw into, one for each Run; None: a new figure.

    Example:
        >>> from bentpipe.runs import find_runs
        >>> figure = plot_sharing([run for run in find_runs("out/race") if len(run.flows) > 1])
    """
    with canvas(ax, len(runs), size_in=(9.2, 0.9 + 2.2 * len(runs)), rows=len(runs), sharex=True) as drawing:
        axes = drawing.axes
        for axis, run in zip(axes, runs, strict=True):
            mark_path(run, [axis])
            samples = run.samples()
            draw_capacity(axis, run)
            names = run.names
            for i, (controller, number) in enumerate(zip(names, run.distinctions, strict=True)):
                look = style.look(controller)
                dashes = (0, (4, 1.5)) if controller in names[:i] else look.line
                t_s, bps = series.goodput(samples, i, BIN_S)
                axis.plot(
                    t_s, bps * 1e-6, color=look.colour, linestyle=dashes, label=style.legend_name(controller) + number
                )
            axis.set_title(style.short_command(run.scheme))
            axis.set_ylabel("Goodput [Mbit/s]")
            axis.set_ylim(bottom=0)
            axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
            axis.set_xlim(0, run.duration_s)
        axes[-1].set_xlabel("Time since the run began [s]")
    return drawing.figure


def mark_path(run: Run, axes: Sequence[Axes]) -> None:
    """Draw slot edges as thin lines in the background, handovers as triangles at the top, outages as bands."""
    handovers = series.event_times(run.events(), "handover")
    interruptions = np.concatenate([handovers, series.event_times(run.events(), "reconfiguration")])
    path = raced_path(run)
    outages = path.outages() if path is not None else []
    for axis in axes:
        for edge in series.slot_edges(run, interruptions):
            axis.axvline(edge, color=style.SLOT, linewidth=0.6, zorder=0.5)
        for i, (start, end) in enumerate(style.widened(outages, run.duration_s)):
            label = "no path" if i == 0 else ""
            axis.axvspan(start, end, color=style.OUTAGE, linewidth=0, zorder=0.4, label=label)
    top = axes[0]
    transform = top.get_xaxis_transform()
    marks: dict[str, Any] = {"clip_on": False, "linestyle": "none", "transform": transform, "zorder": 5}
    if len(handovers):
        top.plot(handovers, np.ones_like(handovers), marker="v", color=style.HANDOVER, label="handover", **marks)


def draw_capacity(axis: Axes, run: Run, given: Sequence[Direction] | None = None) -> None:
    """Draw the path's capacity in the `given` directions (None: those of the data) as grey steps of `BIN_S`."""
    path = raced_path(run)
    if path is None:
        return
    directions = given or list(dict.fromkeys(flow["direction"] for flow in run.flows))
    for i, direction in enumerate(directions):
        edges, capacity = path.capacity_bps(direction, BIN_S)
        if len(capacity) and np.isfinite(capacity).all():
            axis.stairs(
                capacity * 1e-6,
                edges,
                baseline=None,
                color=style.CAPACITY,
                linewidth=0.9,
                linestyle="--" if i else "-",
                label=f"capacity ({direction})" if len(directions) > 1 else "capacity",
                zorder=1.5,
            )


def _draw_strip(axis: Axes, run: Run, direction: Direction) -> None:
    """Draw the serving satellite's name above, and spans of random loss below."""
    path = raced_path(run)
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.grid(visible=False)
    axis.tick_params(length=0)
    axis.set_ylim(0, 2)
    if path is None:
        axis.set_yticks([])
        return
    for i, (start, end, serving) in enumerate(path.serving()):
        axis.broken_barh([(start, end - start)], (1.1, 0.8), color=style.SERVING[i % 2], linewidth=0)
        letters = (end - start) / run.duration_s / LETTER_SHARE
        # If satellite, gateway and PoP do not fit, only the satellite is named.
        if name := next((each for each in (serving, serving.split(", ")[0]) if len(each) <= letters), ""):
            axis.text((start + end) / 2, 1.5, name, ha="center", va="center", fontsize=6.5, clip_on=True)
    episodes = style.widened(path.loss_episodes(direction), run.duration_s)
    axis.broken_barh([(start, end - start) for start, end in episodes], (0.1, 0.8), color=style.LOSS, linewidth=0)
    axis.set_yticks([0.5, 1.5], ["loss", "serving"])


def _draw_drops(axis: Axes, path: series.PathSeries, colour: str, row: int, rows: int) -> None:
    """Draw a tick for every window with tail drops, one row per Run in a strip above the curves."""
    axis.margins(y=0.08 + 0.07 * rows)
    at = path.t_s[path.drops_queue > 0]
    height = 0.98 - 0.06 * row
    axis.plot(at, np.full_like(at, height), "|", color=colour, markersize=3.5, transform=axis.get_xaxis_transform())


def _scaled(line: tuple[series.Floats, series.Floats], factor: float) -> tuple[series.Floats, series.Floats]:
    return line[0], line[1] * factor
