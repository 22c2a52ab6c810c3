"""The path of a Run: its Profile as realised with its seed, within the Run's time window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import UserError
from bentpipe.profiles.path import PathView, changes_hop, is_handover
from bentpipe.runs.memory import MemoryRun
from bentpipe.runs.profiles import read_given, stored_profile
from bentpipe.runs.work import Base

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from bentpipe.profiles.table import Direction
    from bentpipe.runs.store import Run

    Floats = NDArray[np.float64]
    Spans = list[tuple[float, float]]

CACHED_PROFILES = 16
"""Largest number of Profiles in memory. Chosen here: all seeds of one path in a usual race. Ten minutes of a path take
some megabytes."""


@dataclass(frozen=True)
class RacedPath:
    """The path during a Run; times are seconds since the Run began."""

    view: PathView
    offset_s: float
    duration_s: float

    def capacity_bps(self, direction: Direction, bin_s: float) -> tuple[Floats, Floats]:
        """Return the edges of whole bins of `bin_s` [s] and the mean capacity in each [bit/s].

        It is the mean of the bottleneck hop's capacity, 0 while a hop is interrupted or there is no path. Infinite if
        no hop limits the path.
        """
        edges: Floats = np.arange(int(self.duration_s / bin_s + 1e-6) + 1, dtype=np.float64) * bin_s
        capacity = self.view.capacity(direction)
        if not np.isfinite(capacity.value).all():
            return edges, np.full(max(len(edges) - 1, 0), np.inf)
        return edges, capacity.means(np.minimum(edges + self.offset_s, self.view.duration_s))

    def limited(self, direction: Direction) -> bool:
        """Tell whether some hop limits the capacity at all times."""
        return bool(np.isfinite(self.view.capacity(direction).value).all())

    def handovers(self) -> Floats:
        """Return the times at which satellite or gateway changes [s].

        As in the Run's events, a handover whose interruption began earlier and lasts into the Run counts at 0 s.
        """
        return self._begun([event for event in self.view.handovers() if changes_hop(event)])

    def reconfigurations(self) -> Floats:
        """Return the times of reconfigurations without handover [s]; otherwise as `handovers`."""
        return self._begun([event for event in self.view.handovers() if not changes_hop(event)])

    def outages(self) -> Spans:
        """Return the spans without a path [s]: no hop in use, or one interrupted by an outage, obstruction or rain."""
        no_path = [(start, end) for start, end, hops in self.view.routes() if not hops]
        struck = [
            (event["at_ns"] / 1e9, (event["at_ns"] + event["interruption_ns"]) / 1e9)
            for event in self.view.metadata["events"]
            if not is_handover(event) and event["interruption_ns"] > 0
        ]
        return self._within([*no_path, *struck])

    def serving(self) -> list[tuple[float, float, str]]:
        """Return spans [s] with the names of the hops in use that change over the Run: satellite, gateway, PoP.

        A path that never changes has its first hop; no path is ``–``.
        """
        names = [str(hop["name"]) for hop in self.view.metadata["hops"]]
        routes = [
            (max(start - self.offset_s, 0.0), min(end - self.offset_s, self.duration_s), hops)
            for start, end, hops in self.view.routes()
            if end > self.offset_s and start < self.offset_s + self.duration_s
        ]
        always = set.intersection(*(set(hops) for _, _, hops in routes if hops)) if any(r[2] for r in routes) else set()
        spans = [
            (start, end, [hop for hop in hops if hop not in always] or hops[:1], bool(hops))
            for start, end, hops in routes
        ]
        return [
            (start, end, ", ".join(names[hop] for hop in hops) if has_path else "–")
            for start, end, hops, has_path in spans
        ]

    def no_path_s(self) -> float:
        """Return the total time without a path [s]."""
        return sum(end - start for start, end in self.outages())

    def loss_episodes(self, direction: Direction) -> Spans:
        """Return the spans of random loss [s], without outages."""
        loss = self.view.loss(direction)
        ends = np.append(loss.t_s[1:], loss.end_s)
        unusable = [(start, end) for start, end, hops in self.view.routes() if not hops]
        lossy = [
            (float(start), float(end))
            for start, end, value in zip(loss.t_s, ends, loss.value, strict=True)
            if value > 0 and not any(a <= start < b for a, b in unusable)
        ]
        return self._within(lossy)

    def _begun(self, events: Sequence[Mapping[str, Any]]) -> Floats:
        at = np.array([event["at_ns"] / 1e9 - self.offset_s for event in events])
        until = at + np.array([event["interruption_ns"] / 1e9 for event in events])
        begun: Floats = np.maximum(at, 0.0)[((at >= 0) | (until > 0)) & (at < self.duration_s)]
        return begun

    def _within(self, spans: Iterable[tuple[float, float]]) -> Spans:
        """Clip spans of the Profile to the Run and merge neighbours."""
        clipped: Spans = []
        for begin, finish in sorted(spans):
            start, end = max(begin - self.offset_s, 0.0), min(finish - self.offset_s, self.duration_s)
            if clipped and start <= clipped[-1][1]:
                clipped[-1] = (clipped[-1][0], max(end, clipped[-1][1]))
            elif end > start:
                clipped.append((start, end))
        return clipped


def raced_path(run: Run) -> RacedPath | None:
    """Return the path of a Run over one Profile, from the Profile stored beside it; None if that is missing or differs.

    Also None for a program that ran longer than the Profile, because the Profile was then repeated.
    """
    if len(run.record.profiles) != 1:
        return None
    view = _view_of(run.bases[0], run.seed) if isinstance(run, MemoryRun) else _stored_view(run)
    if view is None or (run.record.program is not None and run.offset_s + run.duration_s > view.duration_s):
        return None
    return RacedPath(view, run.offset_s, run.duration_s)


def _stored_view(run: Run) -> PathView | None:
    if len(run.path.parents) < 4:
        return None
    profile = run.record.profiles[0]
    file = stored_profile(run.path.parents[3], profile.label)
    if file is None:
        return None
    try:
        return _view(file, profile.role, profile.base_hash, profile.hash, run.seed)
    except UserError:
        return None


@lru_cache(maxsize=CACHED_PROFILES)
def _view_of(base: Base, seed: int) -> PathView:
    """Return the path that a seed realises, cached."""
    return PathView(base.drawn(seed))


@lru_cache(maxsize=CACHED_PROFILES)
def _view(file: Path, role: str, given: str, drawn: str, seed: int) -> PathView:
    """Return the realised path, cached. Raises `UserError` if there is none; exceptions are not cached."""
    base = read_given(file)(role)
    if base.hash != given:
        raise UserError("another Profile than the one that was raced", where=str(file))
    realised = base.drawn(seed)
    if realised.content_hash() != drawn:
        raise UserError(f"this build draws another path from seed {seed}", where=str(file))
    return PathView(realised)
