"""Video calls over paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.objects import arguments
from bentpipe.objects.paths import native_paths, native_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from bentpipe.execution.calls import CallResult
    from bentpipe.objects.arguments import DurationLike
    from bentpipe.objects.paths import PathLike


def video_call(
    paths: PathLike | Sequence[PathLike],
    *,
    app: str = "call",
    duration: DurationLike | None = None,
    seeds: int = 1,
    phase: DurationLike | None = None,
    recovery: str | None = None,
    browser: bool = False,
    on_progress: Callable[[float], object] | None = None,
) -> pl.DataFrame:
    """Hold a video call over paths, in the simulator or between real browsers; return one row for each direction.

    Args:
        paths: A Profile, a `Network` of a constellation, the file of a Profile, or a list of them.
        app: The call, as ``race --app``: ``call``, or ``call:max=1mbit,fps=25``.
        duration: Duration of each call; default: that of the shortest path.
        seeds: N stands for the seeds 0 … N−1.
        phase: Offset in the path at which the call begins; default: drawn from the seed.
        recovery: Schemes of loss recovery inside the network, as ``race --recovery``.
        browser: Hold it between two Chromiums over emulated Profiles, in real time: 640 × 360 at the rate and frames
            per second of `app`, for a minute unless `duration` is given; one seed.
        on_progress: Called with the share done, 0 to 1.

    Returns:
        Columns `scheme` (of recovery), `profile`, `path`, `seed`, `direction`, `delay_mean_ms` and `delay_p99_ms` (from
        capture to display), `jitter_buffer_ms`, `fps_mean`, `fps_sd`, `freezes`, `rate_bps`, `frames`, `frames_shown`,
        `world` and `valid`. A direction in which no frame was shown has no row.

    Raises:
        UserError: The call is impossible, there is no browser, or no frame was shown.
        BentpipeError: A call between browsers failed.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=50mbit,rtt=40ms", duration=20)
        >>> call = bp.video_call(path)
        >>> call["direction"].to_list(), call["delay_mean_ms"].max() < 100
        (['down', 'up'], True)
    """
    import polars as pl

    from bentpipe.execution import calls

    if browser:
        rows = _between_browsers(paths, app, duration, seeds, phase, recovery, on_progress)
        return pl.DataFrame([each.to_dict() for each in rows])
    rows = calls.call(
        native_paths(paths),
        app=arguments.text(app, "app"),
        duration_s=None if duration is None else arguments.seconds(duration, "duration"),
        seeds=arguments.integer(seeds, "seeds", 1),
        phase_s=None if phase is None else arguments.seconds(phase, "phase"),
        recovery=arguments.optional_text(recovery, "recovery"),
        on_progress=arguments.callback(on_progress, "on_progress"),
    )
    return pl.DataFrame([each.to_dict() for each in rows])


def _between_browsers(
    paths: PathLike | Sequence[PathLike],
    app: str,
    duration: DurationLike | None,
    seeds: int,
    phase: DurationLike | None,
    recovery: str | None,
    on_progress: Callable[[float], object] | None,
) -> list[CallResult]:
    from bentpipe.execution.browser_calls import Picture, call_browsers
    from bentpipe.experiments.apps import Call, parse_app
    from bentpipe.experiments.recovery import split_recoveries

    parsed = parse_app(arguments.text(app, "app"))
    if not isinstance(parsed, Call):
        raise UserError(app, where="app", expected="call, with its options")
    if seeds != 1:
        raise UserError(str(seeds), where="seeds", expected="1: the kernel's timing cannot be drawn")
    return call_browsers(
        native_profiles(paths),
        duration_s=60.0 if duration is None else arguments.seconds(duration, "duration"),
        picture=Picture(fps=parsed.call.fps, max_bps=parsed.call.max_bps),
        recovery=["none"] if recovery is None else split_recoveries(recovery),
        offset_s=None if phase is None else arguments.seconds(phase, "phase"),
        on_progress=arguments.callback(on_progress, "on_progress"),
    )
