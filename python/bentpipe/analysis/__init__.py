"""Analyses of measurements: pure functions over tables.

Every function takes a Polars frame with the columns of `bentpipe.analysis.tables`, modifies nothing and reads no file.
The definitions are those of Tiwari et al., "T3P: Demystifying Low-Earth Orbit Satellite Broadband"
(arXiv:2310.11835) (section 3: latency, spikes, path segments, orientation) and Huston, "A Transport Protocol's View of
Starlink" (2024: slots, jitter, loss at handover); each function says which.

Names are imported on first use, because each analysis is independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.analysis.handovers import Handovers, analyze_handovers
    from bentpipe.analysis.latency import cdf, latency_summary
    from bentpipe.analysis.loss import LossEpisodes, loss_episodes
    from bentpipe.analysis.orientation import Orientation, orientation_maps
    from bentpipe.analysis.path import PathShares, path_segments
    from bentpipe.analysis.spikes import Spikes, latency_spikes
    from bentpipe.analysis.throughput import Throughput, throughput_series

#: Public name → the module it lives in.
_HOMES = {
    "Handovers": "bentpipe.analysis.handovers",
    "LossEpisodes": "bentpipe.analysis.loss",
    "Orientation": "bentpipe.analysis.orientation",
    "PathShares": "bentpipe.analysis.path",
    "Spikes": "bentpipe.analysis.spikes",
    "Throughput": "bentpipe.analysis.throughput",
    "analyze_handovers": "bentpipe.analysis.handovers",
    "cdf": "bentpipe.analysis.latency",
    "latency_spikes": "bentpipe.analysis.spikes",
    "latency_summary": "bentpipe.analysis.latency",
    "loss_episodes": "bentpipe.analysis.loss",
    "orientation_maps": "bentpipe.analysis.orientation",
    "path_segments": "bentpipe.analysis.path",
    "throughput_series": "bentpipe.analysis.throughput",
}

__all__ = [
    "Handovers",
    "LossEpisodes",
    "Orientation",
    "PathShares",
    "Spikes",
    "Throughput",
    "analyze_handovers",
    "cdf",
    "latency_spikes",
    "latency_summary",
    "loss_episodes",
    "orientation_maps",
    "path_segments",
    "throughput_series",
]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
