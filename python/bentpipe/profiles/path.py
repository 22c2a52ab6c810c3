"""End-to-end series of a Profile over time: capacity, loss and RTT over all hops in use."""

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
    """A step function of time: each value holds until the next time, the last one until `end_s`.

    Attributes:
        t_s: Increasing times [s since the start], the first 0.
        value: One value for each time.
        end_s: The Profile's duration [s].
    """

    t_s: Floats
    value: Floats
    end_s: float

    def widths_s(self) -> Floats:
        """Return how long each value holds [s]."""
        return np.diff(self.t_s, append=self.end_s)

    def cumulative(self) -> tuple[Floats, Floats]:
        """Return the times, with the end, and the integral of the value from 0 to each of them."""
        return np.append(self.t_s, self.end_s), np.concatenate([[0.0], np.cumsum(self.value * self.widths_s())])

    def means(self, edges_s: Floats) -> Floats:
        """Return the mean value between neighbouring `edges_s` [s], which increase and lie within the span."""
        times, integral = self.cumulative()
        between: Floats = np.diff(np.interp(edges_s, times, integral)) / np.diff(edges_s)
        return between

    def mean(self) -> float:
        """Return the mean over the whole span."""
        return float(np.average(self.value, weights=self.widths_s()))

    def quantiles(self, q: list[float]) -> Floats:
        """Return the values that are not exceeded for the fractions `q` of the time."""
        order = np.argsort(self.value, kind="stable")
        elapsed = np.cumsum(self.widths_s()[order])
        places = np.searchsorted(elapsed, np.asarray(q) * elapsed[-1] * (1 - 1e-12))
        picked: Floats = self.value[order][np.minimum(places, len(order) - 1)]
        return picked


class PathView:
    """End-to-end series of a Profile: capacity, loss, RTT, routes and handovers over time.

    Attributes:
        profile: The Profile.
        metadata: The decoded metadata of the Profile; see ``docs/reference/profile-format.md``.
        duration_s: Duration [s].

    Example:
        >>> import numpy as np
        >>> from bentpipe.profiles import preset_profile
        >>> view = PathView(preset_profile("dumbbell:rate=100mbit,rtt=40ms", 60.0))
        >>> view.capacity("down").mean() / 1e6
        100.0
        >>> view.rtt_ms(np.array([1.0])).tolist()
        [40.0]
    """

    def __init__(self, profile: Profile) -> None:
        """Split `profile` into its series."""
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
                self._interruptions.setdefault(_interrupted_hop(event), []).append((start, end))

    def points(self, hop: int, direction: Direction, kind: str) -> Points | None:
        """Return one series of a hop as stored in the Profile; None if the hop has none of that kind."""
        return self._series.get((hop * 2 + DIRECTIONS.index(direction)) * len(KINDS) + KINDS.index(kind))

    def routes(self) -> list[tuple[float, float, list[int]]]:
        """Return begin [s], end [s] and hops in use of each route; an empty list of hops is no path."""
        entries = self.metadata["routes"]
        starts = [entry["at_ns"] / 1e9 for entry in entries]
        ends = [*starts[1:], self.duration_s]
        return [(a, b, entry["hops"]) for a, b, entry in zip(starts, ends, entries, strict=True) if b > a]

    def interruptions(self, hop: int) -> list[tuple[float, float]]:
        """Return begin and end [s] of each time in which `hop` sends nothing.

        A handover interrupts the new hop; any other event interrupts its own hop.
        """
        return self._interruptions.get(hop, [])

    def handovers(self) -> list[dict[str, Any]]:
        """Return the events of kind handover: changes of hop (`changes_hop`) and reconfigurations without one."""
        return [event for event in self.metadata["events"] if is_handover(event)]

    def capacity(self, direction: Direction) -> Steps:
        """Return the smallest capacity along the path [bit/s].

        It is infinite where no hop has a limit, and 0 where there is no path or a hop in use is interrupted.
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
        """Return the probability that some hop loses a packet that passes now; 1 where there is no path."""

        def combine(hops: list[int], at: Floats) -> Floats:
            delivered = np.ones(at.shape)
            for hop in hops:
                points = self.points(hop, direction, "loss_probability")
                if points is not None:
                    delivered *= 1.0 - held(points.t_s, points.value, at)
            return 1.0 - delivered if hops else np.ones(at.shape)

        return self._steps(direction, ["loss_probability"], combine)

    def service(self, direction: Direction) -> Steps:
        """Return 1 where packets can pass: there is a path with a capacity above 0 and a loss below 1; elsewhere 0."""
        capacity, loss = self.capacity(direction), self.loss(direction)
        t_s = np.union1d(capacity.t_s, loss.t_s)
        passes = (held(capacity.t_s, capacity.value, t_s) > 0) & (held(loss.t_s, loss.value, t_s) < 1)
        return Steps(t_s, passes.astype(np.float64), self.duration_s)

    def valid(self, direction: Direction) -> Steps:
        """Return 1 where every series in use is known, and 0 in gaps."""
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
        """Return the RTT [ms] of a lone small packet that leaves the terminal at each of `t_s` [s]; NaN: no path.

        The far end replies at once. After the end of the Profile the last delay holds.
        """
        up = self.profile.delay_ms("up", t_s)
        reply_s = np.minimum(t_s + np.nan_to_num(up) / 1e3, self.duration_s)
        total: Floats = up + self.profile.delay_ms("down", reply_s)
        return total

    def _steps(
        self,
        direction: Direction,
        kinds: list[str],
        combine: Callable[[list[int], Floats], Floats],
        *,
        interruptions: bool = False,
    ) -> Steps:
        """Evaluate `combine` for the hops in use at each change of the route or of a series of `kinds`."""
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
    """Return whether an event of the metadata is a handover (other kinds are strings)."""
    return isinstance(event["kind"], dict) and "handover" in event["kind"]


def changes_hop(event: Mapping[str, Any]) -> bool:
    """Return whether a handover changes the hop; otherwise it is a reconfiguration of the same hop."""
    return bool(event["kind"]["handover"]["to_hop"] != event["hop"])


def _interrupted_hop(event: Mapping[str, Any]) -> int:
    return int(event["kind"]["handover"]["to_hop"] if is_handover(event) else event["hop"])


def _inside(t_s: Floats, start_s: float, end_s: float) -> Floats:
    """Return the sorted times that lie strictly between two times."""
    return t_s[np.searchsorted(t_s, start_s, side="right") : np.searchsorted(t_s, end_s)]


def held(t_s: Floats, value: Floats, at_s: Floats) -> Floats:
    """Return the value of a step series at each of `at_s`; before the first point, the first value."""
    picked: Floats = value[np.maximum(np.searchsorted(t_s, at_s, side="right") - 1, 0)]
    return picked


def max_capacity_bps(profile: Profile) -> float:
    """Return the largest capacity of either direction at any time [bit/s]; 0 if there is no limit."""
    path = PathView(profile)
    limits = [path.capacity(direction).value for direction in DIRECTIONS]
    return max(float(limit[np.isfinite(limit)].max(initial=0.0)) for limit in limits)
