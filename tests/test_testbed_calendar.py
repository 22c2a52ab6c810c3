"""The calendar: no overlaps, whatever happens; due times over leap days and summer time; planners that race.

`BENTPIPE_CALENDAR_STEPS` sets about how many steps the state machine takes on each database.
"""

import asyncio
import json
import os
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert
from sqlalchemy.exc import DBAPIError
from testbed_orchestrators import NOW_MS, Clock, join, orchestrator, plan_all, runs_of, user, yaml_of

from bentpipe.testbed.orchestrator.database.engines import Database, is_overlap
from bentpipe.testbed.orchestrator.database.tables import ALL_LANES, BookingRow
from bentpipe.testbed.orchestrator.services import experiments
from bentpipe.testbed.orchestrator.services.availability import free_intervals, to_json
from bentpipe.testbed.orchestrator.services.due_times import next_due
from bentpipe.testbed.orchestrator.services.planner import plan_turn
from bentpipe.testbed.orchestrator.services.slots import Booking, NodeCalendar, displaceable, first_free, is_free
from bentpipe.testbed.schemas.experiment import Schedule
from bentpipe.testbed.schemas.quantities import at_text
from bentpipe.testbed.schemas.views import AvailabilityPage
from bentpipe.times import parse_utc
from bentpipe.validation import testbed_calendar
from bentpipe.validation.testbed_calendar import take_steps
from bentpipe.validation.testbed_calendar.machine import check_calendar

STEPS = int(os.environ.get("BENTPIPE_CALENDAR_STEPS", "60"))


def booking(node="n" * 32, begin=0, end=10, lanes=(0, 1), live=True, key=None):
    return {
        "id": key or f"{random.getrandbits(128):032x}",
        "node_id": node,
        "run_id": "r" * 32,
        "end": "client",
        "from_at_ms": begin,
        "to_at_ms": end,
        "first_lane": lanes[0],
        "end_lane": lanes[1],
        "live": live,
        "priority": 0,
    }


@pytest.mark.anyio
async def test_the_database_itself_refuses_overlaps(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        database = testbed.database

        async def add(**fields):
            try:
                async with database.write() as connection:
                    await connection.execute(insert(BookingRow), [booking(**fields)])
            except DBAPIError as error:
                if not is_overlap(error) and "deadlock" not in str(error):  # as racing exclusion constraints may have
                    raise
                return False
            return True

        everything = (0, ALL_LANES)
        assert await add(begin=0, end=10)
        assert await add(begin=10, end=20)  # they touch
        assert await add(begin=0, end=10, lanes=(1, 2))
        assert await add(begin=0, end=10, lanes=(0, 0))  # background
        assert await add(begin=5, end=15, node="m" * 32)
        assert await add(begin=5, end=15, live=False)
        assert not await add(begin=9, end=11)
        assert not await add(begin=0, end=20, lanes=everything)
        assert await add(begin=20, end=30, lanes=everything)
        assert not await add(begin=29, end=31, lanes=(3, 4))
        racing = await asyncio.gather(*(add(begin=40, end=50, lanes=everything) for _ in range(6)))
        assert sorted(racing) == [False] * 5 + [True]


bookings = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 15), st.integers(0, 3), st.booleans(), st.integers(0, 3)), max_size=8
)


@given(bookings, st.sampled_from(["normal", "exclusive"]), st.integers(1, 12), st.integers(1, 3))
def test_the_first_free_slot_is_the_first(entries, booking_class, duration, lanes):
    calendar = NodeCalendar("n", lanes)
    for number, (begin, length, lane, is_exclusive, priority) in enumerate(entries):
        begin_ms, end_ms = begin * 1000, (begin + length) * 1000
        taken = (0, ALL_LANES) if is_exclusive else (lane % lanes, lane % lanes + 1)
        calendar.add(Booking(begin_ms, end_ms, *taken, f"r{number}", priority, True))
    slow = next((s * 1000 for s in range(80) if is_free([calendar], booking_class, duration * 1000, s * 1000)), None)
    assert first_free([calendar], booking_class, duration * 1000, 0, 79_000) == slow
    moved = displaceable([calendar], booking_class, duration * 1000, 20_000, 2)
    if moved is not None:
        assert all(entries[int(run[1:])][4] < 2 for run in moved)
        for run in moved:
            calendar.remove(run)
        assert is_free([calendar], booking_class, duration * 1000, 20_000)


@given(
    st.lists(bookings, min_size=1, max_size=3),
    st.sampled_from(["normal", "exclusive", "background"]),
    st.integers(1, 9),
)
def test_the_first_start_of_several_nodes_is_the_first(nodes, booking_class, duration):
    calendars = []
    for entries in nodes:
        calendar = NodeCalendar("n", 3)
        rows = [
            Booking(begin * 1000, (begin + length) * 1000, *((0, ALL_LANES) if exclusive else (lane, lane + 1)), "")
            for begin, length, lane, exclusive, _ in entries
        ]
        calendar.fill(sorted(rows))
        calendars.append(calendar)
    slow = next((s * 1000 for s in range(9, 99) if is_free(calendars, booking_class, duration * 1000, s * 1000)), None)
    assert first_free(calendars, booking_class, duration * 1000, 9_000, 98_000) == slow


@given(bookings, st.integers(0, 30), st.integers(1, 30))
def test_free_intervals_are_free(entries, begin, length):
    rows = []  # lane 3 is free
    for at, long, lane, _, _ in entries:
        if all(at >= end or at + long <= start for start, end, other, _ in rows if other == lane):
            rows.append((at, at + long, lane, lane + 1))
    span = range(begin, begin + length)
    taken = [4 - sum(start <= at < end for start, end, _, _ in rows) for at in span]
    intervals = list(free_intervals(rows, 4, begin, begin + length))
    assert [lanes for start, end, lanes in intervals for _ in range(end - start)] == taken
    page = AvailabilityPage.check(json.loads(to_json({"n": intervals})), "availability")
    assert [(each.from_at_ms, each.to_at_ms, each.lanes) for each in page.items] == intervals
    assert list(free_intervals([(begin, begin + length, 0, ALL_LANES)], 4, begin, begin + length)) == []


def dues(schedule, begin, count):
    at, times = parse_utc(begin) // 10**6, []
    for _ in range(count):
        at = next_due(schedule, 0, at)
        times.append(at_text(at))
    return times


def test_cron_lines_over_summer_time_and_leap_days():
    night = Schedule(cron="30 2 * * *", timezone="Europe/Madrid")
    spring = dues(night, "2026-03-28T00:00:00Z", 3)
    assert spring == ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    autumn = dues(night, "2026-10-24T12:00:00Z", 2)
    assert autumn == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]  # once, though 02:30 comes twice
    assert dues(Schedule(cron="0 0 29 2 *"), "2026-01-01", 2) == ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]
    hourly = dues(Schedule(cron="0 * * * *", timezone="Europe/Madrid"), "2026-10-24T23:30:00Z", 4)
    assert hourly == [f"2026-10-25T0{hour}:00:00Z" for hour in range(4)]


def test_periods_and_single_times():
    assert next_due(Schedule(every="10m"), NOW_MS, None) == NOW_MS
    assert next_due(Schedule(every="10m"), NOW_MS, NOW_MS) == NOW_MS + 600_000
    assert next_due(Schedule(every="10m", at="2026-09-21T15:00:00Z"), NOW_MS, NOW_MS) == 1_790_002_800_000
    assert next_due(Schedule(at="2026-09-21T15:00:00Z"), NOW_MS, 1_790_002_800_000) is None
    assert next_due(Schedule(), NOW_MS, None) == NOW_MS
    assert next_due(Schedule(), NOW_MS, NOW_MS) is None
    assert next_due(Schedule(trigger="x > 1"), NOW_MS, None) is None


@pytest.mark.anyio
async def test_two_planners_race_and_plan_each_due_time_once(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        for name in ("attic", "cellar"):
            await join(testbed, name)
        await join(testbed, "pop", "server")
        caller = await user(testbed)
        for number in range(3):
            fields = {"run": "{builtin: irtt, args: {seconds: 30}}", "server": "{near: node}", "class_": "exclusive"}
            text = yaml_of(name=f"e{number}", nodes="{names: [attic, cellar]}", when="{every: 40m}", **fields)
            await experiments.submit(testbed, caller, text)
        if testbed.database.is_sqlite:
            await asyncio.gather(plan_all(testbed), plan_all(testbed))
        else:
            other = await Database.open(database_url)  # another process
            mine, testbed.database = testbed.database, testbed.database
            second = type(testbed)(other, testbed.storage, testbed.authority, testbed.folder, clock)

            async def plan(which):
                for _ in range(50):
                    try:
                        if not await plan_turn(which):
                            return
                    except DBAPIError as error:  # a deadlock: the worker tries again
                        if "deadlock" not in str(error) and not is_overlap(error):
                            raise

            await asyncio.gather(plan(testbed), plan(second), plan(testbed), plan(second))
            await plan_all(testbed)
            await other.close()
            assert mine is testbed.database
        runs = await runs_of(testbed)
        assert len(runs) == 3 * 2 * 72
        counts = Counter((run.plan, run.due_at_ms) for run in runs)
        assert set(counts.values()) == {1}
        await check_calendar(testbed)


def test_random_steps_leave_a_sound_calendar(tmp_path, database_url, request):
    def url_of(number):
        if database_url.startswith("sqlite"):
            return f"sqlite:///{tmp_path / f'{number}.db'}"
        return request.getfixturevalue("postgresql").new_database()

    steps, problem = take_steps(url_of, STEPS, lambda _: None, examples=2)
    assert problem == ""
    assert steps >= STEPS


def test_a_calendar_that_is_not_sound_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("bentpipe.validation.testbed_calendar.machine.plan_all", plan_nothing)
    steps, problem = take_steps(lambda number: f"sqlite:///{tmp_path / f'{number}.db'}", 50, lambda _: None, 1)
    assert steps == 0
    assert problem == "batch 20: a plan"


async def plan_nothing(_):
    raise AssertionError("a plan")


def test_the_claim_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert testbed_calendar.check(None, lambda _: None).skipped == "needs hypothesis (pip install hypothesis)"
