"""The board: merges feeds, evaluates triggers; feeds that fail or talk nonsense harm nothing."""

import asyncio
import math
import random

import pytest

from bentpipe.errors import UserError
from bentpipe.testbed.agent.signals.board import SignalBoard
from bentpipe.testbed.agent.signals.catalogue import CATALOGUE, plausible
from bentpipe.testbed.agent.signals.clock import BoardClock
from bentpipe.testbed.agent.signals.feed import Feed
from bentpipe.testbed.agent.signals.live_trigger import Held, LiveTrigger
from bentpipe.triggers.trigger import Trigger

pytest.importorskip("cel")

START_S = 1_800_000_000.0


class Clocks:
    """A wall clock and a steady one that a test sets."""

    def __init__(self):
        self.wall_s, self.steady_s = START_S, 100.0

    def advance(self, seconds):
        self.wall_s += seconds
        self.steady_s += seconds

    def board_clock(self):
        return BoardClock(lambda: self.wall_s, lambda: self.steady_s)


class ListFeed(Feed):
    """Gives what it is given; an exception in the list is raised."""

    def __init__(self, name, items=(), hold_s=0.0, stale_s=5.0):
        self.name, self.items, self.hold_s, self.stale_s = name, list(items), hold_s, stale_s
        self.starts = 0

    async def samples(self):
        self.starts += 1
        while self.items:
            item = self.items.pop(0)
            if isinstance(item, BaseException):
                raise item
            yield item
            await asyncio.sleep(0)


def made_board(*feeds, clocks=None, **options):
    clocks = clocks or Clocks()
    firings = []
    board = SignalBoard(feeds, "node-1", firings.append, clock=clocks.board_clock(), first_wait_s=0.0, **options)
    return board, firings, clocks


def run_seconds(board, clocks, feed, series, step_s=1.0):
    for values in series:
        board.take(feed, values)
        clocks.advance(step_s)
        board.pass_time()


def test_a_condition_over_a_feed_fires_once_at_the_end_of_its_window():
    feed = ListFeed("dish", hold_s=2.0)
    board, firings, clocks = made_board(feed)
    board.arm("slow", Trigger("latency_ms > 2 * mean(latency_ms, 5)", CATALOGUE))
    run_seconds(board, clocks, feed, [{"latency_ms": 90.0 if t in (8, 9) else 30.0} for t in range(20)])
    assert [firing.window_end_at_ms for firing in firings] == [round((START_S + 9) * 1000)]
    assert firings[0].values == {"latency_ms": 90.0}
    (status,) = board.triggers()
    assert (status.firings, status.absent, status.fired_at_ms) == (1, (), firings[0].window_end_at_ms)


def test_a_firing_has_the_same_id_whoever_computes_it_and_is_delivered_once():
    ids = []
    for _ in range(2):
        feed = ListFeed("ping")
        board, firings, clocks = made_board(feed)
        board.arm("a", Trigger("ping_ms > 50"))
        run_seconds(board, clocks, feed, [{"ping_ms": 30.0}, {"ping_ms": 90.0}])
        ids.append([firing.id for firing in firings])
    assert ids[0] == ids[1]
    assert len(ids[0]) == 1
    board.disarm("a")
    board.arm("a", Trigger("ping_ms > 50"))  # again within the same second: the same window is the same firing
    clocks.advance(-1.0)
    board.take(feed, {"ping_ms": 90.0})
    clocks.advance(1.0)
    board.pass_time()
    assert len(firings) == 1


def test_arming_the_same_trigger_again_keeps_its_windows():
    feed = ListFeed("ping")
    board, firings, clocks = made_board(feed)
    for t in range(8):
        board.arm("a", Trigger("ping_ms > 2 * mean(ping_ms, 5)"))
        run_seconds(board, clocks, feed, [{"ping_ms": 90.0 if t == 7 else 30.0}])
    assert len(firings) == 1
    board.arm("a", Trigger("ping_ms > 3 * mean(ping_ms, 5)"))
    assert board.triggers()[0].evaluations == 0


def test_slow_signals_are_held_and_run_out():
    weather, ping = ListFeed("weather", hold_s=60.0, stale_s=60.0), ListFeed("ping")
    board, firings, clocks = made_board(weather, ping)
    board.arm("rain", Trigger("ping_ms > 50 && rain_mm_per_h > 1", cooldown_s=0.0))
    board.take(weather, {"rain_mm_per_h": 4.0})
    for t in range(100):
        run_seconds(board, clocks, ping, [{"ping_ms": 90.0 if t in (10, 90) else 30.0}])
    assert [firing.window_end_at_ms - START_S * 1000 for firing in firings] == [11_000]
    assert board.triggers()[0].absent == ("rain_mm_per_h",)


@pytest.mark.parametrize("window_s", [0.1, 0.25, 0.5, 1.0, 7.0])
def test_held_samples_fill_every_window_whatever_its_length(window_s):
    live, held = LiveTrigger(Trigger("drop_rate > 2", window_s=window_s)), {}
    t_s = START_S
    for number in range(40):
        t_s = START_S + number + random.Random(number).uniform(-0.2, 0.2)  # polls are not punctual
        live.push(t_s, {"drop_rate": 0.5}, held)
        held["drop_rate"] = Held(t_s, 0.5, 2.0)
    live.pass_time(t_s + window_s, held)
    assert live.trigger.missing == 0
    assert live.trigger.evaluations == pytest.approx((t_s - START_S) / window_s, abs=2)


NONSENSE = [
    *({"latency_ms": value} for value in (math.nan, math.inf, -1.0, 1e9, "90", None, [90.0], True, 10**400, b"9")),
    {"latency": 90.0},
    {},
    {"drop_rate": 7, "downlink_bps": -5, "uplink_bps": 1e300},
]


def test_nonsense_never_fires_and_never_raises():
    feed = ListFeed("dish", hold_s=2.0)
    board, firings, clocks = made_board(feed)
    for number, name in enumerate(("latency_ms", "drop_rate", "downlink_bps", "uplink_bps")):
        board.arm(f"t{number}", Trigger(f"{name} > 1.5 * mean({name}, 5)"))
    usual = {"latency_ms": 30.0, "drop_rate": 0.0, "downlink_bps": 1e4, "uplink_bps": 1e4}
    random_ = random.Random(1)
    for _ in range(300):
        run_seconds(board, clocks, feed, [usual, random_.choice(NONSENSE)], 0.5)
    # True counts as the number 1, which no condition above takes for a jump.
    assert not firings
    (status,) = board.feeds()
    assert status.refused > 100
    assert board.troubles == 0


@pytest.mark.parametrize("jump_s", [-86_400.0, -3600.0, -30.0, -2.0, 2.0, 30.0, 3600.0, 86_400.0])
def test_a_clock_that_is_set_never_fires_a_trigger(jump_s):
    feed = ListFeed("dish", hold_s=2.0)
    board, firings, clocks = made_board(feed)
    board.arm("a", Trigger("latency_ms > 1.5 * mean(latency_ms, 5)", cooldown_s=300))
    board.arm("b", Trigger("delta(latency_ms, 3) > 10"))
    usual = [{"latency_ms": 30.0}]
    run_seconds(board, clocks, feed, usual * 30)
    clocks.wall_s += jump_s
    run_seconds(board, clocks, feed, usual * 30)
    assert not firings
    assert board.clock_jumps == 1
    assert board.newest() == {"latency_ms": 30.0}
    run_seconds(board, clocks, feed, [{"latency_ms": 90.0}, *usual])
    assert {firing.trigger_id for firing in firings} == {"a", "b"}


def test_a_pause_after_a_firing_goes_on_when_the_clock_is_set_back():
    feed = ListFeed("ping")
    board, firings, clocks = made_board(feed)
    board.arm("a", Trigger("ping_ms > 50", cooldown_s=60))
    run_seconds(board, clocks, feed, [{"ping_ms": 30.0}, {"ping_ms": 90.0}, {"ping_ms": 30.0}])
    clocks.wall_s -= 3600
    run_seconds(board, clocks, feed, [{"ping_ms": 30.0}, {"ping_ms": 90.0}, {"ping_ms": 30.0}])
    assert len(firings) == 1
    run_seconds(board, clocks, feed, [{"ping_ms": 30.0}] * 60 + [{"ping_ms": 90.0}] + [{"ping_ms": 30.0}])
    assert len(firings) == 2


async def run_until(board, is_done):
    task = asyncio.create_task(board.run())
    async with asyncio.timeout(5):
        while not is_done():
            await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_feed_that_fails_is_a_line_tried_again_and_stops_no_other():
    bad = ListFeed("dish", [{"latency_ms": 30.0}, OSError("no route"), ValueError("two\nlines"), RecursionError()])
    good = ListFeed("ping", [{"ping_ms": 30.0}] * 200)
    board, _, _ = made_board(bad, good)
    asyncio.run(run_until(board, lambda: bad.starts >= 4 and not good.items))
    dish, ping = board.feeds()
    assert (dish.failures, ping.failures, ping.samples) == (3, 0, 200)
    assert dish.trouble == "RecursionError: no reason given"
    assert dish.state == "ended"
    assert "\n" not in dish.trouble


def test_a_feed_is_reported_as_stale():
    feed = ListFeed("dish", stale_s=5.0)
    board, _, clocks = made_board(feed)
    assert board.feeds()[0].state == "starting"
    board.take(feed, {"latency_ms": 30.0})
    assert board.feeds()[0].state == "fresh"
    clocks.advance(6.0)
    assert (board.feeds()[0].state, board.feeds()[0].age_s) == ("stale", 6.0)
    assert board.newest() == {}


def test_a_listener_that_raises_stops_nothing():
    feed = ListFeed("ping")

    def raising(*_):
        raise RuntimeError

    board = SignalBoard([feed], "n", raising, on_sample=raising, clock=(clocks := Clocks()).board_clock())
    board.arm("a", Trigger("ping_ms > 50"))
    run_seconds(board, clocks, feed, [{"ping_ms": 30.0}, {"ping_ms": 90.0}, {"ping_ms": 30.0}])
    assert board.troubles == 4
    assert board.triggers()[0].firings == 1


def test_two_feeds_of_one_signal_are_refused():
    with pytest.raises(UserError, match="dish and dish both give latency_ms"):
        made_board(ListFeed("dish"), ListFeed("dish"))


def test_every_signal_has_a_unit_or_says_that_it_has_none_in_its_range():
    for signal in CATALOGUE.values():
        assert signal.least < signal.most
        assert plausible({signal.name: signal.least}) == ({signal.name: float(signal.least)}, 0)
        assert plausible({signal.name: signal.most * 1.1 + 1}) == ({}, 1)
        assert signal.unit or signal.most <= 1 or signal.name == "satellite"
