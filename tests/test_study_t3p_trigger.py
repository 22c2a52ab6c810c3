"""Study t3p-trigger: its schedules, its figures from canned uploads, and uploads that are reused."""

import itertools
import json

import numpy as np
import pytest

from bentpipe.errors import UserError
from bentpipe.profiles.presets import preset_profile
from bentpipe.studies import t3p_trigger_testbed as testbed
from bentpipe.studies.running import run_study
from bentpipe.studies.t3p_files import T3pTrigger
from bentpipe.studies.t3p_trigger import _paths, fall_of, result_of
from bentpipe.studies.t3p_trigger_savings import Traffic, saving_rows
from bentpipe.studies.t3p_trigger_simulated import Case, Simulated, firing_times_s, random_times_s, simulate_schedules
from bentpipe.studies.t3p_trigger_testbed import Pass, Upload

FILE = T3pTrigger.load()


def uploads(schedule, rates_bps, state="done"):
    """An upload of each rate at each home."""
    return [
        Upload(home, schedule, 0, state, "", rate, round(rate * FILE.upload_s / 8), 1000 * (schedule == "random"))
        for home in FILE.homes
        for rate in rates_bps
    ]


def canned():
    triggered = [*uploads("triggered", np.linspace(4e6, 6e6, 10)), *uploads("triggered", [1e6], "missed")]
    return {
        "triggered": Pass(triggered, 1000.0),
        "random": Pass(uploads("random", np.linspace(9e6, 11e6, 10)), 200.0),
    }


def test_a_fall_has_an_interval_if_there_are_enough_uploads():
    assert fall_of([], [1.0]) is None
    few = fall_of([5.0, 5.0], [10.0, 10.0])
    assert (few.percent, few.low, few.text) == (50.0, None, "n = 2 triggered, 2 random")
    many = fall_of(np.linspace(4, 6, 20), np.linspace(9, 11, 20))
    assert many.percent == pytest.approx(50.0)
    assert 40 < many.low < 50 < many.high < 60
    assert fall_of([8.0] * 9, [10.0] * 9, 0.9).percent == pytest.approx(20.0)


def test_random_times_keep_their_distances():
    times_s = random_times_s(500.0, (14.0, 24.0), 1)
    gaps_s = np.diff(times_s)
    assert 20 < len(times_s) < 36
    assert (gaps_s.min() >= 14.0, gaps_s.max() <= 24.0) == (True, True)
    assert times_s == random_times_s(500.0, (14.0, 24.0), 1)


def test_a_static_path_never_fires_and_a_satellites_does():
    assert firing_times_s(preset_profile("dumbbell:rate=20mbit,rtt=40ms", 60.0), FILE, 0.1, 1) == []
    short = FILE.replace(duration_s=180.0)
    (path,) = _paths(short, "ldn", [1])
    fired_s = firing_times_s(path, short, 0.1, 1)
    assert fired_s
    assert all(later - earlier >= FILE.cooldown_s for earlier, later in itertools.pairwise(fired_s))


def test_simulated_uploads_begin_at_the_schedules_times(tmp_path):
    short = FILE.replace(duration_s=120.0, controllers=("bbr2",), windows_simulated_s=(0.1,))
    paths = _paths(short, "ldn", [1])
    simulated = simulate_schedules({"ldn": paths}, short, tmp_path, lambda _: None)
    at_random = simulated.goodput_bps[Case("ldn", "bbr2", "random")]
    assert len(at_random) == len(random_times_s(113.0, short.gap_s, short.seed))
    assert all(1e6 < rate < 60e6 for rate in at_random)
    fired = simulated.goodput_bps.get(Case("ldn", "bbr2", "0.1 s"), [])
    assert simulated.share_of_time["ldn", "0.1 s"] == pytest.approx(len(fired) * short.upload_s / 113.0)


def test_rows_and_verdicts_of_canned_uploads():
    simulated = Simulated({Case("ldn", "bbr2", "random"): [1e6] * 6}, {("ldn", "0.1 s"): 0.12})
    result = result_of(FILE, canned(), simulated, 1)
    falls = [row for row in result.rows if row.quantity.startswith("median throughput")]
    assert [row.published for row in falls] == [43] * len(falls)
    assert falls[0].ours == falls[2].ours == pytest.approx(50.0)
    assert "n = 10 triggered, 10 random" in falls[0].basis
    assert "n = 20 triggered, 20 random" in falls[2].basis
    assert falls[-1].ours is None
    medians = [verdict for verdict in result.verdicts if verdict.statement.endswith("higher median")]
    assert [verdict.holds for verdict in medians[:3]] == [True] * 3
    assert medians[-1].holds is None
    assert "2 uploads were not done: missed" in result.notes[-1]
    assert set(result.figures) == {"figure-7"}


def test_savings_add_up():
    traffic = Traffic.of(canned(), FILE.upload_s, 2)
    assert traffic.rate_bps == pytest.approx(10e6)
    assert traffic.share_of_time == pytest.approx(20 * FILE.upload_s / 2000)
    assert traffic.triggered_bps == pytest.approx(5e6 * traffic.share_of_time)
    assert traffic.header_bps == pytest.approx(8 * 1000 / FILE.upload_s)
    rows = {row.quantity.partition(",")[0]: row.ours for row in saving_rows(FILE, traffic, "emulated")}
    assert rows["data of a flow that never ends"] == pytest.approx(0.864)
    assert rows["part of the data that the trigger saves"] == pytest.approx(0.975)
    nothing = Traffic.of({"triggered": Pass([], 1.0), "random": Pass([], 1.0)}, FILE.upload_s, 2)
    assert {row.ours for row in saving_rows(FILE, nothing, "emulated")} == {None}


def test_uploads_that_are_there_are_reused(tmp_path, monkeypatch):
    paths = {
        home: preset_profile(f"dumbbell:rate={10 + number}mbit,rtt=40ms", 30.0)
        for number, home in enumerate(FILE.homes)
    }
    settings = {
        "paths": {key: path.content_hash() for key, path in paths.items()},
        "study": FILE.to_dict(),
        "trials": 2,
    }
    testbed._write(tmp_path / "uploads.json", settings, canned())

    def refuse():
        raise UserError("no rights", where="testbed")

    monkeypatch.setattr(testbed, "check_machine", refuse)
    assert testbed.measure_schedules(paths, FILE, 2, tmp_path, lambda _: None) == canned()
    with pytest.raises(UserError, match="no rights"):
        testbed.measure_schedules(paths, FILE, 3, tmp_path, lambda _: None)
    (tmp_path / "uploads.json").write_text("{")
    with pytest.raises(UserError, match="no rights"):
        testbed.measure_schedules(paths, FILE, 2, tmp_path, lambda _: None)


def test_experiments_of_both_schedules_are_valid():
    from bentpipe import TestbedClient

    trigger = f'{{trigger: "{FILE.condition}", window: 100ms, cooldown: 12s}}'
    experiment = TestbedClient.validate(testbed._text("t", "attic, barn", trigger, FILE, 60.0, 5))
    assert (experiment.limits.runs, experiment.capture) == (5, None)
    at_random = TestbedClient.validate(testbed._text("r", "attic", "{at: 2030-01-01T00:00:00Z}", FILE, 60.0, None))
    assert at_random.capture.snap_bytes == 66


def test_output_of_iperf3_gives_what_the_server_received():
    document = {"end": {"sum_received": {"bits_per_second": 5e6}}}
    assert testbed._received_bps(json.dumps(document).encode()) == 5e6
    assert testbed._received_bps(json.dumps({**document, "error": "broke off"}).encode()) is None
    assert testbed._received_bps(b"") is None


def test_trials_are_of_studies_in_real_time(tmp_path):
    with pytest.raises(UserError, match="trials: given, but the study huston-ping has no trials; expected none"):
        run_study("huston-ping", tmp_path, trials=3)
    with pytest.raises(UserError, match="trials: 0; expected 1 to 1000"):
        run_study("t3p-trigger", tmp_path, trials=0)
