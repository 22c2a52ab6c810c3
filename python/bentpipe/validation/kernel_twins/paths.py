"""The ten paths: fibre, geostationary, plain bottlenecks with and without losses, and computed ones over LEO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import parse_utc
from bentpipe.validation.sim_vs_kernel.paths import SLACK_S

if TYPE_CHECKING:
    from bentpipe._native import Profile

START = "2026-05-10T09:00:00Z"

PRESETS = {
    "plain": "dumbbell:rate=100mbit,rtt=40ms,queue=1bdp",
    "lossy": "dumbbell:rate=100mbit,rtt=40ms,queue=1bdp,loss=0.001",
    "very-lossy": "dumbbell:rate=100mbit,rtt=40ms,queue=1bdp,loss=0.01",
    "fibre": "fibre",
    "geo": "geo",
}
"""Presets, by the name of the path."""

ROUTES: tuple[tuple[str, str, str | None], ...] = (
    ("melbourne", "sydney", None),
    ("melbourne", "london", None),
    ("seattle", "san-francisco", None),
    ("louvain", "london", "busy"),
    ("barcelona", "madrid", "satguard"),
)
"""Site, far end and model of losses of computed Starlink paths."""

QUICK = ("plain", "melbourne-sydney")


def make_paths(duration_s: float, *, quick: bool) -> list[Profile]:
    """Make the ten paths, or those of `QUICK`, for Runs of a duration [s].

    Example:
        >>> from bentpipe.validation.kernel_twins.paths import make_paths
        >>> [path.name for path in make_paths(1.0, quick=True)]
        ['plain', 'melbourne-sydney']
    """
    span_s = duration_s + SLACK_S
    names = [*PRESETS, *(f"{site}-{to}" for site, to, _ in ROUTES)]
    routes = {f"{site}-{to}": (site, to, loss) for site, to, loss in ROUTES}
    paths = []
    for name in QUICK if quick else names:
        if name in PRESETS:
            paths.append(preset_profile(PRESETS[name], span_s, name=name))
            continue
        site, to, loss = routes[name]
        begin = parse_utc(START)
        paths.append(make_profile(site, to, start_unix_ns=begin, duration_s=span_s, loss=loss, name=name))
    return paths
