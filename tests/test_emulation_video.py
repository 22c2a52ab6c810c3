"""A dash.js player in Chromium on an emulated path."""

import json
import shutil

import pytest
from emulation import bentpipe

from bentpipe.apps.video.description import PENSIEVE_KBPS

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium: apt-get install chromium")

CHUNKS = 4


def test_a_browser_plays_what_policies_choose(tmp_path):
    video = tmp_path / "short"
    video.mkdir()
    for quality, kbps in enumerate(PENSIEVE_KBPS):
        (video / f"video_size_{quality}").write_text(f"{kbps * 500}\n" * CHUNKS, encoding="utf-8")
    trace = tmp_path / "t.txt"
    trace.write_text("".join(f"{t} 2.5\n" for t in range(60)), encoding="utf-8")
    options = ("--video", video, "--windows", "30s", "--scale", "0", "--policy", "mpc", "--limit", "1", "--json")
    done = bentpipe("video", "race", trace, *options, "--browser", timeout_s=200)
    assert done.returncode == 0, done.stderr
    rows = {row["policy"]: row for row in json.loads(done.stdout)["rows"]}
    simulated = json.loads(bentpipe("video", "race", trace, *options).stdout)["rows"]
    assert list(rows) == ["mpc"]
    for each in simulated:
        row = rows[each["policy"]]
        assert (row["world"], row["trace"], row["chunks"]) == ("emulated", each["trace"], CHUNKS)
        # 375 kB at 2.5 Mbit/s are 1.2 s; a browser fetches the manifest before, and begins to play after.
        assert 1.2 < row["startup_s"] < each["startup_s"] + 3
        assert row["stall_s"] < each["stall_s"] + 1
        # A constant path; the time of a request, and so the buffer, differs by some tenths of a second.
        assert row["bitrate_mbps"] == pytest.approx(each["bitrate_mbps"], abs=0.8)
