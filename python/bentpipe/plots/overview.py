"""Overview of a race: mean goodput of every scheme on every Profile, with confidence intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from bentpipe.errors import printable
from bentpipe.experiments.flow_names import without_folders
from bentpipe.plots import style
from bentpipe.plots.canvas import canvas
from bentpipe.runs.summary import counted, group_runs, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.runs.store import Run
    from bentpipe.runs.summary import FlowSummary, Group, LeftOut, SchemeSummary


def plot_overview(runs: Sequence[Run], *, left: Sequence[LeftOut] = (), ax: AxesLike = None) -> Figure:
    """Plot one panel per Profile, one row per scheme: goodput of each flow, mean, 95 % interval and every seed.

    Args:
        runs: Runs of one Experiment.
        left: Schemes without a valid Run: those without a Run in `runs` have a row with a note.
        ax: Axes to draw into, one for each Profile of `runs`; None: a new figure.

    Example:
        >>> from bentpipe.runs import find_runs
        >>> figure = plot_overview(find_runs("out/race"))
    """
    summaries, groups = summarise(runs), group_runs(runs)
    labels = list(dict.fromkeys(summary.profile for summary in summaries))
    absent = {label: _absent(label, summaries, left) for label in labels}
    rows = max(sum(summary.profile == label for summary in summaries) + len(absent[label]) for label in labels)
    size_in = (9.2, 0.75 + len(labels) * (0.55 + 0.3 * rows))
    with canvas(ax, len(labels), size_in=size_in, rows=len(labels), sharex=True) as drawing:
        axes = drawing.axes
        for axis, label in zip(axes, labels, strict=True):
            shown = [summary for summary in summaries if summary.profile == label]
            for y, summary in enumerate(shown):
                for i, flow in enumerate(summary.flows):
                    spread = 0.22 * (i - (len(summary.flows) - 1) / 2)
                    _draw_estimate(axis, flow, y + spread)
                    seeds = counted(groups[summary.group])
                    if len(seeds) > 1:
                        rates = [run.flows[i]["goodput_bps"] for run in seeds]
                        goodput = [rate * 1e-6 for rate in rates if rate is not None]
                        colour = style.look(flow.controller).colour
                        axis.plot(goodput, [y + spread] * len(goodput), "|", color=colour, markersize=7, alpha=0.8)
            names = [*_names(shown, groups), *absent[label]]
            for y in range(len(shown), len(names)):
                place = axis.get_yaxis_transform()
                axis.text(0.01, y, "no valid Run", transform=place, color=style.DELAY, fontsize=8, va="center")
            axis.set_title(label)
            axis.set_yticks(range(len(names)), [printable(style.short_command(name)) for name in names])
            axis.set_ylim(len(names) - 0.45, -0.55)
            axis.grid(axis="x")
            axis.grid(visible=False, axis="y")
        # Set after drawing, with room for a marker: margins are relative to the data's span, which may be 0.
        end = 1.03 * max(axis.get_xlim()[1] for axis in axes)
        for axis in axes:
            axis.set_xlim(0, end)
        axes[-1].set_xlabel("Goodput [Mbit/s]: mean over seeds, 95 % confidence interval; ticks: each seed")
        controllers = dict.fromkeys(flow.controller for summary in summaries for flow in summary.flows)
        handles = [_handle(controller) for controller in controllers]
        drawing.legend(handles)
    return drawing.figure


def _names(summaries: Sequence[SchemeSummary], groups: Mapping[Group, Sequence[Run]]) -> list[str]:
    """Return the schemes, with Experiment and world if there are several."""
    settings = [groups[summary.group][0].settings for summary in summaries]
    among = [summary.scheme for summary in groups]
    experiments = [own or summary.experiment for own, summary in zip(settings, summaries, strict=True)]
    has_experiment = len(set(experiments)) > 1
    has_world = len({summary.group.world for summary in summaries}) > 1
    return [
        ", ".join(
            [
                without_folders(summary.scheme, among),
                *([experiment] if has_experiment else []),
                *([summary.group.world] if has_world and not own else []),
            ]
        )
        for summary, experiment, own in zip(summaries, experiments, settings, strict=True)
    ]


def _absent(label: str, summaries: Sequence[SchemeSummary], left: Sequence[LeftOut]) -> list[str]:
    among = [*(each.scheme for each in summaries), *(each.scheme for each in left)]
    present = {summary.scheme for summary in summaries if summary.profile == label}
    absent = [each.scheme for each in left if each.profile == label and each.whole and each.scheme not in present]
    return [without_folders(scheme, among) for scheme in absent]


def _draw_estimate(axis: Axes, flow: FlowSummary, y: float) -> None:
    look, estimate = style.look(flow.controller), flow.goodput_bps
    if estimate is None:
        return
    if estimate.low is not None and estimate.high is not None:
        axis.plot([estimate.low * 1e-6, estimate.high * 1e-6], [y, y], color=look.colour, linewidth=2.2, alpha=0.45)
    axis.plot(estimate.mean * 1e-6, y, marker=look.marker, color=look.colour, linestyle="none", markersize=6)


def _handle(controller: str) -> Line2D:
    look = style.look(controller)
    label = style.legend_name(controller)
    return Line2D([], [], color=look.colour, marker=look.marker, linewidth=2.2, label=label)
