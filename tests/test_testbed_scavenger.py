"""The scavenger: what counts as the household's traffic, and what runs do then."""

import asyncio
import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from shared_data import require_data

from bentpipe.testbed.agent.counters import ByteCounts, Rates
from bentpipe.testbed.agent.scavenger.loop import Scavenger
from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
from bentpipe.testbed.agent.scavenger.router_traffic import RouterTraffic
from bentpipe.testbed.agent.scavenger.user_traffic import GAINS, Residual, UserTraffic
from bentpipe.testbed.agent.scavenger.yielding import BLIND_S, GRACE_S, SILENCE, ScavengedRun, Yielding
from bentpipe.testbed.schemas.policy import ScavengerLevels

QUIET_S = 60.0


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
        own.add(ByteCounts(1.32, 2_300_000, 0))  # it was the run's own
        assert [each.is_user for each in router.observe(Rates(1.4, 0.1, 0.0, 0.0))] == [False, False]
        assert [each.is_user for each in router.observe(Rates(9.0, 0.1, 9e7, 0.0))] == [True]

    @pytest.mark.parametrize("shape", ["steady", "bursts of 20 ms", "varying every 0.1 s", "2 s of every 4 s"])
    def test_bursts_of_own_traffic_are_none(self, shape):
        from bentpipe.validation.scavenger.router import router_false_yields

        assert router_false_yields(shape, 0.02, np.random.default_rng(2)) == 0


RUN = ScavengedRun("r1", "r1", max_preemptions=3)
CLEAR, USED = Residual(0, 0, 0, False, False), Residual(0, 9e6, 0, True, True)
ROUGH = Residual(0, 9e6, 0, True, False)


def quiet(yielding, begin_s, seconds=61):
    """Give quiet samples; return the actions."""
    return [action for t in range(seconds) for action in yielding.observe(begin_s + t, CLEAR)]


def verbs(actions):
    return [action.verb for action in actions]


class TestYielding:
    def test_two_preemptions_in_a_row_then_done(self):
        yielding, t_s = Yielding(QUIET_S), 0.0
        quiet(yielding, 0.0)
        t_s = 60.0
        for attempt in (1, 2):
            run = ScavengedRun(f"r{attempt}", "r1")
            assert yielding.may_start(t_s)
            yielding.begin(t_s, run)
            assert verbs(yielding.observe(t_s + 1, USED)) == list(SILENCE)
            assert yielding.state == "yielding"
            assert not yielding.pass_time(t_s + 1 + GRACE_S - 0.01)
            assert verbs(yielding.pass_time(t_s + 1 + GRACE_S)) == ["kill"]
            assert not yielding.ended(t_s + 4, run.id)
            assert yielding.state == "quiet"
            again = quiet(yielding, t_s + 5)
            assert [(action.verb, action.run) for action in again] == [("reschedule", run)]
            t_s += 66.0
        yielding.begin(t_s, ScavengedRun("r3", "r1"))
        assert not quiet(yielding, t_s, 100)
        assert not yielding.ended(t_s + 100, "r3")
        assert yielding.preemptions("r1") == 2
        assert yielding.state == "clear"

    def test_the_most_preemptions_are_reported(self):
        yielding, t_s, reported = Yielding(QUIET_S), 0.0, []
        for attempt in range(1, 4):
            quiet(yielding, t_s)
            yielding.begin(t_s + 61, ScavengedRun(f"r{attempt}", "r1", max_preemptions=3))
            yielding.observe(t_s + 62, USED)
            reported += yielding.ended(t_s + 63, f"r{attempt}")
            t_s += 64
        assert verbs(reported) == ["report"]
        assert "preempted 3 times" in reported[0].reason
        assert not yielding.waiting
        assert not quiet(yielding, t_s, 200)

    def test_one_that_is_not_rescheduled_is_reported_at_once(self):
        yielding = Yielding(QUIET_S)
        yielding.begin(0.0, ScavengedRun("a", "a", is_rescheduled=False))
        yielding.observe(1.0, USED)
        assert verbs(yielding.ended(2.0, "a")) == ["report"]

    def test_links_go_down_before_anything_else(self):
        yielding = Yielding(QUIET_S)
        for name in "abc":
            yielding.begin(0.0, ScavengedRun(name, name))
        actions = yielding.observe(1.0, USED)
        assert verbs(actions)[:3] == ["link_down"] * 3
        assert verbs(actions) == [verb for verb in SILENCE for _ in "abc"]

    def test_no_sample_for_ten_seconds_is_as_bad_as_traffic(self):
        yielding = Yielding(QUIET_S)
        quiet(yielding, 0.0)
        yielding.begin(60.0, RUN)
        assert not yielding.pass_time(60.0 + BLIND_S)
        actions = yielding.pass_time(60.1 + BLIND_S)
        assert verbs(actions) == list(SILENCE)
        assert "no sample" in actions[0].reason
        yielding.ended(72.0, RUN.id)
        assert not yielding.may_start(72.0)
        yielding.observe(200.0, CLEAR)
        assert not yielding.may_start(200.0)  # the minute before was not seen

    def test_single_rough_samples_end_the_quiet_without_a_run_only(self):
        yielding = Yielding(QUIET_S)
        quiet(yielding, 0.0)
        yielding.observe(61.0, ROUGH)
        assert not yielding.may_start(61.0)
        quiet(yielding, 62.0)
        yielding.begin(122.0, RUN)
        assert not yielding.observe(123.0, ROUGH)
        assert yielding.may_start(123.0)

    def test_a_run_that_will_not_end_is_killed_once_more(self):
        yielding = Yielding(QUIET_S)
        yielding.begin(0.0, RUN)
        yielding.observe(1.0, USED)
        kills = [t for t in range(2, 30) if "kill" in verbs(yielding.observe(float(t), CLEAR))]
        assert kills == [3, 8, 13, 18, 23, 28]
        assert not yielding.may_start(29.0)

    def test_an_agent_that_was_killed_goes_on(self):
        yielding = Yielding(QUIET_S)
        yielding.restore({"r1": 2}, [RUN])
        assert verbs(quiet(yielding, 0.0)) == ["reschedule"]
        assert yielding.preemptions("r1") == 2


BOUND_S = 2
"""Whole seconds of traffic after which no run has its link: two samples."""


class Household(RuleBasedStateMachine):
    """A household and runs at random, a second at a time; the executor does as it is told, sooner or later."""

    def __init__(self):
        super().__init__()
        self.user = detector()
        self.yielding = Yielding(QUIET_S)
        self.t_s, self.using_s, self.quiet_s = 0.0, 0.0, 0.0
        self.is_used = False
        self.alive, self.linked = {}, set()
        self.stubborn = False
        self.started = 0
        self.preempted, self.tried, self.reported = {}, {}, []

    def carry_out(self, actions):
        for action in actions:
            run = action.run
            if action.verb == "link_down":
                self.linked.discard(run.id)
            elif action.verb in ("terminate", "kill"):
                if run.id in self.alive and (action.verb == "kill" or not self.stubborn):
                    self.end(run, preempted=True)
            elif action.verb == "reschedule":
                assert self.quiet_s >= QUIET_S
                assert not self.is_used
                self.tried[run.first_id] += 1
                self.start(run.first_id)
            elif action.verb == "report":
                self.reported.append(run.first_id)

    def end(self, run, *, preempted=False):
        del self.alive[run.id]
        self.linked.discard(run.id)
        if preempted:
            self.preempted[run.first_id] = self.preempted.get(run.first_id, 0) + 1
        self.carry_out(self.yielding.ended(self.t_s, run.id))

    def start(self, first_id=None):
        self.started += 1
        run = ScavengedRun(f"run{self.started}", first_id or f"run{self.started}", max_preemptions=3)
        self.tried.setdefault(run.first_id, 1)
        self.yielding.begin(self.t_s, run)
        self.alive[run.id] = run
        self.linked.add(run.id)

    @rule(seconds=st.integers(1, 90), rate=st.sampled_from([6e5, 4e6, 9e7]))
    def time_passes(self, seconds, rate):
        for _ in range(seconds):
            self.t_s += 1.0
            self.using_s = self.using_s + 1 if self.is_used else 0.0
            self.quiet_s = 0.0 if self.is_used else self.quiet_s + 1
            residual = self.user.observe(self.t_s, rate if self.is_used else 3e4, 1e4)
            self.carry_out(self.yielding.observe(self.t_s, residual))
            self.carry_out(self.yielding.pass_time(self.t_s + 0.5))
            assert not (self.linked and self.using_s >= BOUND_S)
            assert not (self.alive and self.using_s > BOUND_S + GRACE_S + 1)

    @rule()
    def household_begins_or_ends(self):
        self.is_used = not self.is_used

    @precondition(lambda self: len(self.alive) < 3)
    @rule(stubborn=st.booleans())
    def run_starts_if_it_may(self, stubborn):
        self.stubborn = stubborn
        if self.yielding.may_start(self.t_s):
            assert self.quiet_s >= QUIET_S
            self.start()

    @precondition(lambda self: self.alive)
    @rule()
    def run_ends_by_itself(self):
        run = next(iter(self.alive.values()))
        self.end(run, preempted=self.yielding.state == "yielding" and run.id not in self.linked)

    @invariant()
    def every_preemption_is_tried_again_waits_or_is_reported(self):
        waiting = [run.first_id for run in self.yielding.waiting]
        for first_id, count in self.preempted.items():
            assert count <= 3
            assert count == self.yielding.preemptions(first_id)
            later = self.tried[first_id] - 1 + waiting.count(first_id) + self.reported.count(first_id)
            assert later == count
            assert (first_id in self.reported) == (count == 3)


Household.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestHousehold = Household.TestCase


class Recorder:
    """Actions that note what was done; those of `bad` fail, those of `slow` hang."""

    def __init__(self, bad=(), slow=()):
        self.done, self.bad, self.slow = [], bad, slow

    def __getattr__(self, verb):
        async def act(run, reason=""):
            self.done.append((verb, run.id))
            if verb in self.bad:
                raise OSError("no such device")
            if verb in self.slow:
                await asyncio.sleep(60)

        return act


class TestLoop:
    def scavenger(self, recorder):
        self.now_s = 0.0
        return Scavenger(ScavengerLevels(), recorder, lambda: self.now_s)

    async def follow(self, scavenger, rates):
        for down_bps in rates:
            await scavenger.dish_sample(down_bps, 1e4)
            self.now_s += 1.0

    def test_from_traffic_to_silence(self):
        recorder = Recorder()
        scavenger = self.scavenger(recorder)

        async def story():
            await self.follow(scavenger, [3e4] * 62)
            assert scavenger.may_start()
            scavenger.begin(RUN)
            await self.follow(scavenger, [3e4, 9e6, 9e6])
            assert recorder.done == [(verb, "r1") for verb in SILENCE]
            await self.follow(scavenger, [3e4, 3e4])
            assert recorder.done[-1] == ("kill", "r1")
            await scavenger.ended("r1")
            await self.follow(scavenger, [3e4] * 62)
            assert recorder.done[-1] == ("reschedule", "r1")

        asyncio.run(story())
        assert not scavenger.troubles

    def test_actions_that_fail_or_hang_do_not_stop_the_next(self, monkeypatch):
        monkeypatch.setattr("bentpipe.testbed.agent.scavenger.loop.ACTION_S", 0.01)
        recorder = Recorder(bad=("link_down",), slow=("tell_server",))
        scavenger = self.scavenger(recorder)

        async def story():
            scavenger.begin(RUN)
            await self.follow(scavenger, [9e6, 9e6])

        asyncio.run(story())
        assert [verb for verb, _ in recorder.done] == list(SILENCE)
        assert list(scavenger.troubles) == ["link_down of r1: no such device", "tell_server of r1: too slow"]

    @pytest.mark.parametrize("reading", [math.nan, math.inf, -5.0, 1e12])
    def test_nonsense_is_no_sample_so_that_the_node_is_blind(self, reading):
        recorder = Recorder()
        scavenger = self.scavenger(recorder)

        async def story():
            scavenger.begin(RUN)
            await self.follow(scavenger, [reading] * 9)
            assert not recorder.done
            self.now_s += 5
            await scavenger.carry_out(scavenger.yielding.pass_time(self.now_s))

        asyncio.run(story())
        assert recorder.done[0] == ("link_down", "r1")

    def test_a_router_yields_within_a_fraction_of_a_second(self):
        recorder = Recorder()
        scavenger = self.scavenger(recorder)

        async def story():
            scavenger.begin(RUN)
            for _ in range(3):
                self.now_s += 0.1
                await scavenger.router_sample(Rates(self.now_s, 0.1, 5e6, 1e4))

        asyncio.run(story())
        assert recorder.done[0] == ("link_down", "r1")

    def test_a_router_that_is_asked_once_a_second_takes_two(self):
        recorder = Recorder()
        scavenger = self.scavenger(recorder)

        async def story():
            scavenger.begin(RUN)
            await scavenger.router_sample(Rates(self.now_s, 60.0, 5e6, 1e4))  # it did not answer for a minute
            for _ in range(2):
                assert not recorder.done
                self.now_s += 1.0
                await scavenger.router_sample(Rates(self.now_s, 1.0, 6e5, 1e4))

        asyncio.run(story())
        assert recorder.done[0] == ("link_down", "r1")


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
