"""Measured Profiles as other tools' files, each read back."""

import json

import numpy as np
import pytest
from shared_data import require_data

from bentpipe.errors import UserError
from bentpipe.profiles.convert import read_as, write_as
from bentpipe.profiles.convert.reading import ReadOptions
from bentpipe.profiles.convert.writing import WriteOptions, delay_known
from bentpipe.profiles.measured.capacity import read_capacity
from bentpipe.profiles.measured.make import FromPings, profile_from_pings
from bentpipe.profiles.path import PathView
from bentpipe.validation.measured_profile.series import drawn


@pytest.fixture(scope="module")
def short():
    wanted = FromPings(capacities=[read_capacity("down=24mbit"), read_capacity("up=12mbit")])
    return profile_from_pings(drawn(seed=3, duration_s=420.0), wanted).profile


def test_hypatia_export_has_the_rtts(short, tmp_path):
    files = write_as("hypatia", short, tmp_path / "h", WriteOptions(step_s=0.05)).files
    back = read_as("hypatia", files).profile
    at = np.arange(0, 415, 0.05)
    known = delay_known(PathView(short), at)
    assert 0.99 < known.mean() < 1.0
    assert 2 * back.delay_ms("up", at[known]) == pytest.approx(PathView(short).rtt_ms(at[known]), abs=1e-4)


def test_mahimahi_export_has_the_capacity(short, tmp_path):
    files = write_as("mahimahi", short, tmp_path / "m").files
    back = PathView(read_as("mahimahi", files, ReadOptions(delay_s=0.01)).profile)
    assert back.capacity("up").mean() == pytest.approx(12e6, rel=0.01)
    assert back.capacity("down").mean() == pytest.approx(24e6, rel=0.01)


def test_leoreplayer_has_delay_and_capacity(short, tmp_path):
    written = write_as("leoreplayer", short, tmp_path / "l")
    assert [file.name for file in written.files] == ["l.delay", "l.up", "l.down"]
    back = read_as("leoreplayer", written.files).profile
    at = np.arange(0, 415, 0.01) + 0.005
    for direction in ("up", "down"):
        assert 2 * back.delay_ms(direction, at) == pytest.approx(PathView(short).rtt_ms(at), abs=1.001)
    assert PathView(back).capacity("down").mean() == pytest.approx(24e6, rel=0.01)
    assert PathView(back).capacity("up").mean() == pytest.approx(12e6, rel=0.01)


def test_leoreplayers_own_example_reads():
    folder = require_data("throughput_leocc_example")
    back = read_as("leoreplayer", [folder / "delay_example.txt", folder / "bw_example.txt"]).profile
    steps = PathView(back).capacity("down")
    assert back.duration_s == pytest.approx(120, abs=1)
    assert np.median(steps.value) == pytest.approx(48.6e6, rel=0.02)


def test_netem_has_delay_loss_and_rate(short, tmp_path):
    files = write_as("netem", short, tmp_path / "n").files
    back = PathView(read_as("netem", files).profile)
    view = PathView(short)
    for direction in ("up", "down"):
        assert back.loss(direction).mean() == pytest.approx(view.loss(direction).mean(), rel=0.02)
        assert back.capacity(direction).mean() == pytest.approx(view.capacity(direction).mean(), rel=0.02)


def test_starrynet_has_delay_and_handovers(short, tmp_path):
    folder = write_as("starrynet", short, tmp_path / "sn", WriteOptions(step_s=1.0)).files[0]
    assert len(list(folder.glob("*/GS-2/gsl/*.txt"))) == 420
    first = (folder / "bentpipe-Grid-LeastDelay" / "GS-2" / "gsl" / "0.txt").read_text().splitlines()
    assert first[0].startswith("0|||0,0,0,0,")
    back = read_as("starrynet", [folder]).profile
    at = np.arange(420.0)
    known = delay_known(PathView(short), at)
    assert not known.all()
    assert 2 * back.delay_ms("up", at[known]) == pytest.approx(PathView(short).rtt_ms(at[known]), abs=0.1)
    assert np.isfinite(back.delay_ms("up", at)).all(), "a gap of milliseconds is no second without a path"
    # Another satellite at each edge: every 15 s the link goes and another comes.
    links = folder / "bentpipe-Grid-LeastDelay" / "GS-2" / "gsl"
    lines = [(links / f"{step}.txt").read_text().splitlines()[0].split("|") for step in range(420)]
    moved = [step for step, line in enumerate(lines) if line[1] and line[3]]
    assert len(moved) == len(PathView(short).handovers()) > 20
    assert set(np.diff(moved)) == {15}
    with pytest.raises(UserError, match="exists already"):
        write_as("starrynet", short, folder)


def test_starrynet_without_a_path_is_a_gap(tmp_path):
    config = {"step (s)": 1}
    links = tmp_path / "x" / "a" / "GS-2" / "gsl"
    links.mkdir(parents=True)
    (tmp_path / "x" / "config.json").write_text(json.dumps(config))
    for step, lines in enumerate(
        ["0|||0,0,0,0,5.00\n1|||1,0,0,0,6.00\n", "0|0,0,0,0,5.00||\n1|||\n", "0|||4,0,3,1,1.0\n1|||\n"]
    ):
        (links / f"{step}.txt").write_text(lines)
    converted = read_as("starrynet", [tmp_path / "x"])
    points = PathView(converted.profile).points(0, "up", "delay_s")
    assert points.value.tolist() == pytest.approx([0.011, 0.011, 0.011])
    assert points.valid.tolist() == [True, False, False]
