"""The calendar: no overlaps, whatever happens; due times over leap days and summer time; planners that race.

`BENTPIPE_CALENDAR_STEPS` sets about how many steps the state machine takes on each database.
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError
from testbed_orchestrators import NOW_MS, Clock, join, new_database, orchestrator, plan_all, runs_of, user, yaml_of

from bentpipe.testbed.orchestrator.database.engines import Database, is_overlap
from bentpipe.testbed.orchestrator.database.tables import ALL_LANES, BookingRow, RunRow
from bentpipe.testbed.orchestrator.services import dry_runs, experiments
from bentpipe.testbed.orchestrator.services.availability import free_intervals, to_json
from bentpipe.testbed.orchestrator.services.desired_states import desired_state
from bentpipe.testbed.orchestrator.services.due_times import next_due
from bentpipe.testbed.orchestrator.services.listings import list_experiments
from bentpipe.testbed.orchestrator.services.planner import plan_turn
from bentpipe.testbed.orchestrator.services.refusals import ConflictError, ForbiddenError
from bentpipe.testbed.orchestrator.services.silence import silence_turn
from bentpipe.testbed.orchestrator.services.slots import Booking, NodeCalendar, displaceable, first_free, is_free
from bentpipe.testbed.schemas.experiment import Schedule
from bentpipe.testbed.schemas.experiment_views import Extension
from bentpipe.testbed.schemas.quantities import at_text
from bentpipe.testbed.schemas.views import AvailabilityPage
from bentpipe.times import parse_utc

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


async def check_calendar(testbed):
    """No two live bookings of a node overlap; every run that waits has one for each end, every other one a reason."""
    async with testbed.read() as transaction:
        rows = await transaction.rows(select(*BookingRow.__table__.c).where(BookingRow.live))
        runs = {row.id: row for row in await transaction.rows(select(*RunRow.__table__.c))}
    by_node = {}
    for row in rows:
        by_node.setdefault(row.node_id, []).append(row)
    for node_rows in by_node.values():
        node_rows.sort(key=lambda row: row.from_at_ms)
        for index, row in enumerate(node_rows):
            for other in node_rows[index + 1 :]:
                if other.from_at_ms >= row.to_at_ms:
                    break
                lanes = max(row.first_lane, other.first_lane) < min(row.end_lane, other.end_lane)
                assert not lanes, (row, other)
    booked = Counter(row.run_id for row in rows)
    for run in runs.values():
        if run.state in ("planned", "assigned"):
            assert booked[run.id] == (2 if run.server_id else 1), run
            assert run.due_at_ms <= run.start_at_ms <= run.latest_start_at_ms, run
        elif run.state in ("missed", "canceled"):
            assert not booked[run.id], run
            assert run.reason, run


class CalendarMachine(RuleBasedStateMachine):
    """Steps of users, nodes and time that Hypothesis chooses; the calendar is checked after each."""

    def __init__(self, url, folder):
        super().__init__()
        self.clock, self.count = Clock(), 0
        self.runner, self.stack = asyncio.Runner(), contextlib.AsyncExitStack()
        self.testbed = self.runner.run(self.stack.enter_async_context(orchestrator(folder, url, self.clock)))
        self.runner.run(self.begin())

    async def begin(self):
        for name in ("a", "b"):
            await join(self.testbed, name)
        await join(self.testbed, "s", "server")
        self.callers = [await user(self.testbed, name) for name in ("ada", "bob")]

    def teardown(self):
        self.runner.run(self.stack.aclose())
        self.runner.close()

    @rule(
        booking_class=st.sampled_from(["normal", "exclusive", "background"]),
        priority=st.sampled_from([0, 1, 5]),
        seconds=st.sampled_from([17, 290, 3000]),
        two_ends=st.booleans(),
        when=st.sampled_from(
            ["now", "{at: 'SOON'}", "{every: 30m}", "{every: 2h}", "{cron: '*/20 * * * *'}", "{cron: '7 3 * * *'}"]
        ),
        limits=st.sampled_from(
            ["{slip: 5m}", "{slip: 2h, runs: 3}", "{slip: 0s}", "{bytes: 1GB/day, bytes_per_run: 100MB}"]
        ),
        nodes=st.sampled_from(["{names: [a]}", "{names: [b]}", "{names: [a, b]}"]),
        caller=st.integers(0, 1),
    )
    def submit(self, booking_class, priority, seconds, two_ends, when, limits, nodes, caller):
        self.count += 1
        fields = {"run": f"{{builtin: ping, args: {{target: x, seconds: {seconds}}}}}"}
        if booking_class != "background" and two_ends:
            fields = {"run": f"{{builtin: irtt, args: {{seconds: {seconds}}}}}", "server": "{near: node}"}
        soon = at_text((self.clock() // 1000 + 600) * 1000)
        text = yaml_of(
            name=f"e{self.count}",
            nodes=nodes,
            class_=booking_class,
            priority=str(priority),
            when=when.replace("SOON", soon),
            limits=limits,
            **fields,
        )
        self.act(dry_runs.dry_run(self.testbed, self.callers[caller], text))
        self.act(experiments.submit(self.testbed, self.callers[caller], text))

    @rule(number=st.integers(0, 9))
    def cancel(self, number):
        if keys := self.active():
            self.act(experiments.cancel(self.testbed, self.callers[0], keys[number % len(keys)]))

    @rule(number=st.integers(0, 9), runs=st.integers(1, 9))
    def extend(self, number, runs):
        if keys := self.active():
            extension = Extension(runs=runs)
            self.act(experiments.extend(self.testbed, self.callers[0], keys[number % len(keys)], extension))

    @rule(seconds=st.sampled_from([1, 50, 700, 4000]))
    def wait(self, seconds):
        self.clock.now_ms += seconds * 1000

    @rule(node=st.integers(0, 2))
    def fetch(self, node):
        self.act(desired_state(self.testbed, sorted(self.testbed.nodes._nodes)[node]))

    def active(self):
        page = self.runner.run(list_experiments(self.testbed, "", 100, "active"))
        return [each.id for each in page.items]

    def act(self, action):
        with contextlib.suppress(ConflictError, ForbiddenError):
            self.runner.run(action)

    @invariant()
    def is_sound(self):
        async def check():
            await plan_all(self.testbed)
            await silence_turn(self.testbed)
            await experiments.end_those_done(self.testbed)
            await check_calendar(self.testbed)

        self.runner.run(check())


def test_random_steps_leave_a_sound_calendar(tmp_path, database_url, request):
    count = itertools.count()

    def machine():
        number = next(count)
        if database_url.startswith("sqlite"):
            return CalendarMachine(f"sqlite:///{tmp_path / f'{number}.db'}", tmp_path)
        return CalendarMachine(new_database(request.getfixturevalue("postgresql")), tmp_path)

    run_state_machine_as_test(
        machine, settings=settings(max_examples=max(1, STEPS // 30), stateful_step_count=30, deadline=None)
    )
