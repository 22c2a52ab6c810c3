"""Adaptive video that plans by forecasts (T3P, section 4): gains over RobustMPC by buffer and capacity.

The published figure has one setting; which buffer, and how much capacity for the bitrates, is not said. What forecasts
gain depends on both, so every combination is played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.execution.video_gains import PolicySummary, summarize
from bentpipe.execution.videos import race_videos
from bentpipe.profiles.parquet import write_profile
from bentpipe.studies.agreement import FEWEST
from bentpipe.studies.field import make_paths
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import SOURCE
from bentpipe.studies.t3p_files import T3pAbr

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.execution.video_gains import Gain

#: Setting whose verdicts are given: as live, where the median capacity is the highest bitrate.
MAIN = (12.0, 1.0)
FORECAST, ORACLE, PLAIN = "mpc-forecast", "mpc-oracle", "mpc"
_SECTION = "section 4"


@dataclass(frozen=True)
class _Played:
    """Summaries of the policies on traces of one name."""

    traces: str
    buffer_s: float
    scale: float
    basis: str
    policies: dict[str, PolicySummary]

    @property
    def setting(self) -> str:
        return f"{self.traces}, buffer {self.buffer_s:g} s, median capacity {self.scale:g} x the highest bitrate"


def _run(request: Request) -> Result:
    file = T3pAbr.load()
    video: str | Path = "pensieve"
    notes = ["the predictor is trained on the first half of each trace, and the second half is played"]
    groups = _files(file, request)
    if request.data is not None and (request.data / file.files.video).is_dir():
        video = request.data / file.files.video
        notes.append("sizes of the chunks: those of Pensieve's video")
    else:
        notes.append("sizes of the chunks are generated around the bitrates")
    buffers = file.buffers_quick_s if request.quick else file.buffers_s
    scales = file.scales_quick if request.quick else file.scales
    settings = [(group, buffer_s, scale) for group in groups.items() for buffer_s in buffers for scale in scales]
    played = []
    for number, ((name, paths), buffer_s, scale) in enumerate(settings):
        raced = race_videos(
            paths,
            file.policies,
            video=video,
            buffer=f"{buffer_s:g}s",
            windows=f"{file.windows_s:g}s",
            rho=scale,
            model=file.model,
            later_half=True,
            on_progress=lambda share, number=number: request.on_progress((number + share) / len(settings)),  # type: ignore[misc]
        )
        summaries = summarize(raced.results)
        world = "measured" if request.data is not None else "simulated"
        basis = f"{world}: {name}, {summaries[0].n} windows of {file.windows_s:g} s ({raced.left_out} left out)"
        played.append(_Played(name, buffer_s, scale, basis, {each.policy: each for each in summaries}))
    rows = [row for each in played for row in _rows(file, each)]
    verdicts = [verdict for each in played if (each.buffer_s, each.scale) == MAIN for verdict in _verdicts(each)]
    notes += [
        f"forecasts: {file.model}, at each second from the seconds of the trace before it",
        "intervals: 95 % of a bootstrap over windows; verdicts at the main setting alone, several at 5 % each",
        "a gain needs capacity near the bitrates: far above them every policy is perfect",
    ]
    return Result(rows, verdicts, [each.basis for each in played], notes=notes)


def _files(file: T3pAbr, request: Request) -> dict[str, list[Path]]:
    """Return files of traces by name: measured ones, or computed Profiles."""
    if request.data is not None:
        known = {(request.data / each).stem: [request.data / each] for each in file.files.throughput}
        own = {name: paths for name, paths in known.items() if paths[0].is_file()}
        return own or {request.data.name: [request.data]}
    count = file.paths_quick if request.quick else None
    duration_s = file.duration_quick_s if request.quick else file.duration_s
    request.out.mkdir(parents=True, exist_ok=True)
    written = []
    for path in make_paths(file.paths[:count], duration_s):
        written.append(request.out / f"{path.name}.parquet")
        write_profile(path.profile, written[-1])
    return {"computed paths": written}


def _rows(file: T3pAbr, played: _Played) -> list[Row]:
    rows = []
    for name, summary in played.policies.items():
        gain = summary.gain_median
        basis = played.basis if gain is None else f"{played.basis}; {_text(gain)}"
        published = file.published.get({FORECAST: "gain", ORACLE: "oracle"}.get(name, ""))
        if gain is not None and published is not None:
            rows.append(published.row(gain.percent, basis, of=played.setting))
        elif gain is not None:
            quantity = f"QoE over RobustMPC's, {name}: median: {played.setting}"
            rows.append(Row(quantity, "%", None, gain.percent, "not in the paper", basis))
        for label, unit, value in (
            ("QoE, mean", "Mbit/s", summary.qoe_mean),
            ("stalls of a window, mean", "s", summary.stall_s),
            ("share of the oracle's gain in the mean", "", summary.share_of_oracle),
        ):
            if value is not None and not (name == ORACLE and label.startswith("share")):
                quantity = f"{label}, {name}: {played.setting}"
                rows.append(Row(quantity, unit, None, value, "not in the paper", played.basis))
    return rows


def _verdicts(played: _Played) -> list[Verdict]:
    policies = played.policies
    verdicts = []
    for name, least, statement in (
        (FORECAST, 0.0, "planning by forecasts gives a better QoE than RobustMPC in the median"),
        (ORACLE, 0.0, "knowing the capacity gives a better QoE than RobustMPC in the median"),
        (FORECAST, 25.0, "planning by forecasts gives a QoE 25 % better than RobustMPC in the median"),
    ):
        gain = policies[name].gain_median
        if gain is not None:
            holds = _above(gain, least, policies[name].n)
            verdicts.append(Verdict(statement, holds, _SECTION, played.basis, _text(gain)))
    forecast, plain = policies[FORECAST], policies[PLAIN]
    verdicts.append(
        Verdict(
            "it is not below plain MPC, with a third fewer stalls (which the paper does not compare)",
            None
            if forecast.n < FEWEST
            else forecast.qoe_mean >= plain.qoe_mean and forecast.stall_s <= plain.stall_s * 2 / 3,
            _SECTION,
            played.basis,
            f"QoE {forecast.qoe_mean:.2f} against {plain.qoe_mean:.2f}, stalls {forecast.stall_s:.1f} against "
            f"{plain.stall_s:.1f} s",
        )
    )
    return verdicts


def _above(gain: Gain, percent: float, n: int) -> bool | None:
    """Whether a gain is above a limit; None: its interval includes it, or there are too few windows."""
    if n < FEWEST:
        return None
    return True if gain.low >= percent else False if gain.high < percent else None


def _text(gain: Gain) -> str:
    return f"{gain.percent:+.0f} % ({gain.low:+.0f} to {gain.high:+.0f})"


STUDY = Study(
    name="t3p-abr",
    title="Adaptive video that plans by forecasts, by buffer and capacity",
    source=f"{SOURCE}, section 4",
    takes="ten minutes on two cores; --quick: one",
    run=_run,
    measured="tests of throughput at each second, one file or a folder with them",
)
