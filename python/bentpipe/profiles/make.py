"""A terminal behind a constellation, from geometry to a Profile.

Who serves the terminal slot by slot comes from `bentpipe.orbit`, the fibre from each gateway in use to the server from
`bentpipe.scenarios`, and the access model over both is native.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.profiles.build import duration_to_ns
from bentpipe.profiles.presets import DEFAULT_START_UTC
from bentpipe.scenarios import (
    parse_place,
)
from bentpipe.times import parse_utc


def make_profile(
    site: str,
    to: str,
    *,
    start_unix_ns: int | None = None,
    duration_s: float = 300.0,
    elements: str | os.PathLike[str] | None = None,
    constellation: str | None = None,
    policy: str | None = None,
    seed: int = 0,
    name: str | None = None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> Profile:
    """The path from a terminal at `site` to a server at `to`, over the satellites that serve it.

    Args:
        site: The terminal: a known name, or ``lat,lon[,alt_m]``.
        to: The server: likewise.
        start_unix_ns: When it begins [ns since 1970, UTC]. Needed with `elements`; otherwise `DEFAULT_START_UTC`.
        duration_s: How long it lasts [s].
        elements: A file of orbital elements (TLE or OMM, plain or gzipped).
        constellation: Built-in shells instead; by default `DEFAULT_CONSTELLATION`.
        policy: How the scheduler chooses a satellite for a slot; by default `DEFAULT_POLICY`.
        seed: Decides everything that is drawn.
        name: The Profile's name; by default ``SITE-TO``.
        on_progress: Called with the fraction done, 0 to 1.

    Warns:
        StaleElementsWarning: `elements` are far from the asked time.

    Raises:
        UserError: An unknown place, constellation or policy, an unreadable file, a duration that is not above zero.
    """
    terminal, server = parse_place(site), parse_place(to)
    duration_ns = duration_to_ns(duration_s)
    if seed < 0 or seed >= 2**64:
        raise UserError(f"seed: {seed}; wanted 0 to 2^64 - 1")
    if start_unix_ns is None:
        if elements is not None:
            raise UserError(
                "start: needed with elements, whose satellites are where they should be only near their epoch"
            )
        start_unix_ns = parse_utc(DEFAULT_START_UTC)
    raise NotImplementedError
