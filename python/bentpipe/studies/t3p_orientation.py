"""Orientation of a terminal and its latency by orientation (T3P, section 3.5, figures 4a and 4b)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from bentpipe.analysis.orientation import Orientation, orientation_maps
from bentpipe.measurements.dish.simulation.environment import DishEnvironment
from bentpipe.measurements.dish.simulation.mount import aim
from bentpipe.plots.analysis_maps import plot_orientation
from bentpipe.profiles.make import make_profile
from bentpipe.scenarios.ground import pop_by_code
from bentpipe.scenarios.sites import Place
from bentpipe.studies.measured import Part, measured_parts
from bentpipe.studies.scenario import Published
from bentpipe.studies.simulated import Windows, windows_of
from bentpipe.studies.study import OnProgress, Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import SOURCE, load_terminals
from bentpipe.studies.t3p_files import T3pOrientation

_4A, _4B = "figure 4a, section 3.5", "figure 4b, section 3.5"
#: Largest width of the band that holds 90 % of a fixed terminal's azimuths [deg]; chosen here: six times the paper's
#: band, and far below a vehicle's.
STANDS_DEG = 10.0


def _run(request: Request) -> Result:
    file = T3pOrientation.load()
    windows, quick = windows_of(file.windows), windows_of(file.windows_quick)
    parts = [part for part in measured_parts(request.data, "orientation") if _pointed(part)]
    simulated = not parts
    if simulated:
        parts = [_simulated(quick if request.quick else windows, request.on_progress)]
    rows, verdicts, notes, figures = [], [], [], {}
    if simulated:
        notes.append(
            "a simulated terminal stands still and its latency does not depend on where it points: the paper's "
            "statements about orientations cannot show in it, only its latency"
        )
    for number, part in enumerate(parts):
        maps = orientation_maps(part.table)
        name = f"{part.name} ({number + 1})" if len(parts) > 1 else part.name
        rows += _rows(file.published, maps, name, part.basis)
        if (_width(maps.azimuth_band_deg) or 0.0) <= STANDS_DEG:
            verdicts += _verdicts(file.published, maps, name, part.basis)
        else:
            notes.append(
                f"{name} is moved about, while the paper's terminal stands on a roof: its values decide nothing"
            )
        figures[f"figure-4{f'-{number}' if number else ''}"] = plot_orientation(maps)
    return Result(rows, verdicts, [part.text for part in parts], figures, notes)


def _pointed(part: Part) -> bool:
    return part.table.drop_nulls(["azimuth_deg", "elevation_deg"]).height > 0


def _simulated(windows: Windows, on_progress: OnProgress) -> Part:
    """Return 1 Hz telemetry of a simulated terminal at BCN-1: pings to the PoP and its orientation."""
    site = load_terminals()["bcn-1"]
    pop = pop_by_code(str(site.pop))
    aimed = aim(site.lat_deg)
    tables = []
    for number, start_unix_ns in enumerate(windows.starts_unix_ns):
        profile = make_profile(
            site,
            Place(f"PoP {pop.city}", pop.lat_deg, pop.lon_deg),
            start_unix_ns=start_unix_ns,
            duration_s=windows.duration_s,
            loss="idle",
            seed=1000 + number,
        )
        world = DishEnvironment(profile)
        drop, latency_ms, _, _ = world.samples(np.arange(world.seconds))
        tables.append(
            pl.DataFrame({"latency_ms": np.where(drop < 1, latency_ms, np.nan)}).select(
                pl.lit(aimed.azimuth_deg).alias("azimuth_deg"),
                pl.lit(aimed.elevation_deg).alias("elevation_deg"),
                pl.col("latency_ms").fill_nan(None),
            )
        )
        on_progress((number + 1) / len(windows.starts_unix_ns))
    return Part(site.name, f"simulated: a terminal that stands still, {windows.text}", pl.concat(tables))


def _width(band: tuple[float, float] | None) -> float | None:
    return None if band is None else band[1] - band[0]


def _rows(published: Mapping[str, Published], maps: Orientation, name: str, basis: str) -> list[Row]:
    elevation = maps.elevation_band_deg
    ours = {
        "azimuth-band": _width(maps.azimuth_band_deg),
        "elevation-band": _width(elevation),
        "elevation": None if elevation is None else sum(elevation) / 2,
        "p95": _greatest_p95_ms(maps),
    }
    return [published[key].row(value, basis, of=name) for key, value in ours.items()]


def _greatest_p95_ms(maps: Orientation) -> float | None:
    value = maps.bins["p95_ms"].max()
    return float(value) if isinstance(value, float) else None


def _verdicts(published: Mapping[str, Published], maps: Orientation, name: str, basis: str) -> list[Verdict]:
    width, p95 = _width(maps.azimuth_band_deg), _greatest_p95_ms(maps)
    still = maps.bins.height == 1
    rank = maps.rank_correlation
    return [
        Verdict(
            "the orientation of a terminal seldom changes (90 % of azimuths within 1.6 deg there; twice that here)",
            None if still or width is None else width <= 2 * published["azimuth-band"].value,
            "section 3.5",
            basis,
            f"{name}: {'does not move by construction' if still else f'{width:.3g} deg'}",
        ),
        Verdict(
            "95th percentiles of latency are below 100 ms in every orientation",
            None if p95 is None else p95 < published["p95"].value,
            _4B,
            basis,
            f"{name}: {'no bin has enough samples' if p95 is None else f'at most {p95:.1f} ms'}",
        ),
        Verdict(
            "the highest 95th percentiles belong to the less popular orientations",
            None if rank is None else rank < 0,
            _4B,
            basis,
            f"{name}: rank correlation of frequency and latency "
            + ("unknown: fewer than three orientations with enough samples" if rank is None else f"{rank:.2f}"),
        ),
    ]


STUDY = Study(
    name="t3p-orientation",
    title="Where a terminal points, and its latency there",
    source=f"{SOURCE}, figures 4a and 4b",
    takes="a minute; --quick: seconds",
    run=_run,
    measured="telemetry of a terminal",
)
