"""Datagrams at given times in the simulator, with loss recovery inside the network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from bentpipe import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe._native import Profile


def one_way_delays(
    path: Profile, up_s: NDArray[np.float64], down_s: NDArray[np.float64], *, size_bytes: int, scheme: str, seed: int
) -> list[NDArray[np.float64]]:
    """Return the one-way delay of each datagram [ms], up and down; NaN: it was lost.

    Args:
        path: The path.
        up_s: Send times of the direction up [s], ascending.
        down_s: Those of the direction down.
        size_bytes: Size of each.
        scheme: Scheme of recovery, of `bentpipe.recovery_schemes`.
        seed: Seed of the path's losses.

    Raises:
        ValueError: A time is outside the path, or the scheme is unknown.

    Example:
        >>> from bentpipe.profiles.presets import preset_profile
        >>> path, sent_s = preset_profile("dumbbell:rate=8mbit,rtt=20ms", 2.0), np.array([0.5, 1.0])
        >>> up_ms, down_ms = one_way_delays(path, sent_s, sent_s, size_bytes=1000, scheme="none", seed=0)
        >>> up_ms.tolist()
        [11.0, 11.0]
    """
    recovery = json.dumps({"scheme": scheme})
    return _native.one_way_delays(path, up_s, down_s, size_bytes, recovery, seed)
