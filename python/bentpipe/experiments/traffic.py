"""Cross traffic of an Experiment, from `bentpipe.scenarios`, in proportion to the path's capacity."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.experiments.experiment import ROLE, CrossTraffic, TransferSizes
from bentpipe.profiles.access import default_parameters
from bentpipe.profiles.path import PathView
from bentpipe.scenarios.traffic import find_traffic

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction
    from bentpipe.scenarios.traffic import Traffic


def traffic_share(traffic: Traffic) -> float:
    """Return the offered load of new transfers as a share of the path's mean capacity in their direction.

    If the traffic defines none, it is the capacity that the access model's busiest hour lacks compared with the
    quietest: the load goes from e^-A to e^A over a day and capacity with its power -kappa, so 1 - e^(-2 A kappa).
    """
    if traffic.share is not None:
        return traffic.share
    parameters = default_parameters()
    fall_log = 2 * parameters["load"]["daily_log_amplitude"] * parameters["capacity"]["load_power"]
    # The host's libm may differ in the last digit; the offered load must not.
    return round(1.0 - math.exp(-fall_log), 4)


def cross_traffic(profile: Profile, name: str, direction: Direction, role: str = ROLE) -> CrossTraffic:
    """Make the cross traffic `name` on the Profile with this `role`.

    It offers its share of the path's mean capacity in `direction` over the whole Profile.

    Raises:
        UserError: The traffic is unknown, or the path has no capacity.
    """
    traffic = find_traffic(name)
    share = traffic_share(traffic)
    capacity_bps = PathView(profile).capacity(direction)
    if not np.isfinite(capacity_bps.value).all() or not capacity_bps.mean():
        raise UserError(
            f"traffic {name}: the Profile {profile.name!r} has no capacity {direction}wards",
            expected=f"one, of which the traffic takes {share:.0%}",
        )
    return CrossTraffic(
        offered_bps=round(share * capacity_bps.mean()),
        sizes=TransferSizes(
            least_bytes=traffic.least_bytes, most_bytes=traffic.most_bytes, tail_index=traffic.tail_index
        ),
        controller=traffic.controller,
        direction=direction,
        profile=role,
    )
