"""`bentpipe read`: import existing measurements as a measured Run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bentpipe.cli import options

if TYPE_CHECKING:
    from bentpipe.measurements.runs.imports import Imported

#: Largest number of skipped files that are listed; the rest is a count.
_MOST_SKIPPED = 10


def read(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|DIR…", help="Measurement files; of a folder, all of a known format.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the Run.", show_default=False)],
    site: Annotated[str, typer.Option(help="Name of the measured site.")] = "here",
    format_name: Annotated[
        str | None, typer.Option("--format", help="Format of all files. [default: detected]", show_default=False)
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(
            help="Columns of a table with units, left to right, such as unix_s,-,rtt_ms; - skips one. "
            "[default: the table's header]",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            parser=options.duration,
            help="Interval between probes, such as 0.2 (seconds) or 200ms, for logs without timestamps.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Start of a file that has none: ISO-8601, UTC.", show_default=False)
    ] = None,
    direction: Annotated[
        Literal["up", "down"] | None, typer.Option(help="Direction of a trace that has none.", show_default=False)
    ] = None,
    times: Annotated[
        Literal["probe", "reply"] | None,
        typer.Option(
            help="Timestamps of a table: send times (probe) or reply times (reply). [default: detected]",
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Import measurements in any known format into a measured Run.

    ping, fping, irtt, iperf3, traceroute, RIPE Atlas, mahimahi, LeoReplayer, terminals, CSV with units.

    Example: bentpipe read ping.log -o out && bentpipe analyze handovers out --plot
    """
    from bentpipe.cli.console import note, print_json, progress, table
    from bentpipe.measurements.readers.measurement import ReadHints
    from bentpipe.measurements.runs.imports import format_of, import_files
    from bentpipe.measurements.runs.terminal_summary import next_commands, notes_of, rows_of
    from bentpipe.times import parse_utc

    if format_name is not None:
        format_of(format_name)
    hints = ReadHints(
        every,
        None if start is None else parse_utc(start, "--start"),
        None if units is None else [name.strip() for name in units.split(",")],
        direction,
        times,
    )
    with progress("reading") as advance:
        imported = import_files(paths, out, site=site, format_name=format_name, hints=hints, on_progress=advance)
    _tell_skipped(imported)
    if as_json:
        print_json({"path": str(imported.run.path), **imported.run.record.to_dict()})
        return
    for line in notes_of(imported):
        note(line)
    for title, rows in rows_of(imported.run):
        table(title, list(rows[0]), [list(row.values()) for row in rows])
    note(f"measured Run in {imported.run.path}")
    for line in next_commands(imported.run, out):
        note(f"next: {line}")


def _tell_skipped(imported: Imported) -> None:
    from bentpipe.cli.console import note

    for path, why in imported.skipped[:_MOST_SKIPPED]:
        note(f"skipped {path}: {why}")
    if more := imported.skipped[_MOST_SKIPPED:]:
        note(f"skipped {len(more)} more")
