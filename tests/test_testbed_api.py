"""The interface for users: every route with every role, errors in one form, requests that may be repeated."""

import asyncio
import json

import httpx
import pytest
from fastapi.routing import APIRoute
from testbed_orchestrators import (
    POLICY,
    Clock,
    join,
    orchestrator,
    plan_all,
    report,
    serving_testbed,
    user,
    yaml_of,
)
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.testbed.orchestrator.routers.access import PUBLIC, Needs
from bentpipe.testbed.orchestrator.routers.agents import PUBLIC as AGENTS_PUBLIC
from bentpipe.testbed.orchestrator.routers.agents import AgentRoutes, agents_app
from bentpipe.testbed.orchestrator.routers.app import ROUTERS, bare_app, users_app
from bentpipe.testbed.orchestrator.security.client_certificates import CertificateReader
from bentpipe.testbed.orchestrator.security.roles import ROLES, SCOPES
from bentpipe.testbed.orchestrator.services import experiments, users
from bentpipe.testbed.orchestrator.services.boots import Boots
from bentpipe.testbed.orchestrator.services.heartbeats import Heartbeats
from bentpipe.testbed.orchestrator.services.refusals import ConflictError
from bentpipe.testbed.orchestrator.services.telemetry import Telemetry
from bentpipe.testbed.orchestrator.services.uploads import Uploads

pytestmark = pytest.mark.anyio


LATEST = []
"""A testbed and its application."""


def app_of(testbed):
    """The application of a testbed: one, as in service, since to make it takes longer than many requests."""
    if not LATEST or LATEST[0] is not testbed:
        LATEST[:] = [testbed, users_app(testbed, Telemetry(testbed), "127.0.0.1")]
    return LATEST[1]


def client_of(testbed, token=None):
    """A client that calls the application without a socket."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(app_of(testbed), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8791", headers=headers)


async def token_of(testbed, role, name=None):
    async with testbed.write() as transaction:
        return (await users.issue(transaction, name or role, role, who="test"))[0]


def scope_of(route):
    """The scope that a route states; None: none."""
    scopes = [each.call.scope for each in route.dependant.dependencies if isinstance(each.call, Needs)]
    assert len(scopes) <= 1
    return scopes[0] if scopes else None


def routes_of(testbed):
    app = bare_app(testbed, Telemetry(testbed))
    own = [route for route in app.routes if isinstance(route, APIRoute)]
    return [*own, *(route for router in ROUTERS for route in router.routes)]


def filled(path):
    """A path with its parameters."""
    for name in ("experiment", "node", "run", "trigger", "token", "name", "end", "path:path"):
        path = path.replace(f"{{{name}}}", "none")
    return path


async def test_every_route_states_what_it_needs_and_asks_for_it(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        routes = routes_of(testbed)
        assert len(routes) > 25
        assert {route.path for route in routes if scope_of(route) is None} == PUBLIC
        tokens = {role: await token_of(testbed, role) for role in ROLES}
        for route in routes:
            if (scope := scope_of(route)) is None:
                continue
            if route.path == "/v1/events":
                continue  # endless; below
            for method in route.methods:
                async with client_of(testbed) as client:
                    nobody = await client.request(method, filled(route.path))
                    assert nobody.status_code == 401, route.path
                    wrong = await client.request(method, filled(route.path), headers={"Authorization": "Bearer bpu_x"})
                    assert wrong.status_code == 401, route.path
                for role, token in tokens.items():
                    async with client_of(testbed, token) as client:
                        answer = await client.request(method, filled(route.path), content=b"{}")
                    assert (answer.status_code != 403) == (role in SCOPES[scope]), (route.path, role, answer.text)
                    assert answer.status_code < 500, (route.path, role, answer.text)
                    if answer.status_code >= 400:
                        assert answer.headers["content-type"] == "application/problem+json"
                        assert {"title", "status", "detail", "code"} <= answer.json().keys()


async def test_no_call_without_a_certificate_reaches_an_agents_route(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        certificates = CertificateReader(testbed.authority.certificate)
        routes = AgentRoutes(
            testbed, certificates, Heartbeats(testbed, Boots(testbed)), Uploads(testbed), Telemetry(testbed)
        )
        transport = httpx.ASGITransport(agents_app(routes), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="https://agents") as client:
            for route in routes.routes():
                if route.path in AGENTS_PUBLIC:
                    continue
                for method in route.methods:
                    answer = await client.request(method, route.path.replace("{", "").replace("}", ""), content=b"{}")
                    assert answer.status_code == 401, route.path
                    forged = await client.request(
                        method, route.path.replace("{", "").replace("}", ""), headers={"Client-Cert": ":AAAA:"}
                    )
                    assert forged.status_code == 401, route.path


class Killed(BaseException):
    """Stands for a kill."""


async def test_a_kill_doubles_no_submission(tmp_path, database_url, monkeypatch):
    from bentpipe.testbed.orchestrator.services import experiments, idempotency, listings

    clock = Clock()

    def killed(*_):
        raise Killed

    async with orchestrator(tmp_path, database_url, clock) as testbed:
        await join(testbed, "attic")
        caller = await user(testbed)

        async def show(key):
            return 201, (await listings.show_experiment(testbed, key)).id

        def submit(name, dies_before=False, dies_after=False):
            async def act(note):
                if dies_before:
                    raise Killed
                key = await experiments.submit(testbed, caller, yaml_of(name=name), note)
                if dies_after:
                    raise Killed
                return await show(key)

            return idempotency.once(testbed, caller.user, name, name.encode(), act, show)

        with monkeypatch.context() as patch:
            patch.setattr(idempotency, "delete", killed)  # a killed process tidies nothing up
            for name, when in (("early", "dies_before"), ("late", "dies_after")):
                with pytest.raises(Killed):
                    await submit(name, **{when: True})
        assert (await submit("late"))[0] == 201
        with pytest.raises(ConflictError, match="under way"):
            await submit("early")
        clock.now_ms += idempotency.STUCK_MS + 1
        first = await submit("early")
        assert first == await submit("early")
        assert len((await listings.list_experiments(testbed, "", 10, None, None)).items) == 2


async def test_an_experiment_over_http(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        await join(testbed, "attic")
        async with client_of(testbed, await token_of(testbed, "experimenter", "ada")) as client:
            dry = (await client.post("/v1/experiments/dry-run", json={"text": yaml_of(class_="exclusive")})).json()
            assert (dry["nodes"], len(dry["starts"]), dry["runs_in_48_h"]) == (["attic"], 1, 1)
            key = {"Idempotency-Key": "one"}
            first = await client.post("/v1/experiments", json={"text": yaml_of(class_="exclusive")}, headers=key)
            assert first.status_code == 201, first.text
            again = await client.post("/v1/experiments", json={"text": yaml_of(class_="exclusive")}, headers=key)
            assert (again.status_code, again.json()) == (201, first.json())
            other = await client.post("/v1/experiments", json={"text": yaml_of(name="other")}, headers=key)
            assert (other.status_code, other.json()["code"]) == (409, "idempotency")
            taken = await client.post("/v1/experiments", json={"text": yaml_of()})
            assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")
            await plan_all(testbed)
            dry = (await client.post("/v1/experiments/dry-run", json={"text": yaml_of(name="b")})).json()
            (start,) = dry["starts"]
            assert [conflict["experiment"] for conflict in start["conflicts"]] == ["ping-home"]
            assert start["start_at_ms"] == start["next_free_at_ms"] == clock() + 15_000 + 70_000
            runs = (await client.get("/v1/runs", params={"experiment": "ping-home"})).json()["items"]
            assert [run["state"] for run in runs] == ["planned"]
            assert (await client.get(f"/v1/runs/{runs[0]['id']}")).json()["ends"][0]["node"] == "attic"
            times = {"from_at_ms": clock(), "to_at_ms": clock() + 3_600_000}
            free = (await client.get("/v1/availability", params={"node": "attic", **times})).json()["items"]
            assert [(each["from_at_ms"] - clock(), each["lanes"]) for each in free] == [(0, 4), (72_000 + 3_000, 4)]
            extended = await client.post("/v1/experiments/ping-home/extend", json={"runs": 7})
            assert extended.status_code == 200, extended.text
            canceled = await client.post("/v1/experiments/ping-home/cancel")
            assert (canceled.json()["state"], canceled.json()["runs"]) == ("canceled", {"canceled": 1})


async def test_mistakes_are_one_line(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic")
        async with client_of(testbed, await token_of(testbed, "experimenter", "ada")) as client:
            for body, detail in (
                (b"{", "body: no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
                (b'{"text": 5}', "body: text is 5; expected a text"),
                (b'{"text": "", "txt": ""}', "body: unknown key 'txt'; did you mean 'text'?"),
                (b"[NaN]", "body: no JSON: NaN is no JSON"),
                (b'{"text": "a: &b c"}', "experiment: line 1: an anchor (& or *); expected the value itself"),
            ):
                answer = await client.post("/v1/experiments", content=body)
                assert (answer.status_code, answer.json()["detail"]) == (422, detail)
            large = await client.post("/v1/experiments", content=b" " * 1_100_000)
            assert (large.status_code, large.json()["code"]) == (413, "too_large")
            assert (await client.get("/v1/nothing")).status_code == 404
            assert (await client.put("/v1/nodes")).status_code == 405


async def test_hosts_change_their_own_nodes_only(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        host = await user(testbed, "hal", "host")
        await join(testbed, "attic", owner=host.user)
        await join(testbed, "cellar")
        async with client_of(testbed, await token_of(testbed, "host", "hal")) as client:
            changed = await client.patch("/v1/nodes/attic", json={"tags": ["spain"], "paused": True})
            assert changed.json()["settings"] | {"tags": ["spain"], "paused": True} == changed.json()["settings"]
            assert (await client.patch("/v1/nodes/cellar", json={"paused": True})).status_code == 403
            assert (await client.delete("/v1/nodes/cellar")).status_code == 403
            assert (await client.get("/v1/nodes/attic/telemetry")).json() == {"columns": [], "rows": []}
            assert (await client.get("/v1/nodes/attic")).json()["settings"]["live"] is True
            assert (await client.delete("/v1/nodes/attic")).status_code == 204
            assert (await client.get("/v1/nodes/attic")).json()["state"] == "revoked"
        assert testbed.nodes.get((await join(testbed, "roof")).node).active


async def test_tokens_end(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        admin, viewer = await token_of(testbed, "admin"), await token_of(testbed, "viewer")
        async with client_of(testbed, viewer) as client:
            assert (await client.get("/v1/users/me")).json() == {"name": "viewer", "role": "viewer"}
            (own,) = (await client.get("/v1/tokens")).json()["items"]
            assert (await client.get("/v1/nodes")).status_code == 200
            async with client_of(testbed, admin) as other:
                assert len((await other.get("/v1/tokens")).json()["items"]) == 2
                assert (await other.patch("/v1/users/admin", json={"disabled": True})).status_code == 422
                await other.patch("/v1/users/viewer", json={"disabled": True})
                assert (await client.get("/v1/nodes")).status_code == 401
                await other.patch("/v1/users/viewer", json={"disabled": False})
            assert (await client.delete(f"/v1/tokens/{own['id']}")).status_code == 204
            assert (await client.get("/v1/nodes")).status_code == 401
        async with client_of(testbed, admin) as other:
            lines = (await other.get("/v1/audit")).json()["items"]
            assert {"token.revoke", "token.issue", "user.change"} == {line["action"] for line in lines}
            assert admin not in json.dumps(lines)
            clock.now_ms += 400 * 86_400_000
            assert (await other.get("/v1/nodes")).status_code == 401


async def test_the_document_describes_every_route(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed, client_of(testbed) as client:
        document = (await client.get("/v1/openapi.json")).json()
        assert "/v1/experiments/{experiment}/cancel" in document["paths"]
        text = json.dumps(document)
        references = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
        assert references <= document["components"]["schemas"].keys()
        assert "$defs" not in text
    assert report().role == "client"


async def test_a_full_disk_and_a_lost_database_are_no_faults(tmp_path, monkeypatch):
    from sqlalchemy.exc import OperationalError

    from bentpipe.testbed.orchestrator.services import listings

    async with orchestrator(tmp_path, None) as testbed, client_of(testbed, await token_of(testbed, "viewer")) as client:
        for error, text in (
            (OperationalError("", {}, Exception("database or disk is full")), "disk"),
            (ConnectionRefusedError(111, "refused"), "database"),
            (OSError(28, "No space left on device"), "disk"),
        ):

            async def fails(*_, error=error):
                raise error

            monkeypatch.setattr(listings, "list_experiments", fails)
            answer = await client.get("/v1/experiments")
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert text in answer.json()["detail"]


async def test_head_answers_as_get_without_a_body(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        async with client_of(testbed, await token_of(testbed, "viewer")) as client:
            for path in ("/healthz", "/v1/nodes", "/v1/openapi.json", "/v1/events"):
                head = await client.head(path)
                assert (head.status_code, head.content) == (200, b""), path
            got, head = await client.get("/v1/nodes"), await client.head("/v1/nodes")
            assert head.headers == got.headers
            assert (await client.head("/v1/nodes/nobody")).status_code == 404
            assert (await client.head("/v1/experiments/x/cancel")).status_code == 405
        async with client_of(testbed) as client:
            assert (await client.head("/v1/nodes")).status_code == 401


async def test_commands_upload_profiles_and_say_how_runs_ended(tmp_path, database_url):
    profile = tmp_path / "p.parquet"
    profile.write_bytes(b"PAR1 and more PAR1")
    clock = Clock()
    async with serving_testbed(tmp_path, database_url, clock=clock) as running:
        await join(running.orchestrator, "attic", policy=POLICY.replace(paused=True))
        await experiments.submit(running.orchestrator, await user(running.orchestrator), yaml_of(limits="{slip: 0s}"))
        await plan_all(running.orchestrator)

        async def command(*words):
            options = ["--url", running.url, "--token", running.first_token]
            done = await asyncio.to_thread(CliRunner().invoke, app, [*words, *options])
            assert done.exit_code == 0, done.output
            return done.output

        assert "mel-lon" in await command("exp", "profile", str(profile), "--name", "mel-lon")
        assert "paused by its host" in await command("node", "ls")
        line = (await command("exp", "logs", "ping-home")).strip()
        assert "run missed: no slot is free" in line
