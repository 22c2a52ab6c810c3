"""The simulated call against calls between two real browsers, over ten Profiles.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.execution.browser_calls import Picture, call_browsers
from bentpipe.execution.calls import CallResult, call
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row

if TYPE_CHECKING:
    from bentpipe._native import Profile

CALL_S = 45.0
"""Duration of a call [s]."""
PICTURE = Picture(width=640, height=360, fps=30, max_bps=1_000_000)
"""What both send. A picture of this size leaves a machine of two processors some time."""
TRIES = 2
"""Calls between browsers over a path, if the first Run is not valid."""

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


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Hold a call over each path in both worlds, and compare; needs no data."""
    del data
    if shutil.which("chromium") is None:
        return Outcome("calls", skipped="no Chromium on this machine; `apt-get install chromium`")
    rows: list[Row] = []
    invalid = []
    every = paths()
    for number, path in enumerate(every):
        real = _real(path)
        if not all(each.valid for each in real):
            invalid.append(path.name)
        app = f"call:max={PICTURE.max_bps}bit,fps={PICTURE.fps}"
        simulated = call([path], app=app, duration_s=CALL_S, phase_s=0.0)
        for ours, theirs in zip(simulated, real, strict=True):
            rows += compare(path.name, ours, theirs)
        on_progress((number + 1) / len(every))
    notes = [f"{len(every)} paths, a call of {CALL_S:g} s over each in both directions, 640 × 360 at most 1 Mbit/s"]
    if invalid:
        notes.append(f"not valid in {TRIES} tries, on this machine: {', '.join(invalid)}")
    return Outcome("calls", rows, notes)


def _real(path: Profile) -> list[CallResult]:
    result: list[CallResult] = []
    for _ in range(TRIES):
        result = call_browsers([path], duration_s=CALL_S, picture=PICTURE, offset_s=0.0)
        if all(each.valid for each in result):
            break
    return result


def compare(name: str, ours: CallResult, theirs: CallResult) -> list[Row]:
    """Compare one direction of a call in the simulator with that between browsers."""

    def row(quantity: str, own: float, real: float, least: float, share: float) -> Row:
        tolerance = max(least, share * real)
        text = f"{least:g} or {share:.0%}" if share else f"{least:g}"
        return Row(
            f"{name}, {ours.direction}: {quantity}", f"{own:.1f}", f"{real:.1f}", text, abs(own - real) <= tolerance
        )

    return [
        row("mean delay [ms]", ours.delay_mean_ms, theirs.delay_mean_ms, DELAY_MS, DELAY_SHARE),
        row("jitter buffer [ms]", ours.jitter_buffer_ms, theirs.jitter_buffer_ms, BUFFER_MS, BUFFER_SHARE),
        row("frames per second", ours.fps_mean, theirs.fps_mean, FPS, 0.0),
    ]
