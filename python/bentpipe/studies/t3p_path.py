"""Delay by segment of the path, from traceroutes (T3P, section 3.4, figures 3b and 3c)."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.path import HOPS, SEGMENTS, PathShares, path_segments
from bentpipe.plots.analysis_maps import plot_path
from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.profiles.pings import ping_table
from bentpipe.profiles.table import profile_from_frame, profile_to_frame
from bentpipe.studies.measured import joint_basis, measured_parts
from bentpipe.studies.scenario import Published
from bentpipe.studies.simulated import Windows, windows_of
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import GOOGLE_DNS, SOURCE, load_terminals, near_server
from bentpipe.studies.t3p_files import T3pPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe._native import Profile
    from bentpipe.scenarios.sites import Place

EVERY_S = 2.0
#: Address that answers behind each hop of a computed Profile (satellite with gateway, fibre to the PoP, the rest), as
#: in real traceroutes and `analysis/networks.toml`.
ANSWERS = ("100.64.0.1", "172.16.0.1", GOOGLE_DNS)
#: Most probes in the figure; chosen here: a page.
MOST_DRAWN = 30
_3C = "figure 3c, section 3.4"
_NO_PIPE = "no traceroute passes a bent pipe and reaches its target"


def _run(request: Request) -> Result:
    file = T3pPath.load()
    windows, quick = windows_of(file.windows), windows_of(file.windows_quick)
    parts = measured_parts(request.data, "hops")
    simulated = not parts
    if not simulated:
        path_shares = path_segments(pl.concat([part.table.select(*HOPS) for part in parts]))
        basis = joint_basis(parts)
        rows = _measured_rows(file.published, path_shares, basis)
        lines = [part.text for part in parts]
        notes = [
            "hops delay their answers, and each probe here has few traceroutes: where a hop answers later than the "
            "target, a segment's time is negative and is left so",
            "one terminal has a traceroute or two here, the paper's some 150,000",
        ]
    else:
        windows = quick if request.quick else windows
        hops = simulated_hops(windows, request)
        path_shares = path_segments(hops)
        basis = f"simulated: every {EVERY_S:g} s, {windows.text}"
        rows = _simulated_rows(file.published, path_shares, basis)
        lines = [f"{site.name}: {basis}" for site in load_terminals().values()]
        notes = [
            "simulated paths begin at the terminal (no S1), and Starlink's ground network is one stretch of fibre from "
            "gateway to PoP (S3; no S4, S5)",
            f"{GOOGLE_DNS} answers at the PoP here, so there is no wide area behind it (S6 is below 0.1 ms), while the "
            "paper's S3 to S6 hold 35 to 48 %: for one thing, the bent pipe's share is higher here for that reason",
            "for another, the bent pipe itself takes longer here: the paper's shares of its medians make 9.2 ms "
            "one way at BCN-1 (0.52 × 35.2 ms / 2) and 11.6 ms at EDH (0.65 × 35.7 ms / 2)",
        ]
    shares = _shares(path_shares)
    bent = shares.filter(pl.col("segment") == "S2")["share"]
    most = shares.sort("share", descending=True, nulls_last=True).group_by("probe", maintain_order=True).first()
    largest = float((most["segment"] == "S2").mean() or 0)  # type: ignore[arg-type]
    verdicts = [
        Verdict(
            "the bent pipe (S2) is the largest part of the path at every terminal",
            largest == 1.0 if most.height else None,
            _3C,
            basis,
            f"at {largest:.0%} of {most.height} probes" if most.height else _NO_PIPE,
        ),
        Verdict(
            "the bent pipe takes 52 to 65 % of the one-way path at the median",
            _within(file.published, bent if simulated else pl.Series([bent.median()], dtype=pl.Float64)),
            _3C,
            basis,
            f"{_percent(bent.min())} to {_percent(bent.max())}, median {_percent(bent.median())}"
            if bent.len()
            else _NO_PIPE,
        ),
    ]
    names = most["probe"].head(MOST_DRAWN).implode()
    drawn = PathShares(path_shares.traces, path_shares.segments.filter(pl.col("probe").is_in(names)))
    return Result(rows, verdicts, lines, {"figure-3c": plot_path(drawn)}, notes)


def _within(published: Mapping[str, Published], shares: pl.Series) -> bool | None:
    """Return whether all shares are between the paper's least and greatest; None without shares."""
    shares = shares.drop_nulls()
    if shares.is_empty():
        return None
    return bool(shares.is_between(published["share-least"].value, published["share-greatest"].value).all())


def _percent(value: object) -> str:
    return f"{value:.0%}" if isinstance(value, float) else "–"


def _shares(path_shares: PathShares) -> pl.DataFrame:
    """Return segments with a known share, of probes whose bent pipe's end is known."""
    known = path_shares.segments.drop_nulls("share")
    with_pipe = known.filter(pl.col("segment") == "S2")["probe"].unique().implode()
    return known.filter(pl.col("probe").is_in(with_pipe))


def _measured_rows(published: Mapping[str, Published], path_shares: PathShares, basis: str) -> list[Row]:
    shares = _shares(path_shares)
    bent = shares.filter(pl.col("segment") == "S2")["share"]
    median = float(bent.median()) if bent.len() else None  # type: ignore[arg-type]
    rows = [published[key].row(median, basis) for key in ("share-least", "share-greatest")]
    for segment in SEGMENTS:
        mine = shares.filter(pl.col("segment") == segment)
        if mine.height:
            rows.append(
                Row(
                    f"one-way time of {segment}, median over {mine.height} probes",
                    "ms",
                    None,
                    float(mine["one_way_ms"].median()),  # type: ignore[arg-type]
                    _3C,
                    basis,
                )
            )
    return rows


def _simulated_rows(published: Mapping[str, Published], path_shares: PathShares, basis: str) -> list[Row]:
    rows = []
    for key, site in load_terminals().items():
        mine = path_shares.segments.filter(probe=site.name)
        share = mine.filter(segment="S2")["share"]
        rows.append(published[f"share-{key}"].row(share[0] if share.len() else None, basis))
        for segment, one_way_ms in mine.drop_nulls("one_way_ms").select("segment", "one_way_ms").rows():
            rows.append(Row(f"one-way time of {segment}: {site.name}", "ms", None, one_way_ms, _3C, basis))
    return rows


def simulated_hops(windows: Windows, request: Request) -> pl.DataFrame:
    """Simulate traceroutes from the paper's terminals over computed Profiles, as input of `bentpipe.analysis.path`.

    Each probe of a traceroute is an echo that returns behind one more hop of the Profile.
    """
    parts = []
    terminals = load_terminals()
    for number, site in enumerate(terminals.values()):
        for window, start_unix_ns in enumerate(windows.starts_unix_ns):
            seed = 1000 * (number + 1) + window
            profile = _profile(site, start_unix_ns, windows.duration_s, seed)
            sent_s = np.arange(0.0, windows.duration_s - 2.0, EVERY_S)
            for hops, address in enumerate(ANSWERS, 1):
                pings = ping_table(_cut(profile, hops), sent_s, seed=seed)
                parts.append(
                    pings.select(
                        pl.lit(site.name).alias("probe"),
                        pl.lit(GOOGLE_DNS).alias("target"),
                        "unix_ns",
                        pl.lit(hops, pl.Int64).alias("ttl"),
                        pl.when(pl.col("rtt_ms").is_not_null()).then(pl.lit(address)).alias("address"),
                        "rtt_ms",
                    )
                )
            done = number + (window + 1) / len(windows.starts_unix_ns)
            request.on_progress(done / len(terminals))
    return pl.concat(parts)


def _profile(site: Place, start_unix_ns: int, duration_s: float, seed: int) -> Profile:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnpublishedRouteWarning)
        return make_profile(
            site, near_server(site), start_unix_ns=start_unix_ns, duration_s=duration_s, loss="idle", seed=seed
        )


def _cut(profile: Profile, hops: int) -> Profile:
    """Return the path cut after its first hops."""
    metadata = json.loads(profile.metadata_json())
    for entry in metadata["routes"]:
        entry["hops"] = entry["hops"][:hops]
    return profile_from_frame(profile_to_frame(profile), json.dumps(metadata))


STUDY = Study(
    name="t3p-path",
    title="Delay by segment of the path: the bent pipe takes most of it",
    source=f"{SOURCE}, figures 3b and 3c",
    takes="two minutes; --quick: seconds",
    run=_run,
    measured="traceroutes",
)
