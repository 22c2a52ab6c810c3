"""What a node is: found out by trying, for its report."""

from __future__ import annotations

import platform
import time
from typing import TYPE_CHECKING

from bentpipe.testbed.builtins.registry import BUILTINS
from bentpipe.testbed.schemas.node import KernelAbilities, NodeReport, Place

if TYPE_CHECKING:
    from collections.abc import Collection

    from bentpipe.testbed.agent.settings import AgentSettings
    from bentpipe.testbed.schemas.policy import HostPolicy

KM_PER_DEGREE = 111.2
"""Length of a degree of latitude [km]."""


def blurred(place: Place, blur_km: float, key: str) -> Place:
    """Return a place within `blur_km` of the true one: the centre of its square, moved by a constant of the node.

    The constant comes from `key`, so that many reports do not average out.

    Example:
        >>> place = blurred(Place(latitude_deg=50.67, longitude_deg=4.62), 1.0, "attic")
        >>> abs(place.latitude_deg - 50.67) < 0.01
        True
    """
    import hashlib
    import math

    draws = hashlib.sha256(key.encode()).digest()
    side = blur_km / KM_PER_DEGREE / math.sqrt(2)
    shift = [(draws[number] / 255 - 0.5) * side for number in (0, 1)]
    latitude = round((round((place.latitude_deg + shift[0]) / side)) * side, 4)
    wide = side / max(0.05, math.cos(math.radians(min(85.0, abs(latitude)))))
    longitude = round((round((place.longitude_deg + shift[1]) / wide)) * wide, 4)
    return Place(latitude_deg=max(-90.0, min(90.0, latitude)), longitude_deg=(longitude + 180) % 360 - 180)


def describe(
    settings: AgentSettings,
    policy: HostPolicy,
    *,
    runners: Collection[str] = (),
    kernel: KernelAbilities | None = None,
    signals: Collection[str] = (),
) -> NodeReport:
    """Return the report of a node."""
    from bentpipe import __version__

    place = settings.place
    return NodeReport(
        agent_version=__version__,
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        role=settings.role,
        control_address=settings.control,
        runners=tuple(runners),
        builtins=tuple(name for name, builtin in BUILTINS.items() if builtin.is_here),
        kernel=kernel or KernelAbilities(),
        signals=tuple(signals),
        dish="none" if settings.dish is None else "lost",
        place=None if place is None else blurred(place, policy.share.place_blur_km, settings.name),
        utc_offset_s=time.localtime().tm_gmtoff,
        policy=policy.to_report(),
    )
