"""Satellites from Python: element files, look angles, routes, schedules, and errors for bad input."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import require_data

from bentpipe.errors import UserError
from bentpipe.orbits import elements, routes, sky
from bentpipe.scenarios.places import parse_place
from bentpipe.scenarios.sites import Place
from bentpipe.times import parse_utc

AT = parse_utc("2026-05-10T15:00:00Z")
MELBOURNE = Place("melbourne", -37.81, 144.96, 31.0)
TLE = """STARLINK-1008
1 44714U 19074B   26130.53954372  .00012175  00000+0  24860-3 0  9999
2 44714  53.1540 248.3799 0001603  18.4433 341.6632 15.46620229358384
"""
OTHER = """VANGUARD 1
1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753
2 00005  34.2682 348.7242 1859667 331.7664  19.3264 10.82419157413667
"""
PACKED = gzip.compress(TLE.encode(), mtime=0)


@pytest.fixture(scope="module")
def shell():
    return elements.load_satellites(None, "starlink-s1", AT)


def test_plain_and_gzipped_files_read_the_same(tmp_path):
    plain, packed = tmp_path / "a.tle", tmp_path / "a.tle.gz"
    plain.write_text(TLE)
    packed.write_bytes(PACKED)
    for path in (plain, packed):
        satellites = elements.read_elements(path)
        assert len(satellites) == 1
        assert satellites.elements()["name"] == ["STARLINK-1008"]


def test_two_gzip_members_are_one_file(tmp_path):
    path = tmp_path / "a.tle.gz"
    path.write_bytes(PACKED + gzip.compress(OTHER.encode()))
    assert elements.read_elements(path).elements()["name"] == ["STARLINK-1008", "VANGUARD 1"]


def test_the_newest_of_several_element_sets_is_used_with_a_warning(tmp_path):
    older = TLE.replace("26130.53954372", "26129.53954372").replace("9999", "9998").replace("248.3799", "248.3709")
    older = older.replace("15.46620229358384", "15.46620229358385")
    path = tmp_path / "a.tle"
    for text in (older + OTHER + TLE, TLE + OTHER + older):
        path.write_text(checked(text))
        with pytest.warns(
            elements.OrbitWarning, match=r"^a\.tle: 1 element sets left out: .* \(2 satellites remain\)"
        ) as caught:
            satellites = elements.read_elements(path)
        assert len(caught) == 1
        assert satellites.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert satellites.superseded == 1
        columns = satellites.elements()
        assert sorted(columns["norad_id"]) == [5, 44714]
        assert columns["raan_deg"][list(columns["norad_id"]).index(44714)] == 248.3799


def a_shell(numbers, epoch="26130.53954372"):
    """Three lines for each number, all of one epoch, launch and plane, each a place further on."""
    one, two = TLE.splitlines()[1:]
    return checked(
        "".join(
            f"S-{i}\n1 {number:05d}U 00000ABC {epoch}{one[32:]}\n2 {number:05d} {two[8:43]}{8 * i:8.4f}{two[51:]}\n"
            for i, number in enumerate(numbers)
        )
    )


@pytest.mark.parametrize("number", [0, 99999, 12345])
def test_satellites_with_one_number_stay_separate(tmp_path, number):
    path = tmp_path / "shell.tle"
    path.write_text(a_shell([number] * 40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(elements.read_elements(path)) == len(elements.load_satellites(path, None, AT)) == 40


def test_the_element_set_nearest_to_the_given_time_is_used(tmp_path):
    day = 86_400 * 10**9
    path = tmp_path / "history.tle"
    path.write_text(a_shell([7, 8], "26130.50000000") + a_shell([7, 8], "26100.50000000"))
    epochs = [parse_utc("2026-05-10T12:00:00Z"), parse_utc("2026-04-10T12:00:00Z")]
    for epoch in epochs:
        with pytest.warns(elements.OrbitWarning, match=r"2 element sets left out: .* nearest to 2026-") as caught:
            satellites = elements.load_satellites(path, None, epoch + day)
        assert len(caught) == 1  # and the elements are fresh
        assert set(satellites.elements()["epoch_unix_ns"]) == {epoch}


def test_a_grid_keeps_every_place(tmp_path):
    path = tmp_path / "grid.tle"
    path.write_text(a_shell([7] * 44) + a_shell([7], "26129.53954372"))
    with pytest.raises(UserError, match="grid:4x11 has 44 satellites, the elements have 45"):
        routes.route(MELBOURNE, parse_place("sydney"), elements=path, start_unix_ns=AT, duration_s=1, isl="grid:4x11")


def checked(text):
    """TLE lines with their checksums set right."""
    lines = []
    for line in text.splitlines():
        digits = sum(int(c) if c.isdigit() else c == "-" for c in line[:68])
        lines.append(line[:68] + str(digits % 10) if line[:2] in ("1 ", "2 ") else line)
    return "\n".join(lines) + "\n"


def test_a_gzip_bomb_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(elements, "MAX_ELEMENTS_BYTES", 10_000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b" " * 1_000_000))
    with pytest.raises(UserError, match="unpacks to more than 10000 bytes"):
        elements.read_elements(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b"hello\n", "not a format of orbital elements"),
        (TLE[:120].encode(), "a.tle:3: satellite 1 of the file: TLE line 2 has"),
        (TLE.replace("9999", "9998").encode(), "a.tle:2: satellite 1 of the file: checksum 8"),
        (PACKED[:-12], "the gzip file is truncated"),
        (PACKED[:-8] + b"\0" * 8, "is damaged"),
        (b'[{"OBJECT_NAME": "X"}]', "field NORAD_CAT_ID is missing"),
    ],
)
def test_errors_of_bad_files_name_line_and_problem(tmp_path, content, expected):
    path = tmp_path / "a.tle"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        elements.read_elements(path)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    data=st.binary(max_size=300), prefix=st.sampled_from([b"", b"\x1f\x8b", b"\x1f\x8b\x08\x00", b"<ndm>", b"[", b"1 "])
)
def test_any_bytes_give_satellites_or_a_user_error(tmp_path_factory, data, prefix):
    path = tmp_path_factory.mktemp("fuzz") / "f"
    path.write_bytes(prefix + data)
    with pytest.raises(UserError):
        elements.read_elements(path)


def test_the_sky_is_sorted_and_above_the_mask(shell):
    rows = sky.sky(shell, MELBOURNE, AT, min_elevation_deg=30.0)
    elevations = [row["elevation_deg"] for row in rows]
    assert rows
    assert elevations == sorted(elevations, reverse=True)
    assert min(elevations) >= 30
    assert set(rows[0]) == {"norad_id", "name", "azimuth_deg", "elevation_deg", "range_km", "sunlit"}
    assert json.loads(json.dumps(rows)) == rows


def test_the_pole_has_an_empty_sky_not_an_error(shell):
    assert sky.sky(shell, Place("pole", 90.0, 0.0), AT) == []


def test_blocks_match_look_angles_and_sky(shell):
    times = AT + np.arange(70, dtype=np.int64) * 10**9
    whole = sky.look_angles(shell, MELBOURNE, times)
    assert whole.azimuth_deg.shape == (len(shell), 70)
    for which, block in sky.look_angle_blocks(shell, MELBOURNE, times, satellites_per_block=500):
        for a, b in zip(whole, block, strict=True):
            np.testing.assert_array_equal(a[which], b)
    up = {row["norad_id"]: row for row in sky.sky(shell, MELBOURNE, AT)}
    above = {i + 1 for i in np.flatnonzero(whole.elevation_deg[:, 0] >= 25)}
    assert above == set(up)
    for number, row in up.items():
        assert whole.elevation_deg[number - 1, 0] == pytest.approx(row["elevation_deg"], abs=1e-9)
        assert whole.range_km[number - 1, 0] == pytest.approx(row["range_km"], abs=1e-6)


def test_times_are_integers(shell):
    with pytest.raises(UserError, match="expected one dimension of integer nanoseconds"):
        sky.look_angles(shell, MELBOURNE, [1.5])


@pytest.mark.parametrize(("name", "by_deg", "by_km"), [("starlink-s1", 0.0, 0.0), ("geo", 0.02, 0.1)])
def test_built_in_satellites_do_not_jump_at_midnight(name, by_deg, by_km):
    """Asked for on one day or the next, before or after midnight: a satellite is at one place at one moment."""
    midnight = parse_utc("2026-05-12T00:00:00Z")
    around = midnight + np.array([-(10**9), 0, 10**9])
    before, after = (elements.load_satellites(None, name, midnight + late) for late in (-(10**9), 10**9))
    looks = zip(*(sky.look_angles(s, MELBOURNE, around) for s in (before, after)), strict=True)
    for (a, b), within in zip(looks, (by_deg, by_deg, by_km), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=within)
    ranges = sky.look_angles(after, MELBOURNE, around).range_km
    assert np.abs(np.diff(ranges)).max() < 8.0  # what a low satellite moves in a second


@pytest.mark.parametrize("days", [-3650, -365, -183, 0, 183, 365, 3650, 36500])
def test_a_geostationary_satellite_keeps_its_place_for_years(days):
    at = AT + days * 86_400 * 10**9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        satellites = elements.load_satellites(None, "geo", at)
    # And for as long as a Profile may last.
    look = sky.look_angles(satellites, Place("below", 0.0, 140.0), at + np.array([0, 1, 31]) * 86_400 * 10**9)
    assert look.elevation_deg.min() > 89.0
    assert np.abs(look.range_km - 35_786).max() < 5.0


@pytest.mark.parametrize("year", ["2015", "2032", "2200"])
def test_built_in_shells_far_from_their_epoch_give_a_warning(year):
    at = parse_utc(f"{year}-05-10T00:00:00Z")
    with pytest.warns(
        elements.StaleElementsWarning, match=r"starlink-s1 flies as filed from 2026-05-10, \d+ years"
    ) as caught:
        satellites = elements.load_satellites(None, "starlink-s1", at)
    assert len(caught) == 1
    # The shell is still one: as many are up as ever.
    assert 3 <= len(sky.sky(satellites, MELBOURNE, at)) <= 30


def test_built_in_orbits_stay_round_for_years(shell):
    """The perigee turns away from where it cancels the Earth's odd harmonic: never by more than docs/concepts say."""
    earth_km = 6378.137
    for years in (-3, 0, 0.16, 2):
        times = AT + int(years * 365.25 * 86400e9) + np.arange(0, 6000, 120) * 10**9
        look = sky.look_angles(shell, Place("origin", 0.0, 0.0), times)
        sine = np.sin(np.radians(look.elevation_deg))
        altitude_km = np.sqrt(earth_km**2 + look.range_km**2 + 2 * earth_km * look.range_km * sine) - earth_km
        assert np.abs(altitude_km - 550.0).max() < 14.5


def test_a_route_from_a_place_to_itself_has_no_links(shell):
    paths = routes.route(MELBOURNE, MELBOURNE, duration_s=2)
    here = (MELBOURNE.lat_deg, MELBOURNE.lon_deg, MELBOURNE.alt_m)
    assert routes.route(here, f"{here[0]},{here[1]},{here[2]}", duration_s=2).to_rows() == paths.to_rows()
    assert paths.to_rows()[1] == {"t_s": 1.0, "rtt_ms": 0.0, "hops": 0, "satellites": []}
    assert paths.to_csv().splitlines()[1] == "0,0.000000,0,"
    pairs = routes.constellation([MELBOURNE, MELBOURNE], [AT], shell)
    np.testing.assert_array_equal(pairs.rtt_ms, np.zeros((1, 2, 2)))
    np.testing.assert_array_equal(pairs.hops, np.zeros((1, 2, 2)))


def test_missing_links_give_a_warning(tmp_path):
    path = tmp_path / "a.tle"
    path.write_text(TLE)
    with pytest.warns(elements.OrbitWarning, match=r"no path in 2 of 2 steps: the satellites have no links.*grid:"):
        routes.route(MELBOURNE, parse_place("london"), elements=path, start_unix_ns=AT, duration_s=2)
    # Who asks for none knows.
    routes.route(MELBOURNE, parse_place("london"), elements=path, start_unix_ns=AT, duration_s=2, isl="none")


def test_routes_begin_where_profiles_do_and_elements_need_a_start(tmp_path):
    ends = parse_place("london"), MELBOURNE
    assert (
        routes.route(*ends, duration_s=1).to_rows()
        == routes.route(*ends, start_unix_ns=parse_utc("2026-05-10T09:00:00Z"), duration_s=1).to_rows()
    )
    with pytest.raises(UserError, match="start: none given; expected a time"):
        routes.route(*ends, elements=tmp_path / "a.tle")


def test_route_csv_and_rows_agree():
    ends = parse_place("59.93,30.36"), parse_place("-22.90,-43.17")
    paths = routes.route(*ends, start_unix_ns=AT, duration_s=5, step_s=0.5)
    rows = list(csv.DictReader(io.StringIO(paths.to_csv())))
    assert [row["t_s"] for row in rows] == ["0", "0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5"]
    for text, row in zip(rows, paths.to_rows(), strict=True):
        assert float(text["rtt_ms"]) == row["rtt_ms"]
        assert len(text["rtt_ms"].split(".")[1]) == 6
        assert [int(number) for number in text["satellites"].split()] == row["satellites"]
        assert int(text["hops"]) == row["hops"] == len(row["satellites"]) + 1


def test_a_place_without_a_satellite_is_unreachable_not_an_error():
    paths = routes.route(Place("pole", 90.0, 0.0), MELBOURNE, start_unix_ns=AT, duration_s=2)
    assert paths.to_rows()[0] == {"t_s": 0.0, "rtt_ms": None, "hops": 0, "satellites": []}
    assert paths.to_csv().splitlines()[1] == "0,,0,"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"duration_s": 0}, "duration: 0 s; expected more than 0"),
        ({"duration_s": -1}, "duration: -1 s; expected more than 0"),
        ({"step_s": float("nan")}, "step: nan s; expected more than 0"),
        ({"step_s": 1e-12}, "steps; expected at most"),
        ({"isl": "ring"}, "isl: 'ring'; expected grid:PLANESxPER_PLANE"),
        ({"isl": "grid:72x21"}, "grid:72x21 has 1512 satellites, the elements have 1584"),
        ({"isl": "grid:22x72"}, "at least 80 km"),
        ({"min_elevation_deg": 91.0}, "lowest elevation is 91"),
        ({"constellation": "starlink-s2"}, "starlink-s1"),
    ],
)
def test_invalid_requests_name_the_expected_value(arguments, expected):
    request = {"start_unix_ns": AT, "duration_s": 2.0} | arguments
    with pytest.raises(UserError) as caught:
        routes.route(MELBOURNE, parse_place("sydney"), **request)
    assert expected in str(caught.value)


def test_all_pairs_match_the_routes(shell):
    places = [MELBOURNE, parse_place("london"), Place("pole", 90.0, 0.0)]
    pairs = routes.constellation(places, [AT], shell, threads=1)
    single = routes.route(places[0], places[1], start_unix_ns=AT, duration_s=1, constellation="starlink-s1")
    assert pairs.rtt_ms[0, 0, 1] == pytest.approx(single.rtt_ms[0], abs=1e-9)
    assert pairs.hops[0, 1, 0] == single.hops[0]
    assert np.isinf(pairs.rtt_ms[0, 2, :2]).all()
    np.testing.assert_array_equal(pairs.rtt_ms[0], pairs.rtt_ms[0].T)


def test_stale_elements_warn_with_age_and_position_error(tmp_path):
    path = tmp_path / "old.tle"
    path.write_text(TLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        elements.load_satellites(path, None, AT)
    with pytest.warns(elements.StaleElementsWarning, match=r"old.tle: the elements are 31\.1 days .* km") as caught:
        elements.load_satellites(path, None, AT + 31 * 86_400 * 10**9)
    assert len(caught) == 1


def test_elements_and_a_constellation_together_are_refused(tmp_path):
    with pytest.raises(UserError, match="expected one of them"):
        elements.load_satellites(tmp_path / "x", "geo", AT)


def test_a_schedule_has_slots_at_the_edges_and_repeats(shell):
    gateways = [("sydney", parse_place("sydney"), 3.0)]
    request = {"start_unix_ns": AT, "duration_ns": 60 * 10**9}
    parts: list[float] = []
    text = sky.schedule(shell, MELBOURNE, gateways, **request, on_progress=parts.append)
    slots = json.loads(text)["slots"]
    assert [slot["start_ns"] // 10**9 for slot in slots] == [0, 12, 27, 42, 57]
    assert parts[-1] == 1.0
    assert text == sky.schedule(shell, MELBOURNE, gateways, **request)
    with pytest.raises(UserError, match="policy: 'best' is unknown; expected starlink-like"):
        sky.schedule(shell, MELBOURNE, gateways, **request, policy="best")
    with pytest.raises(UserError, match="expected more than 0"):
        sky.schedule(shell, MELBOURNE, gateways, start_unix_ns=AT, duration_ns=0)


def test_the_real_catalogue_of_the_day():
    path = require_data("tle_starlink/10-05-2026.tle.gz")
    satellites = elements.load_satellites(path, None, AT)
    assert len(satellites) > 10_000
    assert 40 < len(sky.sky(satellites, MELBOURNE, AT)) < 120
