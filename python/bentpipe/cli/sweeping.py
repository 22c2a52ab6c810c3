"""`bentpipe tune` and `bentpipe fairness`: many Runs, of which figures are kept."""

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
Direction = Annotated[str, typer.Option(help="The way the data goes: down (to the terminal) or up.")]
Duration = Annotated[
    float | None,
    typer.Option(help="Length of a run [s]. [default: the whole of the shortest Profile]", show_default=False),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="A Dask scheduler, for example tcp://host:8786: its workers do the Runs. [default: this machine]",
        show_default=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", help="Threads; the result is the same. [default: all cores]", show_default=False),
]
Out = Annotated[
    Path, typer.Option("-o", "--out", help="Folder for figure and results; what is there is not run again.")
]


def tune(
    profiles: Profiles,
    cc: Annotated[str, typer.Option(help="The controller, with tunables that all points share: bbr2.")],
    grid: Annotated[
        list[str],
        typer.Option(help="A tunable and its values: loss_thresh=0.02,0.08. `bentpipe cc` lists them. [repeatable]"),
    ],
    out: Out = Path("out/tune"),
    direction: Direction = "down",
    duration: Duration = None,
    seeds: Annotated[int, typer.Option(help="N: seeds 0 … N−1; the winner again on N … 2N−1.")] = 3,
    fresh: Annotated[
        list[Path] | None,
        typer.Option(
            help="A Profile kept for scoring the winner again, instead of other seeds of those it was chosen on. "
            "Measured Profiles are the same path with every seed. [repeatable]",
            show_default=False,
        ),
    ] = None,
    max_rtt_inflation: Annotated[
        float,
        typer.Option(help="The best point's RTT, p95 and mean, exceeds the default's by less than this part."),
    ] = 0.10,
    on: On = None,
    jobs: Jobs = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run a grid that costs more than an hour of one core.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Try a grid of a controller's tunables on the same paths: what each gains in goodput and costs in RTT.

    Draws two heatmaps, names the best point within --max-rtt-inflation, and scores that one again on what had no part
    in choosing it: Profiles given with --fresh, or other seeds. The same command goes on after Ctrl-C.

    Example:
        bentpipe tune P.parquet --cc bbr2 --grid probe_rtt_win_ms=2000,5000 --grid loss_thresh=0.02,0.08 --duration 60
    """
    from bentpipe.cli.console import note, print_json, progress
    from bentpipe.plots.heatmap import plot_heatmaps
    from bentpipe.plots.style import save
    from bentpipe.tuning import search
    from bentpipe.tuning.grid import parse_grid

    wanted = parse_grid(cc, grid)
    paths, kept = _read(profiles), _read(fresh or [])
    with progress("tuning") as advance:
        found = search.tune(
            paths,
            wanted,
            out=out,
            direction=_direction(direction),
            duration_s=duration,
            seeds=seeds,
            most_inflation=max_rtt_inflation,
            fresh_paths=kept,
            on=on,
            threads=jobs,
            agreed=yes,
            on_progress=lambda each: advance(each.share),
        )
    figure = out / "tune.png"
    save(plot_heatmaps(found, f"{wanted.controller}, {len(profiles)} Profile(s), {seeds} seed(s)"), figure)
    if as_json:
        print_json({**found.to_dict(), "figure": str(figure)})
    else:
        _show_tuned(found)
        note(f"figure: {figure}; results: {out / 'results.jsonl'}")
    _failed(found.failed)


def fairness(
    profiles: Profiles,
    flows: Annotated[str, typer.Option(help="Who shares the path: 8xcubic,8xbbr2:loss_thresh=0.08.")],
    out: Out = Path("out/fairness"),
    direction: Direction = "down",
    duration: Duration = None,
    seeds: Annotated[int, typer.Option(help="N: one run for each of the seeds 0 … N−1.")] = 1,
    on: On = None,
    jobs: Jobs = None,
    as_json: options.AsJson = False,
) -> None:
    """Let flows of several controllers share a path: who gets what, and how even it is over which time.

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
        found = library.fairness(
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
    save(plot_fairness({flows: found}, f"{flows}, {found.runs} Run(s)"), figure)
    if as_json:
        print_json({**found.to_dict(), "figure": str(figure)})
    else:
        _show_fairness(found)
        note(f"figure: {figure}; results: {out / 'results.jsonl'}")
    _failed(found.failed)


def _show_tuned(found: Tuned) -> None:
    from bentpipe.cli.console import note, table

    names = [name for name, _ in found.grid.axes]
    rows = [[*cell.point, *_row(cell.score), _mark(found, cell.point)] for cell in found.cells]
    head = [*names, "Mbit/s", "goodput [%]", "RTT p95 [%]", "RTT mean [%]", "n", ""]
    table(f"{found.grid.controller}: against its defaults, with 95 % intervals", head, rows)
    if found.best is None:
        note(f"no point gains goodput with less than {100 * found.most_inflation:g} % more RTT, mean and p95")
        return
    point = ", ".join(f"{name}={value}" for name, value in zip(names, found.best.point, strict=True))
    gained = found.best.score.gain
    unsure = gained is not None and gained.low is not None and gained.low <= 1.0
    told = ", not told from the default (its interval has 0 in it)" if unsure else ""
    note(f"best within {100 * found.most_inflation:g} %: {point} ({found.best.scheme}){told}")
    if found.fresh is not None:
        gain, p95, mean = (_percent(each) for each in (found.fresh.gain, found.fresh.rtt_p95, found.fresh.rtt_mean))
        note(f"the same again on {found.fresh_on}: goodput {gain} %, RTT p95 {p95} %, mean {mean} %")


def _row(score: Score) -> list[object]:
    units = score.gain.n if score.gain else None
    ratios = [_percent(each) for each in (score.gain, score.rtt_p95, score.rtt_mean)]
    return [round(score.goodput_bps / 1e6, 2), *ratios, units]


def _mark(found: Tuned, point: tuple[str, ...]) -> str:
    return "best" if found.best is not None and found.best.point == point else ""


def _percent(value: Estimate | None) -> str:
    """A ratio as a change, with its interval: ``+115 (+90 … +140)``."""
    if value is None:
        return "–"
    mean = f"{100 * (value.mean - 1):+.1f}"
    if value.low is None or value.high is None:
        return mean
    return f"{mean} ({100 * (value.low - 1):+.1f} … {100 * (value.high - 1):+.1f})"


def _show_fairness(found: Fairness) -> None:
    from bentpipe.cli.console import table

    flows = sum(group.count for group in found.groups)
    rows = [
        [group.scheme, group.count, _part(group.count / flows), _interval(share, 100), _interval(goodput, 1e-6)]
        for group, share, goodput in zip(found.groups, found.shares, found.goodput_bps, strict=True)
    ]
    table("Who gets what", ["flows of", "n", "fair share [%]", "share [%]", "Mbit/s"], rows)
    scales = [[each.scale_s, _interval(each.jain, 1), round(each.jain_p5, 3)] for each in found.scales]
    table("Jain's index over all flows", ["time scale [s]", "mean", "5th percentile"], scales)


def _part(value: float) -> float:
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


def _failed(failed: tuple[str, ...]) -> None:
    if failed:
        raise UserError(f"{len(failed)} Run(s) failed; the first: {failed[0]}")
