"""The serving satellite: maps with a known satellite, the estimated orientation, hostile maps, and pings alone."""

import functools
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import require_data
from typer.testing import CliRunner

from bentpipe.analysis.tables import only_series
from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient
from bentpipe.measurements.dish.clocks import SetClock
from bentpipe.measurements.dish.obstruction import SIDE, directions_to_pixels
from bentpipe.measurements.dish.recording.recorder import Recorder
from bentpipe.measurements.dish.simulation.environment import DishEnvironment
from bentpipe.measurements.dish.simulation.sky import SimulatedMap
from bentpipe.measurements.dish.simulation.terminal import LocalTransport, Terminal
from bentpipe.measurements.serving.confidence import posterior
from bentpipe.measurements.serving.frames import (
    Attitudes,
    pixels_to_vectors,
    sky_to_vectors,
    vectors_to_pixels,
    vectors_to_sky,
)
from bentpipe.measurements.serving.inputs import read_maps, read_pings
from bentpipe.measurements.serving.matching import by_map
from bentpipe.measurements.serving.rtt import by_rtt
from bentpipe.measurements.serving.sightings import painted, painted_from_pixels
from bentpipe.orbits.elements import load_satellites, read_elements
from bentpipe.profiles.make import make_profile
from bentpipe.scenarios.places import parse_place
from bentpipe.times import parse_utc
from bentpipe.validation.serving import Judged, calibration, labels_of
from bentpipe.validation.tle import two_line_elements

START = parse_utc("2026-05-10T09:00:12Z")
SECOND, SLOT = 10**9, 15 * 10**9
SITE = "louvain"
PLACE = parse_place(SITE)
run = CliRunner().invoke


@functools.cache
def world(seconds=300):
    return DishEnvironment(make_profile(SITE, SITE, start_unix_ns=START, duration_s=float(seconds)))


@functools.cache
def satellites():
    return load_satellites(None, None, START)


def truth(seconds=300):
    return {START + s * SECOND: int(world(seconds).serving[s]) for s in range(0, seconds, 15)}


def looks(every=1, clear=15, seconds=300, late_ns=0):
    paint = SimulatedMap(world(seconds), 0)
    for second in range(0, seconds + 1, every):
        paint.paint_to(second)
        yield START + second * SECOND + late_ns, paint.quality.copy()
        if clear and second % clear == 0:
            paint.clear(second)


def right(answers, seconds=300):
    known = truth(seconds)
    agrees = [a.norad_id == known[a.slot_start_unix_ns] for a in answers if a.slot_start_unix_ns in known]
    return sum(agrees) / len(known)


@pytest.mark.parametrize(("every", "clear"), [(1, 15), (1, 0), (5, 15), (15, 90)])
def test_the_painting_satellite_is_identified(every, clear):
    answers, _ = by_map(painted(looks(every, clear)), "FRAME_EARTH", satellites(), PLACE)
    assert right(answers) >= 0.9
    assert all(0 < a.confidence <= 1 and a.runner_up not in (None, a.norad_id) for a in answers)


def test_maps_between_edges_are_assigned_to_their_slots():
    """Every 15 s, in the middle of slots: what is new in one look is of two satellites."""
    answers, _ = by_map(painted(list(looks(1, 0))[7::15]), "FRAME_EARTH", satellites(), PLACE)
    assert right(answers) >= 0.7


@pytest.mark.parametrize("hours", [-6, 6])
def test_elements_of_another_time_identify_no_satellite(hours):
    maps = [(t + hours * 3600 * SECOND, quality) for t, quality in looks()]
    answers, _ = by_map(painted(maps), "FRAME_EARTH", satellites(), PLACE)
    named = [a for a in answers if a.norad_id is not None]
    assert len(named) <= 0.4 * len(answers)
    assert not any(a.norad_id == truth().get(a.slot_start_unix_ns - hours * 3600 * SECOND) for a in named)


def test_a_satellite_missing_from_the_elements_gives_none_or_low_confidence(tmp_path):
    missing = set(list(truth().values())[::4])
    lines = two_line_elements(satellites())
    keep = [line for line in lines if int(line[2:7]) not in missing]
    path = tmp_path / "some.tle"
    path.write_text("\n".join(keep) + "\n")
    answers, _ = by_map(painted(looks()), "FRAME_EARTH", read_elements(path, START), PLACE)
    gone = [a for a in answers if truth()[a.slot_start_unix_ns] in missing]
    assert gone
    assert sum(a.norad_id is None or a.confidence < 0.9 for a in gone) >= len(gone) / 2


def directions():
    """Azimuth and elevation of the serving satellite at each second [deg], and when."""
    azimuth, elevation = world().track
    return azimuth, elevation, START + np.arange(300) * SECOND


def turned(azimuth_deg, tilt_deg, spin_deg, mirror):
    """Pixels of a terminal that stands so."""
    azimuth, elevation, times = directions()
    a, t, s = np.radians([azimuth_deg, tilt_deg, spin_deg])
    about = lambda q: np.array([[np.cos(q), np.sin(q), 0], [-np.sin(q), np.cos(q), 0], [0, 0, 1.0]])  # noqa: E731
    lean = np.array([[np.cos(t), 0, -np.sin(t)], [0, 1, 0], [np.sin(t), 0, np.cos(t)]])
    axes = np.diag([1, mirror, 1]) @ about(s) @ lean @ about(a)
    row, column = vectors_to_pixels(sky_to_vectors(azimuth, elevation) @ axes.T, (SIDE, SIDE), 80.0)
    return times, row.clip(0, SIDE - 1), column.clip(0, SIDE - 1), axes


@pytest.mark.parametrize(("azimuth", "tilt", "spin", "mirror"), [(312, 20, 0, -1), (75, 12, 200, 1), (180, 27, 90, -1)])
def test_the_orientation_is_estimated(azimuth, tilt, spin, mirror):
    times, row, column, axes = turned(azimuth, tilt, spin, mirror)
    answers, orientation = by_map(
        painted_from_pixels(times, row, column, (SIDE, SIDE)), "FRAME_UNKNOWN", satellites(), PLACE
    )
    assert right(answers) >= 0.9
    assert np.degrees(np.arccos(orientation.boresight @ axes[2])) < 1.5


def test_few_slots_or_other_satellites_give_no_orientation():
    times, row, column, _ = turned(312, 20, 0, -1)
    with pytest.raises(UserError, match="too few"):
        by_map(
            painted_from_pixels(times[:60], row[:60], column[:60], (SIDE, SIDE)), "FRAME_UNKNOWN", satellites(), PLACE
        )
    with pytest.raises(UserError, match="place, time or elements"):
        by_map(painted_from_pixels(times + 7 * SLOT * 100, row, column, (SIDE, SIDE)), "FRAME_UT", satellites(), PLACE)


def test_quaternions_turn_maps_of_a_moving_terminal():
    """Level, and turning about the vertical by a degree a second: image up is where its second axis points."""
    azimuth, elevation, times = directions()
    heading = np.radians(np.arange(300.0))
    # Boresight up: the third axis to -down, then about it.
    half = heading / 2
    quaternion = np.stack([np.zeros(300), np.cos(half), np.sin(half), np.zeros(300)], axis=1)
    ground = sky_to_vectors(azimuth, elevation)
    first = np.stack([np.cos(heading), np.sin(heading), np.zeros(300)], axis=1)
    second = np.stack([np.sin(heading), -np.cos(heading), np.zeros(300)], axis=1)
    frame = np.stack([(ground * second).sum(1), -(ground * first).sum(1), ground[:, 2]], axis=1)
    row, column = vectors_to_pixels(frame, (SIDE, SIDE), 80.0)
    painting = painted_from_pixels(times, row.clip(0, SIDE - 1), column.clip(0, SIDE - 1), (SIDE, SIDE))
    attitudes = Attitudes(times - SECOND // 2, quaternion)
    answers, orientation = by_map(painting, "FRAME_UT", satellites(), PLACE, attitudes=attitudes)
    assert orientation is None
    assert right(answers) >= 0.9


def test_attitudes_are_not_known_far_from_where_they_were_taken():
    attitudes = Attitudes(np.array([0, SECOND]), np.array([[0.0, 1, 0, 0]] * 2))
    out = attitudes.turn(np.array([[0.0, 0, 1]] * 2), np.array([SECOND // 2, 60 * SECOND]))
    assert np.allclose(out[0], [0, 0, 1])
    assert np.isnan(out[1]).all()


@given(st.floats(0, 359.9), st.floats(15, 89))
def test_pixels_and_directions_are_those_of_the_dish(azimuth, elevation):
    row, column = directions_to_pixels(np.array([azimuth]), np.array([elevation]))
    mine = vectors_to_pixels(sky_to_vectors(np.array([azimuth]), np.array([elevation])), (SIDE, SIDE), 80.0)
    assert (int(mine[0][0]), int(mine[1][0])) == (int(row[0]), int(column[0]))
    back = pixels_to_vectors(row, column, (SIDE, SIDE), 80.0)
    assert np.degrees(np.arccos(back[0] @ sky_to_vectors(azimuth, elevation))) < 1.0
    assert np.isclose(vectors_to_sky(sky_to_vectors(azimuth, elevation))[1], elevation)


MAPS = st.lists(
    st.tuples(
        st.integers(-(10**10), 60 * SECOND),
        st.tuples(st.integers(1, 9), st.integers(1, 9)),
        st.sampled_from([np.nan, -1.0, 0.0, 1.0, np.inf, 2.5]),
        st.integers(0, 2**32 - 1),
    ),
    max_size=12,
)


@given(MAPS)
def test_invalid_maps_are_handled(rows):
    """Any size, any value, any time: slots within the record, pixels within the map, nothing twice."""
    maps = []
    for at, shape, value, seed in rows:
        quality = np.where(np.random.default_rng(seed).random(shape) < 0.5, value, -1.0).astype(np.float32)
        maps.append((START + at, quality))
    painting = painted(maps)
    for slot in painting.slots:
        assert (slot.start_unix_ns - START) % SLOT == 0
        assert len(slot.row) == len(slot.column) == len(slot.begin_s) == len(slot.end_s) > 0
        assert all(begin < end <= begin + 30 for begin, end in zip(slot.begin_s, slot.end_s, strict=True))
    answers, _ = by_map(painting, "FRAME_EARTH", satellites(), PLACE)
    assert all(np.isfinite(a.confidence) and 0 <= a.confidence <= 1 for a in answers)


def test_a_burst_of_pixels_is_ignored():
    before = np.full((SIDE, SIDE), -1.0, dtype=np.float32)
    painting = painted([(START, before), (START + SECOND, np.ones_like(before))])
    assert (painting.slots, painting.bursts) == ([], 1)


def test_clearing_is_distinguished_from_vanishing_pixels():
    one = np.full((SIDE, SIDE), -1.0, dtype=np.float32)
    one[40, 40:50] = 1
    lost = one.copy()
    lost[40, 45] = -1
    cleared = np.full_like(one, -1.0)
    cleared[41, 40] = 1
    painting = painted([(START + k * SECOND, m) for k, m in enumerate([one, lost, one, cleared])])
    assert list(zip(painting.slots[0].row, painting.slots[0].column, strict=True)) == [(40, 45), (41, 40)]


def test_posteriors_are_probabilities():
    for n in (0, 1, 50):
        p = posterior(np.linspace(-900, 900, n), 0.3)
        assert len(p) == n + 1
        assert np.isclose(p.sum(), 1)


def test_a_calibrated_forecast_passes():
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.2, 1, 20_000)
    parts = calibration(Judged(confidence, rng.random(20_000) < confidence))
    assert max(abs(mean - share) for _, mean, share in parts) < 0.02


def pings(seconds=300):
    rng = np.random.default_rng(3)
    profile = world(seconds).profile
    t_s = np.arange(0, seconds - 1, 0.2)
    rtt = profile.delay_ms("up", t_s) + profile.delay_ms("down", t_s) + rng.exponential(3.0, len(t_s))
    return pl.DataFrame({"unix_ns": START + np.round(t_s * 1e9).astype(np.int64), "rtt_ms": rtt})


def test_pings_identify_more_than_chance_with_low_confidence():
    answers = by_rtt(only_series(pings(900)), satellites(), PLACE)
    known = truth(900)
    assert len(answers) == 60
    # Some forty satellites stand above 25 degrees: chance finds one in forty.
    share = np.mean([a.norad_id == known[a.slot_start_unix_ns] for a in answers])
    assert share >= 0.06
    assert abs(np.mean([a.confidence for a in answers]) - share) <= 0.1


def test_pings_without_a_gateway_or_replies_are_refused():
    ocean = parse_place("-48.9,-123.4")
    with pytest.raises(UserError, match="no gateway"):
        by_rtt(only_series(pings()), satellites(), ocean)
    with pytest.raises(UserError, match="no slot"):
        by_rtt(only_series(pings()[::200]), satellites(), PLACE)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Two minutes of the simulated terminal, recorded, and elements as a file."""
    folder = tmp_path_factory.mktemp("serving")
    terminal = Terminal(world(), SetClock(START), start_unix_ns=START, uptime_s=0, allow_location=True)
    Recorder(DishClient(LocalTransport(terminal)), folder / "dish", terminal.clock, map_every_s=1.0).run(120.0)
    (folder / "elements.tle").write_text("\n".join(two_line_elements(satellites())) + "\n")
    return folder


def test_the_command_reads_a_recording(recording):
    result = run(app, ["serving", str(recording / "dish"), "--elements", str(recording / "elements.tle"), "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    known = {key: value for key, value in truth().items() if key < START + 120 * SECOND}
    results = [
        row["norad_id"] == known[parse_utc(row["slot_start"])] for row in rows if parse_utc(row["slot_start"]) in known
    ]
    assert sum(results) >= 7
    assert {"slot_start", "norad_id", "confidence", "runner_up"} <= set(rows[0])
    table = run(
        app, ["serving", str(recording / "dish"), "--elements", str(recording / "elements.tle"), "--site", SITE]
    )
    assert table.exit_code == 0, table.output


def test_the_command_reads_pings(recording):
    pings().write_parquet(recording / "pings.parquet")
    where = ["--elements", str(recording / "elements.tle"), "--method", "rtt", "--site", SITE, "--json"]
    result = run(app, ["serving", str(recording / "pings.parquet"), *where, "--gateway", "50.7,4.6"])
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)) == 20
    assert len(read_pings(recording / "dish").t_s) > 100


def test_a_measured_run_reads_like_its_sources(recording, others, tmp_path):
    elements = ["--elements", str(recording / "elements.tle"), "--json"]
    made = run(app, ["read", str(recording / "dish"), "-o", str(tmp_path / "r")])
    assert made.exit_code == 0, made.output
    of_run, of_recording = (run(app, ["serving", str(out), *elements]) for out in (tmp_path / "r", recording / "dish"))
    assert of_run.exit_code == 0, of_run.output
    assert json.loads(of_run.stdout) == json.loads(of_recording.stdout) != []
    assert read_pings(tmp_path / "r").t_s.tolist() == read_pings(recording / "dish").t_s.tolist()
    # LEOViz's maps, which do not say where it stood.
    assert run(app, ["read", str(others / "obstruction_map-A.parquet"), "-o", str(tmp_path / "l")]).exit_code == 0
    assert "expected --site" in run(app, ["serving", str(tmp_path / "l"), *elements]).output
    of_maps = run(app, ["serving", str(tmp_path / "l"), *elements, "--site", SITE])
    assert of_maps.exit_code == 0, of_maps.output
    assert [row["norad_id"] for row in json.loads(of_maps.stdout)] == list(truth().values())[:4]
    # A Run of pings alone has no maps.
    rows = "\n".join(f"{START / 1e9 + k},{20 + k % 7}" for k in range(60))
    (tmp_path / "p.csv").write_text(f"unix_s,rtt_ms\n{rows}\n")
    assert run(app, ["read", str(tmp_path / "p.csv"), "-o", str(tmp_path / "p")]).exit_code == 0
    assert "holds no obstruction maps" in run(app, ["serving", str(tmp_path / "p"), *elements]).output


def test_an_invalid_run_gives_a_warning(recording, tmp_path):
    assert run(app, ["read", str(recording / "dish"), "-o", str(tmp_path / "r")]).exit_code == 0
    file = next(tmp_path.glob("r/*/*/run.json"))
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | {"valid": False, "why_invalid": "it was shaken"}))
    result = run(app, ["serving", str(tmp_path / "r"), "--elements", str(recording / "elements.tle")])
    assert result.exit_code == 0, result.output
    assert "the Run says it is not to be trusted: it was shaken" in result.stderr


def test_relative_times_and_old_elements_are_refused(recording, tmp_path):
    log = tmp_path / "ping.txt"
    lines = [f"64 bytes from 8.8.8.8: icmp_seq={k} ttl=116 time={30 + k % 9}.5 ms" for k in range(1, 200)]
    end = "--- 8.8.8.8 ping statistics ---\n199 packets transmitted, 199 received, 0% packet loss, time 198000ms"
    log.write_text("\n".join(["PING 8.8.8.8 (8.8.8.8) 56(84) bytes of data.", *lines, "", end, ""]))
    where = ["--elements", str(recording / "elements.tle"), "--method", "rtt", "--site", SITE, "--gateway", "50.7,4.6"]
    for out in (log, tmp_path / "r"):
        result = run(app, ["serving", str(out), *where])
        assert result.exit_code == 2
        assert "not those of a wall clock" in result.output
        run(app, ["read", str(log), "-o", str(tmp_path / "r")])
    epoch = satellites().elements()["epoch_unix_ns"][0]
    for days, refused in ((3, False), (6, True)):
        table = pings().with_columns(unix_ns=pl.col("unix_ns") - START + int(epoch) + days * 86_400 * SECOND)
        table.write_parquet(tmp_path / "later.parquet")
        result = run(app, ["serving", str(tmp_path / "later.parquet"), *where])
        assert result.exit_code == (2 if refused else 0), result.output
        assert ("expected 5 days at most" in result.output) == refused
    half = (
        pl.col("unix_ns")
        + pl.when(pl.int_range(pl.len()) * 2 < pl.len()).then(pl.lit(-3, pl.Int64)).otherwise(0) * 86_400 * SECOND
    )
    table.with_columns(half).write_parquet(tmp_path / "long.parquet")
    result = run(app, ["serving", str(tmp_path / "long.parquet"), *where, "--json"])
    assert result.exit_code == 0, result.output
    assert f"{table.height - (table.height + 1) // 2} probes are more than 5 days from the elements" in result.output


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere"], "no such file"),
        (["pings.parquet"], "no column"),
        (["dish", "--gateway", "1,2"], "--method: obstruction-map with gateways"),
        (["dish", "--method", "rtt"], "--site: none given"),
        (["dish", "--method", "rtt", "--min-elevation", "3"], "--method: rtt with a minimum elevation"),
    ],
)
def test_invalid_arguments_give_one_line_errors(recording, args, says):
    pings().write_parquet(recording / "pings.parquet")
    path = [str(recording / args[0]), *args[1:]]
    result = run(app, ["serving", *path, "--elements", str(recording / "elements.tle")])
    assert result.exit_code == 2
    assert says in result.output


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A good file of each published format."""
    folder = tmp_path_factory.mktemp("others")
    times, row, column, _ = turned(312, 20, 0, -1)
    seconds = pl.Series(times).cast(pl.Datetime("ns", "UTC")).dt.to_string("%Y-%m-%d %H:%M:%S+00:00")
    pixels = pl.DataFrame({"Timestamp": seconds, "Y": row, "X": column})
    pixels.write_csv(folder / "pixels.csv")
    pixels.write_csv(folder / "white_pixel_coordinates_xor_A.csv", include_header=False)
    maps = list(looks(1, 15, 60))
    flat = pl.Series("obstruction_map", [(q.ravel() >= 0).astype(int).tolist() for _, q in maps])
    pl.DataFrame(
        {"timestamp": [t / 1e9 for t, _ in maps], "obstruction_map": flat, "frame_type": [1] * len(maps)}
    ).write_parquet(folder / "obstruction_map-A.parquet")
    (folder / "GRPC_STATUS-A.csv").write_text(
        "timestamp,quaternion_qScalar,quaternion_qX,quaternion_qY,quaternion_qZ\n"
        + "".join(f"{START / 1e9 + k},0,1,0,0\n" for k in range(60))
    )
    return folder


def test_published_formats_are_read(others):
    pixels = read_maps(others / "pixels.csv")
    assert (pixels.frame, len(pixels.painted.slots)) == ("FRAME_UNKNOWN", 20)
    assert read_maps(others / "white_pixel_coordinates_xor_A.csv") == pixels
    maps = read_maps(others)
    assert (maps.frame, len(maps.painted.slots)) == ("FRAME_EARTH", 4)
    assert maps.attitudes is not None
    answers, _ = by_map(maps.painted, maps.frame, satellites(), PLACE)
    assert [a.norad_id for a in answers] == list(truth().values())[:4]


def test_pixel_times_follow_their_time_zones(others, tmp_path):
    rows = (others / "pixels.csv").read_text().splitlines()
    utc = read_maps(others / "pixels.csv").painted.slots
    here = pl.Series([row[:19] for row in rows[1:]]).str.to_datetime()
    west = here.dt.offset_by("-7h").dt.to_string("%Y-%m-%d %H:%M:%S").to_list()
    for name, times in (
        ("west", [f"{time}-07:00" for time in west]),
        ("iso", [row[:19].replace(" ", "T") + ".25Z" for row in rows[1:]]),
        ("bare", [row[:19] for row in rows[1:]]),
    ):
        file = tmp_path / f"{name}.csv"
        lines = (time + row[row.index(",") :] for time, row in zip(times, rows[1:], strict=True))
        file.write_text("\n".join([rows[0], *lines]) + "\n")
        assert [slot.start_unix_ns for slot in read_maps(file).painted.slots] == [slot.start_unix_ns for slot in utc]
    # A first row of two equal numbers is no heading either.
    file.write_text("2026-05-10 09:00:12,63,63\n2026-05-10 09:00:13,63,64\n")
    assert [(slot.row, slot.column) for slot in read_maps(file).painted.slots] == [([63, 63], [63, 64])]
    file.write_text(f"{rows[0]}\nyesterday,1,2\n")
    with pytest.raises(UserError, match="row 1: timestamp is 'yesterday'; expected a time"):
        read_maps(file)


@pytest.mark.parametrize("zone", [None, "UTC", "America/Vancouver"])
def test_maps_with_parquet_timestamps(others, tmp_path, zone):
    table = pl.read_parquet(others / "obstruction_map-A.parquet")
    instants = (pl.col("timestamp") * 1e6).round().cast(pl.Int64).cast(pl.Datetime("us", "UTC"))
    instants = instants.dt.replace_time_zone(None) if zone is None else instants.dt.convert_time_zone(zone)
    table.with_columns(instants.alias("timestamp")).write_parquet(tmp_path / "obstruction_map-A.parquet")
    result, wanted = read_maps(tmp_path), read_maps(others)
    assert [slot.start_unix_ns for slot in result.painted.slots] == [
        slot.start_unix_ns for slot in wanted.painted.slots
    ]
    assert result.warnings == (("its times have no zone: taken for UTC",) if zone is None else ())


@settings(max_examples=150)
@given(data=st.data())
def test_any_bytes_give_maps_or_a_one_line_error(others, tmp_path_factory, data):
    tables = ["pixels.csv", "white_pixel_coordinates_xor_A.csv"]
    name = data.draw(st.sampled_from([*tables, "obstruction_map-A.parquet", "GRPC_STATUS-A.csv"]))
    folder = tmp_path_factory.mktemp("fuzz")
    for file in others.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    good = (others / name).read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    new = data.draw(st.binary(max_size=12))
    (folder / name).write_bytes(good[:at] + new + good[at + data.draw(st.integers(0, 40)) :])
    try:
        maps = read_maps(folder / name if name in tables else folder)
    except UserError as error:
        if "\n" in str(error):
            pytest.fail(f"more than a line: {error}")
    else:
        assert all(slot.row for slot in maps.painted.slots)


def test_labels_are_read_by_slot(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("Timestamp,Connected_Satellite\n2026-05-10 09:00:12+00:00,A \n2026-05-10 09:00:27+00:00,B\n")
    assert labels_of(path) == {START: "A", START + SLOT: "B"}


def test_a_published_table_without_heading_reads_the_same(tmp_path):
    louvain = require_data("serving_satellite_louvain/first_ucl.csv")
    rows = louvain.read_text().splitlines()[1:]
    bare = tmp_path / "white_pixel_coordinates_xor_ucl.csv"
    bare.write_text("".join(f"{row.split('+')[0]},{','.join(row.split(',')[1:3])}\n" for row in rows))
    assert read_maps(bare).painted == read_maps(louvain).painted
