"""`bentpipe tune` and `bentpipe fairness`: sweeps of many Runs, of which only the results are stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli import options
from bentpipe.errors import UserError

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.fairness import Fairness
    from bentpipe.runs.estimates import Estimate
    from bentpipe.tuning.scores import Score
    from bentpipe.tuning.search import Tuned

Profiles = Annotated[
    list[Path], typer.Argument(help="Profiles (.parquet), as `bentpipe profile make` writes them.", show_default=False)
]
Direction = Annotated[str, typer.Option(help="Direction of the data: down (to the terminal) or up.")]
Duration = Annotated[
    float | None,
    typer.Option(
        parser=options.duration,
        help="Duration of a run: 60 (seconds), 60s, 5m. [default: that of the shortest Profile]",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for figure and results; stored results are reused.")]


def tune(
    profiles: Profiles,
    cc: Annotated[str, typer.Option(help="The controller, with the tunables that all points share: bbr2.")],
    grid: Annotated[
        list[str],
        typer.Option(help="A tunable and its values: loss_thresh=0.02,0.08. `bentpipe cc` lists them. [repeatable]"),
    ],
    out: Out = Path("out/tune"),
    direction: Direction = "down",
    duration: Duration = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds N: 0 … N−1; the best point again on N … 2N−1.")] = 3,
    fresh: Annotated[
        list[Path] | None,
        typer.Option(
            help="Profile on which only the best point is scored, in place of other seeds of PROFILES. Use it with "
            "measured Profiles, which are the same path with every seed. [repeatable] [default: other seeds]",
            show_default=False,
        ),
    ] = None,
    max_rtt_inflation: Annotated[
        float,
        typer.Option(help="Largest RTT inflation of the best point (p95 and mean) over the default, as a share."),
    ] = 0.10,
    on: options.On = None,
    jobs: options.Jobs = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run a grid that takes more than one core hour.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Score a grid of a controller's tunables on the same paths by goodput gain and RTT inflation.

    Draws two heatmaps, prints the best point within --max-rtt-inflation, and scores it on data that were not used for
    the choice: the Profiles of --fresh, or other seeds. The same command continues after Ctrl-C.

    Example:
        bentpipe tune P.parquet --cc bbr2 --grid probe_rtt_win_ms=2000,5000 --grid loss_thresh=0.02,0.08 --duration 60
    """
    from bentpipe.cli.console import note, print_json, progress
    from bentpipe.plots.heatmap import plot_heatmaps
    from bentpipe.plots.style import save
    from bentpipe.tuning import search
    from bentpipe.tuning.grid import parse_grid

    points = parse_grid(cc, grid)
    paths, held_out = _read(profiles), _read(fresh or [])
    with progress("tuning") as advance:
        result = search.tune(
            paths,
            points,
            out=out,
            direction=_direction(direction),
            duration_s=duration,
            seeds=seeds,
            most_inflation=max_rtt_inflation,
            fresh_paths=held_out,
            on=on,
            threads=jobs,
            agreed=yes,
            on_progress=lambda each: advance(each.share),
        )
    figure = out / "tune.png"
    save(plot_heatmaps(result, title=f"{points.controller}, {len(profiles)} Profile(s), {seeds} seed(s)"), figure)
    if as_json:
        print_json({**result.to_dict(), "figure": str(figure)})
    else:
        _show_tuned(result)
        note(f"figure: {figure}; results: {out / 'results.jsonl'}")
    _raise_if_failed(result.failed)


def fairness(
    profiles: Profiles,
    flows: Annotated[str, typer.Option(help="Groups of flows that share the path: 8xcubic,8xbbr2:loss_thresh=0.08.")],
    out: Out = Path("out/fairness"),
    direction: Direction = "down",
    duration: Duration = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds N: one run for each of 0 … N−1.")] = 1,
    on: options.On = None,
    jobs: options.Jobs = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure how flows of several controllers share a path: shares, goodput and Jain's index by time scale.

    Example:
        bentpipe fairness P.parquet --flows 8xcubic,8xbbr2:probe_rtt_win_ms=4000,loss_thresh=0.08 --duration 300
    """
    from bentpipe import fairness as library
    from bentpipe.cli.console import note, print_json, progress
    from bentpipe.plots.fairness import plot_fairness
    from bentpipe.plots.style import save

    groups = library.parse_groups(flows)
    paths = _read(profiles)
    with progress("sharing") as advance:
        result = library.fairness(
            paths,
            groups,
            out=out,
            direction=_direction(direction),
            duration_s=duration,
            seeds=seeds,
            on=on,
            threads=jobs,
            on_progress=lambda each: advance(each.share),
        )
    figure = out / "fairness.png"
    save(plot_fairness({flows: result}, title=f"{flows}, {result.runs} Run(s)"), figure)
    if as_json:
        print_json({**result.to_dict(), "figure": str(figure)})
    else:
        _show_fairness(result)
        note(f"figure: {figure}; results: {out / 'results.jsonl'}")
    _raise_if_failed(result.failed)


def _show_tuned(result: Tuned) -> None:
    from bentpipe.cli.console import note, table

    names = [name for name, _ in result.grid.axes]
    rows = [[*cell.point, *_row(cell.score), _mark(result, cell.point)] for cell in result.cells]
    head = [*names, "Mbit/s", "goodput [%]", "RTT p95 [%]", "RTT mean [%]", "n", ""]
    table(f"{result.grid.controller}: relative to its defaults, with 95 % intervals", head, rows)
    if result.best is None:
        note(f"no point gains goodput within {100 * result.most_inflation:g} % RTT inflation (mean and p95)")
        return
    point = ", ".join(f"{name}={value}" for name, value in zip(names, result.best.point, strict=True))
    gained = result.best.score.gain
    unsure = gained is not None and gained.low is not None and gained.low <= 1.0
    remark = ", not significantly better than the default (its interval contains 0)" if unsure else ""
    note(f"best within {100 * result.most_inflation:g} %: {point} ({result.best.scheme}){remark}")
    if result.fresh is not None:
        gain, p95, mean = (_percent(each) for each in (result.fresh.gain, result.fresh.rtt_p95, result.fresh.rtt_mean))
        note(f"the best point on {result.fresh_on}: goodput {gain} %, RTT p95 {p95} %, mean {mean} %")


def _row(score: Score) -> list[object]:
    units = score.gain.n if score.gain else None
    ratios = [_percent(each) for each in (score.gain, score.rtt_p95, score.rtt_mean)]
    return [round(score.goodput_bps / 1e6, 2), *ratios, units]


def _mark(result: Tuned, point: tuple[str, ...]) -> str:
    return "best" if result.best is not None and result.best.point == point else ""


def _percent(value: Estimate | None) -> str:
    """Format a ratio as a change in percent, with its interval: ``+115 (+90 … +140)``."""
    if value is None:
        return "–"
    mean = f"{100 * (value.mean - 1):+.1f}"
    if value.low is None or value.high is None:
        return mean
    return f"{mean} ({100 * (value.low - 1):+.1f} … {100 * (value.high - 1):+.1f})"


def _show_fairness(result: Fairness) -> None:
    from bentpipe.cli.console import table

    flows = sum(group.count for group in result.groups)
    rows = [
        [group.scheme, group.count, _as_percent(group.count / flows), _interval(share, 100), _interval(goodput, 1e-6)]
        for group, share, goodput in zip(result.groups, result.shares, result.goodput_bps, strict=True)
    ]
    table("Shares by group", ["flows of", "n", "fair share [%]", "share [%]", "Mbit/s"], rows)
    scales = [[each.scale_s, _interval(each.jain, 1), round(each.jain_p5, 3)] for each in result.scales]
    table("Jain's index over all flows", ["time scale [s]", "mean", "5th percentile"], scales)


def _as_percent(value: float) -> float:
    return round(100 * value, 1)


def _interval(value: Estimate, factor: float) -> str:
    mean = f"{factor * value.mean:.3g}"
    if value.low is None or value.high is None:
        return mean
    return f"{mean} ({factor * value.low:.3g} … {factor * value.high:.3g})"


def _read(profiles: list[Path]) -> list[Profile]:
    from bentpipe.profiles.parquet import read_profile

    return [read_profile(path) for path in profiles]


def _direction(text: str) -> Any:  # noqa: ANN401 - the library checks it
    return text


def _raise_if_failed(failed: tuple[str, ...]) -> None:
    if failed:
        raise UserError(f"{len(failed)} Run(s) failed; the first: {failed[0]}")
