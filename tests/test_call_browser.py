"""Video calls between two real browsers."""

import json
import os
import shutil

import pytest
from emulation import bentpipe

import bentpipe as bp
from bentpipe.apps.browser import chromium
from bentpipe.apps.browser.call_peer import Settings
from bentpipe.errors import BentpipeError, UserError
from bentpipe.execution.browser_calls import _problem, _read, _result
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile

HAS_BROWSER = shutil.which("chromium") is not None
needs_browser = pytest.mark.skipif(not HAS_BROWSER, reason="no Chromium: apt-get install chromium")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "P.parquet"
    write_profile(preset_profile("dumbbell:rate=20mbit,rtt=60ms,queue=100ms", 60.0), file)
    return file


def test_a_browser_that_is_not_installed_is_one_sentence(path, tmp_path):
    done = bentpipe("call", path, "--browser", "--for", "5s", env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "this machine has no browser (chromium, " in done.stderr
    assert "apt-get install chromium" in done.stderr
    assert done.stderr.count("\n") <= 2


def test_a_driver_that_is_not_installed_is_one_sentence(monkeypatch):
    monkeypatch.setattr(chromium.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(chromium, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"pip install 'bentpipe\[browser\]'"):
        chromium.find_chromium()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "640"], "--size: 640; expected WIDTHxHEIGHT"),
        (["--size", "9x99999"], "expected WIDTHxHEIGHT"),
        (["--seeds", "3"], "--seeds: the kernel's timing cannot be drawn"),
        (["--recovery", "tambur"], "tambur changes the transports"),
    ],
)
@needs_browser
def test_an_impossible_call_between_browsers_is_refused(path, options, message):
    done = bentpipe("call", path, "--browser", *options)
    assert done.returncode == 2
    assert message in done.stderr


def seen(**changed):
    received = {"jitterBufferDelay": 3.0, "jitterBufferEmittedCount": 100, "bytesReceived": 1_000_000, "freezeCount": 1}
    frames = [[1_000_000.0 + 33.3 * i, 50 + i % 3, 640] for i in range(200)]
    return {"error": None, "frames": frames, "stats": {"received": received}, **changed}


def test_figures_are_those_of_the_frames_and_of_webrtc():
    row = _result("none", "P", "down", seen(), valid=False)
    assert (row.delay_mean_ms, row.jitter_buffer_ms, row.freezes, row.valid) == (
        pytest.approx(51, abs=0.1),
        30.0,
        1,
        False,
    )
    assert row.fps_mean == pytest.approx(30, abs=0.5)
    # A misread time in a picture does not count.
    frames = [*seen()["frames"], [1_007_000.0, 16_000_000, 640]]
    assert _result("none", "P", "down", seen(frames=frames), valid=True).delay_mean_ms == pytest.approx(51, abs=0.1)


@pytest.mark.parametrize("broken", [{"error": "no microphone"}, {"stats": None}, {"stats": {"received": None}}])
def test_a_call_that_failed_is_one_line(broken):
    with pytest.raises(BentpipeError, match="a call over P failed, up") as error:
        _result("none", "P", "up", seen(**broken), valid=True)
    assert "\n" not in str(error.value)


def test_an_end_that_wrote_nothing_is_named(tmp_path):
    assert _problem([_read(tmp_path / "client.json", "client")]) == "the client's browser wrote nothing"
    (tmp_path / "server.json").write_text("{")
    assert _problem([_read(tmp_path / "server.json", "server")]) == "the server's browser wrote nothing"


def test_settings_are_read_as_they_were_written():
    settings = Settings("/tmp/x", 5.0, 640, 360, 30, 1_000_000)
    assert Settings(**json.loads(settings.to_json())) == settings
    assert settings.page("server", "client") == (
        "http://server:8000/?end=client&width=640&height=360&fps=30&max_bps=1000000&lip_sync=1"
    )


def test_what_browsers_cannot_do_is_refused_from_python(monkeypatch, tmp_path):
    path = bp.Profile.preset("dumbbell:rate=20mbit,rtt=60ms,queue=100ms", duration=20)
    network = bp.Network({"a": path})
    for refused, expected in (
        (lambda: bp.video_call(path, seeds=2, browser=True), "the kernel's timing cannot be drawn"),
        (lambda: bp.video_call(path, app="bulk", browser=True), "call, with its options"),
        (lambda: bp.video_call(network, browser=True), "a browser has one path"),
        (lambda: bp.load_page("median", path, "bbr", browser=True), "neither: the kernel sends"),
    ):
        with pytest.raises(UserError, match=expected):
            refused()
