"""Checks that the paths of a race can carry data in its Runs, before anything runs."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.profiles.path import PathView
from bentpipe.profiles.table import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.runs.work import Base, Work

    Window = tuple[float, float]
    """Begin and end [s] in a Profile."""


class PathWarning(UserWarning):
    """A Profile that limits what a race over it can show."""


def check_service(work: Sequence[Work]) -> None:
    """Refuse a race in which no Profile has service, and warn of each Profile without it.

    A Profile has service in a Run if each direction passes packets at some time of the Run: it has a route and a
    capacity, and does not lose every packet. A Run without service is a result if other Runs of the Profile have some.
    """

    @cache
    def view(base: Base) -> PathView:
        return PathView(base.profile)

    @cache
    def obstacle(base: Base, window: Window, is_redrawn: bool) -> str | None:
        return _obstacle(view(base), window, is_redrawn=is_redrawn)

    obstacles: dict[str, str | None] = {}
    for item in work:
        window = (item.experiment.offset_ns / 1e9, (item.experiment.offset_ns + item.experiment.duration_ns) / 1e9)
        used = {flow.profile for flow in item.experiment.flows}
        for base in (base for base in item.bases if base.role in used):
            if obstacles.get(base.label, "") is not None:  # no Run has had service
                obstacles[base.label] = obstacle(base, window, base.is_redrawn(item.seed))
    unserved = {label: why for label, why in obstacles.items() if why is not None}
    if len(unserved) < len(obstacles):
        for label in unserved:
            message = f"the Profile {label!r} has no service in its Runs: nothing can be sent over it"
            warnings.warn(message, PathWarning, stacklevel=4)
        return
    for label, why in unserved.items():
        raise UserError(f"the Profile {label!r} has no service {why}")


def _obstacle(view: PathView, window: Window, *, is_redrawn: bool) -> str | None:
    """Return what keeps a window without service, with the remedy; None: it has service.

    A redrawn Profile has the routes of its original, but another capacity and loss: only the routes count.
    """
    has_route = [a < window[1] and b > window[0] for a, b, hops in view.routes() if hops]
    if not has_route:
        return (
            "from beginning to end; expected a satellite in at least one slot; try a site that `bentpipe sites` shows "
            "covered, or make the Profile with `gateways`"
        )
    if not any(has_route):
        return (
            "in the time that is raced; expected a satellite in at least one Run; try a longer `duration_s` or another "
            "`phase_s`"
        )
    for direction in () if is_redrawn else DIRECTIONS:
        if view.service(direction).means(np.array(window))[0] == 0:
            return (
                f"in the time that is raced: it has capacity 0 or loses every packet {direction}wards; expected both "
                "directions to pass packets in at least one Run; try a longer `duration_s` or another `phase_s`"
            )
    return None


def warn_of_paths(work: Sequence[Work]) -> None:
    """Warn, once for each Profile, that it has no capacity limit in the direction of its data."""
    directions = {
        (base.label, flow.direction): base.profile
        for item in work
        for base in item.bases
        for flow in item.experiment.flows
        if flow.profile == base.role
    }
    for (label, direction), profile in directions.items():
        if not np.isfinite(PathView(profile).capacity(direction).value).all():
            warnings.warn(
                f"the Profile {label!r} has no capacity {direction}wards: only windows and buffers limit its flows",
                PathWarning,
                stacklevel=4,
            )
