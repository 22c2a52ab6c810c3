"""Login of the dashboard at an OpenID Connect provider: what logs in, and everything that does not."""

import contextlib
import json
import logging
import os
import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from chromium import PROGRAM
from sqlalchemy import select, update
from testbed_orchestrators import NOW_MS, Clock, serving_testbed
from testbed_provider import CLIENT, SECRET, Provider

from bentpipe.testbed.orchestrator.database.tables import AuditRow, LoginStateRow, TokenRow, UserRow
from bentpipe.testbed.orchestrator.security.oidc import calls
from bentpipe.testbed.orchestrator.security.oidc.attempts import ATTEMPT_MS
from bentpipe.testbed.orchestrator.security.oidc.provider import PAUSE_MS
from bentpipe.testbed.orchestrator.security.oidc.settings import OidcSettings
from bentpipe.testbed.orchestrator.services.oidc_logins import KEPT_MS, MOST_REFUSALS, forget_old

pytestmark = pytest.mark.anyio
NOW_S = NOW_MS // 1000
ROLES = 'groups: {staff: experimenter, students: viewer}\nsubjects: {"7": admin}\n'


class World:
    """A provider, a testbed that logs in there, and browsers."""

    def __init__(self, provider, running, clock, roles):
        self.provider, self.running, self.clock, self.roles = provider, running, clock, roles
        self.url = running.url
        self.oidc = OidcSettings(provider.issuer, CLIENT, SECRET, roles)

    @contextlib.asynccontextmanager
    async def browser(self):
        async with httpx.AsyncClient(base_url=self.url, headers={"Accept": "text/html"}, verify=False) as client:
            yield client

    async def log_in(self, client, then="/calendar"):
        """Go to the provider and come back; return the last answer."""
        begun = await client.get("/login/oidc", params={"then": then})
        assert begun.status_code == 303, begun.text
        return await client.get(self.provider.authorize(begun.headers["location"]))

    async def refused(self, **claims):
        """Log in with other claims; return the reason of the refusal."""
        self.provider.claims = claims
        async with self.browser() as client:
            answer = await self.log_in(client)
            assert "bentpipe_session" not in client.cookies
            assert 'name="token"' in answer.text  # the page stays usable with tokens
            return answer.status_code, problem_of(answer)

    async def rows(self, *columns):
        async with self.running.orchestrator.read() as transaction:
            return await transaction.rows(select(*columns))

    async def audit(self):
        rows = await self.rows(AuditRow.who, AuditRow.action, AuditRow.subject, AuditRow.detail)
        return [row for row in rows if row.action != "token.issue"]


def problem_of(answer):
    text = re.search(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)[1]
    return re.sub(r"<[^>]+>", "", text)


@contextlib.asynccontextmanager
async def world_of(home, url, host="127.0.0.1"):
    clock, roles = Clock(), home / "roles.yml"
    provider = Provider(clock)
    roles.write_text(ROLES)
    await provider.start(host)
    oidc = OidcSettings(provider.issuer, CLIENT, SECRET, roles)
    try:
        async with serving_testbed(home, url, oidc=oidc, clock=clock) as running:
            yield World(provider, running, clock, roles)
    finally:
        await provider.stop()


@pytest.fixture
async def world(tmp_path):
    async with world_of(tmp_path, f"sqlite:///{tmp_path / 'testbed.db'}") as one:
        yield one


async def test_a_login_begins_a_session_like_that_of_a_token(tmp_path, database_url, caplog):
    caplog.set_level(logging.INFO)
    async with world_of(tmp_path, database_url) as world, world.browser() as client:
        page = (await client.get("/login")).text
        assert urlsplit(world.provider.issuer).netloc in page
        begun = await client.get("/login/oidc?then=/calendar")
        query = parse_qs(urlsplit(begun.headers["location"]).query)
        assert query["redirect_uri"] == [f"{world.url}/login/oidc/callback"]
        assert query["scope"] == ["openid profile groups"]
        cookie = begun.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=lax", "Path=/login/oidc", "Max-Age=600"} <= set(cookie.split("; "))
        back = world.provider.authorize(begun.headers["location"])
        answer = await client.get(back)
        assert (answer.status_code, answer.headers["refresh"]) == (200, "0; url=/calendar")
        assert "SameSite=strict" in answer.headers["set-cookie"]
        assert "bentpipe_oidc" not in client.cookies
        shown = re.sub(r"</?bdi>", "", (await client.get("/calendar")).text)
        (name,) = re.findall(r"(ada@[0-9a-f]{12}), experimenter", shown)
        await world.log_in(client)
        users = await world.rows(UserRow.name, UserRow.subject)
        assert (name, f"{world.provider.issuer} 248289761001") in users
        assert len(users) == 2  # with the admin of the first start
        actions = [row.action for row in await world.audit()]
        assert actions == ["user.add", "login.oidc", "login.oidc"]
        assert world.provider.requests == ["discovery", "token", "keys", "token"]
        own = ("httpx", "httpcore", "aiohttp.access")  # those of this test
        logged = " ".join(row.getMessage() for row in caplog.records if not row.name.startswith(own))
        seen = logged + json.dumps([list(map(str, row)) for row in await world.audit()]) + str(answer.headers)
        for secret in (SECRET, "s3cret", "at-secret", "code-0", "eyJ"):
            assert secret not in seen.replace(client.cookies["bentpipe_session"], "")
        client.headers["Origin"] = world.url
        assert (await client.post("/logout")).status_code == 303
        assert (await client.get("/calendar")).status_code == 303


WRONG_CLAIMS = (
    ({"nonce": "another"}, "wrong nonce"),
    ({"nonce": None}, "wrong nonce"),
    ({"aud": "another"}, "wrong audience"),
    ({"aud": ["another"]}, "wrong audience"),
    ({"aud": None}, "wrong audience"),
    ({"aud": [CLIENT, "another"]}, "wrong authorized party"),
    ({"azp": "another"}, "wrong authorized party"),
    ({"iss": "https://id.example.org"}, "wrong issuer"),
    ({"exp": NOW_S - 120}, "wrong end"),
    ({"exp": True}, "wrong end"),
    ({"exp": "9999999999"}, "wrong end"),
    ({"exp": float("nan")}, "wrong end"),
    ({"exp": float("inf")}, "wrong end"),
    ({"exp": 10**400}, "wrong end"),
    ({"iat": NOW_S + 600}, "wrong time"),
    ({"iat": NOW_S - 3600}, "wrong time"),
    ({"iat": None}, "wrong time"),
    ({"nbf": NOW_S + 600}, "wrong begin"),
    ({"sub": ""}, "wrong subject"),
    ({"sub": 7}, "wrong subject"),
    ({"sub": "x" * 256}, "wrong subject"),
)


async def test_an_id_token_with_a_wrong_claim_is_refused(world):
    for claims, reason in WRONG_CLAIMS:
        status, line = await world.refused(**claims)
        assert (status, reason in line) == (403, True), (claims, line)
    assert {row.action for row in await world.audit()} == {"login.refuse"}
    assert len(await world.rows(UserRow.id)) == 1


async def test_an_id_token_with_a_wrong_signature_is_refused(world, monkeypatch):
    real = world.provider.id_token
    for signer, algorithm, reason in (
        ("first", "none", "wrong algorithm"),
        ("first", "HS256", "wrong algorithm"),
        ("first", "RS512", "wrong algorithm"),
        ("stranger", "RS256", "does not publish"),
    ):
        world.provider.signer, world.provider.algorithm = signer, algorithm
        assert reason in (await world.refused())[1], algorithm
    world.provider.signer, world.provider.algorithm = "first", "RS256"

    def changed(nonce):
        head, body, signature = real(nonce).split(".")
        return f"{head}.{body[:-4]}AAAA.{signature}"

    for broken in (changed, lambda _: "a.b.c", lambda _: "", lambda _: "x" * 200_000, lambda _: "[" * 9000):
        monkeypatch.setattr(world.provider, "id_token", broken)
        assert "wrong signature" in (await world.refused())[1]
    assert len(await world.rows(UserRow.id)) == 1


async def test_keys_may_rotate_and_strangers_cause_few_requests(world):
    async with world.browser() as client:
        assert (await world.log_in(client)).status_code == 200
        world.provider.signer = "stranger"
        for _ in range(3):
            await world.refused()
        assert world.provider.requests.count("keys") == 1
        world.provider.published, world.provider.signer = ["second", "curve"], "second"
        world.clock.now_ms += PAUSE_MS
        assert (await world.log_in(client)).status_code == 200
        world.provider.signer, world.provider.algorithm = "curve", "ES256"
        assert (await world.log_in(client)).status_code == 200
        assert world.provider.requests.count("keys") == 2


async def test_a_state_works_once_in_one_browser_for_ten_minutes(world):
    async with world.browser() as ada, world.browser() as eve:
        begun = await ada.get("/login/oidc")
        back = world.provider.authorize(begun.headers["location"])
        cookie = ada.cookies["bentpipe_oidc"]
        assert "began no login" in problem_of(await eve.get(back))  # a browser without a login
        await eve.get("/login/oidc")
        assert "another browser" in problem_of(await eve.get(back))
        ada_again = {"Cookie": f"bentpipe_oidc={cookie}"}
        assert (await ada.get(back)).status_code == 200
        again = await eve.get(back, headers=ada_again)
        assert (again.status_code, "used before" in problem_of(again)) == (403, True)
        for forged in (f"{cookie[:-1]}{'A' if cookie[-1] != 'A' else 'B'}", "x", "a.b.c.d", cookie.replace(".", "..")):
            answer = await eve.get(back, headers={"Cookie": f"bentpipe_oidc={forged}"})
            assert "began no login" in problem_of(answer)
        late = await ada.get("/login/oidc")
        world.clock.now_ms += ATTEMPT_MS + 1000
        answer = await ada.get(world.provider.authorize(late.headers["location"]))
        assert "longer than ten minutes" in problem_of(answer)
        assert "bentpipe_session" not in eve.cookies
    for hostile in ("state=a&state=b", "state=%00", "state=é", "&".join(f"a{n}=1" for n in range(30)), ""):
        async with world.browser() as client:
            await client.get("/login/oidc")
            assert (await client.get(f"/login/oidc/callback?{hostile}")).status_code in (400, 403)


async def used_login(world):
    """Log in; return what replays it: path and query of the way back, and the cookie."""
    async with world.browser() as client:
        begun = await client.get("/login/oidc")
        back, cookie = world.provider.authorize(begun.headers["location"]), client.cookies["bentpipe_oidc"]
        assert (await client.get(back)).status_code == 200
    return back.removeprefix(world.url), {"Cookie": f"bentpipe_oidc={cookie}"}


async def test_a_used_state_stays_used_after_a_restart(tmp_path, database_url):
    async with world_of(tmp_path, database_url) as world:
        back, headers = await used_login(world)
    async with world_of(tmp_path, database_url) as world:
        async with world.browser() as eve:
            again = await eve.get(back, headers=headers)
            assert (again.status_code, "used before" in problem_of(again)) == (403, True)
        world.clock.now_ms += ATTEMPT_MS + KEPT_MS
        assert await forget_old(world.running.orchestrator) == 0
        world.clock.now_ms += 1
        assert await forget_old(world.running.orchestrator) == 1
        assert await world.rows(LoginStateRow.state) == []


async def test_a_state_works_once_at_all_processes_on_one_postgresql(tmp_path, postgresql):
    url = postgresql.new_database()
    async with (
        world_of(tmp_path, url) as world,
        serving_testbed(tmp_path, url, oidc=world.oidc, clock=world.clock) as other,
    ):
        back, headers = await used_login(world)
        async with httpx.AsyncClient(base_url=other.url, headers={"Accept": "text/html"}) as eve:
            again = await eve.get(back, headers=headers)
            assert (again.status_code, "used before" in problem_of(again)) == (403, True)


async def test_answers_of_the_provider_that_refuse_are_one_line(world):
    async with world.browser() as client:
        for query, reason in (
            ("error=access_denied", "refused the login: access_denied"),
            ("error=<b>", "refused the login: without a reason"),
            ("code=1&iss=https://evil.example", "of another provider"),
            ("code=1&code=2", "has no code"),
            ("code=guessed", "refused the code: invalid_grant"),
        ):
            begun = await client.get("/login/oidc")
            state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
            answer = await client.get(f"/login/oidc/callback?{query}&state={state}")
            assert (answer.status_code, reason in problem_of(answer)) == (403, True), query
        assert (await client.get("/login/oidc?then=//evil.example")).status_code == 303
    rows = await world.audit()
    assert [row.action for row in rows] == ["login.refuse"] * 5
    async with world.browser() as client:
        for _ in range(MOST_REFUSALS + 5):
            await client.get("/login/oidc/callback")
    assert len(await world.audit()) <= MOST_REFUSALS


async def test_a_login_leads_to_pages_of_this_host_alone(world):
    async with world.browser() as client:
        assert (await world.log_in(client, "//evil.example")).headers["refresh"] == "0; url=/"
        local = await client.get(f"{world.url.replace('127.0.0.1', 'localhost')}/login/oidc?then=/triggers")
        assert local.headers["location"] == f"{world.url}/login/oidc?then=%2Ftriggers"


async def test_roles_are_granted_by_the_administrators_file_alone(world):
    world.roles.write_text("groups: {nobody: viewer}\n")
    status, line = await world.refused()
    assert (status, line) == (
        403,
        "you have no role in this testbed yet; an administrator must grant one to the subject 248289761001",
    )
    refusal = (await world.audit())[-1]
    assert (refusal.action, refusal.subject) == ("login.refuse", f"{world.provider.issuer} 248289761001")
    assert len(await world.rows(UserRow.id)) == 1
    async with world.browser() as client:
        begun = await client.get("/login/oidc")
        world.roles.write_text("groups: [\n")
        back = world.provider.authorize(begun.headers["location"])
        for answer in (await client.get(back), await client.get("/login/oidc")):
            assert (answer.status_code, "its file of roles has a mistake" in problem_of(answer)) == (502, True)
    world.roles.write_text(ROLES)
    world.provider.claims = {"preferred_username": "admin", "email": "admin"}
    async with world.browser() as client:  # neither a name nor an e-mail address makes another user of it
        assert (await world.log_in(client)).status_code == 200
        assert "experimenter" in (await client.get("/")).text
        world.provider.subject = "7"
        assert (await world.log_in(client)).status_code == 200
        users = {row.name for row in await world.rows(UserRow.name)}
        assert len(users) == 3
        assert "admin" in users
        async with world.running.orchestrator.write() as transaction:
            await transaction.execute(update(UserRow).values(disabled=True))
        assert (await client.get("/")).status_code == 303
    assert "is disabled" in (await world.refused())[1]


async def test_tokens_of_sessions_end_and_are_removed(world):
    async with world.browser() as client:
        await world.log_in(client)
        tokens = await world.rows(TokenRow.id, TokenRow.name, TokenRow.expires_at_ms)
        world.clock.now_ms += 13 * 3_600_000
        assert (await client.get("/")).status_code == 303
        assert (await world.log_in(client)).status_code == 200
        left = {row.id for row in await world.rows(TokenRow.id)}
        assert [row.id in left for row in tokens] == [row.name != "OIDC login" for row in tokens]


async def test_without_its_provider_the_page_stays_usable_with_tokens(tmp_path):
    async with world_of(tmp_path, f"sqlite:///{tmp_path / 'testbed.db'}") as world, world.browser() as client:
        await world.provider.stop()
        client.headers["Origin"] = world.url
        answer = await client.get("/login/oidc")
        assert answer.status_code == 502
        assert re.fullmatch(
            r"the login at the provider does not work now: 127\.0\.0\.1:\d+ cannot be reached \(\w+\)",
            problem_of(answer),
        )
        token = world.running.first_token
        assert (await client.post("/login", data={"token": token})).status_code == 303
        assert (await client.get("/")).status_code == 200


async def test_answers_that_are_huge_late_or_wrong_are_refused(world, monkeypatch):
    async with world.browser() as client:
        for discovery, reason in (
            ({"issuer": "https://evil.example"}, "names another issuer"),
            ({"token_endpoint": "http://evil.example/token"}, "no token_endpoint with https"),
            ({"jwks_uri": 7}, "no jwks_uri"),
        ):
            world.provider.discovery = discovery
            assert reason in problem_of(await client.get("/login/oidc"))
            assert reason in problem_of(await client.get("/login/oidc"))  # the provider is not asked again
            world.clock.now_ms += PAUSE_MS
        assert len(world.provider.requests) == 3
        world.provider.discovery = {}
        for path in ("discovery", "token", "keys"):
            world.provider.filler = {path: 40 * calls.LARGEST_ANSWER}
            answer = await (client.get("/login/oidc") if path == "discovery" else world.log_in(client))
            assert (answer.status_code, "more than 262144 bytes" in problem_of(answer)) == (502, True)
            world.clock.now_ms += PAUSE_MS
        world.provider.filler, world.provider.silent = {}, True
        monkeypatch.setattr(calls, "TIMEOUT_S", 0.2)
        assert "did not answer within 0.2 s" in problem_of(await world.log_in(client))
        world.provider.silent = False
        assert (await world.log_in(client)).status_code == 200


async def test_a_browser_comes_back_from_another_site_with_a_session(tmp_path):
    if PROGRAM is None:
        if os.environ.get("BENTPIPE_REQUIRE") == "emu":
            pytest.fail("no Chromium: apt-get install chromium")
        pytest.skip("no Chromium: apt-get install chromium")
    from playwright.async_api import async_playwright

    url = f"sqlite:///{tmp_path / 'testbed.db'}"
    async with world_of(tmp_path, url, host="localhost") as world, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        page = await browser.new_page()
        page.set_default_timeout(15_000)
        await page.goto(f"{world.url}/calendar")
        await page.get_by_role("link", name="Log in with localhost").click()
        await page.get_by_role("link", name="Allow").click()
        await page.wait_for_url(f"{world.url}/calendar")
        assert "experimenter" in await page.inner_text("form.session")
        await browser.close()


async def test_a_testbed_without_a_provider_has_no_such_login(tmp_path):
    url = f"sqlite:///{tmp_path / 'testbed.db'}"
    async with serving_testbed(tmp_path, url) as running, httpx.AsyncClient(base_url=running.url) as client:
        assert (await client.get("/login/oidc")).status_code == 404
        assert (await client.get("/login/oidc/callback")).status_code == 404
        assert "/login/oidc" not in (await client.get("/login")).text
