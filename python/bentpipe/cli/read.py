"""`bentpipe read`: measurements that are there already, as a measured Run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bentpipe.cli import options

if TYPE_CHECKING:
    from bentpipe.measurements.runs.importing import Imported

#: Files of a folder that are passed over, named at most; the rest is a number.
_MOST_SKIPPED = 10


def read(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE|DIR…", help="What was measured; of a folder all known.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the Run.", show_default=False)],
    site: Annotated[str, typer.Option(help="Where it was measured: a name of yours.")] = "here",
    format_name: Annotated[
        str | None, typer.Option("--format", help="Format of all files. [default: found out]", show_default=False)
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(
            help="Columns of a table, left to right, with their units, as unix_s,-,rtt_ms; - passes one over.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        float | None, typer.Option(help="Time between probes [s], of logs without times.", show_default=False)
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="When a file begins that does not say: ISO-8601, UTC.", show_default=False)
    ] = None,
    direction: Annotated[
        Literal["up", "down"] | None, typer.Option(help="Which way a trace goes that does not say.", show_default=False)
    ] = None,
    times: Annotated[
        Literal["probe", "reply"] | None,
        typer.Option(
            help="Timestamps of a table: send times (probe) or reply times (reply). [default: found out]",
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Read what was measured, in any known format, into a measured Run.

    ping, fping, irtt, iperf3, traceroute, RIPE Atlas, mahimahi, LeoReplayer, terminals, CSV with units.

    Example: bentpipe read ping.log -o out && bentpipe analyze handovers out --plot
    """
    from bentpipe.cli.console import note, print_json, progress, table
    from bentpipe.measurements.readers.measurement import Said
    from bentpipe.measurements.runs.importing import format_of, import_files
    from bentpipe.measurements.runs.telling import notes_of, rows_of, what_next
    from bentpipe.times import parse_utc

    if format_name is not None:
        format_of(format_name)
    said = Said(
        every,
        None if start is None else parse_utc(start, "--start"),
        None if units is None else [name.strip() for name in units.split(",")],
        direction,
        times,
    )
    with progress("reading") as advance:
        imported = import_files(paths, out, site=site, format_name=format_name, said=said, on_progress=advance)
    _tell_skipped(imported)
    if as_json:
        print_json({"path": str(imported.run.path), **imported.run.record})
        return
    for line in notes_of(imported):
        note(line)
    for title, rows in rows_of(imported.run):
        table(title, list(rows[0]), [list(row.values()) for row in rows])
    note(f"measured Run in {imported.run.path}")
    for line in what_next(imported.run, out):
        note(f"next: {line}")


def _tell_skipped(imported: Imported) -> None:
    from bentpipe.cli.console import note

    for path, why in imported.skipped[:_MOST_SKIPPED]:
        note(f"skipped {path}: {why}")
    if more := imported.skipped[_MOST_SKIPPED:]:
        note(f"skipped {len(more)} more")
