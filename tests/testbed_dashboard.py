"""An orchestrator with contents for the dashboard's tests: nodes, experiments, runs, firings, hostile texts."""

import asyncio
import contextlib
import math
import queue
import tempfile
import threading
import types
from dataclasses import dataclass

import polars as pl
from sqlalchemy import insert, select, update
from testbed_orchestrators import join, plan_all, serving_testbed, user, yaml_of

from bentpipe.measurements.runs.store import Source, write_measured
from bentpipe.testbed.orchestrator.database.tables import (
    NodeRow,
    PlanRow,
    RunEndRow,
    RunRow,
    TriggerRow,
)
from bentpipe.testbed.orchestrator.services import experiments, users
from bentpipe.testbed.orchestrator.services.boots import Boots
from bentpipe.testbed.orchestrator.services.events import take_events
from bentpipe.testbed.schemas.agent_protocol import EventBatch, TelemetryBatch
from bentpipe.testbed.schemas.identifiers import derived_id, new_id
from bentpipe.testbed.schemas.policy import HostPolicy

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
TURNED = "safe\u202egnp.exe"
LONG = "w" * 200
MINUTE_MS = 60_000
COLUMNS = ("t_unix_ms", "latency_smoothed_ms", "drop_rate", "downlink_bps", "uplink_bps", "connected")
FILES = ("run.json", "probes.parquet", "terminal/run.json", "terminal/dish_samples.parquet")
STATES = ("done", "done", "preempted", "done", "failed", "done", "missed", "canceled", "done", "lost")


@dataclass
class Testbed:
    """A testbed that serves: tokens by role, ids of runs by state, of experiments by name, of the node attic."""

    __test__ = False

    running: object
    tokens: dict
    runs: dict
    experiments: dict
    attic: str
    loop: asyncio.AbstractEventLoop

    @property
    def url(self):
        return self.running.url

    def call(self, coroutine):
        """Await something in the orchestrator's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)


@contextlib.contextmanager
def seeded_testbed(home):
    """A testbed with contents, in a thread of its own."""
    results, over = queue.Queue(), threading.Event()

    async def serve():
        async with serving_testbed(home, f"sqlite:///{home / 'testbed.db'}") as running:
            contents = await _seed(running)
            results.put(contents)
            await asyncio.to_thread(over.wait)

    def run():
        try:
            asyncio.run(serve())
        except BaseException as error:
            results.put(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        first = results.get(timeout=60)
        if isinstance(first, BaseException):
            raise first
        yield first
    finally:
        over.set()
        thread.join()


async def _seed(running):
    testbed = running.orchestrator
    now_ms = testbed.clock()
    ada = await user(testbed, "ada", "experimenter")
    grace = await user(testbed, "grace", "host")
    policy = HostPolicy.check(
        {"schema": "bentpipe.policy/1", "bytes": ["2GB/day", "20GB/month"], "hours": ["00:00-23:59"], "rate": "50mbit"},
        "policy",
    )
    signals = ("latency_ms", "downlink_bps", "uplink_bps")
    nodes = {
        "attic": await join(
            testbed,
            "attic",
            owner=grace.user,
            place={"latitude_deg": 40.4, "longitude_deg": -3.7},
            policy=policy,
            signals=signals,
            dish="connected",
            kernel={"controllers": ["cubic", "bbr", "reno"], "qdiscs": ["fq", "fq_codel"]},
        ),
        "cellar": await join(testbed, "cellar", place={"latitude_deg": 52.5, "longitude_deg": 13.4}, policy=policy),
        "rooftop": await join(testbed, "rooftop", place={"latitude_deg": -33.9, "longitude_deg": 151.2}),
        "hostile": await join(testbed, "hostile", platform=HOSTILE),
        "w" * 64: await join(testbed, "w" * 64),
        "berlin": await join(testbed, "berlin", role="server", place={"latitude_deg": 50.1, "longitude_deg": 8.7}),
    }
    names = {}
    every = f"{{every: 600s, at: {_at(now_ms + MINUTE_MS)}}}"
    names["ping"] = await experiments.submit(
        testbed, ada, yaml_of("ping-home", nodes="{names: [attic, cellar]}", when=every, limits="{runs: 40}")
    )
    names["bulk"] = await experiments.submit(
        testbed,
        ada,
        yaml_of(
            "bbr-at-night",
            nodes="{names: [attic]}",
            run="{builtin: iperf3, args: {seconds: 120, controller: bbr}}",
            server="{name: berlin}",
            class_="exclusive",
            when=f"{{every: 1800s, at: {_at(now_ms + 90_000)}}}",
            limits="{runs: 8, slip: 10m}",
            priority="5",
        ),
    )
    names["slow"] = await experiments.submit(
        testbed, ada, yaml_of("when-slow", when='{trigger: "latency_ms > 80", for: 3}', limits="{runs: 5}")
    )
    names["hostile"] = await experiments.submit(
        testbed,
        ada,
        yaml_of("hostile-text", nodes="{names: [hostile]}", description=f"'{HOSTILE.replace(chr(39), chr(96))}'"),
    )
    await plan_all(testbed)
    runs = await _history(testbed, nodes["attic"], names["ping"], now_ms)
    runs["hostile"] = await _hostile_run(testbed, nodes["hostile"], now_ms)
    async with testbed.write() as transaction:
        run = await transaction.scalar(
            select(RunRow.id).where(RunRow.experiment_id == names["bulk"]).order_by(RunRow.start_at_ms)
        )
    runs["bulk"] = run
    await _fire(testbed, nodes["attic"], names["slow"], now_ms)
    await _set_status(testbed, nodes, now_ms, run)
    running.telemetry.take(nodes["attic"].node, telemetry_batch(now_ms))
    contents = Testbed(running, {}, runs, names, nodes["attic"].node, asyncio.get_running_loop())
    async with testbed.write() as transaction:
        for role in ("viewer", "experimenter", "host", "admin"):
            name = {"experimenter": "ada", "host": "grace"}.get(role, role)
            contents.tokens[role] = (await users.issue(transaction, name, role, who="test"))[0]
    return contents


def _at(at_ms):
    from bentpipe.testbed.schemas.quantities import at_text

    return at_text(at_ms)


def telemetry_batch(now_ms, count=120):
    """Samples of a terminal."""
    rows = tuple(
        (float(now_ms - (count - each) * 1000), 30.0 + each % 15, 0.01, 2e6 + 1e5 * (each % 9), 4e5, 1.0)
        for each in range(count)
    )
    return TelemetryBatch(columns=COLUMNS, rows=rows)


async def _history(testbed, node, experiment, now_ms):
    """Runs of the past two hours, in all states."""
    runs, ids = {}, []
    async with testbed.write() as transaction:
        plan = await transaction.first(
            select(PlanRow.id, PlanRow.fence).where(PlanRow.experiment_id == experiment, PlanRow.node_id == node.node)
        )
        for number, state in enumerate(STATES * 3):
            start = now_ms - (31 - number) * 4 * MINUTE_MS
            run = new_id(start)
            runs.setdefault(state, run)
            ids.append((run, state))
            times = {"due_at_ms": start, "start_at_ms": start, "latest_start_at_ms": start + 300_000}
            reason = "" if state == "done" else f"a reason why it is {state}"
            await transaction.execute(
                insert(RunRow).values(
                    id=run,
                    plan_id=plan.id,
                    experiment_id=experiment,
                    node_id=node.node,
                    server_id=None,
                    attempt=1,
                    cause="schedule",
                    first_run_id=run,
                    state=state,
                    reason=reason,
                    end_at_ms=start + 60_000,
                    changed_at_ms=start + 60_000,
                    reserved_bytes=10**6,
                    up_bytes=40_000 + number * 900,
                    down_bytes=55_000 + number * 1500,
                    wants_retry=False,
                    **times,
                    location=f"ping-home/attic/{run}" if state == "done" else None,
                )
            )
            files = [
                *({"path": name, "bytes": 2, "sha256": "0" * 64} for name in FILES),
                {"path": "logs/output.log", "bytes": 30, "sha256": "0" * 64},
            ]
            await transaction.execute(
                insert(RunEndRow).values(
                    run_id=run,
                    end="client",
                    node_id=node.node,
                    state="assigned",
                    reason="",
                    fence=1,
                    files=files if state == "done" else None,
                    commit_hash=None,
                )
            )
    await _results(testbed, [run for run, state in ids if state == "done"][:4])
    await testbed.storage.put(
        f"ping-home/attic/{runs['done']}/logs/output.log", f"64 bytes: time=31 ms {HOSTILE}\n".encode()
    )
    events, seq = [], 0
    for state, run in runs.items():
        begin = int(run[:12], 16)
        for each, after in (("preparing", -5), ("ready", -1), ("running", 0), (state, 57)):
            seq += 1
            body = {"kind": "state", "run": run, "end": "client", "fence": 1, "state": each, "reason": "it says why"}
            events.append({"seq": seq, "at_ms": float(begin + after * 1000), "body": body})
    batch = EventBatch.check({"boot_id": derived_id("boot", "attic"), "events": events}, "events")
    await take_events(testbed, Boots(testbed), node, batch)
    return runs


async def _results(testbed, runs):
    """Pings and telemetry of each run, one line with a hostile name; their figures are read."""
    for number, run in enumerate(runs):
        begin_ns = int(run[:12], 16) * 10**6
        with tempfile.TemporaryDirectory() as folder:
            waves = [30 + number + 12 * abs(math.sin(each / 40)) for each in range(560)]
            pings = {"unix_ns": [begin_ns + each * 10**8 for each in range(560)], "rtt_ms": waves}
            table = pl.DataFrame(pings).with_columns(
                pl.when(pl.int_range(pl.len()) % 97 == 5).then(None).otherwise(pl.col("rtt_ms")).alias("rtt_ms"),
                pl.when(pl.int_range(pl.len()) % 2 == 0)
                .then(pl.lit("192.0.2.1"))
                .otherwise(pl.lit(HOSTILE))
                .alias("target"),
                pl.lit("icmp").alias("kind"),
            )
            dish = pl.DataFrame(
                {
                    "t_unix_ns": [begin_ns + each * 10**9 for each in range(57)],
                    "pop_ping_latency_ms": [28.0 + each % 7 for each in range(57)],
                    "downlink_throughput_bps": [2e6 + 1e5 * (each % 9) for each in range(57)],
                    "uplink_throughput_bps": [4e5 + 1e4 * (each % 5) for each in range(57)],
                }
            )
            source = Source(name="test", format="test")
            for place, tables in (("", {"probes": table}), ("terminal/", {"dish_samples": dish})):
                made = write_measured(f"{folder}/{place}", tables, [source], site="attic")
                for file in made.path.iterdir():
                    await testbed.storage.put(f"ping-home/attic/{run}/{place}{file.name}", file.read_bytes())
        await testbed.figures._start(run, f"ping-home/attic/{run}", "client", FILES)


async def _hostile_run(testbed, node, now_ms):
    """A run whose node reports markup, a turned text and long words."""
    async with testbed.write() as transaction:
        row = await transaction.first(
            select(RunRow.id, RunEndRow.fence)
            .join(RunEndRow, RunEndRow.run_id == RunRow.id)
            .where(RunRow.node_id == node.node)
        )
    bodies = [
        {
            "kind": "state",
            "run": row.id,
            "end": "client",
            "fence": row.fence,
            "state": "failed",
            "reason": f"{HOSTILE} {TURNED}",
        },
        {"kind": "note", "topic": "agent", "text": f"{HOSTILE} {TURNED} {LONG}", "run": row.id},
    ]
    events = [{"seq": seq, "at_ms": float(now_ms), "body": body} for seq, body in enumerate(bodies, 1)]
    batch = EventBatch.check({"boot_id": derived_id("boot", "hostile"), "events": events}, "events")
    await take_events(testbed, Boots(testbed), node, batch)
    return row.id


async def _fire(testbed, node, experiment, now_ms):
    """Firings of a trigger, one of which started nothing; its node lost a signal since."""
    async with testbed.write() as transaction:
        trigger = await transaction.scalar(
            select(TriggerRow.id)
            .join(PlanRow, PlanRow.id == TriggerRow.plan_id)
            .where(PlanRow.experiment_id == experiment)
        )
    events = []
    for seq, (minutes, reason) in enumerate(((50, "the budget is used up"), (20, f"{HOSTILE}")), 100):
        end = now_ms - minutes * MINUTE_MS
        firing = derived_id("firing", trigger, node.name, end)
        body = {
            "kind": "firing",
            "firing": firing,
            "trigger": trigger,
            "window_end_at_ms": end,
            "values": {"latency_ms": 91.5},
        }
        events.append({"seq": seq, "at_ms": float(end), "body": {**body, "reason": reason}})
    boots = Boots(testbed)
    await boots.check(node, node.boot_id or derived_id("boot", "attic"))  # as a heartbeat does
    events = [{**event, "seq": node.next_seq + number} for number, event in enumerate(events)]
    await take_events(testbed, boots, node, EventBatch.check({"boot_id": node.boot_id, "events": events}, "events"))


async def _set_status(testbed, nodes, now_ms, run):
    """What heartbeats would have told."""
    progress = types.MappingProxyType({"run": run, "state": "running", "down_bps": 1.2e6, "up_bps": 2.5e5})
    status = {
        "attic": {
            "scavenger": "yielding",
            "dish": "connected",
            "clock_offset_ms": 1.7,
            "clock_error_ms": 0.4,
            "disk_free_bytes": 81 * 10**9,
            "used_bytes": {"2GB/day": 1_700_000_000, "20GB/month": 3_000_000_000},
            "runs": [dict(progress)],
            "applied_version": 3,
        },
        "cellar": {"scavenger": "clear", "dish": "lost", "notes": ["dish: it does not answer since 3 min"]},
        "hostile": {"notes": [f"{HOSTILE} {TURNED}", LONG]},
    }
    async with testbed.write() as transaction:
        for name, node in nodes.items():
            values = {"seen_at_ms": now_ms - (600_000 if name == "rooftop" else 4000)}
            if name in status:
                values["status"] = status[name]
            await transaction.execute(update(NodeRow).where(NodeRow.id == node.node).values(**values))
