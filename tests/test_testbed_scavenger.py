"""The scavenger: what runs do when the household uses its link."""

import asyncio
import math

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bentpipe.testbed.agent.counters import Rates
from bentpipe.testbed.agent.scavenger.loop import Scavenger
from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
from bentpipe.testbed.agent.scavenger.user_traffic import Residual, UserTraffic
from bentpipe.testbed.agent.scavenger.yielding import BLIND_S, GRACE_S, SILENCE, ScavengedRun, Yielding
from bentpipe.testbed.schemas.policy import ScavengerLevels

QUIET_S = 60.0


def detector(own=None, **levels):
    return UserTraffic(ScavengerLevels(**levels), own or OwnTraffic())


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
