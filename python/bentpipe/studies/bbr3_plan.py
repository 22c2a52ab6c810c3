"""Parameters of the study of BBRv3, and the quantities that it compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bentpipe.experiments.experiment import Direction
from bentpipe.studies.counterfactual import Counterfactual
from bentpipe.studies.flows import Floats, StudyRun, Track
from bentpipe.studies.scenario import HostEntry

#: Names of the two buffer sizes, first in a `Key`: (buffers, direction, city, controller). A counterfactual's Runs have
#: the default buffers, and its name in this place.
DEFAULT, RAISED = "default", "raised"
#: Parts of the study: uploads never need more than the default buffers.
PARTS: Sequence[tuple[str, Direction]] = ((DEFAULT, "up"), (DEFAULT, "down"), (RAISED, "down"))
MSS_BYTES = 1448


@dataclass(frozen=True)
class Plan:
    """Parameters of the study."""

    preset: str
    cities: Sequence[str]
    controllers: Sequence[str]
    hours: Sequence[int]
    duration_s: float
    buffers: Mapping[str, HostEntry]
    counterfactuals: Sequence[Counterfactual]

    @property
    def basis(self) -> str:
        """Where the values come from, as the tables state it."""
        return f"simulated: {len(self.hours)} × {self.duration_s:g} s"


def track_values(runs: Sequence[StudyRun], take: Callable[[Track], Floats]) -> list[Floats]:
    """Return the values of each Run's flow."""
    return [take(run.tracks[0]) for run in runs]


def take_throughput(track: Track) -> Floats:
    """Return the goodput of each second [Mbit/s]."""
    return track.goodput_bps / 1e6


def take_retransmits(track: Track) -> Floats:
    """Return the segments retransmitted in each second."""
    return track.retransmits


def take_retransmits_per_thousand(track: Track) -> Floats:
    """Return retransmissions per thousand segments of a whole test, so that flows of different goodput compare."""
    arrived = float(track.goodput_bps.sum()) / 8 / MSS_BYTES  # a sample a second
    return np.array([1000 * float(track.retransmits.sum()) / arrived]) if arrived > 0 else np.empty(0)


def take_rtt(track: Track) -> Floats:
    """Return the smoothed RTT of each second [ms]."""
    return track.rtt_ms


def take_rtt_var(track: Track) -> Floats:
    """Return the RTT variation of each second [ms]."""
    return track.rtt_var_ms


def take_cwnd(track: Track) -> Floats:
    """Return the congestion window of each second [MB]."""
    return track.cwnd_bytes / 1e6
