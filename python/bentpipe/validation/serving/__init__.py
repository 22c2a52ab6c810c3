"""The serving satellite: generated maps whose painter is known, and what others inferred from real ones.

README.md beside this file says what is claimed and how it is tested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.tables import only_series
from bentpipe.errors import UserError
from bentpipe.measurements.serving.candidates import skies
from bentpipe.measurements.serving.inputs import Maps, read_maps
from bentpipe.measurements.serving.matching import MIN_ELEVATION_DEG, Answer, by_map
from bentpipe.measurements.serving.orientation import Orientation, match_pairs, refine_orientation
from bentpipe.measurements.serving.rtt import by_rtt
from bentpipe.measurements.serving.sightings import painted
from bentpipe.measurements.serving.tracks import distances, tracks
from bentpipe.orbits import elements
from bentpipe.scenarios.places import parse_place
from bentpipe.scenarios.sites import Place
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.access_model.pings import replies
from bentpipe.validation.serving.generated import (
    FITTED,
    PAINTED_BY,
    SCORED,
    Case,
    Truth,
    known_satellites,
    maps_of,
    slot_start,
    world_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from bentpipe import _native

#: Length of a generated case [s].
CASE_S = 1800
#: Answers are sorted by confidence and cut into so many parts of one size; in each the share that is right may differ
#: from the mean confidence by so much.
PARTS, CALIBRATED = 5, 0.10
#: A label whose satellite stands farther than this from what was painted [deg] contradicts its own map. Chosen here:
#: four times our median.
LABEL_FITS_DEG = 2.0
AGREES = 0.90
#: By how much time is shifted for the negative control [h].
SHIFT_H = 6
#: Where the terminal of `joint_victoria_20250529` was at 23:21:28, from its own GPS.
VICTORIA = Place("victoria", 48.51368, -124.29353, 201.0)
_LOUVAIN, _JOINT, _ELEMENTS = "serving_satellite_louvain", "joint_victoria_20250529", "tle_starlink"
_STAMP = "2025-05-29-23-20-13"


@dataclass(frozen=True)
class Judged:
    """Answers of a record and whether each is right, shape (n,)."""

    confidence: NDArray[np.float64]
    right: NDArray[np.bool_]


def calibration(judged: Judged, parts: int = PARTS) -> list[tuple[int, float, float]]:
    """How many answers, their mean confidence, and the share that is right; by confidence, in parts of one size."""
    order = np.argsort(judged.confidence, kind="stable")
    return [
        (len(part), float(judged.confidence[part].mean()), float(judged.right[part].mean()))
        for part in np.array_split(order, parts)
        if len(part)
    ]


def judge_case(case: Case, truth: Truth, data: Path) -> Judged:
    """A generated case: right is the satellite that painted, or "none" where that one is not among the elements."""
    satellites = known_satellites(data / _ELEMENTS, parse_utc(case.start))
    known = {int(i) for i in satellites.elements()["norad_id"]}
    answers, _ = by_map(painted(maps_of(case, truth)), "FRAME_EARTH", satellites, truth.place)
    # A clock that is late puts the last look into a slot that is not the case's.
    pairs = [(a, truth.serving.get(slot_start(a.slot_start_unix_ns), 0)) for a in answers]
    judged = [(a.confidence, a.norad_id == (who if who in known else None)) for a, who in pairs if who]
    return Judged(np.array([c for c, _ in judged]), np.array([r for _, r in judged], dtype=bool))


def generated(cases: Sequence[Case], data: Path, on_progress: OnProgress) -> Judged:
    """All of some cases."""
    worlds: dict[tuple[str, str], Truth] = {}
    found = []
    for k, case in enumerate(cases):
        key = (case.site, case.start)
        if key not in worlds:
            worlds[key] = world_of(case, data / _ELEMENTS / PAINTED_BY, CASE_S)
        found.append(judge_case(case, worlds[key], data))
        on_progress((k + 1) / len(cases))
    return Judged(np.concatenate([j.confidence for j in found]), np.concatenate([j.right for j in found]))


def shifted(maps: Maps, hours: int) -> Maps:
    """The same maps at another time: no satellite is where it was."""
    by_ns = hours * 3600 * 10**9
    slots = [replace(slot, start_unix_ns=slot.start_unix_ns + by_ns) for slot in maps.painted.slots]
    attitudes = maps.attitudes
    if attitudes is not None:
        attitudes = replace(attitudes, unix_ns=attitudes.unix_ns + by_ns)
    return replace(maps, painted=replace(maps.painted, slots=slots), attitudes=attitudes)


def label_distances(
    maps: Maps, standing: Orientation | None, satellites: _native.Satellites, place: Place, labels: dict[int, str]
) -> dict[int, float]:
    """How far each slot's labelled satellite is from what was painted [deg], capped."""
    turn = standing.turn if standing is not None else maps.attitudes.turn  # type: ignore[union-attr]
    found = tracks(maps.painted, turn)
    names = [str(name).strip() for name in satellites.elements()["name"]]
    starts = [track.start_unix_ns for track in found]
    out = {}
    for track, sky in zip(found, skies(satellites, place, starts, MIN_ELEVATION_DEG), strict=True):
        here = [k for k, index in enumerate(sky.index) if names[index] == labels.get(track.start_unix_ns)]
        if here:
            out[track.start_unix_ns] = float(distances(track, sky).nearest_deg[here[0]])
    return out


def own_geometry(
    maps: Maps, near: Orientation, satellites: _native.Satellites, place: Place, labels: dict[int, str]
) -> float:
    """Share of the slots whose label stands nearest to what was painted, if the terminal stood as the labels have it.

    The standing is the least-squares turn of the labelled satellites themselves, begun at one that is `near`. No way of
    telling satellites from these maps agrees with the labels much more often than that.
    """
    names = [str(name).strip() for name in satellites.elements()["name"]]
    painted_ = tracks(maps.painted, lambda vectors, _: vectors)
    up = list(skies(satellites, place, [track.start_unix_ns for track in painted_], MIN_ELEVATION_DEG))
    labelled = []
    for track, sky in zip(painted_, up, strict=True):
        here = [k for k, index in enumerate(sky.index) if names[index] == labels.get(track.start_unix_ns)]
        vectors, ways = match_pairs(track, sky)
        if here:
            labelled.append((vectors, ways[here]))
    standing = refine_orientation(near.axes, labelled)
    nearest = [
        distances(track, sky).nearest_deg.argmin()
        for track, sky in zip(tracks(maps.painted, standing.turn), up, strict=True)
    ]
    return float(
        np.mean(
            [
                names[sky.index[which]] == labels.get(track.start_unix_ns)
                for track, sky, which in zip(painted_, up, nearest, strict=True)
            ]
        )
    )


def labels_of(path: Path) -> dict[int, str]:
    """The satellite that others inferred, by slot."""
    table = pl.read_csv(path)
    seconds = table["Timestamp"].str.slice(0, 19).str.to_datetime("%Y-%m-%d %H:%M:%S", time_zone="UTC").dt.epoch("s")
    rows = zip(seconds.to_list(), table["Connected_Satellite"].to_list(), strict=True)
    return {slot_start(second * 10**9): name.strip() for second, name in rows}


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Accuracy and calibration on generated maps, agreement with published labels, negative controls; two minutes."""
    if data is None or not all((data / name).is_dir() for name in (_LOUVAIN, _JOINT, _ELEMENTS)):
        return Outcome("serving", skipped="needs the measurements (--data DIR, see the claim's README)")
    outcome = Outcome("serving")
    for name, cases, begin in (("fitted", FITTED, 0.0), ("held out", SCORED, 0.3)):
        judged = generated(cases, data, lambda part, begin=begin: on_progress(begin + 0.3 * part))  # type: ignore[misc]
        outcome.rows.append(_share(f"generated, {name}: right", judged.right, "known", None))
        outcome.rows.extend(_calibrated(f"generated, {name}", judged, limit=name == "held out"))
    _louvain(data / _LOUVAIN, outcome)
    on_progress(0.8)
    _joint(data / _JOINT, outcome)
    on_progress(1.0)
    return outcome


def _louvain(folder: Path, outcome: Outcome) -> None:
    maps, place = read_maps(folder / "first_ucl.csv"), parse_place("louvain")
    labels = labels_of(folder / "first_ucl.csv")
    satellites = elements.read_elements(folder / "starlink_gp.tle", maps.painted.slots[0].start_unix_ns)
    answers, standing = by_map(maps.painted, maps.frame, satellites, place)
    agrees = np.array([a.name == labels[a.slot_start_unix_ns] for a in answers])
    apart = label_distances(maps, standing, satellites, place, labels)
    fits = np.array([apart.get(a.slot_start_unix_ns, np.inf) <= LABEL_FITS_DEG for a in answers])
    ours = np.array([a.distance_deg for a in answers])
    outcome.rows.extend(
        [
            _share("louvain: agrees with the labels", agrees, "SatInView", None),
            Row(
                "louvain: the labels agree with themselves",
                f"{own_geometry(maps, standing, satellites, place, labels):.3f}",  # type: ignore[arg-type]
                "",
                "",
                None,
            ),
            _share(
                f"louvain: agrees where the label stands within {LABEL_FITS_DEG:g}° of its map",
                agrees[fits],
                "SatInView",
                AGREES,
            ),
            *_calibrated(
                "louvain, those", Judged(np.array([a.confidence for a in answers])[fits], agrees[fits]), limit=True
            ),
        ]
    )
    theirs = [apart.get(a.slot_start_unix_ns, np.inf) for a, same in zip(answers, agrees, strict=True) if not same]
    outcome.notes.append(
        f"louvain: where we differ ({int((~agrees).sum())} slots), our satellite stands a median of "
        f"{np.median(ours[~agrees]):.2f}° from what was painted, theirs {np.median(theirs):.2f}° (6 is the cap); in "
        f"all slots ours stands {np.median(ours):.2f}°, in 95 % of them within {np.quantile(ours, 0.95):.2f}°"
    )
    try:
        by_map(shifted(maps, SHIFT_H).painted, maps.frame, satellites, place)
        refused = "a standing is found"
    except UserError as error:
        refused = str(error)
    outcome.rows.append(
        Row(
            f"louvain, {SHIFT_H} h later",
            refused.partition(", and ")[2] or refused,
            "refused",
            "",
            "standing is found" not in refused,
        )
    )


def _joint(folder: Path, outcome: Outcome) -> None:
    maps = read_maps(folder / f"obstruction_map-{_STAMP}.parquet")
    satellites = elements.read_elements(folder / f"starlink-tle-{_STAMP}.txt", maps.painted.slots[0].start_unix_ns)

    def named(maps: Maps) -> list[Answer]:
        answers, _ = by_map(maps.painted, maps.frame, satellites, VICTORIA, attitudes=maps.attitudes)
        return [a for a in answers if a.norad_id is not None]

    answers, control = named(maps), named(shifted(maps, SHIFT_H))
    slots = len(maps.painted.slots)
    ours = {a.slot_start_unix_ns: a for a in answers}
    outcome.rows.extend(
        [
            Row("joint: a satellite is named", f"{len(answers)} of {slots}", "", "", None),
            Row(
                f"joint, {SHIFT_H} h later: a satellite is named",
                f"{len(control)} of {slots}",
                "0",
                "≤ 5 %",
                len(control) <= 0.05 * slots,
            ),
        ]
    )
    labels = labels_of(folder / f"serving_satellite_data-{_STAMP}.csv")
    for start, apart_deg in label_distances(maps, None, satellites, VICTORIA, labels).items():
        mine = ours.get(start)
        if mine is not None and mine.distance_deg is not None:
            at = np.datetime64(start, "ns").astype("datetime64[s]")
            outcome.notes.append(
                f"joint, {at}: ours {mine.name} {mine.distance_deg:.2f}°, "
                f"label {labels[start]} {apart_deg:.2f}° (6 is the cap)"
            )
    t_s, rtt_ms = replies(folder / f"ping-10ms-{_STAMP}.txt", stamped="sent")
    table = pl.DataFrame({"unix_ns": np.round(t_s * 1e9).astype(np.int64), "rtt_ms": rtt_ms}, strict=False)
    by_pings = by_rtt(only_series(table.with_columns(pl.col("rtt_ms").fill_nan(None))), satellites, VICTORIA)
    both = [
        (a.confidence, a.norad_id == ours[a.slot_start_unix_ns].norad_id)
        for a in by_pings
        if a.slot_start_unix_ns in ours
    ]
    confidence, right = float(np.mean([c for c, _ in both])), float(np.mean([r for _, r in both]))
    outcome.rows.append(
        Row(
            "joint, from pings alone: right",
            f"{right:.2f} of {len(both)}",
            f"mean confidence {confidence:.2f}",
            f"{CALIBRATED:g}",
            abs(right - confidence) <= CALIBRATED,
        )
    )


def _share(quantity: str, right: NDArray[np.bool_], reference: str, least: float | None) -> Row:
    ours = f"{right.mean():.3f} of {right.size}"
    return Row(
        quantity,
        ours,
        reference,
        "" if least is None else f"≥ {least:g}",
        None if least is None else bool(right.mean() >= least),
    )


def _calibrated(quantity: str, judged: Judged, *, limit: bool) -> list[Row]:
    return [
        Row(
            f"{quantity}: confidence {mean:.3f}",
            f"{right:.3f} right of {count}",
            f"{mean:.3f}",
            f"{CALIBRATED:g}",
            abs(right - mean) <= CALIBRATED if limit else None,
        )
        for count, mean, right in calibration(judged)
    ]
