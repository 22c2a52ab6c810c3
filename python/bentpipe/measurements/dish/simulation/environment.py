"""Environment of a simulated terminal: the path of a Profile and, if it was computed, the serving satellites."""

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

#: Site, server and length [s] of `default_profile`. Chosen here: computed in seconds, longer than a terminal's history.
DEFAULT_PATH = ("melbourne", "melbourne", 3600.0)
#: Shortest interruption that a terminal logs as an outage [s]: the shortest in a published dump is 0.12 s
#: (NUWiNS/starlink-measurement, get_history).
LOGGED_FROM_S = 0.12
#: Outage cause of each kind of event. Handovers are the outages in which the satellite changed; the most
#: frequent cause of those in the dump above is NO_SCHEDULE.
_CAUSES = {"outage": "NO_DOWNLINK", "obstruction": "OBSTRUCTED", "rain": "NO_DOWNLINK"}


@dataclass(frozen=True, slots=True)
class ServiceLoss:
    """A time without service within the Profile [s since its start], with the terminal's outage cause."""

    start_s: float
    duration_s: float
    cause: str
    did_switch: bool


class DishEnvironment:
    """A Profile that repeats for ever in whole slots, so that slot edges keep their phase.

    Attributes:
        seconds: Used part of the Profile [s]: its whole slots (all whole seconds, if it is shorter than a slot).
        seed: Seed of the Profile.
        country: ISO 3166 code at the terminal, by the nearest site, gateway or PoP; empty if the place is unknown.
        place: Latitude, longitude [deg] and altitude [m] of the terminal; None if unknown.
        track: Azimuth and elevation of the serving satellite at each second [deg], NaN if none serves; shape
            (2, seconds).
        serving: Catalogue number of the serving satellite at each second; 0 if none serves or it is unknown.
    """

    def __init__(self, profile: Profile, load: float = 0.05) -> None:
        """`load`: share of the path's capacity that the terminal's users take, 0 to 1.

        Raises:
            UserError: The Profile is shorter than a second, or the load is out of range.
        """
        if not 0 <= load <= 1:
            raise UserError(f"load: {load:g}; expected 0 to 1, a share of the path's capacity")
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
        self._throughput = {direction: self._throughput_in(direction) for direction in ("down", "up")}
        self.losses = self._losses()
        schedule = self._schedule()
        self.place: tuple[float, float, float] | None = None
        if schedule is not None:
            site = schedule["site"]
            self.place = (site["lat_deg"], site["lon_deg"], site["alt_m"])
        self.country = "" if self.place is None else country_at(*self.place[:2])
        self.track, self.serving = self._satellites(schedule)

    def samples(self, seconds: NDArray[np.int64]) -> tuple[Floats, Floats, Floats, Floats]:
        """Return drop rate, latency [ms] and throughput down and up [bit/s] in seconds since the first start."""
        within = seconds % self.seconds
        drop, latency_ms = self._pings.at(within)
        served = 1.0 - drop
        return drop, latency_ms, self._throughput["down"][within] * served, self._throughput["up"][within] * served

    def losses_between(self, start_s: float, end_s: float) -> list[tuple[float, ServiceLoss]]:
        """Return losses of service that begin between two times since the first start [s], each with its begin."""
        result: list[tuple[float, ServiceLoss]] = []
        if not self.losses:
            return result
        for turn in range(math.floor(start_s / self.seconds), math.floor(end_s / self.seconds) + 1):
            base = turn * self.seconds
            result += [(base + loss.start_s, loss) for loss in self.losses if start_s <= base + loss.start_s < end_s]
        return result

    def loss_at(self, at_s: float) -> tuple[float, ServiceLoss] | None:
        """Return the loss of service at a time since the first start [s], with its begin; None if there is none."""
        base = math.floor(at_s / self.seconds) * self.seconds
        for loss in self.losses:
            if loss.start_s <= at_s - base < loss.start_s + loss.duration_s:
                return base + loss.start_s, loss
        return None

    def _throughput_in(self, direction: Any) -> Floats:  # noqa: ANN401 - a Direction
        """Return the throughput in each second: the load times the mean capacity; 0 where there is no limit."""
        capacity = self._view.capacity(direction)
        value = np.where(np.isfinite(capacity.value), capacity.value, 0.0)
        times = np.append(capacity.t_s, capacity.end_s)
        integral = np.concatenate([[0.0], np.cumsum(value * capacity.widths_s())])
        means: Floats = np.diff(np.interp(np.arange(self.seconds + 1.0), times, integral))
        return means * self._load

    def _losses(self) -> list[ServiceLoss]:
        losses = [ServiceLoss(a, b - a, "NO_SATS", False) for a, b, hops in self._view.routes() if not hops]
        for event in self._view.metadata["events"]:
            length_s = event["interruption_ns"] / 1e9
            if length_s >= LOGGED_FROM_S:
                handover = is_handover(event)
                cause = "NO_SCHEDULE" if handover else _CAUSES[event["kind"]]
                losses.append(ServiceLoss(event["at_ns"] / 1e9, length_s, cause, handover))
        return sorted((loss for loss in losses if loss.start_s < self.seconds), key=lambda loss: loss.start_s)

    def _schedule(self) -> dict[str, Any] | None:
        recipe = self._view.metadata["provenance"]["recipe"]
        return recipe["schedule"] if isinstance(recipe, dict) and "schedule" in recipe else None

    def _satellites(self, schedule: dict[str, Any] | None) -> tuple[Floats, NDArray[np.int64]]:
        track, serving = np.full((2, self.seconds), np.nan), np.zeros(self.seconds, dtype=np.int64)
        for slot in schedule["slots"] if schedule is not None else ():
            satellite = slot["serving"]
            if satellite is None:
                continue
            first, end = math.ceil(slot["start_ns"] / 1e9), min(math.ceil(slot["end_ns"] / 1e9), self.seconds)
            if first >= end:
                continue
            at = np.arange(first, end)
            known = (
                slot["start_ns"] / 1e9 + np.arange(len(satellite["azimuth_deg"])) * satellite["sample_step_ns"] / 1e9
            )
            track[0, first:end] = np.interp(at, known, np.unwrap(satellite["azimuth_deg"], period=360.0)) % 360.0
            track[1, first:end] = np.interp(at, known, satellite["elevation_deg"])
            serving[first:end] = satellite["norad_id"]
        return track, serving


def default_profile(now_unix_ns: int, on_progress: Callable[[float], object] = lambda _: None) -> Profile:
    """Make the Profile of `DEFAULT_PATH` from the slot edge at or before now, with the loss of an idle path."""
    site, to, duration_s = DEFAULT_PATH
    start = slot_of(now_unix_ns) * SLOT_NS + SLOT_PHASE_NS
    return make_profile(site, to, start_unix_ns=start, duration_s=duration_s, loss="idle", on_progress=on_progress)


def aligned_start(world: DishEnvironment, now_unix_ns: int) -> int:
    """Return a start [ns since 1970] with which the Profile runs now, with slot edges where the network has them.

    It is the Profile's own start if now lies within it, otherwise the last time at whole slots from its own start.
    """
    elapsed = now_unix_ns - world.start_unix_ns
    if 0 <= elapsed < world.seconds * 10**9:
        return world.start_unix_ns
    return world.start_unix_ns + elapsed // SLOT_NS * SLOT_NS
