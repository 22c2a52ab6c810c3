"""Adaptive video in a browser: media, the servers of video and policy, and what the player's events amount to."""

import itertools
import json
import os
import struct
import threading
import urllib.error
import urllib.request

import pytest
from emulation import bentpipe

from bentpipe._native import VideoChoices
from bentpipe.apps.browser.video_server import Folder, Playing, VideoServer
from bentpipe.apps.video.description import VideoDescription, pensieve
from bentpipe.apps.video.media import PICTURE, frames, init_segment, least_bytes, manifest, media_segment
from bentpipe.apps.video.read import read_video
from bentpipe.errors import BentpipeError, UserError
from bentpipe.execution.browser_player import PolicyServer
from bentpipe.execution.browser_videos import check_browser, played
from bentpipe.experiments.videos import player

SHORT = VideoDescription("short", (300_000, 750_000), ((150_000, 140_000, 160_000), (375_000, 350_000, 400_000)), 4.0)


def boxes(data):
    result, at = [], 0
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        result.append((name, data[at + 8 : at + size]))
        at += size
    assert at == len(data)
    return result


@pytest.mark.parametrize("chunk_s", [0.5, 2.002, 4.0])
def test_a_chunk_has_its_frames_and_exactly_its_size(chunk_s):
    for size in (least_bytes(chunk_s), least_bytes(chunk_s) + 1, 100_000):
        data = media_segment(7, chunk_s, size)
        assert len(data) == size
        (_, _), (_, media), (name, rest) = boxes(data)
        assert media == PICTURE * frames(chunk_s)
        assert name == b"free"
        assert not any(rest)
    with pytest.raises(UserError, match="expected at least"):
        media_segment(0, chunk_s, least_bytes(chunk_s) - 1)


def test_the_initialization_segment_is_a_movie_without_samples():
    assert [name for name, _ in boxes(init_segment())] == [b"ftyp", b"moov"]


def test_the_manifest_with_its_chunks_is_the_same_video(tmp_path):
    (tmp_path / "short.mpd").write_text(manifest(SHORT), encoding="utf-8")
    for quality, sizes in enumerate(SHORT.chunk_bytes):
        (tmp_path / str(quality)).mkdir()
        for number, size in enumerate(sizes):
            (tmp_path / str(quality) / f"{number}.m4s").write_bytes(media_segment(number, 4.0, size))
    assert read_video(tmp_path / "short.mpd") == SHORT


@pytest.fixture
def serve():
    servers = []

    def start(server):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_server_has_manifest_and_chunks_for_any_origin(serve):
    url = serve(VideoServer(SHORT, "reno", port=0))
    with urllib.request.urlopen(f"{url}/1/2.m4s") as response:
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert len(response.read()) == 400_000
    for path in ("manifest.mpd", "init.mp4"):
        with urllib.request.urlopen(f"{url}/{path}") as response:
            assert response.read()
    for path in ("0/3.m4s", "2/0.m4s", "../etc/passwd"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/{path}")


def test_the_page_is_told_the_policys_choices(serve):
    server = PolicyServer(player(pensieve(), "mpc", 12 * 10**9).video.model_dump_json())
    url = serve(server)
    with urllib.request.urlopen(url + "/dash.mediaplayer.min.js") as response:
        assert b"dashjs" in response.read()
    server.begin_ms = 1000.0

    def choose(at_ms, buffer_s, *arrived):
        report = {"at_ms": at_ms, "buffer_s": buffer_s, "arrived": arrived}
        request = urllib.request.Request(url + "/choose", json.dumps(report).encode())
        with urllib.request.urlopen(request) as response:
            return int(response.read())

    assert choose(1000.0, 0.0) == 1
    fast = {"bytes": 375_000, "requested_ms": 1010, "first_byte_ms": 1050, "arrived_ms": 1100}
    assert choose(1100.0, 4.0, fast) == 5
    slow = {"bytes": 2_100_000, "requested_ms": 1100, "first_byte_ms": 1150, "arrived_ms": 301100}
    assert choose(301100.0, 4.0, slow) == 0


def test_a_request_is_the_same_after_a_file(tmp_path):
    playing = Playing(SHORT, "{}", "cubic", 15.0, 60.0)
    playing.write(Folder(tmp_path))
    assert Playing.read(Folder(tmp_path)) == playing


@pytest.mark.parametrize("spec", ["{", '{"rates_bps": []}'])
def test_a_player_that_is_none_is_refused(spec):
    with pytest.raises(UserError):
        VideoChoices(spec)


def events(*arrivals, playing_ms=1500.0, **fields):
    """The player's events; an arrival is quality, time [ms] and media played [s]."""
    times = [1000.0, *(at_ms for _, at_ms, _ in arrivals)]
    chunks = [
        {
            "number": number,
            "quality": quality,
            "requested_ms": begin_ms,
            "arrived_ms": at_ms,
            "at_ms": at_ms,
            "media_s": media_s,
        }
        for number, ((quality, at_ms, media_s), begin_ms) in enumerate(zip(arrivals, times, strict=False))
    ]
    return {"chunks": chunks, "playing_ms": playing_ms, "begin_ms": 1000.0, "error": None, **fields}


def test_a_stall_is_the_time_in_which_no_media_played():
    # Second chunk after 3.5 s of play; third 6 s later, of which 4.5 s had media; jitter of 10 ms.
    seen = played(events((0, 1400.0, 0.0), (1, 5000.0, 3.49), (1, 11000.0, 8.0)), SHORT, "path", valid=True)
    assert seen.seen.stall_s == pytest.approx(1.5)
    assert seen.seen.startup_s == pytest.approx(0.5)
    assert (seen.seen.switches, seen.chunks, seen.valid) == (1, 3, True)
    assert seen.seen.qoe_mean == pytest.approx(((0.75 - 0.45) + (0.75 - 4.3 * 1.5)) / 2)


def test_events_that_are_no_play_are_errors():
    with pytest.raises(UserError, match="not even two chunks"):
        played(events((0, 1400.0, 0.0)), SHORT, "path", valid=True)
    gap = events((0, 1400.0, 0.0), (1, 5000.0, 3.5))
    gap["chunks"][1]["number"] = 2
    with pytest.raises(BentpipeError, match="left chunks out"):
        played(gap, SHORT, "path", valid=True)


def trace(folder):
    file = folder / "t.txt"
    file.write_text(
        "".join(f"{t} {each}\n" for t, each in zip(range(120), itertools.cycle((2, 3, 4)))), encoding="utf-8"
    )
    return file


def test_a_browser_that_is_not_installed_is_one_sentence(tmp_path):
    done = bentpipe("video", "race", trace(tmp_path), "--browser", env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "this machine has no browser (chromium, " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_video_that_no_browser_can_play_is_refused(monkeypatch):
    monkeypatch.setattr("bentpipe.execution.browser_videos.find_chromium", lambda: "chromium")
    small = VideoDescription("small", (300_000,), ((100, 100),), 4.0)
    with pytest.raises(UserError, match="media that a browser plays"):
        check_browser(small, "reno")
    with pytest.raises(UserError, match="no controller cubicc"):
        check_browser(SHORT, "cubicc")


@pytest.mark.parametrize(
    ("options", "message"), [(("--limit", "0"), "limit"), (("-o", "out"), "only the Runs of a browser are kept")]
)
def test_bad_options_are_refused_in_a_line(tmp_path, options, message):
    done = bentpipe("video", "race", trace(tmp_path), *options)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")


def test_a_limit_spreads_windows(tmp_path):
    options = ("--windows", "30s", "--policy", "buffer", "--limit", "2", "--json")
    rows = json.loads(bentpipe("video", "race", trace(tmp_path), *options).stdout)["rows"]
    assert [row["trace"] for row in rows] == ["t@15s", "t@45s"]
    assert {(row["world"], row["valid"]) for row in rows} == {("simulated", True)}
