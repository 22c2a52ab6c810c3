"""Video calls between two real browsers over an emulated path."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bentpipe.apps.browser.call_peer import Settings
from bentpipe.apps.browser.chromium import find_chromium
from bentpipe.errors import BentpipeError, UserError
from bentpipe.execution.calls import CallResult, frames_per_second
from bentpipe.execution.program import run_program
from bentpipe.experiments.recovery import parse_path_recovery, recovery_name

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from bentpipe._native import Profile

MODULE = "bentpipe.apps.browser.call_peer"
START_S = 90.0
"""Longest time until the server's browser is up [s]."""
LONGEST_DELAY_MS = 60_000
"""Above it a time in a picture was misread."""


@dataclass(frozen=True)
class Picture:
    """The video of a call.

    Attributes:
        width: Width [pixels].
        height: Height [pixels].
        fps: Frames per second.
        max_bps: Highest rate [bit/s].
        lip_sync: Whether the receiver delays the picture until its sound is due, as it does with both in one stream.
    """

    width: int = 640
    height: int = 360
    fps: int = 30
    max_bps: int = 2_500_000
    lip_sync: bool = True


def call_browsers(
    paths: Sequence[Profile],
    *,
    duration_s: float,
    picture: Picture | None = None,
    recovery: Sequence[str] = ("none",),
    offset_s: float | None = None,
    out: str | os.PathLike[str] | None = None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> list[CallResult]:
    """Hold a call between two Chromiums over every path and with each scheme of recovery, one after the other.

    Args:
        paths: Profiles.
        duration_s: Duration of each call, from the first frame on [s].
        picture: The video; None: the defaults.
        recovery: Schemes of loss recovery on the path.
        offset_s: Offset in the Profile at which the path begins [s]; None: from the machine's clock.
        out: Folder for the Runs; None: they are not kept.
        on_progress: Called with the share done.

    Raises:
        UserError: There is no browser, or a path cannot be emulated.
        BentpipeError: A call failed.
    """
    find_chromium()
    schemes = [recovery_name(parse_path_recovery(scheme)) for scheme in recovery]
    if duration_s < 1:
        raise UserError(f"{duration_s:g} s", where="duration", expected="at least 1 s")
    results: list[CallResult] = []
    for number, (path, scheme) in enumerate((path, scheme) for path in paths for scheme in schemes):
        results += _call(path, scheme, duration_s, picture or Picture(), offset_s, out)
        on_progress((number + 1) / (len(paths) * len(schemes)))
    return results


def _call(
    path: Profile,
    scheme: str,
    duration_s: float,
    picture: Picture,
    offset_s: float | None,
    out: str | os.PathLike[str] | None,
) -> list[CallResult]:
    with tempfile.TemporaryDirectory(prefix="bentpipe-call-") as folder:
        settings = Settings(folder, duration_s, **vars(picture))
        end = [sys.executable, "-m", MODULE]
        done = run_program(
            path,
            [*end, "client", settings.to_json()],
            server="exec " + shlex.join([*end, "server", settings.to_json()]),
            out=out,
            offset_s=offset_s,
            internet="none",
            recovery=scheme,
            listen_within_s=START_S,
        )
        ends = [_read(settings.file(each), each) for each in ("client", "server")]
    if done.exit_code != 0:
        raise BentpipeError(f"a call over {path.name} failed: {_problem(ends)}")
    valid = done.emulated.why_invalid is None
    down, up = ends
    return [
        _result(scheme, path.name, "down", down, valid=valid),
        _result(scheme, path.name, "up", up, valid=valid),
    ]


def _read(file: Path, end: str) -> dict[str, Any]:
    try:
        seen: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"error": f"the {end}'s browser wrote nothing"}
    return seen


def _problem(ends: Sequence[dict[str, Any]]) -> str:
    return next((str(seen["error"]) for seen in ends if seen.get("error")), "no reason is known")


def _result(
    scheme: str, profile: str, direction: Literal["up", "down"], seen: dict[str, Any], *, valid: bool
) -> CallResult:
    if seen.get("error") or not (seen.get("stats") or {}).get("received"):
        raise BentpipeError(f"a call over {profile} failed, {direction}: {_problem([seen])}")
    received = seen["stats"]["received"]
    frames = np.asarray(seen["frames"], dtype=float)
    at_s, delays_ms = frames[:, 0] / 1e3, frames[:, 1]
    delays_ms = delays_ms[delays_ms < LONGEST_DELAY_MS]
    per_second = frames_per_second(at_s)
    return CallResult(
        scheme=scheme,
        profile=profile,
        path="path",
        seed=0,
        direction=direction,
        delay_mean_ms=float(delays_ms.mean()),
        delay_p99_ms=float(np.percentile(delays_ms, 99)),
        jitter_buffer_ms=1e3 * received["jitterBufferDelay"] / max(1, received["jitterBufferEmittedCount"]),
        fps_mean=float(per_second.mean()),
        fps_sd=float(per_second.std()),
        freezes=int(received.get("freezeCount", 0)),
        rate_bps=8 * received["bytesReceived"] / max(at_s[-1] - at_s[0], 1.0),
        frames=int(received.get("framesReceived", len(frames))),
        frames_shown=len(frames),
        world="emulated",
        valid=valid,
    )
