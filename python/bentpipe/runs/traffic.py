"""Traffic of `bentpipe.scenarios` as cross traffic of an Experiment: in proportion to the path it comes onto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.profiles.path import PathView
from bentpipe.runs.experiment import ROLE, CrossTraffic
from bentpipe.scenarios.traffic import find_traffic

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.runs.experiment import Direction


def cross_traffic(profile: Profile, name: str, direction: Direction, role: str = ROLE) -> CrossTraffic:
    """The traffic called `name` on a Profile that the Experiment knows by `role`.

    It offers its share of the path's mean capacity in `direction` over the whole Profile.

    Raises:
        UserError: No such traffic, or a path without a capacity to take a share of.
    """
    traffic = find_traffic(name)
    capacity_bps = PathView(profile).capacity(direction)
    if not np.isfinite(capacity_bps.value).all() or not capacity_bps.mean():
        raise UserError(
            f"traffic {name}: the Profile {profile.name!r} has no capacity {direction}wards that it could take "
            f"{traffic.share:.0%} of"
        )
    return CrossTraffic(
        offered_bps=round(traffic.share * capacity_bps.mean()),
        sizes={
            "least_bytes": traffic.least_bytes,
            "most_bytes": traffic.most_bytes,
            "tail_index": traffic.tail_index,
        },
        controller=traffic.controller,
        direction=direction,
        profile=role,
    )
