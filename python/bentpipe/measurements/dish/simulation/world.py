"""What lies behind a simulated terminal: the Profile's path and, if it was computed, the satellites that serve it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.measurements.dish.simulation.pings import Pings
from bentpipe.measurements.dish.slots import SLOT_NS, SLOT_PHASE_NS, slot_of
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.path import PathView, is_handover
from bentpipe.scenarios.ground import country_at
from bentpipe.times import SLOT_S

Floats = NDArray[np.float64]

#: Site, server and length [s] of `default_profile`. Chosen here: made in seconds, and longer than a terminal's history.
DEFAULT_PATH = ("melbourne", "melbourne", 3600.0)
#: Shortest interruption that a terminal logs as an outage [s]: the shortest in a published dump is 0.12 s
#: (NUWiNS/starlink-measurement, get_history).
LOGGED_FROM_S = 0.12
#: What a terminal calls the events of a Profile. Handovers are the outages in which the terminal switched; the most
#: frequent cause of those in the dump above is NO_SCHEDULE.
_CAUSES = {"outage": "NO_DOWNLINK", "obstruction": "OBSTRUCTED", "rain": "NO_DOWNLINK"}


@dataclass(frozen=True, slots=True)
class Loss:
    """A time without service within the Profile [s since its start], and what a terminal calls it."""

    start_s: float
    duration_s: float
    cause: str
    did_switch: bool


class World:
    """A Profile that is repeated for ever, whole slots at a time, so that slot edges stay where they are.

    Attributes:
        seconds: How much of the Profile is used: its whole slots (all whole seconds, if it has not one).
        seed: The Profile's.
        country: ISO 3166 code of where the terminal stands, by the nearest site, gateway or PoP; empty where the
            Profile does not say.
        place: Latitude, longitude [deg] and altitude [m] of the terminal; None where the Profile does not say.
        track: Azimuth and elevation of the serving satellite at each second [deg], NaN where nobody serves; shape
            (2, seconds).
        serving: Catalogue number at each second; 0 where nobody serves or nobody knows.
    """

    def __init__(self, profile: Profile, load: float = 0.05) -> None:
        """`load`: the part of the path's capacity that the terminal's users take, 0 to 1.

        Raises:
            UserError: The Profile is shorter than a second, or the load no such part.
        """
        if not 0 <= load <= 1:
            raise UserError(f"load: {load:g}; wanted 0 to 1, a part of the path's capacity")
        if profile.duration_s < 1:
            raise UserError(f"{profile.name} lasts {profile.duration_s:g} s; a simulated dish needs a second or more")
        self.profile = profile
        self._view = PathView(profile)
        whole = int(profile.duration_s)
        self.seconds = whole // SLOT_S * SLOT_S or whole
        self.start_unix_ns = profile.start_unix_ns
        self.seed = (profile.seed or 0) % 2**32
        self._pings = Pings(self._view, self.seconds, self.seed)
        self._load = load
        self._throughput = {direction: self._used(direction) for direction in ("down", "up")}
        self.losses = self._losses()
        schedule = self._schedule()
        self.place: tuple[float, float, float] | None = None
        if schedule is not None:
            site = schedule["site"]
            self.place = (site["lat_deg"], site["lon_deg"], site["alt_m"])
        self.country = "" if self.place is None else country_at(*self.place[:2])
        self.track, self.serving = self._satellites(schedule)

    def samples(self, seconds: NDArray[np.int64]) -> tuple[Floats, Floats, Floats, Floats]:
        """Drop rate, latency [ms], and throughput down and up [bit/s] in seconds since the Profile's first start."""
        within = seconds % self.seconds
        drop, latency_ms = self._pings.at(within)
        served = 1.0 - drop
        return drop, latency_ms, self._throughput["down"][within] * served, self._throughput["up"][within] * served

    def lost_between(self, start_s: float, end_s: float) -> list[tuple[float, Loss]]:
        """Losses of service that begin between two times since the first start, each with its begin."""
        found: list[tuple[float, Loss]] = []
        if not self.losses:
            return found
        for turn in range(math.floor(start_s / self.seconds), math.floor(end_s / self.seconds) + 1):
            base = turn * self.seconds
            found += [(base + loss.start_s, loss) for loss in self.losses if start_s <= base + loss.start_s < end_s]
        return found

    def lost_at(self, at_s: float) -> tuple[float, Loss] | None:
        """The loss of service that is on at a time since the first start, with its begin."""
        base = math.floor(at_s / self.seconds) * self.seconds
        for loss in self.losses:
            if loss.start_s <= at_s - base < loss.start_s + loss.duration_s:
                return base + loss.start_s, loss
        return None

    def _used(self, direction: Any) -> Floats:  # noqa: ANN401 - a Direction
        """Throughput in each second: the load's part of the mean capacity; 0 where no hop limits it."""
        capacity = self._view.capacity(direction)
        value = np.where(np.isfinite(capacity.value), capacity.value, 0.0)
        times = np.append(capacity.t_s, capacity.end_s)
        integral = np.concatenate([[0.0], np.cumsum(value * capacity.widths_s())])
        means: Floats = np.diff(np.interp(np.arange(self.seconds + 1.0), times, integral))
        return means * self._load

    def _losses(self) -> list[Loss]:
        found = [Loss(a, b - a, "NO_SATS", False) for a, b, hops in self._view.routes() if not hops]
        for event in self._view.metadata["events"]:
            length_s = event["interruption_ns"] / 1e9
            if length_s >= LOGGED_FROM_S:
                handover = is_handover(event)
                cause = "NO_SCHEDULE" if handover else _CAUSES[event["kind"]]
                found.append(Loss(event["at_ns"] / 1e9, length_s, cause, handover))
        return sorted((loss for loss in found if loss.start_s < self.seconds), key=lambda loss: loss.start_s)

    def _schedule(self) -> dict[str, Any] | None:
        recipe = self._view.metadata["provenance"]["recipe"]
        return recipe["schedule"] if isinstance(recipe, dict) and "schedule" in recipe else None

    def _satellites(self, schedule: dict[str, Any] | None) -> tuple[Floats, NDArray[np.int64]]:
        track, serving = np.full((2, self.seconds), np.nan), np.zeros(self.seconds, dtype=np.int64)
        for slot in schedule["slots"] if schedule is not None else ():
            who = slot["serving"]
            if who is None:
                continue
            first, end = math.ceil(slot["start_ns"] / 1e9), min(math.ceil(slot["end_ns"] / 1e9), self.seconds)
            if first >= end:
                continue
            at = np.arange(first, end)
            known = slot["start_ns"] / 1e9 + np.arange(len(who["azimuth_deg"])) * who["sample_step_ns"] / 1e9
            track[0, first:end] = np.interp(at, known, np.unwrap(who["azimuth_deg"], period=360.0)) % 360.0
            track[1, first:end] = np.interp(at, known, who["elevation_deg"])
            serving[first:end] = who["norad_id"]
        return track, serving


def default_profile(now_unix_ns: int, on_progress: Callable[[float], object] = lambda _: None) -> Profile:
    """The path a simulated terminal has if nobody gives one: `DEFAULT_PATH` from the last slot edge on."""
    site, to, duration_s = DEFAULT_PATH
    start = slot_of(now_unix_ns) * SLOT_NS + SLOT_PHASE_NS
    return make_profile(site, to, start_unix_ns=start, duration_s=duration_s, on_progress=on_progress)


def aligned_start(world: World, now_unix_ns: int) -> int:
    """When the Profile starts if it is to be running now, with slot edges where the network has them.

    Its own start, if now lies within it; otherwise the last moment that is whole slots away from its own start.
    """
    since = now_unix_ns - world.start_unix_ns
    if 0 <= since < world.seconds * 10**9:
        return world.start_unix_ns
    return world.start_unix_ns + since // SLOT_NS * SLOT_NS
