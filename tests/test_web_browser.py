"""Loads of a page by a real browser: its content, its server, and the Speed Index."""

import asyncio
import io
import json
import os
import stat
from collections import Counter
from itertools import islice

import pytest
from emulation import bentpipe
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bentpipe.apps.browser.page_loader import flags
from bentpipe.apps.browser.page_server import Application, Settings, write_certificate
from bentpipe.apps.browser.replay import CHUNK_BYTES, HEADER_BYTES, Replay, host_name
from bentpipe.apps.browser.speed_index import speed_index_ms
from bentpipe.apps.web.built_in import median_page
from bentpipe.apps.web.page import Page, PageObject
from bentpipe.errors import UserError
from bentpipe.execution import browser_pages
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile


@pytest.fixture(scope="module")
def replay():
    return Replay.of(median_page(), 8443)


def content(body):
    return b"".join(body.chunks())


def test_every_object_has_its_size_and_kind(replay):
    page = median_page()
    assert replay.kinds == tuple(each.kind for each in page.objects)
    sizes = [each.response_bytes - HEADER_BYTES for each in page.objects]
    assert [each.size for each in replay.bodies] == [len(content(each)) for each in replay.bodies] == sizes
    image = Image.open(io.BytesIO(content(replay.bodies[replay.kinds.index("image")])))
    image.load()
    assert image.size == (22, 6)
    text = content(replay.bodies[0]).decode()
    assert text.startswith("<!doctype html>")
    graph = json.loads(text.partition("const GRAPH = ")[2].partition(";\n")[0])
    assert [row[2] for row in graph[1:]] == [each.after for each in page.objects[1:]]
    assert graph[5][0] == f"https://{host_name(page.objects[5].host)}:8443/5"


@given(
    st.lists(
        st.tuples(st.integers(24, 400), st.sampled_from(["style", "script", "image", "other", "document"])), max_size=8
    )
)
def test_objects_of_any_size_are_never_longer_than_recorded_unless_they_must_be(kinds):
    first = PageObject("u", 0, 400, 24, None, 0, "document")
    rest = [PageObject("u", i % 3, 400, size, 0, 0, kind) for i, (size, kind) in enumerate(kinds)]
    made = Replay.of(Page("p", ("a", "b", "c"), (first, *rest)), 1)
    for each, body in zip(rest, made.bodies[1:], strict=True):
        least = 120 if each.kind == "image" else 0  # an image is at least itself
        assert body.size <= max(least, each.response_bytes)


def test_a_page_that_is_larger_than_memory_is_sent_in_parts():
    first = PageObject("u", 0, 400, 1 << 32, None, 0, "document")
    rest = [PageObject("u", 0, 400, 1 << 32, 0, 0, kind) for kind in ("style", "image", "other") * 17]
    made = Replay.of(Page("p", ("a",), (first, *rest)), 1)
    assert sum(each.size for each in made.bodies) == 52 * ((1 << 32) - HEADER_BYTES)
    for body in made.bodies[:4]:
        chunks = Counter(map(len, body.chunks()))
        assert sum(size * count for size, count in chunks.items()) == body.size
        assert max(chunks) < 2 * CHUNK_BYTES
    assert len({id(chunk) for body in made.bodies[2:5] for chunk in islice(body.chunks(), 1, 9)}) <= 2


def ask(replay, path, kind="http"):
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(Application(replay)({"type": kind, "path": path}, None, send))
    assert [each.get("more_body", False) for each in sent[1:]] == [True] * (len(sent) - 2) + [False]
    body = b"".join(each["body"] for each in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"])[b"content-type"], body


def test_the_server_has_the_objects_and_nothing_else(replay):
    assert ask(replay, "/") == (200, b"text/html; charset=utf-8", content(replay.bodies[0]))
    assert ask(replay, "/7")[2] == content(replay.bodies[7])
    for path in ("/71", "/-1", "/7x", "/../etc/passwd", "/99999999999999"):
        assert ask(replay, path) == (404, b"application/octet-stream", b"")


def test_the_key_is_the_users_alone_and_the_browser_knows_no_other_host(tmp_path):
    settings = Settings(str(tmp_path), "median", "3", 2)
    assert Settings.from_json(settings.to_json()) == settings
    key_hash = write_certificate(settings)
    assert stat.S_IMODE(settings.key.stat().st_mode) == 0o600
    rules, trusted, *rest = flags(settings, key_hash, "10.0.0.2")
    assert rules.endswith("=MAP *.page.test 10.0.0.2, MAP * ~NOTFOUND")
    assert trusted.endswith(key_hash)
    assert "--enable-quic" in rest
    assert flags(Settings(str(tmp_path), "median", "1", 2), key_hash, "x")[-1] == "--disable-http2"


def picture(level, size=(16, 9)):
    file = io.BytesIO()
    Image.new("RGB", size, (level, level, level)).save(file, "JPEG")
    return file.getvalue()


def test_the_speed_index_is_the_time_without_picture():
    white, black = picture(255), picture(0)
    assert speed_index_ms([(0, white), (300, black)]) == 300
    assert speed_index_ms([(-40, white), (300, black), (900, black)]) == 300
    # Nothing changes: it was drawn from the first picture on.
    assert speed_index_ms([(100, white), (300, white)]) == 100
    assert speed_index_ms([(0, white)]) is None


def test_half_a_picture_counts_half():
    half = Image.new("RGB", (16, 16), (255, 255, 255))
    half.paste((0, 0, 0), (0, 0, 8, 16))
    file = io.BytesIO()
    half.save(file, "JPEG", quality=95)
    white, black = picture(255, (16, 16)), picture(0, (16, 16))
    assert speed_index_ms([(0, white), (200, file.getvalue()), (400, black)]) == pytest.approx(300, abs=2)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "P.parquet"
    write_profile(preset_profile("dumbbell:rate=20mbit,rtt=60ms,queue=100ms", 20.0), file)
    return file


def test_a_browser_that_is_not_installed_is_one_sentence(path, tmp_path):
    done = bentpipe("web", "load", "median", path, "--browser", env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "this machine has no browser (chromium, " in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"http": "4"}, "http: '4'; expected 1, 2 or 3"),
        ({"recovery": ["tambur"]}, "tambur changes the transports"),
        ({"page": "nowhere.har"}, "no such file"),
        ({"page": "large.har", "http": "3"}, "http: 3 for 219043 MB; expected at most 268 MB, .*; try HTTP 1 or 2"),
    ],
)
def test_impossible_loads_are_refused_before_a_browser_starts(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    large = {"startedDateTime": "2026-05-10T09:00:00Z", "request": {"url": "https://a.example/"}}
    large["response"] = {"status": 200, "bodySize": 1 << 32}
    (tmp_path / "large.har").write_text(json.dumps({"log": {"entries": [large] * 51}}))
    monkeypatch.setattr(browser_pages, "find_chromium", lambda: "chromium")
    path = preset_profile("dumbbell:rate=20mbit,rtt=60ms,queue=100ms", 20.0)
    with pytest.raises(UserError, match=message):
        browser_pages.load_in_browser(**{"page": "median", "paths": [path], **options})


def test_the_phase_of_a_browser_is_named_as_typed(path):
    done = bentpipe("web", "load", "median", path, "--browser", "--phase", "20")
    assert done.returncode == 2
    assert "--phase: 20 s; expected 0 to the Profile's 20 s" in done.stderr


def test_controllers_and_seeds_are_the_simulators(path):
    for option in (("--cc", "bbr"), ("--seeds", "3")):
        done = bentpipe("web", "load", "median", path, "--browser", *option)
        assert done.returncode == 2
        assert "with --browser the kernel or the server's QUIC sends" in done.stderr
