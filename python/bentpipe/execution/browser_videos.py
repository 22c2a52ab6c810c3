"""Videos played by a real browser (dash.js in Chromium) over emulated paths."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.apps.browser.chromium import find_chromium
from bentpipe.apps.browser.video_server import Folder, Playing
from bentpipe.apps.video.media import least_bytes
from bentpipe.apps.video.qoe import Experience, experience, play
from bentpipe.errors import BentpipeError, UserError
from bentpipe.execution.kernel import AVAILABLE
from bentpipe.execution.program import run_program

if TYPE_CHECKING:
    import os

    from bentpipe._native import Profile
    from bentpipe.apps.video.description import VideoDescription
    from bentpipe.experiments.videos import VideoApp

SERVER, PLAYER = "bentpipe.apps.browser.video_server", "bentpipe.execution.browser_player"

START_S = 15.0
"""Time for the browser to start, before the player begins [s]: it takes 2 to 5 s."""

JITTER_S = 0.05
"""Stalls below it are jitter of the clocks [s]: a frame takes 0.04 s."""


@dataclass(frozen=True)
class Played:
    """A video that was played.

    Attributes:
        seen: What a viewer had.
        chunks: Chunks that arrived.
        valid: Whether the Run is valid.
    """

    seen: Experience
    chunks: int
    valid: bool


def check_browser(video: VideoDescription, cc: str) -> None:
    """Check that a browser can play this video. Raises `UserError`."""
    find_chromium()
    try:
        available = AVAILABLE.read_text(encoding="ascii").split()
    except OSError as error:
        raise UserError(error.strerror or "cannot be read", where=str(AVAILABLE), expected="Linux") from None
    if cc not in available:
        raise UserError(f"this kernel has no controller {cc}", where="cc", expected=", ".join(available))
    least = min(map(min, video.chunk_bytes))
    if least < least_bytes(video.chunk_s):
        expected = f"at least {least_bytes(video.chunk_s)} bytes: media that a browser plays"
        raise UserError(f"a chunk of {least} bytes", where=video.name, expected=expected)


def play_in_browser(
    path: Profile,
    video: VideoDescription,
    app: VideoApp,
    *,
    cc: str = "cubic",
    out: str | os.PathLike[str] | None = None,
) -> Played:
    """Play a video in a browser over a path, in real time; the player begins at the path's second 0.

    The path begins `START_S` before its end and starts over, while the browser starts. The player is stopped after the
    path's duration, as in the simulator.

    Args:
        path: The path.
        video: The video.
        app: The player.
        cc: Congestion controller of the server, one of the kernel's.
        out: Folder for the Run; None: it is not kept.

    Raises:
        UserError: There is no browser, it cannot play the video, or the path cannot be emulated.
        BentpipeError: The player failed.
    """
    check_browser(video, cc)
    with tempfile.TemporaryDirectory(prefix="bentpipe-video-") as name:
        folder = Folder(Path(name))
        Playing(video, app.model_dump_json(), cc, START_S, path.duration_s).write(folder)
        own = [sys.executable, "-m"]
        done = run_program(
            path,
            [*own, PLAYER, name],
            server="exec " + shlex.join([*own, SERVER, name]),
            out=out,
            offset_s=path.duration_s - START_S,
            internet="none",
            on_start=lambda at_ns: folder.started.write_text(str(at_ns), encoding="ascii"),
        )
        result = _read(folder.result)
    if result["error"]:
        raise BentpipeError(f"{video.name} over {path.name} failed: {result['error']}")
    return played(result, video, path.name, valid=done.emulated.why_invalid is None)


def _read(file: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"error": "the browser wrote nothing"}
    return result


def played(result: dict[str, Any], video: VideoDescription, path: str, *, valid: bool) -> Played:
    """Return what the player's events amount to. A stall is the time in which it played no media.

    Args:
        result: What the page saw (`video.html`).
        video: The video.
        path: Name of the path, for errors.
        valid: Whether the Run is valid.

    Raises:
        UserError: Fewer than two chunks arrived.
        BentpipeError: The chunks are not those of a video from its start on.
    """
    arrived = sorted(result["chunks"], key=lambda each: each["number"])
    if len(arrived) < 2 or result["playing_ms"] is None:
        raise UserError("not even two chunks arrived", where=path, expected="a path that is there")
    if [each["number"] for each in arrived] != list(range(len(arrived))):
        raise BentpipeError(f"{video.name} over {path} failed: dash.js left chunks out")
    chunks = play(
        [each["quality"] for each in arrived],
        [each["requested_ms"] / 1e3 for each in arrived],
        [each["arrived_ms"] / 1e3 for each in arrived],
        video.rates_bps,
        video.chunk_s,
    )
    stood_s = 0.0
    for number, each in enumerate(arrived):
        stall_s = (each["at_ms"] - result["playing_ms"]) / 1e3 - each["media_s"] - stood_s
        if number == 0 or stall_s < JITTER_S:
            stall_s = 0.0
        stood_s += stall_s
        chunks[number] = replace(chunks[number], stall_s=stall_s)
    startup_s = (result["playing_ms"] - result["begin_ms"]) / 1e3
    return Played(experience(chunks, startup_s), len(arrived), valid)
