"""The access model's claim: its readers, its distances, its classifier, and that each test can fail."""

import numpy as np
import pytest
from shared_data import require_data

from bentpipe.errors import UserError
from bentpipe.profiles.build import Points
from bentpipe.profiles.measured.capacity import Capacity
from bentpipe.validation.access_model import capacities, levels, losses, parts, pings, slot_means, transport
from bentpipe.validation.access_model.classifier import classify, classify_sessions, slots_of
from bentpipe.validation.access_model.controls import CHANGES, replays, shuffled
from bentpipe.validation.access_model.features import COARSE, FINE, slot_features
from bentpipe.validation.access_model.model import at_site, frozen_params, model_windows
from bentpipe.validation.access_model.rank_test import rank
from bentpipe.validation.access_model.statistics import distances, summarise


def process(seed, *, slots=True, level=1.0):
    """RTTs of a made-up path every 12 ms: slot offsets, and noise with a memory of 100 ms."""
    rng = np.random.default_rng(seed)
    t_s = np.arange(0, pings.WINDOW_S, 0.012)
    noise = np.convolve(rng.exponential(5.0, t_s.size + 9), np.ones(10), "valid") / 10
    offsets = rng.exponential(8.0, 8) * level * np.exp(0.3 * rng.standard_normal())
    return t_s, 20 + noise + (offsets[(t_s / pings.SLOT_S).astype(int)] if slots else offsets.mean())


def summaries(seeds, **kind):
    return [summarise(*process(seed, **kind)) for seed in seeds]


def fails(model):
    real = summaries(range(24))
    return {r.statistic.split(" [")[0] for r in rank(real, real[12:], model) if not r.passes}


def test_the_process_itself_passes_and_each_control_fails_where_it_should():
    assert fails(summaries(range(100, 130))) == set()
    assert "slot steps" in fails(summaries(range(100, 130), slots=False))
    rng = np.random.default_rng(1)
    mixed = [(t, shuffled(t, r, rng)) for t, r in (process(seed) for seed in range(100, 130))]
    assert "SF 12 ms" in fails([summarise(t, r) for t, r in mixed])
    one = pings.Window(0, *process(3))
    assert "slot medians" in fails(replays(one, 10, rng, summarise))


def test_distances_are_zero_to_oneself_and_symmetric():
    made = summaries(range(4))
    d = distances(made, made)
    assert d.shape == (8, 4, 4)
    assert np.allclose(d[:, range(4), range(4)], 0)
    assert np.allclose(d, d.transpose(0, 2, 1))
    assert (d[:, 0, 1] > 0).all()


def test_an_undefined_lag_is_left_out():
    t_s, _ = process(1)
    coarse = [summarise(t_s[::40], process(seed)[1][::40], (1.0, 7.0)) for seed in range(4)]
    assert [r.statistic for r in rank(coarse, coarse, coarse)] == [
        "W1 [ms]",
        "slot medians [ms]",
        "in-slot W1 [ms]",
        "slot steps [|ln|]",
        "SF 1000 ms [|ln|]",
        "SF 7000 ms [|ln|]",
    ]


def test_probes_are_timed_when_sent_and_lost_ones_left_out(tmp_path):
    path = tmp_path / "a.txt"
    base = 1_700_000_000
    rows = [(base + 0.05, 1, 50.0), (base + 1.0, 2, -1.0), (base + 2.03, 3, 30.0)]
    path.write_text("".join(f"{at:.3f}\t{seq}\t{rtt}\n" for at, seq, rtt in rows))
    sent_s, rtt_ms = pings.replies(path)
    assert sent_s == pytest.approx([base, base + 2.0], abs=1e-6)
    assert rtt_ms.tolist() == [50.0, 30.0]


def test_a_broken_line_and_a_file_without_replies_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time_s,rtt_ms\n1700000000,hello\n")
    with pytest.raises(UserError, match=r"a\.csv"):
        pings.replies(path)
    path.write_text("time_s,rtt_ms\n1700000000,-1\n1700000001,-1\n")
    with pytest.raises(UserError, match=r"a\.csv: no replies"):
        pings.replies(path)


def windows(seeds, **kind):
    return [process(seed, **kind) for seed in seeds]


def area(train, tested, *, fine):
    """Of a classifier between the made-up process and another one."""
    real, other = (slots_of(of, fine=fine) for of in train)
    test_real, test_other = (slots_of(of, fine=fine) for of in tested)
    (result,) = classify("test", [(real, other)], [("here", test_real, test_other)], fine=fine, explain=True)
    assert result.low <= result.area <= result.high
    return result


def test_the_classifier_tells_nothing_from_the_process_itself_and_names_what_differs():
    real = windows(range(8)), windows(range(8, 16))
    alike = area((real[0], windows(range(50, 58))), (real[1], windows(range(60, 68))), fine=False)
    assert alike.area < 0.65
    assert alike.slots == (64, 64)
    rng = np.random.default_rng(1)
    mixed = [[(t, shuffled(t, r, rng)) for t, r in windows(seeds)] for seeds in (range(50, 58), range(60, 68))]
    result = area((real[0], mixed[0]), (real[1], mixed[1]), fine=True)
    assert result.area > 0.95
    assert "12 ms" in max(result.alone, key=result.alone.get) or "next" in max(result.alone, key=result.alone.get)


def test_two_sessions_are_told_apart_by_their_level_and_not_if_they_are_one():
    one = slots_of(windows(range(8)), fine=False)
    assert classify_sessions("alike", one, slots_of(windows(range(8, 16)), fine=False), fine=False).area < 0.65
    higher = slots_of([(t, r + 9.0) for t, r in windows(range(8, 16))], fine=False)
    result = classify_sessions("higher", one, higher, fine=False)
    assert result.area > 0.8
    assert max(result.alone, key=result.alone.get) in ("p5", "median")
    (row,) = parts.beside_rows([], [parts.SessionComparison(result, 0.7)])
    assert (row.reference, row.within) == ("the model likewise 0.70", None)


#: Slots of a site of the campaigns: when they begin [s since 1970], and probes that are enough for coarse features.
START_UNIX_S, PROBES_S = 1_734_544_812, np.arange(0.0, pings.WINDOW_S, 0.15)


def site_of(fitted):
    return pings.Site("here", "48.46,-123.31", "47.61,-122.34", fitted, [], (1.0, 7.0), "here")


def made_with(params, count=1, first_seed=1):
    site = site_of([pings.Window(START_UNIX_S, PROBES_S, np.zeros(PROBES_S.size))])
    return model_windows(site, site.fitted, params, count, first_seed)


def test_a_session_s_load_is_that_of_a_busier_hour_for_the_delay():
    solar_hour = (START_UNIX_S % 86400 / 3600 - 123.31 / 15) % 24
    nothing_else = {"capacity.load_power": 0.0, "loss.load_power": 0.0, "load.profile_log_sigma": 0.0}
    at_peak = nothing_else | {"load.peak_solar_hour": solar_hour}
    usual = at_site(frozen_params(), at_peak | {"load.daily_log_amplitude": 0.0})
    busier = at_site(frozen_params(), at_peak | {"load.daily_log_amplitude": 0.4})
    power = usual["delay"]["load_power"]
    ((t_s, result),) = made_with(levels.at_load(usual, 0.4 * power))
    ((same_s, wanted),) = made_with(busier)
    assert t_s.tolist() == same_s.tolist()
    # The hour's cosine falls by 5e-5 over the window, and a grant in many thousands is used or not by that.
    assert (np.abs(result - wanted) < 0.05).mean() > 0.98
    ((_, calm),) = made_with(usual)
    assert np.median(result) > np.median(calm) + 1


def test_the_level_of_fitted_windows_is_found_again():
    level = levels.Level(0.3, 6.0)
    real = made_with(levels.at_level(frozen_params(), level), 12, first_seed=100)
    site = site_of([pings.Window(START_UNIX_S, t_s, rtt_ms) for t_s, rtt_ms in real])
    result = levels.find(site, frozen_params(), 12, first_seed=500)
    assert result.log_load == pytest.approx(0.3, abs=0.11)
    assert result.offset_ms == pytest.approx(6.0, abs=2.0)


def test_no_offset_goes_below_zero():
    real = made_with(at_site(frozen_params(), {"delay.site_offset_ms": 0.0}))
    site = site_of([pings.Window(START_UNIX_S, t_s, rtt_ms - 9) for t_s, rtt_ms in real])
    assert levels.find(site, frozen_params(), 1, first_seed=500).offset_ms == 0.0


def test_a_slot_s_mean_is_the_running_mean_a_second_after_its_end():
    at_s = np.arange(0.0, 1300.0) + 0.2
    edges = (at_s - losses.EDGE_S - slot_means.REPORTED_AFTER_S) % pings.SLOT_S
    result = slot_means.blocks(at_s, np.where(edges > 14.0, 50.0, 20.0))
    assert [block.start_unix_s for block in result] == [12, 612]
    assert {float(mean) for block in result for mean in block.means_ms} == {50.0}
    assert slot_means.blocks(at_s[:500], at_s[:500]) == slot_means.blocks(at_s[:0], at_s[:0]) == []
    hole = (at_s < 300) | (at_s > 330)
    assert [block.start_unix_s for block in slot_means.blocks(at_s[hole], at_s[hole])] == [612]


def test_blocks_of_slot_means_differ_by_level_and_steps():
    means = np.tile([20.0, 30.0], slot_means.SLOTS // 2)
    one, higher, calmer = (slot_means.Block(0, x) for x in (means, means + 5.0, np.sort(means)))
    assert slot_means.distance(one, one) == pytest.approx([0.0, 0.0])
    assert slot_means.distance(one, higher) == pytest.approx([5.0, 0.0])
    assert slot_means.distance(one, calmer)[0] == pytest.approx(0.0)
    assert slot_means.distance(one, calmer)[1] > 3.0


def test_a_file_of_slot_means_that_does_not_read_is_named(tmp_path):
    folder = tmp_path / "dish_1hz_fjordlink_40h"
    folder.mkdir()
    assert slot_means.load(tmp_path) is None
    for day in (*slot_means.FITTED, *slot_means.HELD_OUT):
        (folder / f"{day}.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match=r"2024-12-12\.parquet: .*; expected columns time_utc"):
        slot_means.load(tmp_path)


def test_controls_keep_times_and_say_what_they_say():
    t_s, rtt_ms = process(1)
    rng = np.random.default_rng(1)
    assert np.ptp(CHANGES["constant delay"](t_s, rtt_ms, rng)) == 0
    noise = CHANGES["Gaussian noise"](t_s, rtt_ms, rng)
    assert noise.shape == rtt_ms.shape
    assert noise.std() == pytest.approx(rtt_ms.std(), rel=0.15)


def test_features_of_a_slot_without_variation_are_undefined_not_infinite():
    t_s, _ = process(1)
    for fine in (True, False):
        result = slot_features(t_s, np.full(t_s.size, 30.0), fine=fine)
        assert result.shape == (8, len(FINE if fine else COARSE))
        assert not np.isinf(result).any()


def test_loss_episodes_differ_by_rate_gaps_lengths_and_phase():
    base = losses.episodes(np.arange(1.0, 110.0, 15.0), np.full(8, 0.1), 120.0)
    assert losses.distance(base, base) == pytest.approx(np.zeros(4))
    longer = losses.episodes(np.arange(1.0, 110.0, 15.0), np.full(8, 0.2), 120.0)
    assert losses.distance(base, longer) == pytest.approx([0, 0, np.log(2), 0], abs=1e-9)
    later = losses.episodes(np.arange(4.0, 113.0, 15.0), np.full(8, 0.1), 120.0)
    assert losses.distance(base, later) == pytest.approx([0, 0, 0, 3.0])
    round_the_edge = losses.episodes(np.arange(14.0, 123.0, 15.0), np.full(8, 0.1), 120.0)
    assert losses.distance(base, round_the_edge)[3] == pytest.approx(2.0)


def test_lossy_seconds_in_a_row_are_one_episode():
    result = losses.of_seconds(np.array([3.0, 4.0, 40.0]))
    assert result.per_s == pytest.approx(2.5 / losses.DISH_BLOCK_S)
    assert np.exp(result.lengths.max()) == pytest.approx(2.0, rel=0.05)
    assert losses.of_seconds(np.array([])).per_s == pytest.approx(0.5 / losses.DISH_BLOCK_S)


def test_capacity_tests_know_level_spread_and_memory():
    rng = np.random.default_rng(1)
    slow = np.exp(np.cumsum(rng.normal(0, 0.1, 15)))
    one, other = capacities.of_seconds(100 * slow), capacities.of_seconds(200 * slow)
    assert capacities.distance(one, other) == pytest.approx([np.log(2), 0, 0, 0], abs=1e-6)
    white = capacities.of_seconds(100 * np.exp(rng.normal(0, 0.1, 15)))
    assert one.correlation[0] > white.correlation[0]


def test_a_capacity_trace_begins_at_every_slot():
    trace = Capacity(None, Points.of(np.arange(0, 45, 0.1), np.arange(450.0)), 45.0, None, "x")
    result = transport.turned(trace)
    assert [turn.down.value[0] for turn in result] == [0.0, 150.0, 300.0]
    assert all(sorted(turn.down.value) == list(range(450)) for turn in result)


def test_a_flow_knows_a_path_whose_round_trips_vary():
    t_s = np.arange(0.0, pings.WINDOW_S, 0.1)
    capacity = Capacity(None, Points.of([0.0], [20e6]), pings.WINDOW_S, None, "x")
    varying = 30 + np.random.default_rng(1).exponential(8.0, t_s.size)
    paths = [
        transport.path_of(name, t_s, rtt_ms, capacity, silent_is_lost=False)
        for name, rtt_ms in (("steady", np.full(t_s.size, 38.0)), ("varying", varying))
    ]
    result = transport.flows(paths, lambda _: None)
    assert set(result) == set(transport.CONTROLLERS)
    for of in result.values():
        goodput_bps, median_ms, p95_ms, deviation_ms = of.figures.T
        assert (goodput_bps < 20e6).all()
        assert (p95_ms >= median_ms).all()
        assert deviation_ms[1] > 2 * deviation_ms[0] > 0


def test_windows_begin_at_edges_and_need_replies():
    t_s = np.arange(1000.0, 1400.0, 0.5)
    t_s = t_s[(t_s < 1160) | (t_s > 1200)]  # three slots of the second window without replies
    result = pings.cut(t_s, np.full(t_s.size, 30.0), phase_s=12.0)
    assert [w.start_unix_s % 15 for w in result] == [12] * len(result)
    assert [w.start_unix_s for w in result] == [1002, 1242]


def test_campaigns_read_as_their_readme_says():
    sites = {site.name: site for site in pings.load_sites(require_data())}
    victoria = sites["victoria"]
    assert len(victoria.fitted) == 6
    rtt_ms = np.concatenate([w.rtt_ms for w in victoria.fitted])
    assert np.median(rtt_ms) == pytest.approx(26.4, abs=1.0)
    assert all((w.t_s >= 0).all() and (w.t_s < pings.WINDOW_S).all() for site in sites.values() for w in site.held_out)
    assert all((w.rtt_ms > 0).all() for site in sites.values() for w in site.held_out)
