"""Every page of the dashboard in a real browser, with contents: accessible, small, escaped, and nothing leaves."""

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import subprocess
from importlib.resources import files

import httpx
import pytest
from chromium import PROGRAM
from testbed_dashboard import HOSTILE, LONG, seeded_testbed, telemetry_batch

from bentpipe.testbed.dashboard import charts
from bentpipe.testbed.dashboard.land import rings
from bentpipe.testbed.dashboard.static_files import VENDORED, static_file
from bentpipe.testbed.orchestrator.routers.app import PAGE_ROUTERS
from bentpipe.testbed.orchestrator.routers.sessions import COOKIE, PUBLIC_PAGES, Looks
from bentpipe.testbed.orchestrator.services import users
from bentpipe.testbed.schemas.figures import MOST_POINTS
from bentpipe.testbed.schemas.identifiers import derived_id

LARGEST_PAGE = 300_000
"""Of a page and all that it loads, but for the map [bytes]."""
WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    with seeded_testbed(tmp_path_factory.mktemp("testbed")) as contents:
        yield contents


@pytest.fixture(scope="module")
def browser():
    if PROGRAM is None:
        if os.environ.get("BENTPIPE_REQUIRE") == "emu":
            pytest.fail("no Chromium: apt-get install chromium")
        pytest.skip("no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=PROGRAM, args=flags)
        yield running
        running.close()


def pages_of(testbed):
    """Every page, with contents."""
    return {
        "fleet": "/",
        "node": "/nodes/attic",
        "hostile node": "/nodes/hostile",
        "calendar": "/calendar?hours=12",
        "why": f"/calendar?run={testbed.runs['bulk']}",
        "experiments": "/experiments",
        "experiment": f"/experiments/{testbed.experiments['ping']}",
        "hostile experiment": f"/experiments/{testbed.experiments['hostile']}",
        "run": f"/runs/{testbed.runs['done']}",
        "hostile run": f"/runs/{testbed.runs['hostile']}",
        "triggers": "/triggers",
        "error": "/nodes/none",
    }


@contextlib.contextmanager
def client_of(testbed, role=None):
    """A client with the session of a role."""
    headers = {"Origin": testbed.url, "Accept": "text/html"}
    with httpx.Client(base_url=testbed.url, headers=headers, timeout=20) as client:
        if role is not None:
            answer = client.post("/login", data={"token": testbed.tokens[role]})
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
        yield client


def test_every_page_states_what_it_needs_and_without_a_session_leads_to_the_login(testbed):
    routes = [route for router in PAGE_ROUTERS for route in router.routes]
    with client_of(testbed) as client:
        for route in routes:
            scopes = [each.call.scope for each in route.dependant.dependencies if isinstance(each.call, Looks)]
            if not scopes:
                assert route.path in PUBLIC_PAGES | {"/logout"}
                continue
            for method in route.methods:
                answer = client.request(method, re.sub(r"\{[^}]+\}", "none", route.path))
                assert answer.status_code == 303, route.path
                assert answer.headers["location"].startswith("/login"), route.path
        part = client.get("/", headers={"HX-Request": "true"})
        assert (part.status_code, part.headers["hx-refresh"]) == (401, "true")
        then = client.get("/calendar?hours=12").headers["location"]
        assert then == "/login?then=%2Fcalendar%3Fhours%3D12"
        for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example"):
            answer = client.post("/login", data={"token": testbed.tokens["viewer"], "then": elsewhere})
            assert answer.headers["location"] == "/"


def test_a_session_is_strict_and_ends(testbed):
    with client_of(testbed) as client:
        wrong = client.post("/login", data={"token": "bpu_wrong"})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        assert "the token is unknown" in wrong.text
        answer = client.post("/login", data={"token": testbed.tokens["viewer"]}, headers={"X-Forwarded-Proto": "https"})
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Secure"} <= set(cookie.split("; "))
        assert testbed.tokens["viewer"] not in cookie
    with client_of(testbed, "viewer") as client:
        cookie = client.cookies["bentpipe_session"]
        assert client.get("/").status_code == 200
        for forged in (cookie[:-1] + "0" * (cookie[-1] != "0"), "x", "a.b.c", "", "é".encode()):
            shown = httpx.get(
                f"{testbed.url}/",
                headers={b"Cookie": b"bentpipe_session=" + (forged if isinstance(forged, bytes) else forged.encode())},
            )
            assert shown.status_code == 303
        assert client.post("/logout").status_code == 303
        again = httpx.get(f"{testbed.url}/", cookies={"bentpipe_session": cookie})
        assert again.status_code == 303


def test_the_printed_link_logs_in_once_and_holds_no_token(testbed):
    url = testbed.running.login_url
    assert testbed.running.first_token not in url
    code = url.partition("code=")[2]
    with client_of(testbed) as client:
        for _ in range(2):  # a program that looks at links does not use it up
            assert "Log in with this link" in client.get(url).text
        assert client.post("/login", data={"code": code}).status_code == 303
        assert "admin, admin" in re.sub(r"</?bdi>", "", client.get("/").text)
        used = client.post("/login", data={"code": code})
        assert (used.status_code, "the link was used or is older than ten minutes" in used.text) == (401, True)


def test_forms_of_other_pages_are_refused(testbed):
    with client_of(testbed, "admin") as client:
        path = "/nodes/attic/settings"
        other = client.post(path, data={"paused": "on"}, headers={"Origin": "http://127.0.0.1:1"})
        assert other.status_code == 403
        del client.headers["origin"]
        assert client.post(path, data={"paused": "on"}).status_code == 403
        assert client.post(path, data={"paused": "on"}, headers={"Sec-Fetch-Site": "same-site"}).status_code == 403
        assert 'value="on"><button>Pause' in client.get("/nodes/attic").text


def test_who_may_not_act_neither_sees_the_buttons_nor_can(testbed):
    acts = {
        "/nodes/attic/settings": {"paused": "on"},
        f"/experiments/{testbed.experiments['ping']}/cancel": {},
        f"/experiments/{testbed.experiments['ping']}/extend": {"runs": "50"},
    }
    with client_of(testbed, "viewer") as client:
        for path, form in acts.items():
            answer = client.post(path, data=form)
            assert answer.status_code == 403
            assert "the role &#39;viewer&#39; may not do that" in answer.text
            assert "Actions" not in client.get(path.rpartition("/")[0]).text
    with client_of(testbed, "host") as client:  # owns attic, and no other node
        assert client.post("/nodes/cellar/settings", data={"paused": "on"}).status_code == 403
        assert "Actions" not in client.get("/nodes/cellar").text
        assert "Actions" in client.get("/nodes/attic").text


def test_every_page_is_small_and_its_text_escaped(testbed):
    with client_of(testbed, "admin") as client:
        for name, path in pages_of(testbed).items():
            answer = client.get(path)
            assert answer.status_code == (404 if name == "error" else 200), (name, answer.text)
            loaded = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text))
            size = len(answer.content) + sum(
                len(client.get(each).content) for each in loaded if "maplibre" not in each and "land" not in each
            )
            assert size < LARGEST_PAGE, name
            assert "<script>" not in answer.text.replace("<script src", "")
            assert 'onerror="' not in answer.text
            assert not re.search(r"\sstyle=|\son\w+=", re.sub(r">[^<]*<", "><", answer.text)), name
            assert not re.search("[\u202a-\u202e\u2066-\u2069]", answer.text), name
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert answer.headers.get_list("cache-control") == ["no-store"]
        shown = client.get(f"/runs/{testbed.runs['hostile']}").text
        assert "&lt;script&gt;" in shown
        assert LONG in shown
        log = client.get(f"/runs/{testbed.runs['done']}/files/client/logs/output.log")
        assert HOSTILE in log.text
        assert log.headers["content-disposition"] == "attachment"
        assert client.get("/static/none").status_code == 404


def test_the_calendar_shows_past_runs_in_grey(testbed):
    with client_of(testbed, "viewer") as client:
        begin = testbed.running.orchestrator.clock() - 3 * 3_600_000
        shown = client.get(f"/calendar?hours=12&from_at_ms={begin}").text
    past = re.findall(r'aria-label="[^"]*, (\w+), [^"]*"><g class="block (\w+) past', shown)
    assert {state for state, _ in past} == {"done", "failed", "preempted"}
    assert {tone for _, tone in past} == {"off"}


def test_runs_of_several_nodes_have_a_line_for_each_node():
    chart = charts.Chart("RTT", "ms", (1, 2, 3), (("median", (40.0, 60.0, 41.0)),))
    assert charts.by_node(chart, ["attic"] * 3) is chart
    split = charts.by_node(chart, ["attic", "barn", "attic"])
    assert dict(split.series) == {"attic, median": (40.0, None, 41.0), "barn, median": (None, 60.0, None)}
    assert split.data()["joins"]


def test_a_page_without_figures_yet_loads_again(testbed, monkeypatch):
    async def none(*_):
        return None

    with client_of(testbed, "viewer") as client:
        path = f"/runs/{testbed.runs['done']}"
        assert "refresh" not in client.get(path).headers
        monkeypatch.setattr(testbed.running.orchestrator.figures, "of_run", none)
        answer = client.get(path)
    assert answer.headers["refresh"] == "3"
    assert "loads again by itself" in answer.text


def test_vendored_files_are_those_of_the_registry():
    folder = files("bentpipe.testbed.dashboard").joinpath("vendor")
    paths = {"htmx.min.js": "htmx", "land-110m.json": "worldatlas"}
    for name, sha256 in VENDORED.items():
        content = folder.joinpath(paths.get(name, "maplibre")).joinpath(name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == sha256, name
    assert b'"MultiPolygon"' in static_file("land.json").content


@pytest.fixture(scope="module")
def session(testbed):
    with client_of(testbed, "admin") as client:
        return client.cookies[COOKIE]


@pytest.fixture
def tab(browser, testbed, session):
    """A page of the admin's session; it fails for errors in the console and for requests that leave."""
    context = browser.new_context(base_url=testbed.url, viewport={"width": WIDTHS[0], "height": 900})
    context.set_default_timeout(8000)
    page = context.new_page()
    troubles = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "request",
        lambda request: (
            troubles.append(request.url) if not request.url.startswith((testbed.url, "data:", "blob:")) else None
        ),
    )
    context.add_cookies([{"name": COOKIE, "value": session, "url": testbed.url}])
    page.goto("/")
    yield page
    context.close()
    benign = ("GPU stall", "Automatic fallback to software WebGL", "status of 404")
    assert [each for each in troubles if not any(text in each for text in benign)] == []


def test_every_page_is_accessible_in_light_and_dark(tab, testbed):
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    folder = os.environ.get("BENTPIPE_SCREENSHOTS")
    for name, path in pages_of(testbed).items():
        tab.goto(path)
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            rules = {} if scheme == "light" else {"runOnly": ["color-contrast"]}
            violations = axe.run(tab, options={"resultTypes": ["violations"], **rules}).response["violations"]
            serious = [
                (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
                for each in violations
                if each["impact"] in ("serious", "critical")
            ]
            assert serious == [], (name, scheme)
            for width in WIDTHS:
                if folder or scheme == "light":
                    tab.set_viewport_size({"width": width, "height": 900})
                    overflow = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
                    assert overflow <= 0, (name, width)
                if folder:
                    tab.wait_for_timeout(400)
                    tab.screenshot(path=f"{folder}/{name.replace(' ', '-')}-{scheme}-{width}.png", full_page=True)
            tab.set_viewport_size({"width": WIDTHS[0], "height": 900})
        assert tab.evaluate("document.title").startswith(("Fleet", "Node", "Cal", "Exp", "Run", "Trig", "Not"))


def test_the_login_by_keyboard(browser, testbed):
    context = browser.new_context(base_url=testbed.url)
    context.set_default_timeout(8000)
    page = context.new_page()
    page.goto("/calendar?hours=12")
    page.keyboard.type(testbed.tokens["viewer"])  # the field has the focus
    page.keyboard.press("Enter")
    page.wait_for_url("**/calendar?hours=12")
    token_id = testbed.call(users.authenticate(testbed.running.orchestrator, testbed.tokens["viewer"])).token
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")
    page.goto(f"/login?code={testbed.running.orchestrator.sessions.new_code(token_id)}")
    page.wait_for_function("() => document.activeElement.tagName === 'BUTTON'")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Fleet')")
    context.close()


def test_the_map_is_drawn_from_this_server(tab):
    tab.wait_for_selector("#map canvas", timeout=15_000)
    pins = tab.locator("#map .pin")
    assert pins.count() == 4
    pins.first.focus()
    tab.keyboard.press("Enter")
    tab.locator(".maplibregl-popup-content a").first.click()
    tab.wait_for_url("**/nodes/*")


def test_live_values_arrive_and_a_change_shows_by_itself(tab, testbed):
    tab.goto("/nodes/attic")
    tab.wait_for_selector("#live-charts figure.drawn")
    assert tab.locator("#live-charts figure").count() == 3
    before = tab.locator("#live-charts").inner_text()
    testbed.loop.call_soon_threadsafe(
        testbed.running.telemetry.take, testbed.attic, telemetry_batch(testbed.running.orchestrator.clock() + 9000, 7)
    )
    tab.wait_for_function("(before) => document.querySelector('#live-charts').innerText !== before", arg=before)
    settings = testbed.call(_settings(testbed))
    assert settings.live
    tab.get_by_role("button", name="Drain").click()
    tab.wait_for_selector("text=End draining")
    other = tab.context.new_page()
    other.goto("/nodes/attic")
    other.wait_for_selector("#node [role=status]:has-text('draining')")
    tab.get_by_role("button", name="End draining").click()
    other.wait_for_selector("#node [role=status]:not(:has-text('draining'))")
    other.close()


def test_a_page_whose_session_ends_goes_to_the_login_and_keeps_its_parts_through_errors(browser, testbed):
    context = browser.new_context(base_url=testbed.url)
    context.set_default_timeout(8000)
    page = context.new_page()
    page.goto("/login")
    page.fill("#token", testbed.tokens["viewer"])
    page.keyboard.press("Enter")
    page.wait_for_selector("#fleet")
    page.route("**/", lambda route: route.fulfill(status=500, headers={"HX-Reswap": "none"}, body="<p>no</p>"))
    with page.expect_response("**/"):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('changed'))")
    page.unroute("**/")
    assert page.locator("#fleet table").count() == 1
    context.clear_cookies()
    page.evaluate("document.body.dispatchEvent(new CustomEvent('changed'))")
    page.wait_for_url("**/login")
    context.close()


async def _settings(testbed):
    from bentpipe.testbed.orchestrator.services.nodes import show_node

    return (await show_node(testbed.running.orchestrator, testbed.attic)).settings


def test_the_calendar_says_why_by_keyboard_alone(tab, testbed):
    tab.goto("/calendar?hours=3")
    block = tab.locator("svg.calendar a[aria-label*='bbr-at-night on attic']").first
    block.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/calendar?*run=*")
    text = tab.locator("#why").inner_text()
    assert "exclusive" in text
    assert "May slip by" in text
    assert "10 min" in text
    assert "next free slot" in text


def test_figures_and_the_grid_of_an_experiment(tab, testbed):
    tab.goto(f"/experiments/{testbed.experiments['ping']}")
    tab.wait_for_selector("figure.drawn")
    assert tab.locator("figure.drawn").count() >= 2
    letters = set(tab.locator("table.grid a").all_inner_texts())
    assert {"D", "E", "F", "M"} <= letters
    tab.locator("table.grid a", has_text="D").first.click()
    tab.wait_for_url("**/runs/*")
    assert "It is" not in tab.locator("details pre").first.inner_text()
    assert tab.evaluate("document.title") == "Run of ping-home · bentpipe testbed"


def test_figures_of_a_run_and_of_its_experiment(tab, testbed):
    tab.goto(f"/runs/{testbed.runs['done']}")
    tab.wait_for_selector("#measured figure.drawn")
    assert tab.locator("#measured figure.drawn").count() == 3
    text = tab.locator("[aria-label='Numbers of the figures']").inner_text()
    assert "38.4 ms" in text
    assert "it began" in tab.locator("text=Lines across").inner_text()
    tab.goto(f"/experiments/{testbed.experiments['ping']}")
    rows = tab.locator("#small tbody tr")
    assert rows.count() == 4
    assert rows.locator("svg polyline").count() == 4
    assert "RTT 192.0.2.1" in rows.last.inner_text()


def test_figures_come_thinned_to_whoever_reads(testbed):
    path = f"/v1/runs/{testbed.runs['done']}/figures"
    for role, token in testbed.tokens.items():
        answer = httpx.get(f"{testbed.url}{path}", headers={"Authorization": f"Bearer {token}"}, timeout=60)
        assert (answer.status_code, len(answer.content) < 100_000) == (200, True), role
    assert httpx.get(f"{testbed.url}{path}").status_code == 401
    figures = answer.json()["ends"]["client"]["figures"]
    assert [each["key"] for each in figures] == ["rtt", "dish_latency", "dish_throughput"]
    assert max(len(line["values"]) for each in figures for line in each["lines"]) <= MOST_POINTS
    (first, second) = figures[0]["lines"]
    assert (first["count"] + first["lost"], second["name"]) == (280, HOSTILE)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"PAR1" + bytes(500) + b"PAR1", "SHA-256"), (None, "the tables do not read")],
    ids=["damaged", "missing"],
)
def test_damaged_tables_are_a_line_on_the_page(testbed, content, problem):
    run, location = derived_id("run", problem), f"ping-home/attic/{problem.replace(' ', '-')}"
    orchestrator = testbed.running.orchestrator
    done = f"ping-home/attic/{testbed.runs['done']}"

    async def read():
        await orchestrator.storage.put(f"{location}/run.json", await orchestrator.storage.get(f"{done}/run.json"))
        if content is not None:
            await orchestrator.storage.put(f"{location}/probes.parquet", content)
        return await orchestrator.figures._start(run, location, "client", ("run.json", "probes.parquet"))

    figures = testbed.call(read())
    assert figures.figures == ()
    assert problem in figures.problem
    assert "\n" not in figures.problem


def test_extend_and_cancel(tab, testbed):
    tab.goto(f"/experiments/{testbed.experiments['slow']}")
    tab.fill("input[name=runs]", "7")
    tab.get_by_role("button", name="Extend").click()
    tab.wait_for_load_state()
    tab.get_by_text("Cancel the experiment").click()
    tab.get_by_role("button", name="Cancel it").click()
    tab.wait_for_selector("text=canceled by admin")


def test_no_outline_of_the_land_jumps_and_holes_lie_within():
    for polygon in rings():
        outer = [longitude for longitude, _ in polygon[0]]
        steps = [abs(left - right) for left, right in itertools.pairwise(outer)]
        assert sorted(steps)[-3:-2] < [45.0]
        for hole in polygon[1:]:
            assert min(outer) <= min(hole)[0] <= max(outer)


def test_the_scripts_are_valid():
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: apt-get install nodejs")
    folder = files("bentpipe.testbed.dashboard").joinpath("static")
    for name in ("dashboard.js", "charts.js", "measured.js"):
        subprocess.run([node, "--check", folder / name], check=True, capture_output=True)
