"""Web pages: what a page consists of, and loads of it over paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.objects import arguments
from bentpipe.objects.paths import native_paths, native_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from bentpipe.objects.arguments import DurationLike, FileLike
    from bentpipe.objects.paths import PathLike


def page_objects(page: FileLike) -> pl.DataFrame:
    """Return the objects of a page in a HAR file, as ``bentpipe web show`` counts them.

    Returns:
        Columns `url`, `host`, `request_bytes`, `response_bytes`, `after` (number of the object that leads to it; null:
        it is wanted when the load begins) and `compute_s` (time between the arrival of that object and the request).

    Raises:
        UserError: The file is no HAR, or an entry is absurd.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> asked = {"request": {"url": "https://a.example/"}, "response": {"status": 200, "bodySize": 90_000}}
        >>> entries = [{"startedDateTime": "2026-05-10T09:00:00Z", "time": 40, **asked}]
        >>> size = Path("page.har").write_text(json.dumps({"log": {"entries": entries}}))
        >>> bp.page_objects("page.har")["response_bytes"].sum()
        90300
    """
    import polars as pl

    from bentpipe.apps.web.read import read_page

    read = read_page(arguments.file(page, "page"))
    rows = [
        {
            "url": each.url,
            "host": read.hosts[each.host],
            "request_bytes": each.request_bytes,
            "response_bytes": each.response_bytes,
            "after": each.after,
            "compute_s": each.compute_ns / 1e9,
        }
        for each in read.objects
    ]
    return pl.DataFrame(rows, schema_overrides={"after": pl.Int64})


def load_page(
    page: FileLike,
    paths: PathLike | Sequence[PathLike],
    schemes: str | Sequence[str] = "cubic",
    *,
    http: str = "2",
    loads: int = 20,
    pause: DurationLike = 1.0,
    seeds: int = 1,
    phase: DurationLike | None = None,
    recovery: str | None = None,
    browser: bool = False,
    on_progress: Callable[[float], object] | None = None,
) -> pl.DataFrame:
    """Load a page over paths, in the simulator or in a real browser; return one row for each load.

    Args:
        page: A HAR file.
        paths: A Profile, a `Network` of a constellation, the file of a Profile, or a list of them.
        schemes: Congestion controllers of both ends.
        http: Version of HTTP: ``1``, ``2`` or ``3``.
        loads: Loads of each Run, fewer if the path ends before.
        pause: Time between two loads.
        seeds: N stands for the seeds 0 … N−1.
        phase: Offset in the path at which the first load begins; default: 0, in a browser by the machine's clock.
        recovery: Schemes of loss recovery inside the network, as ``race --recovery``.
        browser: Load it in Chromium over emulated Profiles, in real time; the kernel sends, with one seed.
        on_progress: Called with the share done, 0 to 1.

    Returns:
        Columns `page`, `profile`, `path`, `scheme` (of loss recovery), `cc` (congestion controller), `seed`, `load`,
        `plt_ms` (page load time), `byte_index_ms`, `object_index_ms`, `http`, `world`, `failed`, `valid`, and
        `speed_index_ms`, `fcp_ms` and `lcp_ms`, which are null in the simulator: nothing is drawn.

    Raises:
        UserError: The page or a Run is impossible, there is no browser, or no load was complete.
        BentpipeError: The loads in a browser failed.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> asked = {"request": {"url": "https://a.example/"}, "response": {"status": 200, "bodySize": 90_000}}
        >>> entries = [{"startedDateTime": "2026-05-10T09:00:00Z", "time": 40, **asked}]
        >>> size = Path("page.har").write_text(json.dumps({"log": {"entries": entries}}))
        >>> path = bp.Profile.preset("dumbbell:rate=50mbit,rtt=40ms", duration=20)
        >>> loads = bp.load_page("page.har", path, loads=5)
        >>> len(loads), 120 < loads["plt_ms"].mean() < 300
        (5, True)
    """
    import polars as pl

    from bentpipe.execution import pages
    from bentpipe.execution.browser_pages import load_in_browser
    from bentpipe.experiments.recovery import split_recoveries

    overrides = dict.fromkeys(("speed_index_ms", "fcp_ms", "lcp_ms"), pl.Float64)
    if browser:
        if seeds != 1 or schemes != "cubic":
            raise UserError("given with `browser`", where="seeds, schemes", expected="neither: the kernel sends")
        loaded = load_in_browser(
            arguments.file(page, "page"),
            native_profiles(paths),
            http=arguments.text(http, "http"),
            loads=arguments.integer(loads, "loads", 1),
            recovery=["none"] if recovery is None else split_recoveries(recovery),
            offset_s=None if phase is None else arguments.seconds(phase, "phase"),
            on_progress=arguments.callback(on_progress, "on_progress"),
        )
        return pl.DataFrame([each.to_dict() for each in loaded], schema_overrides=overrides)
    rows = pages.load_page(
        arguments.file(page, "page"),
        native_paths(paths),
        [schemes] if isinstance(schemes, str) else list(schemes),
        http=arguments.text(http, "http"),
        loads=arguments.integer(loads, "loads", 1),
        pause=f"{arguments.seconds(pause, 'pause'):g}s",
        seeds=arguments.integer(seeds, "seeds", 1),
        phase_s=0.0 if phase is None else arguments.seconds(phase, "phase"),
        recovery=arguments.optional_text(recovery, "recovery"),
        on_progress=arguments.callback(on_progress, "on_progress"),
    )
    return pl.DataFrame([each.to_dict() for each in rows], schema_overrides=overrides)
