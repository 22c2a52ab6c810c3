"""What ends when a token, a session or a key is no longer valid; quotas of users."""

import asyncio
import contextlib
import socket
import subprocess
import sys

import aiohttp
import pytest
from aiohttp import web
from test_testbed_agent import make
from test_testbed_joining import as_node, beat, request_with, signing_request
from testbed_orchestrator import Orchestrator
from testbed_orchestrators import join, orchestrator, serving_testbed, user, yaml_of

from bentpipe.testbed.agent.identity import Identity
from bentpipe.testbed.orchestrator.routers import page_streams, streams
from bentpipe.testbed.orchestrator.security.authority import Authority
from bentpipe.testbed.orchestrator.services import experiments, files, joining, users
from bentpipe.testbed.orchestrator.services.listings import list_runs, show_experiment
from bentpipe.testbed.orchestrator.services.refusals import ConflictError, TooLargeError
from bentpipe.testbed.schemas.agent_protocol import RenewRequest

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def looking(tmp_path, monkeypatch):
    """A testbed whose streams look at the token all the time; yields it, a session, and ways to be admitted."""
    monkeypatch.setattr(streams, "CHECK_S", 0.0)
    monkeypatch.setattr(streams, "PING_S", 0.1)
    monkeypatch.setattr(page_streams, "EVERY_S", 0.05)
    monkeypatch.setattr(page_streams, "CHECK_TURNS", 2)
    url = f"sqlite:///{tmp_path / 'testbed.db'}"
    async with serving_testbed(tmp_path, url) as running, aiohttp.ClientSession(running.url) as session:
        yield running.orchestrator, session, running.first_token


@pytest.mark.parametrize("path", ["/v1/events", "/live", "/nodes/attic/stream"])
async def test_a_stream_ends_with_its_token(tmp_path, monkeypatch, path):
    async with looking(tmp_path, monkeypatch) as (testbed, session, token):
        await join(testbed, "attic")
        caller = await users.authenticate(testbed, token)
        cookie = testbed.sessions.begin(caller.token)
        headers = {"Authorization": f"Bearer {token}", "Cookie": f"bentpipe_session={cookie}"}
        async with session.get(path, headers=headers) as answer, asyncio.timeout(20):
            assert answer.status == 200
            await answer.content.readany()
            await users.revoke(testbed, caller, caller.token)
            await answer.read()  # else it times out


@pytest.mark.parametrize("path", ["/live", "/nodes/attic/stream"])
async def test_a_stream_ends_with_its_session(tmp_path, monkeypatch, path):
    async with looking(tmp_path, monkeypatch) as (testbed, session, token):
        await join(testbed, "attic")
        cookie = testbed.sessions.begin((await users.authenticate(testbed, token)).token)
        headers = {"Cookie": f"bentpipe_session={cookie}"}
        async with session.get(path, headers=headers) as answer, asyncio.timeout(20):
            await answer.content.readany()
            testbed.sessions.end(cookie)
            await answer.read()


async def test_a_caller_has_a_limited_number_of_streams(tmp_path, monkeypatch):
    async with looking(tmp_path, monkeypatch) as (testbed, session, token):
        caller = await users.authenticate(testbed, token)
        headers = {"Authorization": f"Bearer {token}"}
        with contextlib.ExitStack() as opened:
            for _ in range(streams.MOST_STREAMS):
                opened.enter_context(streams.OPEN.counted(caller.user))
            async with session.get("/v1/events", headers=headers) as answer:
                assert (answer.status, (await answer.json())["code"]) == (503, "busy")
        async with session.get("/v1/events", headers=headers) as answer:
            assert answer.status == 200


async def test_the_key_before_is_refused_once_the_new_one_was_shown(tmp_path):
    key, csr = signing_request()
    new_key, new_csr = signing_request()
    async with serving_testbed(tmp_path, f"sqlite:///{tmp_path / 'testbed.db'}") as running:
        token = await joining.issue_join_token(running.orchestrator, who="test")
        enrolled = await joining.enrol(running.orchestrator, request_with(token, csr))
        authority = enrolled.authority_pem
        async with as_node(running, tmp_path, key, enrolled.certificate_pem, authority) as node:
            async with node.post("/agent/v1/renew", json=RenewRequest(csr_pem=new_csr).to_dict()) as answer:
                renewed = (await answer.json())["certificate_pem"]
            async with node.post("/agent/v1/heartbeat", **beat()) as answer:
                assert answer.status == 200  # the answer may have been lost
            newer = as_node(running, tmp_path, new_key, renewed, authority)
            async with newer as session, session.post("/agent/v1/heartbeat", **beat()) as answer:
                assert answer.status == 200
            async with node.post("/agent/v1/heartbeat", **beat()) as answer:
                assert (answer.status, (await answer.json())["code"]) == (401, "unauthenticated")


def test_a_renewal_has_a_new_key_also_through_a_kill(tmp_path):
    authority, identity = Authority.open(tmp_path / "keys"), Identity(tmp_path)
    first = authority.sign_node(identity.make_request("attic"), "ab" * 16, 30)
    identity.keep(first.pem, authority.pem)
    request = identity.make_request("attic", is_renewal=True)
    second = authority.sign_node(request, "ab" * 16, 30)
    again = authority.sign_node(identity.make_request("attic", is_renewal=True), "ab" * 16, 30)
    assert first.key_hash != second.key_hash == again.key_hash
    identity.tls()  # before the answer: the older key and certificate fit
    identity.certificate_path.write_text(second.pem)  # killed before the key is replaced
    identity.tls()
    assert not identity.next_key_path.exists()


async def test_profiles_of_a_user_are_limited_before_they_are_stored(tmp_path, database_url, monkeypatch):
    monkeypatch.setattr(files, "MOST_PROFILE_BYTES", 50)
    async with orchestrator(tmp_path, database_url) as testbed:
        ada, eve = await user(testbed), await user(testbed, "eve")
        await files.put_profile(testbed, ada, "home", b"PAR1" + bytes(32) + b"PAR1")
        with pytest.raises(ConflictError, match="'home' exists"):
            await files.put_profile(testbed, eve, "home", b"PAR1" + b"x" * 32 + b"PAR1")
        with pytest.raises(TooLargeError, match="expected at most 50"):
            await files.put_profile(testbed, ada, "barn", b"PAR1" + b"y" * 32 + b"PAR1")
        assert len([path for path in (tmp_path / "store" / "files").iterdir() if path.is_file()]) == 1
        await files.put_profile(testbed, ada, "home", b"PAR1" + bytes(32) + b"PAR1")  # the same again


async def test_a_name_is_first_an_experiment_of_the_caller(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic")
        ada, eve = await user(testbed), await user(testbed, "eve")
        key = await experiments.submit(testbed, ada, yaml_of())
        testbed.clock.now_ms += 1
        newer = await experiments.submit(testbed, eve, yaml_of())
        for caller, own in ((ada, key), (eve, newer)):
            assert (await show_experiment(testbed, "ping-home", caller.user)).id == own
            runs = await list_runs(testbed, "", 100, experiment="ping-home", user=caller.user)
            assert {run.experiment for run in runs.items} <= {own}


def test_what_reads_results_has_no_network():
    program = (
        "from bentpipe.testbed.orchestrator.services.limited import leave_network\n"
        "import socket\n"
        "print(leave_network(), *(name for _, name in socket.if_nameindex()))\n"
    )
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    if text[0] == "False":
        pytest.skip("the system allows no namespaces")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"{program}socket.create_connection(('127.0.0.1', {port}), timeout=2)"
        assert subprocess.run([sys.executable, "-c", connect], capture_output=True, check=False).returncode


class Picky(Orchestrator):
    """An orchestrator that refuses batches with a certain note."""

    async def _events(self, request):
        if "bad" in await request.text():
            return web.json_response({"detail": "events: no such note", "code": "invalid"}, status=422)
        return await super()._events(request)

    def notes(self):
        """Texts of all notes that it took."""
        events = [event.body for kept in self.events.values() for event in kept]
        return {body.text for body in events if body.kind == "note"}


async def test_one_bad_event_takes_no_others_with_it(tmp_path):
    picky = Picky()
    await picky.start()
    agent, _ = make(picky, tmp_path)
    for number in range(20):
        agent.note("agent", "bad" if number == 13 else f"note {number}")
    good = {f"note {number}" for number in range(20) if number != 13}
    stopped = asyncio.Event()
    task = asyncio.create_task(agent.run(stopped))
    try:
        await picky.until(lambda: good <= picky.notes())
    finally:
        stopped.set()
        await task
        await picky.stop()
