"""A Profile seen end to end: what the hops in use offer together, as stepped series over time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bentpipe._native import Profile
from bentpipe.profiles.build import Points
from bentpipe.profiles.table import DIRECTIONS, KINDS, Direction

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """A value that holds from each time to the next, the last one to `end_s`.

    Attributes:
        t_s: Increasing times [s since the start], the first 0.
        value: As many values.
        end_s: The Profile's duration [s].
    """

    t_s: Floats
    value: Floats
    end_s: float

    def widths_s(self) -> Floats:
        """How long each value holds [s]."""
        return np.diff(self.t_s, append=self.end_s)

    def cumulative(self) -> tuple[Floats, Floats]:
        """Times (with the end) and the integral of the value from 0 to each of them."""
        return np.append(self.t_s, self.end_s), np.concatenate([[0.0], np.cumsum(self.value * self.widths_s())])

    def means(self, edges_s: Floats) -> Floats:
        """The mean value between neighbouring `edges_s` (increasing, within the span)."""
        times, integral = self.cumulative()
        between: Floats = np.diff(np.interp(edges_s, times, integral)) / np.diff(edges_s)
        return between

    def mean(self) -> float:
        """The mean over the whole span."""
        return float(np.average(self.value, weights=self.widths_s()))

    def quantiles(self, q: list[float]) -> Floats:
        """Values not exceeded for the fractions `q` of the time."""
        order = np.argsort(self.value, kind="stable")
        held = np.cumsum(self.widths_s()[order])
        places = np.searchsorted(held, np.asarray(q) * held[-1] * (1 - 1e-12))
        picked: Floats = self.value[order][np.minimum(places, len(order) - 1)]
        return picked


class PathView:
    """End-to-end series of a Profile.

    Attributes:
        metadata: The Profile's metadata, decoded; see ``docs/reference/profile-format.md``.
        duration_s: How long it lasts [s].
    """

    def __init__(self, profile: Profile) -> None:
        """Takes `profile` apart into its series, once."""
        self.profile = profile
        self.metadata: dict[str, Any] = json.loads(profile.metadata_json())
        self.duration_s = profile.duration_s
        table = profile.table()
        code = (table["hop"].astype(np.int64) * 2 + table["direction"]) * len(KINDS) + table["kind"]
        # The table is sorted by hop, direction, kind and time: a series is a slice of it.
        cuts = [0, *(np.flatnonzero(np.diff(code)) + 1), len(code)]
        self._series = {
            int(code[a]): Points(table["t_s"][a:b], table["value"][a:b], table["valid"][a:b]) for a, b in pairwise(cuts)
        }
        self._interruptions: dict[int, list[tuple[float, float]]] = {}
        for event in self.metadata["events"]:
            if event["interruption_ns"] > 0:
                start = event["at_ns"] / 1e9
                end = min(start + event["interruption_ns"] / 1e9, self.duration_s)
                self._interruptions.setdefault(_struck(event), []).append((start, end))

    def points(self, hop: int, direction: Direction, kind: str) -> Points | None:
        """One series as it stands in the Profile; None if the hop has none of that kind."""
        return self._series.get((hop * 2 + DIRECTIONS.index(direction)) * len(KINDS) + KINDS.index(kind))

    def routes(self) -> list[tuple[float, float, list[int]]]:
        """From when [s], to when [s], and the hops in use; an empty list of hops is no path."""
        entries = self.metadata["routes"]
        starts = [entry["at_ns"] / 1e9 for entry in entries]
        ends = [*starts[1:], self.duration_s]
        return [(a, b, entry["hops"]) for a, b, entry in zip(starts, ends, entries, strict=True) if b > a]

    def interruptions(self, hop: int) -> list[tuple[float, float]]:
        """When `hop` sends nothing: from and to [s].

        A handover interrupts the hop taken, any other event the hop it strikes.
        """
        return self._interruptions.get(hop, [])

    def handovers(self) -> list[dict[str, Any]]:
        """The events of the metadata's kind handover: the path `moves` to another hop, or is reconfigured and stays."""
        return [event for event in self.metadata["events"] if is_handover(event)]

    def capacity(self, direction: Direction) -> Steps:
        """The smallest capacity along the path [bit/s].

        Infinite where no hop limits it, 0 where there is no path or a hop in use is interrupted.
        """

        def combine(hops: list[int], at: Floats) -> Floats:
            limit = np.full(at.shape, np.inf)
            for hop in hops:
                points = self.points(hop, direction, "capacity_bps")
                if points is not None:
                    limit = np.minimum(limit, held(points.t_s, points.value, at))
                for start, end in self.interruptions(hop):
                    limit[np.searchsorted(at, start) : np.searchsorted(at, end)] = 0.0
            return limit if hops else np.zeros(at.shape)

        return self._steps(direction, ["capacity_bps"], combine, interruptions=True)

    def loss(self, direction: Direction) -> Steps:
        """The probability that a packet passing now is lost on some hop; 1 where there is no path."""

        def combine(hops: list[int], at: Floats) -> Floats:
            kept = np.ones(at.shape)
            for hop in hops:
                points = self.points(hop, direction, "loss_probability")
                if points is not None:
                    kept *= 1.0 - held(points.t_s, points.value, at)
            return 1.0 - kept if hops else np.ones(at.shape)

        return self._steps(direction, ["loss_probability"], combine)

    def valid(self, direction: Direction) -> Steps:
        """1 where every series in use is known, 0 in gaps."""
        kinds = ["delay_s", "capacity_bps", "loss_probability"]

        def combine(hops: list[int], at: Floats) -> Floats:
            known = np.ones(at.shape)
            for hop in hops:
                for kind in kinds:
                    points = self.points(hop, direction, kind)
                    if points is not None:
                        known *= held(points.t_s, points.valid.astype(np.float64), at)
            return known

        return self._steps(direction, kinds, combine)

    def rtt_ms(self, t_s: Floats) -> Floats:
        """RTT of a lone small packet sent at `t_s` from the terminal [ms]; NaN where there is no path.

        It turns round at once; past the Profile's end the last delay holds.
        """
        up = self.profile.delay_ms("up", t_s)
        back_s = np.minimum(t_s + np.nan_to_num(up) / 1e3, self.duration_s)
        total: Floats = up + self.profile.delay_ms("down", back_s)
        return total

    def _steps(
        self,
        direction: Direction,
        kinds: list[str],
        combine: Callable[[list[int], Floats], Floats],
        *,
        interruptions: bool = False,
    ) -> Steps:
        """`combine` of the hops in use, evaluated wherever one of their series of `kinds` or the route changes."""
        times, values = [], []
        for start, end, hops in self.routes():
            series = [
                points for hop in hops for kind in kinds if (points := self.points(hop, direction, kind)) is not None
            ]
            changes = [_inside(points.t_s, start, end) for points in series]
            if interruptions:
                edges = np.sort([edge for hop in hops for pair in self.interruptions(hop) for edge in pair])
                changes.append(_inside(edges, start, end))
            at = np.unique(np.concatenate([[start], *changes]))
            times.append(at)
            values.append(combine(hops, at))
        return Steps(np.concatenate(times), np.concatenate(values), self.duration_s)


def is_handover(event: Mapping[str, Any]) -> bool:
    """Whether an event of the metadata is a handover (the other kinds are plain words)."""
    return isinstance(event["kind"], dict) and "handover" in event["kind"]


def moves(event: Mapping[str, Any]) -> bool:
    """Whether an event of that kind takes the path to another hop; else it is a reconfiguration: the path stays."""
    return bool(event["kind"]["handover"]["to_hop"] != event["hop"])


def _struck(event: Mapping[str, Any]) -> int:
    return int(event["kind"]["handover"]["to_hop"] if is_handover(event) else event["hop"])


def _inside(t_s: Floats, start_s: float, end_s: float) -> Floats:
    """Those of the sorted times that lie between the two, both left out."""
    return t_s[np.searchsorted(t_s, start_s, side="right") : np.searchsorted(t_s, end_s)]


def held(t_s: Floats, value: Floats, at_s: Floats) -> Floats:
    """The stepped series' value at each of `at_s`; before its first point, the first value."""
    picked: Floats = value[np.maximum(np.searchsorted(t_s, at_s, side="right") - 1, 0)]
    return picked


def most_capacity_bps(profile: Profile) -> float:
    """Most that a direction has at any time [bit/s]; 0 where nothing limits it."""
    path = PathView(profile)
    limits = [path.capacity(direction).value for direction in DIRECTIONS]
    return max(float(limit[np.isfinite(limit)].max(initial=0.0)) for limit in limits)
