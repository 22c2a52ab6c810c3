"""Two Runs of one Experiment in one figure, as simulator and kernel: goodput and one-way delay over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from matplotlib.figure import Figure

from bentpipe.plots import series, style

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.runs import Run

BIN_S = 1.0
"""As the windows of `links` are."""


def plot_worlds(runs: Mapping[str, Run], warmup_s: float) -> Figure:
    """A column for each of two Runs of one Experiment: goodput of each flow above, one-way delay of all data below.

    Args:
        runs: By what its column is called.
        warmup_s: What the figures of the comparison leave out [s].
    """
    with style.styled():
        figure = Figure(figsize=(9.2, 3.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        for column, (title, run) in enumerate(runs.items()):
            samples = run.samples()
            names = run.names
            for i, controller in enumerate(names):
                look = style.look(controller)
                dashes = (0, (4, 1.5)) if controller in names[:i] else look.line
                t_s, bps = series.goodput(samples, i, BIN_S)
                axes[0, column].plot(
                    t_s, bps * 1e-6, color=look.colour, linestyle=dashes, label=style.legend_name(controller)
                )
            t_s, delay_ms = delay(run.links(), str(run.flows[0]["direction"]))
            axes[1, column].plot(t_s, delay_ms, color=style.DELAY)
            axes[0, column].set_title(f"{title}: goodput")
            axes[1, column].set_title(f"{title}: one-way delay")
            axes[1, column].set_xlabel("Time since the run began [s]")
            for axis in axes[:, column]:
                axis.axvspan(0, warmup_s, color=style.WARM_UP, linewidth=0, zorder=0.3)
        axes[0, 0].set_ylabel("Mbit/s")
        axes[1, 0].set_ylabel("ms")
        axes[0, 0].set_ylim(bottom=0)
        axes[1, 0].set_ylim(bottom=0)
        axes[0, 0].set_xlim(0, next(iter(runs.values())).duration_s)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def delay(links: pl.DataFrame, direction: str) -> tuple[series.Floats, series.Floats]:
    """Window by window: the time that packets spent in all hops, over the packets that came through [s], [ms]."""
    rows = (
        links.filter((pl.col("flow") < 0) & (pl.col("direction") == direction) & (pl.col("delay_n") > 0))
        .group_by("t_s")
        .agg(
            (pl.col("delay_mean_ms") * pl.col("delay_n").cast(pl.Float64)).sum().alias("spent_ms"),
            pl.col("delay_n").max().alias("packets"),
        )
        .sort("t_s")
    )
    return rows["t_s"].to_numpy(), (rows["spent_ms"] / rows["packets"]).to_numpy()
