"""Detectors of the household's traffic: terminal, router; generated and recorded telemetry."""

import random

import numpy as np
import pytest
from shared_data import require_data

from bentpipe.testbed.agent.counters import ByteCounts, Rates
from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
from bentpipe.testbed.agent.scavenger.router_traffic import RouterTraffic
from bentpipe.testbed.agent.scavenger.user_traffic import GAINS, UserTraffic
from bentpipe.testbed.schemas.policy import ScavengerLevels


def detector(own=None, **levels):
    return UserTraffic(ScavengerLevels(**levels), own or OwnTraffic())


class TestOwnTraffic:
    def test_rates_between_readings(self):
        own = OwnTraffic()
        for tick in range(50):
            own.add(ByteCounts(tick / 10, tick * 12_500, tick * 1250))
        assert own.rates_bps(4.9, 1.0) == pytest.approx((1e6, 1e5))
        assert own.rates_bps(3.33, 0.5) == pytest.approx((1e6, 1e5))

    def test_another_run_begins_anew_and_old_readings_are_forgotten(self):
        own = OwnTraffic()
        for second in range(100):
            own.add(ByteCounts(float(second), second % 20 * 125_000, 0))
        assert own.rates_bps(99.0, 5.0)[0] == pytest.approx(1e6)
        assert own.rates_bps(81.0, 1.0)[0] == 0.0  # long forgotten
        own.add(ByteCounts(50.0, 1, 1))  # a clock cannot go back
        assert own.rates_bps(99.0, 5.0)[0] == pytest.approx(1e6)
        assert OwnTraffic().rates_bps(1.0, 1.0) == (0.0, 0.0)


class TestUserTraffic:
    @pytest.mark.parametrize(("down", "up"), [(5.1e5, 1e4), (1e4, 2.1e5), (9e7, 9e6)])
    def test_two_fresh_samples_above_a_level(self, down, up):
        user = detector()
        flags = [user.observe(float(t), *((down, up) if t >= 5 else (3e4, 1e4))).is_user for t in range(9)]
        assert flags == [False] * 6 + [True] * 3

    def test_a_part_of_a_second_counts_as_the_first(self):
        user = detector()
        assert [user.observe(float(t), rate, 0).is_user for t, rate in enumerate([1e4, 3e5, 6e5])] == [
            False,
            False,
            True,
        ]
        user = detector()  # but not as the second
        assert not any(user.observe(float(t), rate, 0).is_user for t, rate in enumerate([6e5, 3e5, 1e4, 6e5, 1e4]))

    def test_single_samples_and_gaps_are_none(self):
        user = detector()
        assert not any(user.observe(float(t), 9e6 if t % 2 else 1e4, 0).is_user for t in range(50))
        user = detector()
        assert not any(user.observe(10.0 * t, 9e6, 0).is_user for t in range(5))

    def test_owners_set_levels(self):
        assert not any(detector(down=20_000_000).observe(float(t), 9e6, 0).is_user for t in range(5))
        user = detector(down=20_000)
        assert [user.observe(float(t), 3e4, 0).is_user for t in range(3)] == [False, True, True]

    @pytest.mark.parametrize("gain", [0.97, 1.0, 1.04, 1.12])
    @pytest.mark.parametrize("lag_s", [0.0, 0.6, 1.2, 1.9])
    def test_own_traffic_is_none_whenever_it_starts_and_ends(self, gain, lag_s):
        own = OwnTraffic()
        user = detector(own)
        rng, total = random.Random(lag_s), 0.0
        history = []
        for tick in range(4000):
            t_s = tick / 10
            on = (t_s % 50) > 20
            total += (54e6 / 80) * on
            history.append((t_s, total))
            own.add(ByteCounts(t_s, int(total), int(total / 30)))
            if tick % 10 == 9 and t_s > 5:
                at = max(0, tick - round(lag_s * 10))
                seen = 8 * (history[at][1] - history[max(0, at - 10)][1])
                reading = gain * seen * (1 + rng.uniform(-0.03, 0.03))
                reading *= rng.choice([0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
                assert not user.observe(t_s, reading, reading / 30).is_user
        assert user.gain_down == pytest.approx(gain, abs=0.02)

    def test_the_household_beside_own_traffic(self):
        own = OwnTraffic()
        user = detector(own)
        flags = []
        for second in range(60):
            own.add(ByteCounts(float(second), second * 6_750_000, 0))
            flags.append(user.observe(second + 0.1, 54e6 * 1.03 + (8e6 if second >= 40 else 0), 1e5).is_user)
        assert flags.index(True) == 41

    def test_gain_is_bounded_so_that_traffic_is_not_learned(self):
        own = OwnTraffic()
        user = detector(own, own_share=0.25)
        for second in range(300):
            own.add(ByteCounts(float(second), second * 6_750_000, 0))
            user.observe(second + 0.1, 54e6 * 1.24, 0.0)
        assert user.gain_down <= GAINS[1]


def follow_router(rates_bps, span_s=0.1, own=None, own_bps=0.0, **levels):
    """Return the times from the start until a reading is judged as a household's."""
    own = own or OwnTraffic()
    router = RouterTraffic(ScavengerLevels(**levels), own)
    times = []
    if own_bps:
        own.add(ByteCounts(-0.07, 0, 0))
    for number, rate in enumerate(rates_bps, 1):
        t_s = number * span_s
        if own_bps:
            own.add(ByteCounts(t_s + 0.03, int(own_bps * t_s / 8), 0))
        times += [each.t_s for each in router.observe(Rates(t_s, span_s, rate + own_bps, 1e4)) if each.is_user]
    return times


class TestRouterTraffic:
    def test_much_traffic_at_once_and_little_within_two_seconds(self):
        for rate_bps, least_s, most_s in ((9e7, 0.0, 0.11), (5e6, 0.1, 0.3), (1e6, 0.7, 0.9), (5.2e5, 1.4, 1.6)):
            times = follow_router([2e4] * 30 + [rate_bps] * 40)
            assert least_s <= times[0] - 3.0 <= most_s

    def test_blips_and_traffic_below_the_level_are_none(self):
        assert not follow_router([6e6 if number % 30 == 0 else 2e4 for number in range(600)])
        assert not follow_router([3e5] * 600)
        assert not follow_router([4e6] * 600, down=20_000_000)

    def test_once_a_second(self):
        assert follow_router([3e4, 3e4, 6e5, 6e5], span_s=1.0) == [4.0]

    def test_after_a_gap_it_begins_anew(self):
        router = RouterTraffic(ScavengerLevels(), OwnTraffic())
        assert not router.observe(Rates(1.0, 1.0, 6e5, 0.0))[0].is_user
        assert not router.observe(Rates(9.0, 1.0, 6e5, 0.0))[0].is_user
        assert router.observe(Rates(10.0, 1.0, 6e5, 0.0))[0].is_user

    def test_own_traffic_is_none_and_the_household_beside_it_is_seen(self):
        assert not follow_router([0.0] * 600, own_bps=54e6)
        times = follow_router([0.0] * 100 + [20e6] * 60, own_bps=54e6)
        assert 0 < times[0] - 10.0 < 2.0

    def test_a_reading_waits_for_the_runs_counters_but_not_for_ever(self):
        own = OwnTraffic()
        own.add(ByteCounts(0.0, 0, 0))
        own.add(ByteCounts(1.0, 0, 0))
        router = RouterTraffic(ScavengerLevels(), own)
        assert router.observe(Rates(1.2, 0.1, 9e7, 0.0)) == []
        assert router.observe(Rates(1.3, 0.1, 9e7, 0.0)) == []
        own.add(ByteCounts(1.45, 2_300_000, 0))  # it was the run's own
        assert [each.is_user for each in router.observe(Rates(1.4, 0.1, 0.0, 0.0))] == [False, False]
        assert [each.is_user for each in router.observe(Rates(9.0, 0.1, 9e7, 0.0))] == [True]

    @pytest.mark.parametrize("shape", ["steady", "bursts of 20 ms", "varying every 0.1 s", "2 s of every 4 s"])
    def test_bursts_of_own_traffic_are_none(self, shape):
        from bentpipe.validation.scavenger.router import router_false_yields

        assert router_false_yields(shape, 0.02, np.random.default_rng(2)) == 0


def generated_day(hours=1.0, seed=0):
    """Idle chatter, and half a minute of 54 Mbit/s every two minutes with seconds of 0 and of the double."""
    from bentpipe.validation.scavenger.telemetry import make_day

    rng = np.random.default_rng(seed)
    n = int(hours * 3600)
    t_s = 1.7e9 + np.arange(n) + rng.uniform(-0.02, 0.02, n)
    down, up = rng.gamma(2.0, 8e3, n).clip(0, 1.7e5), rng.gamma(3.0, 5e3, n).clip(0, 5.6e4)
    load = (np.arange(n) % 120 >= 90) & (np.arange(n) > n // 2)
    rough = rng.choice([1.0, 0.0, 2.0], n, p=[0.93, 0.04, 0.03])
    single = np.concatenate([[True], rough[1:] != rough[:-1]]) | (rough == 1)
    down[load] = 54e6 * np.where(single, rough, 1.0)[load] * rng.uniform(0.98, 1.02, load.sum())
    return make_day("generated", t_s, down, up)


def test_the_claim_holds_on_generated_telemetry():
    from bentpipe.validation.scavenger.detection import detect_added, false_yields

    days = [generated_day()]
    idle = false_yields(days, is_loaded=False)
    assert idle.hours > 0.4
    assert (idle.count, idle.lasting) == (0, [])
    loaded = false_yields(days, is_loaded=True)
    assert loaded.edges >= 20
    assert loaded.count <= 1
    rng = np.random.default_rng(1)
    for rate in ((0.5e6, 0.0), (0.0, 0.2e6), (5e6, 0.0)):
        assert detect_added(days, rate, 100, rng, is_loaded=False).p99_s <= 3.0
    assert detect_added(days, (30e6, 0.0), 50, rng, is_loaded=True).p50_s <= 3.0


def test_real_idle_telemetry_is_not_taken_for_traffic():
    from bentpipe.validation.scavenger import telemetry
    from bentpipe.validation.scavenger.detection import false_yields

    require_data(telemetry.FOLDER)
    days = telemetry.load_days(require_data())
    idle = false_yields(days[-1:], is_loaded=False)
    assert idle.hours > 5
    assert (idle.count, idle.lasting) == (0, [])
