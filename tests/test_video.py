"""Adaptive video: descriptions of videos, quality of experience, and players over simulated paths."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import require_data

import bentpipe as bp
from bentpipe.apps.video.description import pensieve
from bentpipe.apps.video.qoe import experience, play
from bentpipe.apps.video.read import read_video
from bentpipe.errors import UserError
from bentpipe.experiments.apps import parse_app
from bentpipe.profiles import preset_profile

MPD = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" mediaPresentationDuration="PT{total}S"><Period>
<AdaptationSet mimeType="audio/mp4"><Representation id="a" bandwidth="64000"/></AdaptationSet>
<AdaptationSet mimeType="video/mp4">
<SegmentTemplate timescale="1000" duration="2000" startNumber="1" media="$RepresentationID$/$Number$.m4s"/>
<Representation id="high" bandwidth="1000000"/><Representation id="low" bandwidth="200000"/>
</AdaptationSet></Period></MPD>"""


def test_the_built_in_video_has_the_published_bitrates():
    video = pensieve()
    for bps, sizes in zip(video.rates_bps, video.chunk_bytes, strict=True):
        assert sum(sizes) * 8 / (len(sizes) * video.chunk_s) == pytest.approx(bps, rel=0.001)
    assert video.is_generated
    assert video.chunks == 49


def test_generated_sizes_spread_as_the_encoded_video_does():
    real, made = read_video(require_data("abr_video_sizes")), pensieve()
    assert (real.rates_bps, real.chunks, real.is_generated) == (made.rates_bps, made.chunks, False)
    for one, other in zip(real.chunk_bytes, made.chunk_bytes, strict=True):
        spread, made_spread = (pl.Series(each[:-1]).std() / pl.Series(each[:-1]).mean() for each in (one, other))
        assert 0.5 < made_spread / spread < 2


def test_a_manifest_gives_bitrates_and_segments_beside_it_their_sizes(tmp_path):
    manifest = tmp_path / "movie.mpd"
    manifest.write_text(MPD.format(total="5.5"), encoding="utf-8")
    video = read_video(manifest)
    assert (video.rates_bps, video.chunks, video.chunk_s, video.is_generated) == ((200_000, 1_000_000), 3, 2.0, True)
    for track, size in (("low", 40), ("high", 90)):
        (tmp_path / track).mkdir()
        for number in (1, 2, 3):
            (tmp_path / track / f"{number}.m4s").write_bytes(bytes(size + number))
    assert read_video(manifest).chunk_bytes == ((41, 42, 43), (91, 92, 93))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<MPD", "is no XML"),
        ("<html/>", "no video with a SegmentTemplate"),
        (MPD.format(total="x"), "mediaPresentationDuration"),
        (MPD.format(total="5").replace('"2000"', '"0"'), "duration is"),
        (MPD.format(total="5").replace("200000", "1000000"), "bitrates"),
        (MPD.format(total="999999999"), "at most 100,000"),
        (MPD.format(total="9" * 400), "mediaPresentationDuration"),
        (MPD.format(total="5").replace('startNumber="1"', 'startNumber="x"'), "startNumber is 'x'"),
        (MPD.format(total="5").replace('startNumber="1"', f'startNumber="{"9" * 5000}"'), "startNumber is"),
    ],
)
def test_a_manifest_that_cannot_be_played_is_refused_in_a_line(tmp_path, text, message):
    manifest = tmp_path / "movie.mpd"
    manifest.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as error:
        read_video(manifest)
    assert "\n" not in str(error.value)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0.01, 20)), min_size=2, max_size=40))
def test_playing_time_and_stalls_add_up_to_the_time_that_passed(downloads):
    requested, arrived, at = [], [], 0.0
    for _, took in downloads:
        requested.append(at)
        at += took
        arrived.append(at)
    chunks = play([quality for quality, _ in downloads], requested, arrived, pensieve().rates_bps, 4.0)
    stalls = sum(chunk.stall_s for chunk in chunks)
    assert all(chunk.buffer_s >= 4.0 for chunk in chunks)
    assert 4.0 * len(chunks) + stalls == pytest.approx(arrived[-1] - arrived[0] + chunks[-1].buffer_s)


def test_quality_of_experience_is_bitrate_less_stalls_less_changes():
    chunks = play([1, 0, 0], [0.0, 1.0, 8.0], [1.0, 8.0, 9.0], [1_000_000, 3_000_000], 4.0)
    seen = experience(chunks, 1.0)
    # Chunk 1: 1 − 4.3 · 3 − 2, chunk 2: 1.
    assert seen.qoe_mean == pytest.approx((1 - 4.3 * 3 - 2 + 1) / 2)
    assert (seen.stall_s, seen.switches, seen.startup_s) == (3.0, 1, 1.0)


@pytest.mark.parametrize("policy", ["robust-mpc", "mpc", "buffer", "bola"])
def test_a_player_over_tcp_plays_every_chunk(policy):
    path = preset_profile("dumbbell", duration_s=260)
    app = f"video:pensieve,policy={policy}"
    (run,) = bp.Experiment(path, schemes=["cubic"], app=app, duration="250s").simulate()
    items = run.applications()
    assert items["completed_s"].null_count() == 0
    assert len(items) == 49
    assert set(items["kind"]) <= {f"chunk/{quality}" for quality in range(6)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("video:nothing", "no video 'nothing'"),
        ("video:pensieve,policy=bolla", "bola"),
        ("video:pensieve,policy=mpc-oracle", "bentpipe video race"),
        ("video:pensieve,buffer=1s", "at least a chunk"),
        ("video:pensieve,speed=2", "video takes no"),
    ],
)
def test_a_player_that_cannot_be_is_refused_in_a_line(text, message):
    with pytest.raises(UserError, match=message) as error:
        parse_app(text)
    assert "\n" not in str(error.value)
