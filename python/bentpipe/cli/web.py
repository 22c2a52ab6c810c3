"""`bentpipe web`: web pages over a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli import options

if TYPE_CHECKING:
    from bentpipe.apps.web.page import Page as ReadPage
    from bentpipe.execution.pages import PageLoad

app = typer.Typer()

Page = Annotated[
    Path,
    typer.Argument(
        metavar="PAGE", help="A page as a HAR file (HTTP Archive), or median: a built-in page.", show_default=False
    ),
]


@app.callback(invoke_without_command=True)
def web(context: typer.Context) -> None:
    """Load web pages over a path, and show their hosts and objects.

    Example:
        bentpipe web load PAGE.har P.parquet --http 2 --loads 20
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def show(page: Page, as_json: options.AsJson = False) -> None:
    """Print hosts and objects of a page, and how its objects depend on each other.

    Example:
        bentpipe web show PAGE.har
    """
    from bentpipe.apps.web.read import read_page
    from bentpipe.cli.console import print_json, say, table

    read = read_page(page)
    by_host = [(name, [each for each in read.objects if each.host == host]) for host, name in enumerate(read.hosts)]
    sizes = [(name, len(own), sum(each.response_bytes for each in own)) for name, own in by_host]
    if as_json:
        summary = {"page": read.name, "objects": len(read.objects), "bytes": read.bytes, "depth": read.depth}
        hosts = [{"host": name, "objects": count, "bytes": size} for name, count, size in sizes]
        print_json({**summary, "left_out": read.left_out, "unsized": read.unsized, "hosts": hosts})
        return
    say(f"{read.name}: {len(read.objects)} objects, {read.bytes / 1e6:.2f} MB, {read.depth} after each other at most")
    sizes.sort(key=lambda row: -row[2])
    table("", ["host", "objects", "kB"], [[name, count, size // 1000] for name, count, size in sizes])
    _note_gaps(read)


def _note_gaps(page: ReadPage) -> None:
    """Say what the page's file does not have."""
    from bentpipe.cli.console import note

    if page.left_out:
        entries = "1 entry" if page.left_out == 1 else f"{page.left_out} entries"
        note(f"{entries} left out: not fetched over HTTP, or without a response")
    if page.unsized:
        unsized = f"{page.unsized} of {len(page.objects)} objects"
        note(f"the file has no size of {unsized}: they are loaded without a body; try another export of the page")


@app.command()
def load(
    page: Page,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Profiles or Networks (Parquet).", show_default=False)
    ],
    http: Annotated[str, typer.Option(help="Version of HTTP: 1, 2 or 3.")] = "2",
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--simulated",
            help="A real Chromium on the emulated path, in real time, or the simulator.",
            show_default="--simulated",
        ),
    ] = False,
    cc: Annotated[
        str, typer.Option("--cc", help="Congestion controllers, separated by commas; with --browser the kernel's own.")
    ] = "cubic",
    recovery: Annotated[
        str | None,
        typer.Option(help="Loss recovery inside the network, as in `race`. [default: none]", show_default=False),
    ] = None,
    loads: Annotated[int, typer.Option(min=1, help="Loads of each Run, as many as the path's duration allows.")] = 20,
    pause: Annotated[str, typer.Option(help="Time between two loads.")] = "1s",
    seeds: Annotated[int, typer.Option(help="Number of seeds N: one Run for each of 0 … N−1.")] = 1,
    phase: Annotated[
        float | None,
        typer.Option(
            parser=options.duration,
            help="Offset in the path at which the first load begins. [default: 0; with --browser by the clock]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for the Runs. [default: not kept]", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Load a page over paths: times of its loads, each over new connections.

    Example:
        bentpipe web load PAGE.har P.parquet --http 2 --cc cubic,bbr --recovery none,satguard --loads 20

    In a real browser (needs Chromium, and `pip install 'bentpipe[browser]'`), here a built-in page:
        bentpipe web load median P.parquet --browser --http 3 --loads 5
    """
    from bentpipe.apps.web.read import read_page
    from bentpipe.cli.console import print_json, progress, table, warn
    from bentpipe.cli.flags import renamed
    from bentpipe.errors import UserError
    from bentpipe.execution.browser_pages import load_in_browser
    from bentpipe.execution.pages import load_page
    from bentpipe.experiments.recovery import split_recoveries
    from bentpipe.experiments.schemes import parse_schemes
    from bentpipe.profiles.parquet import read_either, read_profile
    from bentpipe.runs.estimates import estimate
    from bentpipe.runs.text import interval, number

    _note_gaps(read_page(page))
    try:
        with progress("loading the page") as advance:
            if browser:
                if given := [flag for flag, own in (("--seeds", seeds != 1), ("--cc", cc != "cubic")) if own]:
                    raise UserError(
                        f"with --browser the kernel or the server's QUIC sends; try without {' and '.join(given)}",
                        where=given[0],
                    )
                every = load_in_browser(
                    page,
                    [read_profile(path) for path in paths],
                    http=http,
                    loads=loads,
                    recovery=["none"] if recovery is None else split_recoveries(recovery),
                    offset_s=phase,
                    out=out,
                    on_progress=advance,
                )
            else:
                every = load_page(
                    page,
                    [read_either(path) for path in paths],
                    parse_schemes(cc),
                    http=http,
                    loads=loads,
                    pause=pause,
                    seeds=seeds,
                    phase_s=0.0 if phase is None else phase,
                    recovery=recovery,
                    out=out,
                    on_progress=advance,
                )
    except UserError as error:
        raise renamed(error, {"offset_s": "--phase"}) from None
    if invalid := sum(not each.valid for each in every):
        warn(f"{invalid} of {len(every)} loads are of Runs that are not valid: this machine was too busy")
    if as_json:
        print_json({"loads": [each.to_dict() for each in every]})
        return
    groups: dict[tuple[str, ...], list[PageLoad]] = {}
    for each in every:
        where = each.profile if each.path == "path" else f"{each.profile}: {each.path}"
        groups.setdefault((where, each.cc, each.scheme, each.http), []).append(each)
    drawn = {"FCP": "fcp_ms", "LCP": "lcp_ms", "Speed Index": "speed_index_ms"} if browser else {}
    rows = []
    for group, own in groups.items():
        times = [each.plt_ms for each in own]
        mean = estimate(times)
        index = estimate([each.byte_index_ms for each in own])
        cells = [number(mean.mean), interval(mean), number(mean.median), number(max(times)), number(index.mean)]
        means = [[value for each in own if (value := getattr(each, name)) is not None] for name in drawn.values()]
        cells += [number(estimate(values).mean) if values else "–" for values in means]
        rows.append([*group, *cells, len(times)])
    times_heads = ["page load time [ms]", "95 % CI", "median", "longest", "Byte Index", *drawn]
    heads = ["path", "controller", "recovery", "HTTP", *times_heads, "loads"]
    table(f"{page.stem}, {every[0].world}", heads, rows)
