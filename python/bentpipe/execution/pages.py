"""Loads of a web page over Profiles and networks: races whose flows are the page, and the times of its loads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.execution import racing
from bentpipe.experiments.recovery import recovery_name
from bentpipe.runs.run_record import World
from bentpipe.times import parse_duration_ns

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from bentpipe._native import Network, Profile
    from bentpipe.runs.store import Run


@dataclass(frozen=True)
class PageLoad:
    """One load of a page.

    Attributes:
        page: Name of the page.
        profile: Label of the Profile or network.
        path: Path of a network; ``path`` over a Profile.
        scheme: Scheme of loss recovery inside the network.
        cc: Congestion controller of the flows; in a browser that of the server.
        seed: Seed of the Run.
        load: Number of the load in the Run, from 0.
        plt_ms: Page load time: from the begin to the arrival of the last object [ms].
        http: Version of HTTP.
        world: World of the Run.
        byte_index_ms: Integral over time of the share of bytes that has not arrived, object by object [ms].
        object_index_ms: The same for the share of objects [ms].
        fcp_ms: First Contentful Paint [ms]; None: nothing is drawn, as in the simulator, or it is not known.
        lcp_ms: Largest Contentful Paint [ms]; likewise.
        speed_index_ms: Speed Index [ms]; likewise.
        failed: Objects that did not arrive.
        valid: Whether the Run is valid; a simulated one is.
    """

    page: str
    profile: str
    path: str
    scheme: str
    cc: str
    seed: int
    load: int
    plt_ms: float
    byte_index_ms: float
    object_index_ms: float
    http: str
    world: World
    fcp_ms: float | None = None
    lcp_ms: float | None = None
    speed_index_ms: float | None = None
    failed: int = 0
    valid: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``web load --json`` has it."""
        return dict(vars(self))


def load_page(
    page: str | os.PathLike[str],
    paths: Sequence[Profile | Network],
    schemes: Sequence[str],
    *,
    http: str = "2",
    loads: int = 20,
    pause: str = "1s",
    seeds: int = 1,
    phase_s: float = 0.0,
    recovery: str | None = None,
    out: str | os.PathLike[str] | None = None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> list[PageLoad]:
    """Load a page over every path, in the simulator.

    Args:
        page: A HAR file (`bentpipe.apps.web.har`).
        paths: Profiles and networks.
        schemes: Congestion controllers of both ends, one per Run.
        http: Version of HTTP: ``1``, ``2`` or ``3``.
        loads: Loads of each Run, one after the other; fewer if the Profile ends before.
        pause: Time between two loads.
        seeds: N stands for the seeds 0 … N−1.
        phase_s: Offset in the paths at which the first load begins [s].
        recovery: Schemes of loss recovery inside the network, as ``race --recovery``.
        out: Folder for the Runs; None: they are not kept.
        on_progress: Called with the share done.

    Raises:
        UserError: The page or a Run is impossible, or no load was complete.
    """
    if "," in str(page):
        raise UserError(str(page), where="page", expected="a file without a comma in its name")
    if any("+" in scheme for scheme in schemes):
        raise UserError(" ".join(schemes), where="cc", expected="one controller per scheme")
    check_http(http)
    parse_duration_ns(pause, "pause", least_ns=0)
    shortest_s = min(path.duration_s for path in paths)
    if not 0 <= phase_s < shortest_s:
        expected = f"0 to less than {shortest_s:g} s, the path's duration"
        raise UserError(f"{phase_s:g} s", where="phase", expected=expected)
    result = racing.race(
        paths,
        schemes,
        out=out,
        app=f"web:{page},http={http},n={loads},pause={pause}",
        phase_s=phase_s,
        duration_s=shortest_s - phase_s,
        seeds=seeds,
        recovery=recovery,
        on_progress=lambda progress: on_progress(progress.share),
    )
    every = [each for run in result.runs for each in _loads_of(run, Path(page).stem, http)]
    if not every:
        raise UserError(
            f"no load of {shown(Path(page).stem)} was complete over paths of {shortest_s:g} s",
            where="page",
            expected="Profiles that are long enough for a load",
            hint="a longer Profile, or a page with fewer bytes",
        )
    return every


def check_http(http: str) -> None:
    """Raise `UserError` if there is no such version of HTTP."""
    if http not in ("1", "2", "3"):
        raise UserError(shown(http), where="http", expected="1, 2 or 3")


def _loads_of(run: Run, page: str, http: str) -> list[PageLoad]:
    items = run.applications()
    if items is None:
        return []
    experiment = run.record.experiment
    scheme = "none" if experiment.recovery is None else recovery_name(experiment.recovery)
    rows = []
    for flow, path in zip(run.flow_numbers, run.flow_paths, strict=True):
        own = items.filter((pl.col("flow") == flow) & pl.col("completed_s").is_not_null())
        own = own.with_columns(took_ms=(pl.col("completed_s") - pl.col("start_s")) * 1e3)
        pages = own.filter(pl.col("kind") == "page")
        # The items of a load: the page, and then its objects.
        starts = pages.select(page="id", begin_s="start_s").sort("page")
        objects = own.filter(pl.col("kind") == "object").sort("id").join_asof(starts, left_on="id", right_on="page")
        arrived_ms = (pl.col("completed_s") - pl.col("begin_s")) * 1e3
        for number, (item, plt_ms) in enumerate(pages.select("id", "took_ms").iter_rows()):
            of_load = objects.filter(pl.col("page") == item)
            indices = load_indices(of_load.select(arrived_ms).to_series().to_list(), of_load["bytes"].to_list())
            rows.append(
                PageLoad(
                    page=page,
                    profile=run.label,
                    path=str(path),
                    scheme=scheme,
                    cc=run.scheme,
                    seed=run.seed,
                    load=number,
                    plt_ms=plt_ms,
                    byte_index_ms=indices[0],
                    object_index_ms=indices[1],
                    http=http,
                    world=run.world,
                )
            )
    return rows


def load_indices(arrived_ms: Sequence[float], sizes_bytes: Sequence[int]) -> tuple[float, float]:
    """Return the Byte Index and the Object Index of a load [ms].

    Each is the integral over time of the share that has not arrived, where an object arrives with its last byte
    (Bocchi, De Cicco and Rossi, Internet-QoE 2016, doi:10.1145/2940136.2940138).

    Args:
        arrived_ms: Arrival of each object since the load began [ms].
        sizes_bytes: Their sizes.

    Example:
        >>> load_indices([100.0, 400.0], [3000, 1000])
        (175.0, 250.0)
    """
    weighted = sum(at * size for at, size in zip(arrived_ms, sizes_bytes, strict=True))
    return weighted / sum(sizes_bytes), sum(arrived_ms) / len(arrived_ms)
