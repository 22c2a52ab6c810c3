"""What a hostile node or user tries, and what meets at the same moment."""

import asyncio
import shutil

import pytest
from sqlalchemy import func, select, update
from test_testbed_runs import BOOT, Agent, deliver, submitted
from testbed_orchestrators import NOW_MS, join, orchestrator, plan_all, runs_of, user

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator import storage
from bentpipe.testbed.orchestrator.database.tables import (
    AuditRow,
    BookingRow,
    ExperimentRow,
    NodeRow,
    RunEndRow,
    RunEventRow,
    RunRow,
)
from bentpipe.testbed.orchestrator.services import experiments
from bentpipe.testbed.orchestrator.services.displacing import place_again, take_out
from bentpipe.testbed.orchestrator.services.files import request_image, review_image
from bentpipe.testbed.orchestrator.services.listings import show_experiment
from bentpipe.testbed.orchestrator.services.nodes import revoke_node
from bentpipe.testbed.orchestrator.services.notes import note
from bentpipe.testbed.orchestrator.services.silence import silence_turn
from bentpipe.testbed.orchestrator.services.uploads import Uploads
from bentpipe.testbed.schemas.agent_protocol import RunEvent
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.views import ImageReview

pytestmark = pytest.mark.anyio


async def both_ends(testbed, **fields):
    """A client and a server with their ends of a run."""
    client, server = (
        Agent(testbed, await join(testbed, "attic"), BOOT),
        Agent(testbed, await join(testbed, "cloud", "server"), "c" * 32),
    )
    run = "{builtin: iperf3, args: {seconds: 30}}"
    await submitted(testbed, await user(testbed), run=run, server="{near: node}", **fields)
    return client, server


async def test_a_clients_result_is_not_in_the_folder_of_the_servers(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        client, server = await both_ends(testbed)
        (mine,), (other,) = (await client.desired()).assignments, (await server.desired()).assignments
        with pytest.raises(UserError, match="files in server/"):
            await deliver(testbed, client, mine, files={"testbed.json": b"{}", "server/testbed.json": b"false"})
        location = await deliver(testbed, server, other, files={"testbed.json": b"{}"})
        assert await testbed.storage.get(f"{location}/testbed.json") == b"{}"


async def test_the_servers_result_is_found_without_the_clients(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        client, server = await both_ends(testbed)
        (mine,), (other,) = (await client.desired()).assignments, (await server.desired()).assignments
        location = await deliver(testbed, server, other)
        (run,) = await runs_of(testbed)
        assert location == f"{run.location}/server"
        assert await deliver(testbed, client, mine) == run.location


async def test_a_node_takes_no_time_of_a_server_in_the_future(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        client, _ = await both_ends(testbed, when="{every: 1d}", class_="exclusive")
        (plan,) = {each.plan for each in (await client.desired()).assignments}
        async with testbed.write() as transaction:
            record = await transaction.scalar(select(ExperimentRow.record))
            record["when"] = {"trigger": "latency_ms > 100"}
            await transaction.execute(update(ExperimentRow).values(record=record))
        before = await bookings_of(testbed)
        for number, in_ms in enumerate((0, 7_200_000)):
            firing = derived_id("firing", number)
            run = derived_id("run", plan, firing)
            at_ms = NOW_MS + 3_600_000
            testbed.clock.now_ms = at_ms
            start_at_ms = at_ms + in_ms
            event = RunEvent(
                run=run,
                plan=plan,
                fence=1,
                cause="trigger",
                firing=firing,
                due_at_ms=start_at_ms,
                start_at_ms=start_at_ms,
            )
            await client.say(event)
            assert await bookings_of(testbed) == before + 2  # of the run that begins now


async def bookings_of(testbed):
    async with testbed.read() as transaction:
        return await transaction.scalar(select(func.count()).select_from(BookingRow).where(BookingRow.live))


async def test_an_id_is_no_name_of_another_experiment(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic")
        ada = await user(testbed)
        key = await submitted(testbed, ada)
        testbed.clock.now_ms += 1
        await submitted(testbed, await user(testbed, "eve"), name=key)
        assert (await show_experiment(testbed, key)).owner == "ada"
        assert await experiments.cancel(testbed, ada, key) == key


async def test_images_that_are_not_approved_are_not_called_reviewed(tmp_path, database_url):
    reference = f"registry.example.org/x@sha256:{'a' * 64}"
    async with orchestrator(tmp_path, database_url) as testbed:
        agent = Agent(testbed, await join(testbed, "attic", runners=("docker",)))
        caller, reviewer = await user(testbed), await user(testbed, "rob", "reviewer")
        await request_image(testbed, caller, reference)
        await review_image(testbed, reviewer, ImageReview(reference=reference, state="approved"))
        run = f"{{image: '{reference}', duration: 10s}}"
        await submitted(testbed, caller, run=run, limits="{bytes_per_run: 1MB}")
        assert (await agent.desired()).images == (reference,)
        await review_image(testbed, reviewer, ImageReview(reference=reference, state="refused", reason="a worm"))
        assert (await agent.desired()).images == ()


async def test_a_run_that_ended_meanwhile_is_not_canceled(tmp_path, postgresql):
    async with orchestrator(tmp_path, postgresql.new_database()) as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        key = await submitted(testbed, await user(testbed))
        (assignment,) = (await agent.desired()).assignments
        await agent.state(assignment, "running", reason="")
        async with testbed.write() as done:
            await done.execute(update(RunRow).values(state="done"))  # not committed yet
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(close_experiment(testbed, key))
                await asyncio.sleep(0.5)  # it has read that the run goes on, and waits for its row
                await done.connection.commit()
        assert [run.state for run in await runs_of(testbed)] == ["done"]


async def close_experiment(testbed, key):
    async with testbed.write() as transaction:
        await experiments.close(transaction, key, "canceled", "because")


async def test_a_revoked_node_stays_so_for_who_read_it_before(tmp_path):
    async with orchestrator(tmp_path, f"sqlite:///{tmp_path / 'testbed.db'}") as testbed:
        node = await join(testbed, "attic")
        async with testbed.database.read() as connection:
            older = await testbed.nodes.read_versions(connection, [node.node])
        await revoke_node(testbed, await user(testbed, "root", "admin"), "attic")
        testbed.nodes.set_versions(older)
        assert not testbed.nodes.get(node.node).active


@pytest.mark.parametrize("name", ["attic", "cloud"])
async def test_a_revoked_node_takes_no_time_of_the_other_end(tmp_path, database_url, name):
    async with orchestrator(tmp_path, database_url) as testbed:
        client, server = await both_ends(testbed, when="{every: 1h}", class_="exclusive")
        assert await bookings_of(testbed) > 2
        await revoke_node(testbed, await user(testbed, "root", "admin"), name)
        assert await bookings_of(testbed) == 0
        assert {run.state for run in await runs_of(testbed)} == {"canceled"}
        other = server if name == "attic" else client
        assert (await other.desired()).assignments == (await other.desired()).grants == ()
        async with testbed.read() as transaction:
            detail = await transaction.scalar(select(AuditRow.detail).where(AuditRow.action == "node.revoke"))
        assert detail == {"plans": 1, "runs": len(await runs_of(testbed))}
        testbed.clock.now_ms += 49 * 3_600_000
        await plan_all(testbed)
        assert await bookings_of(testbed) == 0
        assert await experiments.end_those_done(testbed) == 1


async def test_a_plan_made_while_its_node_was_revoked_ends(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await both_ends(testbed, when="{every: 1h}")
        async with testbed.write() as transaction:
            await transaction.execute(update(NodeRow).where(NodeRow.name == "attic").values(state="revoked"))
        await silence_turn(testbed)
        assert await bookings_of(testbed) == 0


async def test_other_bytes_of_an_earlier_try_are_not_taken_for_the_result(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "PART_BYTES", 1000)
    async with orchestrator(tmp_path, f"sqlite:///{tmp_path / 'testbed.db'}") as testbed:
        agent = Agent(testbed, await join(testbed, "attic"))
        await submitted(testbed, await user(testbed))
        (assignment,) = (await agent.desired()).assignments
        with monkeypatch.context() as patched:
            patched.setattr(Uploads, "_believe", killed)
            with pytest.raises(RuntimeError):
                await deliver(testbed, agent, assignment, files={"testbed.json": b'{"try":1}', "large": bytes(2000)})
        shutil.rmtree(tmp_path / "uploads")
        files = {"testbed.json": b'{"try":2}', "large": b"x" * 2000}
        location = await deliver(testbed, agent, assignment, files=files)
        for path, content in files.items():
            assert await testbed.storage.get(f"{location}/{path}") == content
        stored = sorted(path.name for path in (tmp_path / "store").rglob("testbed.json*"))
        assert len(stored) == 2  # the other one has a suffix


async def killed(*_):
    raise RuntimeError("killed here")


async def test_a_run_that_was_assigned_meanwhile_is_not_missed(tmp_path, postgresql):
    async with orchestrator(tmp_path, postgresql.new_database()) as testbed:
        await join(testbed, "attic")
        await submitted(testbed, await user(testbed), when="{every: 1d}")
        before = await bookings_of(testbed)
        testbed.clock.now_ms += 600_000
        async with testbed.write() as other:
            await other.execute(update(RunRow).values(state="assigned"))
            await other.execute(update(RunEndRow).values(state="assigned"))
            await while_it_waits(silence_turn(testbed), other)
        assert {run.state for run in await runs_of(testbed)} == {"assigned"}
        async with testbed.read() as transaction:
            assert {row.state for row in await transaction.rows(select(RunEndRow.state))} == {"assigned"}
        assert await bookings_of(testbed) == before


async def test_a_run_that_was_canceled_meanwhile_is_not_placed_again(tmp_path, postgresql):
    async with orchestrator(tmp_path, postgresql.new_database()) as testbed:
        await join(testbed, "attic")
        await submitted(testbed, await user(testbed), class_="exclusive", when="{every: 1d}")
        runs = [run.id for run in await runs_of(testbed)]
        async with testbed.write() as other:
            await other.execute(update(RunRow).values(state="canceled"))
            await while_it_waits(displace(testbed, runs), other)
        assert {run.state for run in await runs_of(testbed)} == {"canceled"}


async def displace(testbed, runs):
    async with testbed.write() as transaction:
        await place_again(transaction, await take_out(transaction, runs), "another")


async def while_it_waits(action, transaction):
    """Begin an action that needs what a transaction changed; commit that; wait for the action."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(action)
        await asyncio.sleep(0.5)
        await transaction.connection.commit()


async def test_two_notes_of_a_node_at_the_same_moment_are_both_kept(tmp_path, postgresql):
    async with orchestrator(tmp_path, postgresql.new_database()) as testbed:
        node = (await join(testbed, "attic")).node
        async with testbed.write() as first:
            await note(first, node, "agent", "one")
            await while_it_waits(write_note(testbed, node), first)
        async with testbed.read() as transaction:
            assert len(await transaction.rows(select(RunEventRow.seq))) == 2


async def write_note(testbed, node):
    async with testbed.write() as transaction:
        await note(transaction, node, "agent", "two")
