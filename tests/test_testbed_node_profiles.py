"""Profiles of a node's link: made of results of a window, over the interface, the dashboard and the command line."""

import io
import zipfile

import numpy as np
import polars as pl
import pytest
from sqlalchemy import insert, select
from test_testbed_api import client_of, token_of
from testbed_orchestrators import NOW_MS, Clock, join, orchestrator, plan_all, user, yaml_of

from bentpipe.errors import UserError
from bentpipe.measurements.node_profile import node_profile
from bentpipe.measurements.runs.store import Source, write_measured
from bentpipe.profiles.parquet import read_profile
from bentpipe.testbed.orchestrator.database.tables import PlanRow, RunEndRow, RunRow
from bentpipe.testbed.orchestrator.services import experiments, node_profiles
from bentpipe.testbed.orchestrator.services.refusals import TooLargeError
from bentpipe.testbed.schemas.identifiers import new_id

pytestmark = pytest.mark.anyio
MINUTE_MS = 60_000


def dish(begin_at_ms, seconds, latency_ms=40.0):
    """A terminal's recording: one sample a second."""
    times = begin_at_ms * 10**6 + np.arange(seconds) * 10**9
    latency = latency_ms + 5.0 * (np.arange(seconds) // 15 % 2)
    table = pl.DataFrame(
        {"t_unix_ns": times, "pop_ping_latency_ms": latency.astype(np.float32), "pop_ping_drop_rate": np.zeros(seconds)}
    )
    return {"dish_samples": table.cast({"pop_ping_drop_rate": pl.Float32})}


def pings(begin_at_ms, seconds, rtt_ms=60.0, every_s=0.2, target="192.0.2.1"):
    times = begin_at_ms * 10**6 + (np.arange(0, seconds, every_s) * 1e9).astype(np.int64)
    table = pl.DataFrame({"unix_ns": times, "rtt_ms": np.full(len(times), rtt_ms)})
    return {"probes": table.with_columns(site=pl.lit("attic"), target=pl.lit(target), kind=pl.lit("icmp"))}


def upload(begin_at_ms, seconds, rate_bps=8e6):
    times = begin_at_ms * 10**6 + np.arange(seconds) * 10**9
    table = pl.DataFrame({"unix_ns": times, "goodput_bps": np.full(seconds, rate_bps), "duration_s": np.ones(seconds)})
    table = table.with_columns(source=pl.lit("iperf3.json"), direction=pl.lit("up"), test=pl.lit(0), flow=pl.lit(0))
    return {"samples": table}


def result(folder, tables):
    """A measured Run in a folder, as a node's result has it."""
    source = Source(name="iperf3.json", format="test", tables=list(tables))
    run = write_measured(folder.parent / f"{folder.name}.made", tables, [source])
    folder.parent.mkdir(parents=True, exist_ok=True)
    run.path.rename(folder)
    return folder


def test_the_terminal_gives_delays_and_transfers_give_capacity(tmp_path):
    result(tmp_path / "a", dish(NOW_MS, 120))
    result(tmp_path / "b", dish(NOW_MS + 60_000, 120))  # the same samples again, and later ones
    result(tmp_path / "c", upload(NOW_MS + 30_000, 10))
    made = node_profile(tmp_path, "attic", NOW_MS, NOW_MS + 4 * MINUTE_MS)
    assert made.profile.name == "attic"
    assert made.profile.start_unix_ns == NOW_MS * 10**6
    assert 178 <= made.profile.duration_s <= 181
    assert made.notes[0].startswith("the delay is the terminal's own latency")
    assert any("iperf3.json" in note for note in made.notes)


def test_the_series_that_covers_more_seconds_is_chosen(tmp_path):
    result(tmp_path / "a", dish(NOW_MS, 60))
    result(tmp_path / "b", pings(NOW_MS, 100))
    result(tmp_path / "c", pings(NOW_MS + 50_000, 20, target="192.0.2.9"))
    end = NOW_MS + 3 * MINUTE_MS
    assert 99 <= node_profile(tmp_path, "attic", NOW_MS, end).profile.duration_s <= 101
    chosen = node_profile(tmp_path, "attic", NOW_MS, end, latency="dish")
    assert 59 <= chosen.profile.duration_s <= 61
    inside = node_profile(tmp_path, "attic", NOW_MS + 10_000, NOW_MS + 40_000, latency="probes")
    assert 29 <= inside.profile.duration_s <= 31


def test_a_window_without_delays_is_one_line(tmp_path):
    result(tmp_path / "a", dish(NOW_MS, 60))
    message = "profile: no latency of attic from .*; expected 10 replies; try an experiment with the builtin `dish`"
    with pytest.raises(UserError, match=message):
        node_profile(tmp_path, "attic", NOW_MS + MINUTE_MS, NOW_MS + 2 * MINUTE_MS)
    with pytest.raises(UserError, match="no probes of attic from"):
        node_profile(tmp_path, "attic", NOW_MS, NOW_MS + MINUTE_MS, latency="probes")


async def stored_run(testbed, node, experiment, folder, start_at_ms, inside=""):
    """A finished run with a result in the store."""
    run = new_id(start_at_ms)
    location = f"ping-home/attic/{run}"
    files = []
    for file in sorted(folder.iterdir()):
        await testbed.storage.put(f"{location}/{inside}{file.name}", file)
        files.append({"path": f"{inside}{file.name}", "bytes": file.stat().st_size, "sha256": "0" * 64})
    async with testbed.write() as transaction:
        plan = await transaction.scalar(select(PlanRow.id).where(PlanRow.experiment_id == experiment))
        times = {"due_at_ms": start_at_ms, "start_at_ms": start_at_ms, "latest_start_at_ms": start_at_ms}
        await transaction.execute(
            insert(RunRow).values(
                id=run,
                plan_id=plan,
                experiment_id=experiment,
                node_id=node.node,
                attempt=1,
                cause="schedule",
                first_run_id=run,
                state="done",
                reason="",
                end_at_ms=start_at_ms + MINUTE_MS,
                changed_at_ms=start_at_ms + MINUTE_MS,
                reserved_bytes=0,
                up_bytes=0,
                down_bytes=0,
                wants_retry=False,
                location=location,
                **times,
            )
        )
        end = {"end": "client", "node_id": node.node, "state": "done", "reason": "", "fence": 1, "files": files}
        await transaction.execute(insert(RunEndRow).values(run_id=run, commit_hash=None, **end))


async def test_a_nodes_profile_over_http(tmp_path, database_url, monkeypatch):
    clock = Clock()
    async with orchestrator(tmp_path / "home", database_url, clock) as testbed:
        node = await join(testbed, "attic")
        ada = await user(testbed, "ada", "experimenter")
        experiment = await experiments.submit(testbed, ada, yaml_of())
        await plan_all(testbed)
        begin = NOW_MS - 30 * MINUTE_MS
        folder = result(tmp_path / "a", dish(begin, 120))
        await stored_run(testbed, node, experiment, folder, begin, inside="terminal/")
        async with client_of(testbed, await token_of(testbed, "viewer")) as client:
            answer = await client.get("/v1/nodes/attic/profile")
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream"), (
                answer.text
            )
            assert answer.headers["content-disposition"] == 'attachment; filename="attic.parquet"'
            (tmp_path / "P.parquet").write_bytes(answer.content)
            profile = read_profile(tmp_path / "P.parquet")
            assert (profile.name, profile.start_unix_ns) == ("attic", begin * 10**6)
            window = {"from_at_ms": begin, "to_at_ms": NOW_MS}
            answer = await client.get("/v1/nodes/attic/profile", params={**window, "format": "csv"})
            names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
            assert (answer.headers["content-type"], names) == ("application/zip", ["attic.csv"])
            for query, status, detail in (
                ({"to_at_ms": begin}, 404, "profile: no latency of attic from "),
                ({**window, "from_at_ms": NOW_MS}, 422, "to_at_ms: the window has 0 s; expected more than 0"),
                ({**window, "from_at_ms": 0}, 422, "to_at_ms: the window has 1.79e+09 s"),
                ({"format": "tar"}, 422, "query: format is 'tar'"),
                ({"latency": "none"}, 422, "query: latency is 'none'"),
            ):
                answer = await client.get("/v1/nodes/attic/profile", params=query)
                assert (answer.status_code, answer.json()["detail"][: len(detail)]) == (status, detail)
            assert (await client.get("/v1/nodes/none/profile")).status_code == 404
            monkeypatch.setattr(node_profiles, "MOST_BYTES", 100)
            assert (await client.get("/v1/nodes/attic/profile", params=window)).status_code == 413


async def test_a_process_that_fails_is_no_fault_of_the_orchestrator():
    assert isinstance(node_profiles._refusal(None, ""), TooLargeError)
    assert isinstance(node_profiles._refusal(-9, ""), TooLargeError)
    assert node_profiles._refusal(1, '{"code": "invalid", "text": "so"}').code == "invalid"
