"""Several orchestrators on one PostgreSQL, streams, and a proxy in front of the nodes' port."""

import asyncio
import base64
import ssl

import aiohttp
import pytest
from sqlalchemy import update
from testbed_orchestrators import join, report, serving_testbed, user, yaml_of

from bentpipe.testbed.orchestrator.database.tables import NodeRow
from bentpipe.testbed.orchestrator.services import experiments, nodes
from bentpipe.testbed.schemas.views import NodeChange

pytestmark = pytest.mark.anyio


async def certificate_of(testbed, node):
    """The header with which a proxy shows a node's certificate."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from testbed_orchestrators import csr_of

    from bentpipe.testbed.orchestrator.security.authority import request_key

    pem = csr_of(ec.generate_private_key(ec.SECP256R1()))
    assert request_key(pem)
    signed = testbed.authority.sign_node(pem, node.node, 30)
    async with testbed.write() as transaction:
        await transaction.execute(update(NodeRow).where(NodeRow.id == node.node).values(key_hash=signed.key_hash))
        transaction.touch([node.node])
    return {"Client-Cert": f":{base64.b64encode(ssl.PEM_cert_to_DER_cert(signed.pem)).decode()}:"}


async def versions(answer):
    """Yield versions of a stream."""
    async for line in answer.content:
        if line.startswith(b"data:"):
            yield int(line[5:])


async def test_a_stream_tells_of_each_change_and_ends_with_the_node(tmp_path, database_url):
    async with serving_testbed(tmp_path, database_url, proxy="127.0.0.1") as running:
        testbed = running.orchestrator
        node = await join(testbed, "attic")
        headers = await certificate_of(testbed, node)
        caller = await user(testbed, "root", "admin")
        async with (
            aiohttp.ClientSession(running.agents_url, headers=headers) as session,
            session.get("/agent/v1/stream") as answer,
        ):
            assert answer.content_type == "text/event-stream"
            stream = versions(answer)
            first = await anext(stream)
            await nodes.change_node(testbed, caller, "attic", NodeChange(paused=True))
            assert await anext(stream) == first + 1
            assert testbed.wakeups.streams() == 1
            async with session.get(f"/agent/v1/desired?since={first}") as desired:
                assert (await desired.json())["settings"]["paused"] is True
            async with session.get(f"/agent/v1/desired?since={first + 1}") as desired:
                assert desired.status == 204
            await nodes.revoke_node(testbed, caller, "attic")
            assert [each async for each in stream] == []
            async with session.get(f"/agent/v1/desired?since={first}") as desired:
                assert desired.status == 401
        async with asyncio.timeout(5):
            while testbed.wakeups.streams():
                await asyncio.sleep(0.01)


async def test_a_certificate_in_a_header_counts_from_the_proxy_alone(tmp_path):
    async with serving_testbed(tmp_path, None, proxy="192.0.2.9") as running:
        node = await join(running.orchestrator, "attic")
        headers = await certificate_of(running.orchestrator, node)
        async with (
            aiohttp.ClientSession(running.agents_url, headers=headers) as session,
            session.get("/agent/v1/desired?since=0") as answer,
        ):
            assert answer.status == 401


async def test_two_orchestrators_on_one_postgresql_wake_each_other(tmp_path, postgresql):
    url = postgresql.new_database()
    async with (
        serving_testbed(tmp_path, url, proxy="127.0.0.1") as one,
        serving_testbed(tmp_path, url, proxy="127.0.0.1") as two,
    ):
        assert [one.first_token is None, two.first_token is None] == [False, True]
        node = await join(one.orchestrator, "attic")
        async with asyncio.timeout(10):
            while two.orchestrator.nodes.get(node.node) is None:
                await asyncio.sleep(0.01)
        headers = await certificate_of(one.orchestrator, node)
        async with asyncio.timeout(10):
            while two.orchestrator.nodes.get(node.node).version < one.orchestrator.nodes.get(node.node).version:
                await asyncio.sleep(0.01)
        async with (
            aiohttp.ClientSession(two.agents_url, headers=headers) as session,
            session.get("/agent/v1/stream") as answer,
        ):
            stream = versions(answer)
            first = await anext(stream)
            await experiments.submit(one.orchestrator, await user(one.orchestrator), yaml_of())
            async with asyncio.timeout(10):
                assert await anext(stream) > first
                while True:  # the planner of one of the two plans its run
                    async with session.get("/agent/v1/desired?since=0") as desired:
                        if (await desired.json())["assignments"]:
                            break
                    await asyncio.sleep(0.02)
    assert report().role == "client"
