"""The path that a Run met: its Profile as drawn with its seed, seen through the window of the Run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import UserError
from bentpipe.profiles.parquet import read_profile
from bentpipe.profiles.path import PathView, changes_hop, is_handover
from bentpipe.runs.profiles import profile_file
from bentpipe.runs.work import Base

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from bentpipe.profiles.table import Direction
    from bentpipe.runs.store import Run

    Floats = NDArray[np.float64]
    Spans = list[tuple[float, float]]

KEPT = 16
"""Profiles kept in memory at once. Chosen here: all seeds of one path in a usual race; ten minutes of a path take some
megabytes."""


@dataclass(frozen=True)
class RacedPath:
    """What the path did while a Run lasted; times are seconds since the Run began."""

    view: PathView
    offset_s: float
    duration_s: float

    def capacity_bps(self, direction: Direction, bin_s: float) -> tuple[Floats, Floats]:
        """Edges of whole bins of `bin_s` [s] and the mean capacity between them [bit/s].

        The mean of the narrowest hop's capacity, with nothing while a hop is interrupted or there is no path: what the
        path could have carried in the bin. Infinite where no hop limits it.
        """
        edges: Floats = np.arange(int(self.duration_s / bin_s + 1e-6) + 1, dtype=np.float64) * bin_s
        capacity = self.view.capacity(direction)
        if not np.isfinite(capacity.value).all():
            return edges, np.full(max(len(edges) - 1, 0), np.inf)
        return edges, capacity.means(np.minimum(edges + self.offset_s, self.view.duration_s))

    def limited(self, direction: Direction) -> bool:
        """Whether some hop limits it at every moment."""
        return bool(np.isfinite(self.view.capacity(direction).value).all())

    def handovers(self) -> Floats:
        """When another satellite or gateway took over [s].

        As in the Run's events, one whose interruption began earlier and lasts into the Run counts from its beginning.
        """
        return self._begun([event for event in self.view.handovers() if changes_hop(event)])

    def reconfigurations(self) -> Floats:
        """When the path was reconfigured and stayed where it was [s]; otherwise as `handovers`."""
        return self._begun([event for event in self.view.handovers() if not changes_hop(event)])

    def outages(self) -> Spans:
        """From when to when nothing could pass [s]: no hop in use, or one struck by an outage, obstruction or rain."""
        no_path = [(start, end) for start, end, hops in self.view.routes() if not hops]
        struck = [
            (event["at_ns"] / 1e9, (event["at_ns"] + event["interruption_ns"]) / 1e9)
            for event in self.view.metadata["events"]
            if not is_handover(event) and event["interruption_ns"] > 0
        ]
        return self._within([*no_path, *struck])

    def serving(self) -> list[tuple[float, float, str]]:
        """From when [s], to when [s], and the hops in use that others take turns with: satellite, gateway, PoP by name.

        A path that stays the same has its first hop; no path is ``–``.
        """
        names = [str(hop["name"]) for hop in self.view.metadata["hops"]]
        routes = [
            (max(start - self.offset_s, 0.0), min(end - self.offset_s, self.duration_s), hops)
            for start, end, hops in self.view.routes()
            if end > self.offset_s and start < self.offset_s + self.duration_s
        ]
        always = set.intersection(*(set(hops) for _, _, hops in routes if hops)) if any(r[2] for r in routes) else set()
        told = [
            (start, end, [hop for hop in hops if hop not in always] or hops[:1], bool(hops))
            for start, end, hops in routes
        ]
        return [
            (start, end, ", ".join(names[hop] for hop in hops) if there else "–") for start, end, hops, there in told
        ]

    def no_path_s(self) -> float:
        """How long nothing could pass [s]."""
        return sum(end - start for start, end in self.outages())

    def loss_episodes(self, direction: Direction) -> Spans:
        """From when to when packets were lost at random on the way [s], outages left out."""
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
        found: Floats = np.maximum(at, 0.0)[((at >= 0) | (until > 0)) & (at < self.duration_s)]
        return found

    def _within(self, spans: Iterable[tuple[float, float]]) -> Spans:
        """Those parts of spans of the Profile that lie in the Run, neighbours as one."""
        found: Spans = []
        for begin, finish in sorted(spans):
            start, end = max(begin - self.offset_s, 0.0), min(finish - self.offset_s, self.duration_s)
            if found and start <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            elif end > start:
                found.append((start, end))
        return found


def raced_path(run: Run) -> RacedPath | None:
    """The path of a Run over one Profile, from the copy that is kept beside it; None where that is gone or another.

    None too for a program that ran longer than the Profile: what it met is no part of one passage.
    """
    if len(run.record["profiles"]) != 1 or len(run.path.parents) < 4:
        return None
    profile = run.record["profiles"][0]
    file = profile_file(run.path.parents[3], str(profile["label"]))
    hashes = str(profile["base_hash"]), str(profile["hash"])
    if not file.is_file():
        return None
    try:
        view = _view(file, *hashes, run.seed)
    except UserError:
        return None
    if "program" in run.record and run.offset_s + run.duration_s > view.duration_s:
        return None
    return RacedPath(view, run.offset_s, run.duration_s)


@lru_cache(maxsize=KEPT)
def _view(file: Path, given: str, drawn: str, seed: int) -> PathView:
    """Raises `UserError` where there is none: what is raised is not cached, and the file may be there next time."""
    profile = read_profile(file)
    if profile.content_hash() != given:
        raise UserError(f"{file}: another Profile than the one that was raced")
    met = Base("path", file.stem, profile, given).drawn(seed)
    if met.content_hash() != drawn:
        raise UserError(f"{file}: this build draws another path from seed {seed}")
    return PathView(met)
