"""Races of video players: every policy over every window of the traces, in the simulator or in a browser."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.apps.video.qoe import Experience, experience, play
from bentpipe.apps.video.read import read_video
from bentpipe.errors import UserError
from bentpipe.execution import plan as planning
from bentpipe.execution.browser_videos import check_browser, play_in_browser
from bentpipe.execution.drawn import DrawnProfiles
from bentpipe.execution.engine import simulate
from bentpipe.execution.pools import Finished, Tick, on_threads
from bentpipe.execution.video_forecasts import forecast, known, train
from bentpipe.execution.video_traces import LEAST_HALVED, MOST_DEAD, cut, halves, named_apart, read_trace
from bentpipe.experiments.videos import BUFFER, check_policy, player
from bentpipe.runs import record
from bentpipe.times import parse_duration_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.apps.video.description import VideoDescription
    from bentpipe.execution.pools import Reports
    from bentpipe.execution.video_traces import Window
    from bentpipe.experiments.videos import Outlook, PolicyName, Video
    from bentpipe.predict.score import Fitted
    from bentpipe.predict.signals import Signal

DEFAULT_POLICIES = "robust-mpc,mpc,mpc-forecast,mpc-oracle,buffer,bola"
FORECAST_MODEL = "ensemble"
"""Predictor of `mpc-forecast` by default."""


@dataclass(frozen=True)
class VideoResult:
    """What a policy made of a window.

    Attributes:
        trace: Name of the trace, and the second at which the window begins.
        policy: The policy.
        qoe_mean: Mean over chunks of bitrate − 4.3 · stall − |change of bitrate| [Mbit/s, s].
        bitrate_mbps: Mean bitrate [Mbit/s].
        stall_s: Sum of stalls [s].
        switches: Changes of quality.
        startup_s: Time until the first chunk was there, in a browser until it played [s].
        chunks: Chunks that arrived.
        world: ``simulated``, or ``emulated`` in a browser.
        valid: Whether the Run is valid.
    """

    trace: str
    policy: PolicyName
    qoe_mean: float
    bitrate_mbps: float
    stall_s: float
    switches: int
    startup_s: float
    chunks: int
    world: Literal["simulated", "emulated"] = "simulated"
    valid: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``video race --json`` has it."""
        return dict(vars(self))


@dataclass(frozen=True)
class _Task:
    """A window that a policy plays."""

    window: Window
    policy: PolicyName
    app: Video


@dataclass(frozen=True)
class VideoRace:
    """A race of players.

    Attributes:
        results: Of every window, every policy.
        video: The video.
        left_out: Windows with too many seconds without capacity.
    """

    results: list[VideoResult]
    video: VideoDescription
    left_out: int


def race_videos(
    traces: Sequence[str | os.PathLike[str]],
    policies: Sequence[str],
    *,
    video: str | os.PathLike[str] = "pensieve",
    buffer: str = BUFFER,
    windows: str = "240s",
    rho: float = 1.0,
    most_dead: float = MOST_DEAD,
    model: str = FORECAST_MODEL,
    training: Sequence[str | os.PathLike[str]] = (),
    later_half: bool = False,
    cc: str = "cubic",
    limit: int | None = None,
    browser: bool = False,
    out: str | os.PathLike[str] | None = None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> VideoRace:
    """Play a video with every policy over every window of the traces.

    Args:
        traces: Traces and Profiles (`read_trace`).
        policies: Policies.
        video: The video (`read_video`).
        buffer: Buffer above which a player waits.
        windows: Length of a window.
        rho: Median capacity of each window over the highest bitrate; 0: capacities as they are.
        most_dead: Largest share of a window's seconds without capacity.
        model: Predictor of ``mpc-forecast`` (`bentpipe predict list`).
        training: Traces to train it on; without, each window's is trained on the half of the traces that it is not in.
        later_half: Play the second half of the traces alone, so that training lies before all that is played.
        cc: Congestion controller of the server.
        limit: Largest number of windows, evenly spread; None: all.
        browser: Play in Chromium over emulated paths, in real time, one after the other.
        out: Folder for the Runs of a browser; None: they are not kept.
        on_progress: Called with the share done.

    Raises:
        UserError: An input is invalid, there is no window, too little to train on, or no browser.
        BentpipeError: The player in a browser failed.
    """
    chosen = [check_policy(policy) for policy in dict.fromkeys(policies)]
    described = read_video(video)
    buffer_ns = parse_duration_ns(buffer, "buffer")
    length_s = round(parse_duration_ns(windows, "windows") / 1e9)
    if not 30 <= length_s <= 86_400:
        raise UserError(windows, where="windows", expected="30s to 24h")
    if not 0 <= rho <= 1000:
        raise UserError(f"{rho:g}", where="scale", expected="0 (as they are) to 1000")
    if not chosen or not traces:
        raise UserError("nothing to race", expected="a trace and a policy")
    if limit is not None and limit < 1:
        raise UserError(str(limit), where="limit", expected="at least 1")
    if browser:
        check_browser(described, cc)
    player(described, "mpc", buffer_ns)
    parts = halves([read_trace(path) for path in traces], length_s)
    played = [part for part in parts if part[1] or not later_half]
    if not played:
        raise UserError(
            "has no second half",
            where=parts[0][0].source,
            expected=f"a trace of {LEAST_HALVED * length_s} s or more ({LEAST_HALVED} windows)",
        )
    every, left_out = _windows(played, length_s, described, rho, most_dead)
    if limit is not None and limit < len(every):
        every = [every[number * len(every) // limit] for number in range(limit)]
    forecasts: dict[str, Outlook] = {}
    share = 0.0
    if "mpc-forecast" in chosen:
        share = 0.3
        given = [read_trace(path) for path in training]
        forecasts = _forecasts(every, parts, given, model, lambda done: on_progress(share * done))
    tasks = []
    for window in every:
        outlooks = {"mpc-oracle": known(window)} if "mpc-oracle" in chosen else {}
        if window.trace in forecasts:
            outlooks["mpc-forecast"] = forecasts[window.trace]
        tasks += [
            _Task(window, policy, player(described, policy, buffer_ns, outlooks.get(policy))) for policy in chosen
        ]

    def advance(done: float) -> None:
        on_progress(share + (1 - share) * done)

    results = _in_browser(tasks, described, cc, out, advance) if browser else _simulated(tasks, described, cc, advance)
    return VideoRace(results, described, left_out)


def _windows(
    parts: Sequence[tuple[Signal, int, float]], length_s: int, video: VideoDescription, rho: float, most_dead: float
) -> tuple[list[Window], int]:
    every: list[Window] = []
    left_out = 0
    for trace, fold, begin_s in parts:
        windows, dead = cut(trace, fold, length_s, video.rates_bps[-1] / 1e6, rho, most_dead, begin_s)
        every += windows
        left_out += dead
    if every:
        return named_apart(every), left_out
    names = ", ".join(dict.fromkeys(trace.source for trace, _, _ in parts))
    if left_out:
        raise UserError(
            f"all {left_out} windows have over {most_dead:.0%} of seconds without capacity",
            where=names,
            expected="another trace",
        )
    raise UserError(f"no window of {length_s} s", where=names, expected="a longer trace, or shorter windows")


def _forecasts(
    windows: Sequence[Window],
    parts: Sequence[tuple[Signal, int, float]],
    training: Sequence[Signal],
    model: str,
    on_progress: Callable[[float], object],
) -> dict[str, Outlook]:
    """Return the forecasts for each window, by a predictor that was not trained on its half."""
    folds = sorted({window.fold for window in windows})
    trained: dict[int, Sequence[Fitted]] = {}
    for number, fold in enumerate(folds):
        if training and number:
            trained[fold] = trained[folds[0]]
            continue
        own = list(training) or [trace for trace, other, _ in parts if other != fold]
        if not own:
            raise UserError(
                "mpc-forecast has nothing else to train on",
                where=windows[0].trace,
                expected=f"a trace of {LEAST_HALVED} windows or more, several traces, or others to train on",
                hint="policies without it, as robust-mpc and mpc",
            )
        step, whole = number, len(folds)
        has_slots = all(trace.clock_known for trace, *_ in parts)
        trained[fold] = train(
            own,
            model,
            lambda done, step=step, whole=whole: on_progress((step + done) / whole),  # type: ignore[misc]
            has_slots=has_slots,
        )
    return {window.trace: forecast(window, trained[window.fold]) for window in windows}


def _in_browser(
    tasks: Sequence[_Task],
    video: VideoDescription,
    cc: str,
    out: str | os.PathLike[str] | None,
    on_progress: Callable[[float], object],
) -> list[VideoResult]:
    results = []
    for number, task in enumerate(tasks):
        played = play_in_browser(task.window.path(), video, task.app.video, cc=cc, out=out)
        result = VideoResult(
            task.window.trace,
            task.policy,
            **vars(played.seen),
            chunks=played.chunks,
            world="emulated",
            valid=played.valid,
        )
        results.append(result)
        on_progress((number + 1) / len(tasks))
    return results


def _simulated(
    tasks: Sequence[_Task], video: VideoDescription, cc: str, on_progress: Callable[[float], object]
) -> list[VideoResult]:
    drawn = DrawnProfiles(4)
    windows = {task.window.trace: task.window for task in tasks}
    bases = {trace: planning.label_profiles([window.path()]) for trace, window in windows.items()}
    works = []
    for task in tasks:
        works += planning.plan_race(bases[task.window.trace], [cc], "down", None, 1, Path(), 0.0, app=task.app)

    def one(number: int, reports: Reports) -> VideoResult:
        task, work = tasks[number], works[number]
        data = simulate(work, drawn, reports.share).data
        table = record.tables(work.experiment.to_dict()["flows"], data)["applications"]
        return _result(task.window.trace, task.policy, table.sort("id"), video, work.experiment.duration_ns / 1e9)

    results: dict[int, VideoResult] = {}
    for event in on_threads(one, len(tasks), len(os.sched_getaffinity(0))):
        if isinstance(event, Finished):
            if event.error is not None:
                raise event.error
            assert event.result is not None  # it has no error
            results[event.number] = event.result
        elif isinstance(event, Tick):
            on_progress((len(results) + sum(event.shares.values())) / len(tasks))
    return [results[number] for number in range(len(tasks))]


def _result(trace: str, policy: PolicyName, items: Any, video: VideoDescription, end_s: float) -> VideoResult:  # noqa: ANN401 - a table
    """Return the result; a chunk that was under way at the end counts as arrived then."""
    qualities = [int(kind.removeprefix("chunk/")) for kind in items["kind"]]
    arrived = items["completed_s"].fill_null(end_s).to_list()
    if len(arrived) < 2:
        raise UserError("not even two chunks arrived", where=trace, expected="a path that is there")
    chunks = play(qualities, items["start_s"].to_list(), arrived, video.rates_bps, video.chunk_s)
    seen: Experience = experience(chunks, arrived[0])
    return VideoResult(trace, policy, **vars(seen), chunks=len(arrived))
