"""The uploads of T3P's section 5: paths from its terminals to a server, one for each test."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from bentpipe.profiles import make_profile
from bentpipe.profiles.make import UnpublishedRouteWarning
from bentpipe.scenarios import Place
from bentpipe.studies.study import OnProgress
from bentpipe.times import parse_utc

HOUR_NS = 3600 * 10**9


def starts_of_tests(first: str, hours: Sequence[int], count: int, skip: int = 0) -> list[int]:
    """When tests begin [ns since 1970]: at the same hours of each day; `skip` leaves out that many before the first."""
    begin = parse_utc(first)
    return [
        begin + ((number // len(hours)) * 24 + hours[number % len(hours)]) * HOUR_NS
        for number in range(skip, skip + count)
    ]


def uplink_paths(
    terminal: Place,
    server: Place,
    starts_unix_ns: Sequence[int],
    duration_s: float,
    *,
    seed: int,
    parameters: Mapping[str, Any] | None = None,
    on_progress: OnProgress = lambda _: None,
) -> list[Any]:
    """A Profile for each start, each drawn with a seed of its own: `seed` and the test's number."""
    paths = []
    for number, start in enumerate(starts_unix_ns):
        with warnings.catch_warnings():
            # The study's file says where the server stands; that its way is a great circle is said there.
            warnings.simplefilter("ignore", UnpublishedRouteWarning)
            path = make_profile(
                terminal,
                server,
                start_unix_ns=start,
                duration_s=duration_s,
                seed=seed + number,
                name=f"{terminal.name}-{server.name}-{number}",
                parameters=parameters,
            )
        paths.append(path)
        on_progress((number + 1) / len(starts_unix_ns))
    return paths
