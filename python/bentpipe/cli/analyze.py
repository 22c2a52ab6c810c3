"""``bentpipe analyze``: statistics of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli import options
from bentpipe.cli.options import PlotCommand, plot_file

if TYPE_CHECKING:
    from bentpipe.measurements.runs.analysis_input import LoadedTable, TableKind

app = typer.Typer(
    no_args_is_help=True, help="Analyze measurements: latency, slots, loss, paths, orientation, throughput."
)

Table = Annotated[
    Path,
    typer.Argument(
        metavar="OUT", help="A measured Run, a folder of Runs, a Parquet table, or a raw log with such data."
    ),
]
Site = Annotated[str | None, typer.Option(help="Only probes from this site. [default: all]")]
Target = Annotated[str | None, typer.Option(help="Only probes to this target. [default: all]")]
Kind = Annotated[str | None, typer.Option(help="Only probes of this kind: icmp, tcp or udp. [default: all]")]
OneSite = Annotated[str | None, typer.Option(help="Only probes from this site. [default: the only one]")]
OneTarget = Annotated[str | None, typer.Option(help="Only probes to this target. [default: the only one]")]
OneKind = Annotated[
    str | None, typer.Option(help="Only probes of this kind: icmp, tcp or udp. [default: the only one]")
]
Plot = Annotated[
    str | None,
    typer.Option(
        metavar="[FILE]",
        help="Draw a figure into FILE (.png, .svg or .pdf); without FILE, into OUT, or into the current folder if OUT "
        "is a file. [default: no figure]",
        show_default=False,
    ),
]
#: Largest number of orientation bins that are printed; there may be thousands.
_BUSIEST = 10
#: Largest number of readers' notes that are printed; a folder of Runs may have many.
_MOST_NOTES = 5


@app.command(cls=PlotCommand)
def latency(
    file: Table,
    site: Site = None,
    target: Target = None,
    kind: Kind = None,
    as_json: options.AsJson = False,
    plot: Plot = None,
) -> None:
    """Print RTT quantiles by site, target and kind of probe.

    Example: bentpipe analyze latency pings.parquet
    """
    from bentpipe.analysis.latency import cdf, latency_summary

    table = _open(file, "probes", site=site, target=target, kind=kind).table
    _print(latency_summary(table).to_dicts(), as_json)
    if plot:
        from bentpipe.plots.analysis import plot_latency

        _save(plot_latency(cdf(table)), plot_file(plot, file, "latency"))


@app.command(cls=PlotCommand)
def spikes(
    file: Table,
    site: OneSite = None,
    target: OneTarget = None,
    kind: OneKind = None,
    as_json: options.AsJson = False,
    plot: Plot = None,
) -> None:
    """List latency spikes: RTT above twice the median for 13 s (about a slot) or more; --json lists shorter ones too.

    Example: bentpipe analyze spikes pings.parquet --target 8.8.8.8
    """
    from bentpipe.analysis.handovers import analyze_handovers
    from bentpipe.analysis.spikes import latency_spikes

    measured = _open(file, "probes", site=site, target=target, kind=kind)
    table = measured.table
    period_s = analyze_handovers(table).period_s
    result = latency_spikes(table, period_s)
    rows = result.spikes.to_dicts()
    if as_json:
        names = ("median_ms", "threshold_ms", "share_lasting", "near_multiple")
        _print({**{name: getattr(result, name) for name in names}, "spikes": rows}, as_json)
    else:
        _print([row for row in rows if row["lasting"]], as_json, clock_known=measured.clock_known)
    if plot:
        from bentpipe.analysis.tables import only_series
        from bentpipe.plots.analysis_episodes import plot_spikes

        _save(plot_spikes(only_series(table), result, period_s=period_s), plot_file(plot, file, "spikes"))


@app.command(cls=PlotCommand)
def handovers(
    file: Table,
    site: OneSite = None,
    target: OneTarget = None,
    kind: OneKind = None,
    as_json: options.AsJson = False,
    plot: Plot = None,
) -> None:
    """Detect scheduler slots in one series of pings: period, phase and each slot, or why none is detected.

    Example: bentpipe analyze handovers pings.parquet --json
    """
    from bentpipe.analysis.handovers import analyze_handovers
    from bentpipe.analysis.tables import only_series

    measured = _open(file, "probes", site=site, target=target, kind=kind)
    table = measured.table
    result = analyze_handovers(table, clock_known=measured.clock_known)
    if as_json:
        _print(result.to_dict(), as_json)
    else:
        names = ("found", "reason", "period_s", "phase_s", "phase_error_s", "p_value", "step_ms", "jitter_ms")
        row = {name: getattr(result, name) for name in names}
        _print([row | {"found": "undecided"} if result.undecided else row], as_json)
    if plot:
        from bentpipe.plots.analysis import plot_handovers

        _save(plot_handovers(only_series(table), result), plot_file(plot, file, "handovers"))


@app.command(cls=PlotCommand)
def loss(
    file: Table,
    site: OneSite = None,
    target: OneTarget = None,
    kind: OneKind = None,
    as_json: options.AsJson = False,
    plot: Plot = None,
) -> None:
    """List loss episodes: their length, their spacing and their second of the slot.

    Example: bentpipe analyze loss pings.parquet --json
    """
    from bentpipe.analysis.handovers import analyze_handovers
    from bentpipe.analysis.loss import loss_episodes

    table = _open(file, "probes", site=site, target=target, kind=kind).table
    slots = analyze_handovers(table)
    result = loss_episodes(table, slots.period_s, slots.edge_unix_ns)
    whole = {name: getattr(result, name) for name in ("probes", "lost", "multi_share", "by_phase")}
    if as_json:
        _print({**whole, "episodes": result.episodes.to_dicts(), "silences": result.silences.to_dicts()}, as_json)
    else:
        counts = {"episodes": result.episodes.height, "silences": result.silences.height}
        loss = f"{100 * result.lost / result.probes:.3g} %" if result.probes else None
        row = {"probes": result.probes, "lost": result.lost, "loss": loss, **counts, "multi_share": result.multi_share}
        _print([row], as_json)
    if plot:
        from bentpipe.analysis.tables import only_series
        from bentpipe.plots.analysis_episodes import plot_loss

        _save(plot_loss(only_series(table), result, period_s=slots.period_s), plot_file(plot, file, "loss"))


@app.command(cls=PlotCommand)
def path(file: Table, as_json: options.AsJson = False, plot: Plot = None) -> None:
    """Print path segments S1 to S6 and the bent pipe's share, from traceroutes.

    Example: bentpipe analyze path hops.parquet
    """
    from bentpipe.analysis.path import LEAST_BENT_PIPE_MS, path_segments
    from bentpipe.cli.console import note

    result = path_segments(_open(file, "hops").table)
    rows = result.segments.to_dicts()
    if as_json:
        _print({"traces": result.traces.to_dicts(), "segments": rows}, as_json)
    elif rows:
        _print(rows, as_json)
    else:
        traces, reached, through = (
            result.traces.height,
            result.traces["reached"].sum(),
            result.traces["bent_pipe"].sum(),
        )
        note(
            f"no segments: of {traces} traceroutes {reached} reach their target and {through} pass a bent pipe (a "
            f"carrier-grade NAT address, {LEAST_BENT_PIPE_MS:.1f} ms away or more); expected one that does both"
        )
    if plot:
        from bentpipe.plots.analysis_maps import plot_path

        _save(plot_path(result), plot_file(plot, file, "path"))


@app.command(cls=PlotCommand)
def orientation(file: Table, as_json: options.AsJson = False, plot: Plot = None) -> None:
    """Print a terminal's orientations and its latency at each.

    Example: bentpipe analyze orientation dish.parquet
    """
    from bentpipe.analysis.orientation import orientation_maps
    from bentpipe.cli.console import note

    result = orientation_maps(_open(file, "orientation").table)
    names = ("samples", "azimuth_band_deg", "elevation_band_deg", "rank_correlation")
    if as_json:
        _print({**{name: getattr(result, name) for name in names}, "bins": result.bins.to_dicts()}, as_json)
    else:
        _print([{**{name: getattr(result, name) for name in names}, "bins": result.bins.height}], as_json)
        _print(result.busiest(_BUSIEST).to_dicts(), as_json)
        if result.bins.height > _BUSIEST:
            note(f"the {_BUSIEST} most frequent bins of {result.bins.height}; all of them: --json or --plot")
    if plot:
        from bentpipe.plots.analysis_maps import plot_orientation

        _save(plot_orientation(result), plot_file(plot, file, "orientation"))


@app.command(cls=PlotCommand)
def throughput(
    file: Table,
    zone: Annotated[str, typer.Option(help="Time zone of the terminal, for example Europe/Brussels.")] = "UTC",
    as_json: options.AsJson = False,
    plot: Plot = None,
) -> None:
    """Summarise speed tests over months: level, trend, peak and off-peak.

    Example: bentpipe analyze throughput tests.parquet --zone Australia/Sydney
    """
    from bentpipe.analysis.throughput import throughput_series

    result = throughput_series(_open(file, "throughput").table, zone)
    rows = result.summary.to_dicts()
    tables = {"summary": rows, "months": result.months.to_dicts(), "hours": result.hours.to_dicts()}
    _print(tables if as_json else rows, as_json)
    if plot:
        from bentpipe.plots.analysis_maps import plot_throughput

        _save(plot_throughput(result), plot_file(plot, file, "throughput"))


def _open(file: Path, table_kind: TableKind, **series: str | None) -> LoadedTable:
    """Open a measured table; print its warnings and notes on stderr."""
    from bentpipe.cli.console import note, warn
    from bentpipe.measurements.runs.analysis_input import load_table

    measured = load_table(file, table_kind, **series)
    for line in measured.warnings:
        warn(line)
    for line in measured.notes[:_MOST_NOTES]:
        note(line)
    if len(measured.notes) > _MOST_NOTES:
        note(f"{len(measured.notes) - _MOST_NOTES} more notes: `bentpipe read` prints all")
    return measured


def _print(result: Any, as_json: bool, *, clock_known: bool = True) -> None:  # noqa: ANN401 - JSON is anything
    from bentpipe.cli.console import note, print_json, table

    if as_json:
        print_json(result)
    elif not result:
        note("no results")
    else:
        heads = [name.replace("_unix_ns", "") for name in result[0]]
        table("", heads, [[_format_cell(*cell, clock_known=clock_known) for cell in row.items()] for row in result])


def _format_cell(name: str, value: Any, *, clock_known: bool) -> Any:  # noqa: ANN401 - a cell is anything
    """Format a cell of a table: a time as UTC, or in seconds if the clock is unknown."""
    from bentpipe.times import format_utc

    if not (name.endswith("_unix_ns") and isinstance(value, int)):
        return value
    return format_utc(value // 10**6 * 10**6) if clock_known else f"{value / 1e9:.3f} s"


def _save(figure: Any, file: Path) -> None:  # noqa: ANN401 - cli/ does not know Matplotlib
    from bentpipe.cli.console import note
    from bentpipe.plots import style

    style.save(figure, file)
    note(f"wrote {file}")
