"""The simulated call against calls between two real browsers, over ten Profiles.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.apps.browser.chromium import find_chromium
from bentpipe.errors import UserError
from bentpipe.execution.browser_calls import Picture, call_browsers
from bentpipe.execution.calls import CallResult, call
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.estimates import estimate
from bentpipe.runs.text import interval, number
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.measured import measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile

OUT = Path("out") / "calls"
"""Default folder for the calls between browsers; ``--quick`` has its own beside it."""
CALL_S, CALL_QUICK_S = 30.0, 15.0
"""Duration of a call [s]."""
CALLS, CALLS_QUICK = 3, 1
"""Calls between browsers over each path."""
SEEDS = 20
"""Calls in the simulator: one late frame raises the delay of all later ones, so that single calls differ much."""
QUICK_PATHS = (0, 4, 6)
START_S = 8.0
"""Time until two browsers are up, about [s]."""
PICTURE = Picture(width=640, height=360, fps=30, max_bps=1_000_000, lip_sync=False)
"""What both send. A picture of this size leaves a machine of two processors some time. Sound is on the path, but the
picture does not wait for it, since the simulator has none."""
TRIES = 2
"""Calls between browsers, if the first Run is not valid."""

DELAY_MS, DELAY_SHARE = 20.0, 0.25
BUFFER_MS, BUFFER_SHARE = 20.0, 0.25
FPS = 4.0
"""Tolerances, chosen here: of the mean delay and of the jitter buffer the larger of both, and frames per second.

Browsers on two processors show 26 to 28 of 30 frames per second over every path, over a LAN too.
"""


def paths() -> list[Profile]:
    """Return the ten paths: a LAN, narrow, long and lossy ones, fibre, and Starlink from four places."""
    duration_s = CALL_S + 30
    presets = (
        "dumbbell:rate=1gbit,rtt=2ms,queue=100ms",
        "dumbbell:rate=20mbit,rtt=60ms,queue=100ms",
        "dumbbell:rate=2mbit,rtt=40ms,queue=200ms",
        "dumbbell:rate=50mbit,rtt=300ms,queue=100ms",
        "dumbbell:rate=50mbit,rtt=60ms,queue=100ms,loss=0.01",
        "dumbbell:rate=50mbit,rtt=60ms,queue=100ms,loss=0.03",
        "leo-sydney",
    )
    start_unix_ns = parse_utc("2026-05-10T09:00:00Z")
    made = [
        make_profile(site, to, start_unix_ns=start_unix_ns, duration_s=duration_s, loss=loss)
        for site, to, loss in (
            ("louvain", "london", "busy"),
            ("seattle", "san-francisco", "busy"),
            ("barcelona", "madrid", "satguard"),
        )
    ]
    return [*(preset_profile(name, duration_s) for name in presets), *made]


def real_time_s(*, quick: bool) -> float:
    """Return about how long the calls between browsers take [s]."""
    paths, calls, call_s = (len(QUICK_PATHS), CALLS_QUICK, CALL_QUICK_S) if quick else (10, CALLS, CALL_S)
    return paths * calls * (call_s + START_S)


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Hold calls over each path in both worlds, and compare; needs no data."""
    del data
    try:
        find_chromium()
    except UserError as error:
        return Outcome("calls", skipped=str(error))
    folder = out or (OUT.with_name(f"{OUT.name}-quick") if quick else OUT)
    calls, call_s = (CALLS_QUICK, CALL_QUICK_S) if quick else (CALLS, CALL_S)
    every = [path for at, path in enumerate(paths()) if not quick or at in QUICK_PATHS]
    rows: list[Row] = []
    invalid = []
    for at, path in enumerate(every):
        real: list[CallResult] = []
        for repeat in range(calls):
            settings = {"path": path.name, "seconds": call_s, **vars(PICTURE)}
            file = folder / f"{at:02}-{repeat}.json"
            stored = measured(file, settings, partial(_real, path, call_s))
            real += [CallResult(**each) for each in stored]
            on_progress((at * calls + repeat + 1) / (len(every) * calls))
        if not all(each.valid for each in real):
            invalid.append(path.name)
        app = f"call:max={PICTURE.max_bps}bit,fps={PICTURE.fps}"
        simulated = call([path], app=app, duration_s=call_s, phase_s=0.0, seeds=SEEDS)
        for direction in ("down", "up"):
            ours, theirs = ([each for each in world if each.direction == direction] for world in (simulated, real))
            rows += compare(path.name, ours, theirs)
    notes = [
        f"{len(every)} paths, {calls} calls of {call_s:g} s between browsers over each and {SEEDS} in the simulator, "
        "in both directions, 640 × 360 at most 1 Mbit/s; mean, and its 95 % interval"
    ]
    notes += [summary(rows, quantity) for quantity in QUANTITIES]
    if invalid:
        notes.append(f"a call not valid in {TRIES} tries, on this machine: {', '.join(invalid)}")
    return Outcome("calls", rows, notes)


def _real(path: Profile, call_s: float) -> list[dict[str, Any]]:
    result: list[CallResult] = []
    for _ in range(TRIES):
        result = call_browsers([path], duration_s=call_s, picture=PICTURE, offset_s=0.0)
        if all(each.valid for each in result):
            break
    return [each.to_dict() for each in result]


QUANTITIES = {
    "mean delay [ms]": ("delay_mean_ms", DELAY_MS, DELAY_SHARE),
    "jitter buffer [ms]": ("jitter_buffer_ms", BUFFER_MS, BUFFER_SHARE),
    "frames per second": ("fps_mean", FPS, 0.0),
}
"""Name of a quantity → attribute of `CallResult`, tolerance, and tolerance as a share."""


def compare(name: str, ours: Sequence[CallResult], theirs: Sequence[CallResult]) -> list[Row]:
    """Compare one direction of calls in the simulator with that between browsers: the means."""
    rows = []
    for quantity, (attribute, least, share) in QUANTITIES.items():
        own, real = (estimate([getattr(each, attribute) for each in calls]) for calls in (ours, theirs))
        own_text, real_text = (f"{number(each.mean)} ({interval(each) or f'n = {each.n}'})" for each in (own, real))
        tolerance = f"{least:g} or {share:.0%}" if share else f"{least:g}"
        within = abs(own.mean - real.mean) <= max(least, share * real.mean)
        rows.append(Row(f"{name}, {ours[0].direction}: {quantity}", own_text, real_text, tolerance, within))
    return rows


def summary(rows: Sequence[Row], quantity: str) -> str:
    """Return how many rows of a quantity are within their tolerance."""
    of = [row.within for row in rows if row.quantity.endswith(quantity)]
    return f"{quantity}: {sum(map(bool, of))} of {len(of)} within the tolerance"
