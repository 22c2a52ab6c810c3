"""Video calls over paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.objects import arguments
from bentpipe.objects.paths import native_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

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
    on_progress: Callable[[float], object] | None = None,
) -> pl.DataFrame:
    """Hold a video call over paths in the simulator; return one row for each direction.

    Args:
        paths: A Profile, a `Network` of a constellation, the file of a Profile, or a list of them.
        app: The call, as ``race --app``: ``call``, or ``call:max=1mbit,fps=25``.
        duration: Duration of each call; default: that of the shortest path.
        seeds: N stands for the seeds 0 … N−1.
        phase: Offset in the path at which the call begins; default: drawn from the seed.
        recovery: Schemes of loss recovery inside the network, as ``race --recovery``.
        on_progress: Called with the share done, 0 to 1.

    Returns:
        Columns `scheme` (of recovery), `profile`, `path`, `seed`, `direction`, `delay_mean_ms` and `delay_p99_ms` (from
        capture to display), `jitter_buffer_ms`, `fps_mean`, `fps_sd`, `freezes`, `rate_bps`, `frames`, `frames_shown`
        and `world`. A direction in which no frame was shown has no row.

    Raises:
        UserError: The call is impossible, or no frame was shown.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=50mbit,rtt=40ms", duration=20)
        >>> call = bp.video_call(path)
        >>> call["direction"].to_list(), call["delay_mean_ms"].max() < 100
        (['down', 'up'], True)
    """
    import polars as pl

    from bentpipe.execution import calls

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
