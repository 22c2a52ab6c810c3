"""The paths of a Network over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots.canvas import canvas
from bentpipe.profiles.path import PathView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from bentpipe._native import Profile
    from bentpipe.plots.canvas import AxesLike

MOST_POINTS = 2000
"""Largest number of points of a line: more do not show."""


def plot_network(paths: Mapping[str, Profile], *, ax: AxesLike = None) -> Figure:
    """Plot the RTT of every path over time: both one-way delays of a lone small packet.

    Args:
        paths: The Profiles by name.
        ax: Axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.profiles.presets import preset_profile
        >>> figure = plot_network({"near": preset_profile("dumbbell:rtt=20ms", 10.0)})
    """
    with canvas(ax, size_in=(9.2, 3.4)) as drawing:
        (axis,) = drawing.axes
        for name, path in paths.items():
            at_s = np.linspace(0.0, path.duration_s, MOST_POINTS, endpoint=False)
            axis.plot(at_s, PathView(path).rtt_ms(at_s), linewidth=0.9, label=name)
        axis.set_title("RTT of every path, without queues")
        axis.set_xlabel("Time since the start [s]")
        axis.set_ylabel("ms")
        axis.set_ylim(bottom=0)
        axis.legend(loc="upper right")
    return drawing.figure
