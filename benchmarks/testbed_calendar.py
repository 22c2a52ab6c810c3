"""Questions to a testbed's full calendar, on SQLite and on PostgreSQL, beside a plain scan.

    python benchmarks/testbed_calendar.py [--runs 1000000] [--queries 400]    (200000 and 200 by `make bench`)

Mixed kinds, in a random order: free lanes of one node for 48 hours, of 20 nodes for a day, a dry run that names
conflicts and the next free slot, and a booking that the database refuses. A question is on time below 50 ms,
by its wall time; the CPU time is that of this process, without PostgreSQL's own. Bookings are written in the order of
time, as planners write them, so those of one node are far apart. The interpreter is set as `testbed up` sets it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

NODES = 500
STEP_MS = 330_000
"""Time between the starts of two bookings of a node [ms]; each is 300 s long."""
FIRST_AT_MS = 1_790_000_000_000
PEER = "SELECT count(priority) FROM bookings WHERE from_at_ms + 0 < :to AND to_at_ms > :from AND live"
"""The plain scan: no index serves it, since none has the priority."""

SQLITE_NUMBERS = "WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < :runs)"
POSTGRESQL_NUMBERS = "WITH numbers AS (SELECT i FROM generate_series(0, CAST(:runs AS integer) - 1) AS i)"
SQLITE_ID = "printf('%032x', i)"
POSTGRESQL_ID = "lpad(to_hex(i), 32, '0')"
NODE_OF = "(SELECT id FROM nodes WHERE name = 'n' || (i % {nodes}))"
RUNS = """
INSERT INTO runs (id, plan_id, experiment_id, node_id, server_id, due_at_ms, attempt, cause, first_run_id, state,
    reason, start_at_ms, latest_start_at_ms, end_at_ms, changed_at_ms, reserved_bytes, up_bytes, down_bytes,
    wants_retry)
{numbers} SELECT {id}, :plan, :experiment, {node}, NULL, i, 1, 'schedule', {id}, 'planned', '',
    {start} + 10000, {start} + 10000, {start} + 300000, 0, 0, 0, 0, {no} FROM numbers
"""
BOOKINGS = """
INSERT INTO bookings (id, node_id, run_id, "end", from_at_ms, to_at_ms, first_lane, end_lane, live, priority)
{numbers} SELECT {id}, {node}, {id}, 'client', {start}, {start} + 300000, 0, 1024, {yes}, 0 FROM numbers
"""


UNGUARDED_SQLITE = ("DROP TRIGGER no_overlap_insert", "DROP TRIGGER no_overlap_update")
UNGUARDED_POSTGRESQL = ("ALTER TABLE bookings DROP CONSTRAINT no_overlap",)
"""While bookings are filled in nothing refuses overlaps: there are none."""


async def fill(testbed: Any, caller: Any, runs: int) -> None:
    """Write nodes, one experiment, and exclusive bookings of all nodes in a row."""
    from sqlalchemy import insert, text
    from testbed_orchestrators import join, report, yaml_of

    from bentpipe.testbed.orchestrator.database.overlaps import POSTGRESQL, SQLITE
    from bentpipe.testbed.orchestrator.database.tables import NodeRow
    from bentpipe.testbed.orchestrator.services import experiments
    from bentpipe.testbed.schemas.desired import NodeSettings
    from bentpipe.testbed.schemas.identifiers import new_id

    await join(testbed, "attic")
    experiment = await experiments.submit(testbed, caller, yaml_of())
    is_sqlite = testbed.database.is_sqlite
    described = report().to_dict()
    nodes = [
        {
            "id": new_id(number),
            "name": f"n{number}",
            "role": "client",
            "state": "active",
            "report": described,
            "settings": NodeSettings(name=f"n{number}").to_dict(),
            "max_parallel": 1,
            "serial": "0",
            "key_hash": "0" * 64,
            "lost": False,
            "status": {},
            "version": 1,
            "created_at_ms": 0,
        }
        for number in range(NODES)
    ]
    parts = {
        "numbers": SQLITE_NUMBERS if is_sqlite else POSTGRESQL_NUMBERS,
        "id": SQLITE_ID if is_sqlite else POSTGRESQL_ID,
        "node": NODE_OF.format(nodes=NODES),
        "start": f"(CAST({FIRST_AT_MS} AS bigint) + (i / {NODES}) * {STEP_MS})",
        "yes": "1" if is_sqlite else "true",
        "no": "0" if is_sqlite else "false",
    }
    async with testbed.write() as transaction:
        if is_sqlite:
            await transaction.connection.execute(text("PRAGMA cache_size=-1000000"))
        await transaction.execute(insert(NodeRow), nodes)
        plan = (await transaction.rows(text("SELECT id FROM plans")))[0].id
        for statement in UNGUARDED_SQLITE if is_sqlite else UNGUARDED_POSTGRESQL:
            await transaction.connection.execute(text(statement))
        values = {"runs": runs, "plan": plan, "experiment": experiment}
        await transaction.connection.execute(text(RUNS.format(**parts)), values)
        await transaction.connection.execute(text(BOOKINGS.format(**parts)), {"runs": runs})
        for statement in SQLITE if is_sqlite else POSTGRESQL[1:]:
            await transaction.connection.exec_driver_sql(statement)
    if not is_sqlite:
        async with testbed.write() as transaction:
            await transaction.connection.execute(text("ANALYZE"))


def questions(testbed: Any, caller: Any, runs: int) -> dict[str, Callable[[random.Random], Awaitable[object]]]:
    """Return what is asked, by name."""
    from sqlalchemy import insert, text
    from sqlalchemy.exc import DBAPIError
    from testbed_orchestrators import yaml_of

    from bentpipe.testbed.orchestrator.database.tables import ALL_LANES, BookingRow
    from bentpipe.testbed.orchestrator.services import dry_runs
    from bentpipe.testbed.orchestrator.services.availability import free_times, to_json
    from bentpipe.testbed.schemas.quantities import at_text

    span_ms = max(1, runs // NODES) * STEP_MS
    day_ms = 86_400_000

    def moment(source: random.Random) -> int:
        return FIRST_AT_MS + source.randrange(max(1, span_ms - day_ms))

    async def one(source: random.Random) -> object:
        begin = moment(source)
        return to_json(await free_times(testbed, [f"n{source.randrange(NODES)}"], begin, begin + 2 * day_ms, 0))

    async def twenty(source: random.Random) -> object:
        begin, names = moment(source), [f"n{number}" for number in source.sample(range(NODES), 20)]
        return to_json(await free_times(testbed, names, begin, begin + day_ms, 0))

    async def conflict(source: random.Random) -> object:
        at = at_text(max(moment(source), testbed.clock() + day_ms) // 1000 * 1000)
        names = ", ".join(f"n{number}" for number in source.sample(range(NODES), 2))
        file = yaml_of(name="new", nodes=f"{{names: [{names}]}}", class_="exclusive", when=f"{{at: '{at}'}}")
        return await dry_runs.dry_run(testbed, caller, file)

    async def refused(source: random.Random) -> object:
        async with testbed.read() as transaction:
            node = await transaction.scalar(text(f"SELECT id FROM nodes WHERE name = 'n{source.randrange(NODES)}'"))
        begin = moment(source)
        row = {"id": f"{source.getrandbits(128):032x}", "node_id": node, "run_id": "0" * 32, "end": "client"}
        row |= {"from_at_ms": begin, "to_at_ms": begin + 100_000, "first_lane": 0, "end_lane": ALL_LANES}
        with contextlib.suppress(DBAPIError):
            async with testbed.database.write() as connection:
                await connection.execute(insert(BookingRow), [{**row, "live": True, "priority": 0}])
        return None

    async def scan(source: random.Random) -> object:
        begin = moment(source)
        async with testbed.read() as transaction:
            return await transaction.scalar(text(PEER).bindparams(**{"from": begin, "to": begin + day_ms}))

    return {"one node": one, "20 nodes": twenty, "dry run": conflict, "refused booking": refused, "scan": scan}


async def measure(name: str, url: str, home: Path, runs: int, queries: int) -> dict[str, float]:
    """Fill a database, ask, print, and return ratios."""
    from testbed_orchestrators import Clock, orchestrator, user

    async with orchestrator(home, url, Clock(FIRST_AT_MS)) as testbed:
        caller = await user(testbed)
        begin = time.monotonic()
        await fill(testbed, caller, runs)
        print(f"  {name}: {runs} runs of {NODES} nodes, written in {time.monotonic() - begin:.0f} s")
        actions, source = questions(testbed, caller, runs), random.Random(1)
        took: dict[str, list[float]] = {kind: [] for kind in actions}
        cpu: dict[str, list[float]] = {kind: [] for kind in actions}
        for ask in actions.values():  # once each: statements are compiled and pages are read
            await ask(source)
        order = [kind for kind in actions if kind != "scan"] * (queries // 4) + ["scan"] * 5
        source.shuffle(order)
        with settled():
            for kind in order:
                begin, begin_cpu = time.monotonic(), time.process_time()
                await actions[kind](source)
                cpu[kind].append(1000 * (time.process_time() - begin_cpu))
                took[kind].append(1000 * (time.monotonic() - begin))
    for kind, entries in took.items():
        entries.sort()
        texts = [
            f"{values[len(values) // 2]:.1f}, {values[int(0.99 * len(values))]:.1f} ms"
            for values in (entries, sorted(cpu[kind]))
        ]
        print(f"  {name}: {kind}: {len(entries)} times; median, p99: {texts[0]}; CPU {texts[1]}")
    every = sorted(entry for kind, entries in took.items() if kind != "scan" for entry in entries)
    scan_ms = took["scan"][len(took["scan"]) // 2]
    return {
        f"calendar on {name}: time of a plain scan / ours, median": scan_ms / every[len(every) // 2],
        f"calendar on {name}: 50 ms / ours, 99th percentile": 50 / every[int(0.99 * len(every))],
    }


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Set the interpreter as an orchestrator does once it serves; afterwards as it was."""
    from bentpipe.testbed.orchestrator.running import settle_interpreter

    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()
    settle_interpreter()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval_s)


@contextlib.contextmanager
def databases(home: Path) -> Iterator[dict[str, str]]:
    """Yield the URLs of empty databases; PostgreSQL only where it is installed."""
    from bentpipe.validation import postgresql

    urls = {"SQLite": f"sqlite:///{home / 'testbed.db'}"}
    if postgresql.programs() is None:
        print("  PostgreSQL is not installed: SQLite alone")
        yield urls
        return
    with postgresql.server() as server:
        yield urls | {"PostgreSQL": server.new_database()}


def main(runs: int = 200_000, queries: int = 200) -> dict[str, float]:
    """Measure both databases."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, databases(Path(folder)) as urls:
        for name, url in urls.items():
            ratios |= asyncio.run(measure(name, url, Path(folder) / name, runs, queries))
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=200)
    arguments = parser.parse_args()
    print(main(arguments.runs, arguments.queries))
