"""Figures of Measurements: each is a method that takes the axes to draw into and returns the Figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.analysis.tables import only_series
from bentpipe.plots.analysis import plot_handovers, plot_latency
from bentpipe.plots.analysis_episodes import plot_loss, plot_spikes
from bentpipe.plots.analysis_maps import plot_orientation, plot_path, plot_throughput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bentpipe.analysis.tables import Series
    from bentpipe.objects.measurement import Measurement
    from bentpipe.plots.canvas import AxesLike


class MeasurementPlots:
    """Figures of a `Measurement`, one for each analysis.

    `ax` of every method is one or several Matplotlib axes, as many as the figure has panels; None: a new figure.

    Example:
        >>> import bentpipe as bp
        >>> figure = bp.read("ping.txt").plot.latency()
        >>> figure.savefig("latency.png")
    """

    def __init__(self, measurement: Measurement) -> None:
        """Take the Measurement."""
        self._measurement = measurement

    def latency(self, *, ax: AxesLike = None) -> Figure:
        """Plot the distributions of RTTs, one line for each site, target and kind of probe."""
        return plot_latency(self._measurement.latency_cdf(), ax=ax)

    def handovers(self, *, ax: AxesLike = None) -> Figure:
        """Plot RTTs over some slots with their edges, and all slots folded (two axes)."""
        return plot_handovers(self._series(), self._measurement.handovers(), ax=ax)

    def spikes(self, *, ax: AxesLike = None) -> Figure:
        """Plot RTTs over time with the spikes."""
        period_s = self._measurement.handovers().period_s
        return plot_spikes(self._series(), self._measurement.spikes(), period_s=period_s, ax=ax)

    def loss(self, *, ax: AxesLike = None) -> Figure:
        """Plot the loss episodes."""
        period_s = self._measurement.handovers().period_s
        return plot_loss(self._series(), self._measurement.loss(), period_s=period_s, ax=ax)

    def path(self, *, ax: AxesLike = None) -> Figure:
        """Plot the delay of each path segment."""
        return plot_path(self._measurement.path(), ax=ax)

    def orientation(self, *, ax: AxesLike = None) -> Figure:
        """Plot the terminal's orientations and its latency at each."""
        return plot_orientation(self._measurement.orientation(), ax=ax)

    def throughput(self, *, zone: str = "UTC", ax: AxesLike = None) -> Figure:
        """Plot speed tests over months and hours; `zone` is the terminal's time zone."""
        return plot_throughput(self._measurement.throughput(zone), ax=ax)

    def _series(self) -> Series:
        return only_series(self._measurement._table("probes").table)
