"""Video calls over Profiles and networks: races whose flows are calls, and what the two people see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from bentpipe.errors import UserError
from bentpipe.execution import racing
from bentpipe.experiments.apps import Call, parse_app
from bentpipe.experiments.recovery import recovery_name
from bentpipe.runs.run_record import World

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from bentpipe._native import Network, Profile
    from bentpipe.experiments.apps import CallApp
    from bentpipe.runs.store import Run

KINDS = {"frame": False, "frame-reverse": True}
"""Kinds of the items of frames, and whether these go against the flow's direction."""


@dataclass(frozen=True)
class CallResult:
    """One direction of a call.

    Attributes:
        scheme: Scheme of loss recovery inside the network.
        profile: Label of the Profile or network.
        path: Path of a network; ``path`` over a Profile.
        seed: Seed of the Run.
        direction: Direction of the video: ``up`` from the terminal, ``down`` to it.
        delay_mean_ms: Mean delay of the frames shown, from capture to display [ms].
        delay_p99_ms: Its 99th percentile [ms].
        jitter_buffer_ms: Mean time from the first packet of a frame until the decoder got the frame [ms].
        fps_mean: Mean frames shown per second, over whole seconds from the first frame on.
        fps_sd: Their standard deviation.
        freezes: Gaps between two frames of at least three mean intervals and of 150 ms more than one, as WebRTC counts.
        rate_bps: Mean rate of the video [bit/s].
        frames: Frames captured; with browsers, frames that arrived whole.
        frames_shown: Frames shown.
        world: World of the Run.
        valid: Whether the Run is valid; a simulated one is.
    """

    scheme: str
    profile: str
    path: str
    seed: int
    direction: Literal["up", "down"]
    delay_mean_ms: float
    delay_p99_ms: float
    jitter_buffer_ms: float
    fps_mean: float
    fps_sd: float
    freezes: int
    rate_bps: float
    frames: int
    frames_shown: int
    world: World
    valid: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``call --json`` has it."""
        return dict(vars(self))


def call(
    paths: Sequence[Profile | Network],
    *,
    app: str = "call",
    duration_s: float | None = None,
    seeds: int = 1,
    phase_s: float | None = None,
    recovery: str | None = None,
    out: str | os.PathLike[str] | None = None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> list[CallResult]:
    """Hold a call over every path, in the simulator.

    Args:
        paths: Profiles and networks.
        app: The call, as ``race --app``: ``call`` with its options.
        duration_s: Duration of each Run [s]; None: that of the shortest path.
        seeds: N stands for the seeds 0 … N−1.
        phase_s: Offset in the Profile at which the call begins [s]; None: drawn, as in a race.
        recovery: Schemes of loss recovery inside the network, as ``race --recovery``.
        out: Folder for the Runs; None: they are not kept.
        on_progress: Called with the share done.

    Raises:
        UserError: A Run is impossible, or no frame was shown.
    """
    if not isinstance(parse_app(app), Call):
        raise UserError(app, where="app", expected="call, with its options")
    # The controller is that of TCP connections, and a call opens none.
    result = racing.race(
        paths,
        ["cubic"],
        out=out,
        app=app,
        duration_s=duration_s,
        phase_s=phase_s,
        seeds=seeds,
        recovery=recovery,
        on_progress=lambda progress: on_progress(progress.share),
    )
    every = [each for run in result.runs for each in results_of(run)]
    if not every:
        raise UserError("no frame was shown", where="call", expected="a path that is there for a part of the Run")
    return every


def results_of(run: Run) -> list[CallResult]:
    """Return both directions of each call in a Run; a direction without a frame shown is left out."""
    items = run.applications()
    if items is None:
        return []
    experiment = run.record.experiment
    scheme = "none" if experiment.recovery is None else recovery_name(experiment.recovery)
    rows = []
    for flow, path in zip(run.flow_numbers, run.flow_paths, strict=True):
        spec = experiment.flows[flow]
        if not isinstance(spec.app, Call):
            continue
        for kind, is_reverse in KINDS.items():
            frames = items.filter((pl.col("flow") == flow) & (pl.col("kind") == kind))
            is_up = (spec.direction == "up") != is_reverse
            figures = _figures(frames, spec.app.call)
            if figures is not None:
                where = (scheme, run.label, str(path), run.seed)
                rows.append(CallResult(*where, "up" if is_up else "down", world=run.world, **figures))
    return rows


def _figures(frames: pl.DataFrame, call: CallApp) -> dict[str, Any] | None:
    """Return the figures of `CallResult`; None: no frame was shown twice."""
    shown = frames.filter(pl.col("completed_s").is_not_null()).sort("completed_s")
    if len(shown) < 2:
        return None
    at = shown["completed_s"].to_numpy()
    delays_ms = (at - shown["start_s"].to_numpy()) * 1e3
    after_buffer_ms = (call.decode_ns + call.display_ns) / 1e6
    buffer_ms = (at - shown["first_byte_s"].to_numpy()) * 1e3 - after_buffer_ms
    per_second = frames_per_second(at)
    span_s = frames["start_s"].to_numpy().max() - frames["start_s"].to_numpy().min()
    return {
        "delay_mean_ms": float(delays_ms.mean()),
        "delay_p99_ms": float(np.percentile(delays_ms, 99)),
        "jitter_buffer_ms": float(buffer_ms.mean()),
        "fps_mean": float(per_second.mean()),
        "fps_sd": float(per_second.std()),
        "freezes": _freezes(np.diff(at)),
        "rate_bps": float(frames["bytes"].sum() * 8 / max(span_s, 1 / call.fps)),
        "frames": len(frames),
        "frames_shown": len(shown),
    }


def frames_per_second(shown_s: np.ndarray) -> np.ndarray:
    """Return the frames shown in each whole second since the first one; of less than a second: the mean rate.

    Args:
        shown_s: Ascending times at which frames were shown [s], shape (n,), n ≥ 2.

    Example:
        >>> frames_per_second(np.arange(16) / 30)
        array([30.])
    """
    span_s = shown_s[-1] - shown_s[0]
    if span_s < 1:
        return np.array([(len(shown_s) - 1) / max(span_s, 1e-3)])
    return np.bincount((shown_s - shown_s[0]).astype(int))[: int(span_s)]


def _freezes(gaps_s: np.ndarray) -> int:
    """Count the freezes among the gaps between frames (webrtc-stats, ``freezeCount``: the mean is over 30 gaps)."""
    count, sums = 0, np.concatenate([[0.0], np.cumsum(gaps_s)])
    for i in range(1, len(gaps_s)):
        first = max(0, i - 30)
        mean = (sums[i] - sums[first]) / (i - first)
        count += bool(gaps_s[i] >= max(3 * mean, mean + 0.150))
    return count
