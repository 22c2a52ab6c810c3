"""The demo of `bentpipe demo`: two paths from Melbourne, three controllers, one report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import StoppedError
from bentpipe.execution.engine import RunsInterruptedError
from bentpipe.execution.racing import race
from bentpipe.profiles.make import make_profile
from bentpipe.report.build import write_report
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bentpipe.execution.racing import RaceResult

SITE = "melbourne"
DESTINATIONS = ("sydney", "london")
"""The nearest and, but for São Paulo, the farthest server of De Silva and Pokhrel, "Understanding BBR-v3 Dynamics over
Starlink", whose terminal stood in Melbourne too."""

SCHEMES = ("reno", "cubic", "bbr", "cubic+bbr")
START = "2026-05-10T09:00:00Z"
CONSTELLATION = "starlink-gen1"

DURATION_S = 60.0
SEEDS = 5
"""Chosen here: enough for useful intervals (Student's t of 2.8; three seeds: 4.3), in half a minute."""

PROFILE_S = DURATION_S + 15.0
"""One slot longer than a run, so that the start phase is uniform in a slot [s]."""

SHARES = (0.1, 0.8)
"""Shares of the progress bar for making Profiles and for racing; the report has the rest."""


def run_demo(
    out: Path, *, jobs: int | None = None, on_progress: Callable[[float], None] = lambda _: None
) -> tuple[RaceResult, Path]:
    """Make the Profiles, race over them, write the report; return the race and the report's path.

    Results of an earlier demo in `out` are replaced. Raises as `race` and `write_report`; `StoppedError` after Ctrl-C.
    """
    paths = []
    for i, destination in enumerate(DESTINATIONS):
        paths.append(
            make_profile(
                SITE, destination, start_unix_ns=parse_utc(START), duration_s=PROFILE_S, constellation=CONSTELLATION
            )
        )
        on_progress(SHARES[0] * (i + 1) / len(DESTINATIONS))
    try:
        result = race(
            paths,
            SCHEMES,
            out=out,
            duration_s=DURATION_S,
            seeds=SEEDS,
            jobs=jobs,
            fresh=True,
            on_progress=lambda each: on_progress(SHARES[0] + SHARES[1] * each.share),
        )
    except RunsInterruptedError as stop:
        raise StoppedError(
            f"interrupted: {stop.stored} of {stop.total} new Runs are finished in {out}; the same command starts over"
        ) from stop
    rest = 1 - sum(SHARES)
    page = write_report(out, on_progress=lambda share: on_progress(sum(SHARES) + rest * share))
    return result, page
