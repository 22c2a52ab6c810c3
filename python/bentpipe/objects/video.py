"""Adaptive video: races of players over traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.objects import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from bentpipe.objects.arguments import DurationLike, FileLike


def race_videos(
    traces: FileLike | Sequence[FileLike],
    policies: str | Sequence[str] = ("robust-mpc", "mpc", "mpc-oracle", "buffer", "bola"),
    *,
    video: FileLike = "pensieve",
    buffer: DurationLike = 12.0,
    windows: DurationLike = 240.0,
    scale: float = 1.0,
    model: str = "ensemble",
    train: Sequence[FileLike] = (),
    later_half: bool = False,
    limit: int | None = None,
    browser: bool = False,
    on_progress: Callable[[float], object] | None = None,
) -> pl.DataFrame:
    r"""Play a video with every policy over windows of traces, in the simulator or in a real browser.

    Args:
        traces: Measured throughput, packet-delivery traces, lines of seconds and Mbit/s, or files of Profiles.
        policies: Policies: ``robust-mpc``, ``mpc``, ``mpc-forecast``, ``mpc-oracle``, ``buffer``, ``bola``.
        video: ``pensieve``, a folder with ``video_size_0``, … or a DASH manifest.
        buffer: Buffer above which a player waits.
        windows: Length of the windows.
        scale: Median capacity of each window over the highest bitrate; 0: as it is.
        model: Predictor of ``mpc-forecast``.
        train: Traces to train it on; without, the half that a window is not in.
        later_half: Play the second half of the traces alone, so that all training lies before it.
        limit: Largest number of windows, evenly spread; default: all.
        browser: Play in Chromium (dash.js) over emulated paths, in real time, one after the other.
        on_progress: Called with the share done, 0 to 1.

    Returns:
        One row for each window and policy: `trace`, `policy`, `qoe_mean` [Mbit/s less 4.3 for each second of stall],
        `bitrate_mbps`, `stall_s`, `switches`, `startup_s`, `chunks`, `world` and `valid`.

    Raises:
        UserError: An input is invalid, there is no window, too little to train on, or no browser.
        BentpipeError: The player in a browser failed.

    Example:
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> size = Path("trace.txt").write_text("".join(f"{t} {3 + t % 5}\n" for t in range(300)))
        >>> rows = bp.race_videos("trace.txt", ["robust-mpc", "mpc-oracle"])
        >>> rows["chunks"].to_list()
        [49, 49]
    """
    import polars as pl

    from bentpipe.execution import videos

    given = list(traces) if isinstance(traces, list | tuple) else [traces]
    raced = videos.race_videos(
        [arguments.file(each, "traces") for each in given],
        [policies] if isinstance(policies, str) else list(policies),
        video=arguments.file(video, "video"),
        buffer=f"{arguments.seconds(buffer, 'buffer'):g}s",
        windows=f"{arguments.seconds(windows, 'windows'):g}s",
        rho=float(scale),
        model=arguments.text(model, "model"),
        training=[arguments.file(each, "train") for each in train],
        later_half=bool(later_half),
        limit=limit,
        browser=browser,
        on_progress=arguments.callback(on_progress, "on_progress"),
    )
    return pl.DataFrame([each.to_dict() for each in raced.results])
