"""Preset paths, in words and in parameters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_helpers import assert_one_line, result_or_message

from bentpipe.errors import UserError
from bentpipe.scenarios.presets import load_presets, parse_preset


def test_presets_have_their_published_values():
    dumbbell, fibre, geo = (parse_preset(name) for name in ("dumbbell", "fibre", "geo"))
    assert (dumbbell.down_bps, dumbbell.up_bps, dumbbell.rtt_ns) == (100_000_000, 100_000_000, 40_000_000)
    assert dumbbell.queue.bdp_bytes(dumbbell.down_bps, dumbbell.rtt_ns) == 500_000
    assert (fibre.down_bps, fibre.up_bps, fibre.rtt_ns) == (275_000_000, 25_000_000, 19_500_000)
    assert (geo.down_bps, geo.rtt_ns) == (45_000_000, 660_000_000)
    assert set(load_presets()) == {"dumbbell", "fibre", "geo"}


def test_a_preset_with_parameters():
    path = parse_preset("Dumbbell: rate=2.5GBIT , queue=250packets,rtt=100us")
    assert (path.down_bps, path.up_bps, path.rtt_ns) == (2_500_000_000, 2_500_000_000, 100_000)
    assert (path.queue.kind, path.queue.amount) == ("packets", 250)
    assert path.text == "dumbbell:rate=2.5gbit,rtt=100us,queue=250packets,loss=0"


@pytest.mark.parametrize(("text", "loss"), [("0", 0.0), ("1e-3", 0.001), ("0.1%", 0.001), ("1", 1.0)])
def test_a_preset_with_loss(text, loss):
    assert parse_preset(f"dumbbell:loss={text}").loss == loss


@pytest.mark.parametrize("text", ["-1", "2", "101%", "nan", "1e9", "much"])
def test_an_invalid_loss_is_refused(text):
    with pytest.raises(UserError, match="dumbbell: loss"):
        parse_preset(f"dumbbell:loss={text}")


rates = st.tuples(st.integers(1, 10**6), st.sampled_from([("bit", 1), ("kbit", 10**3), ("mbit", 10**6)]))
times = st.tuples(st.integers(1, 60), st.sampled_from([("us", 10**3), ("ms", 10**6), ("s", 10**9)]))
queues = st.tuples(
    st.integers(1, 60),
    st.sampled_from(
        [
            *(("bytes", "bytes", 1), ("kb", "bytes", 10**3), ("mb", "bytes", 10**6), ("packets", "packets", 1)),
            *(("bdp", "bdp", 1), ("us", "time", 10**3), ("ms", "time", 10**6), ("s", "time", 10**9)),
        ]
    ),
)


@given(rates, rates, times, queues, st.permutations(["down", "up", "rtt", "queue"]))
def test_presets_are_exact_and_their_text_parses_to_the_same_path(down, up, rtt, queue, order):
    texts = {key: f"{v[0]}{v[1][0]}" for key, v in (("down", down), ("up", up), ("rtt", rtt), ("queue", queue))}
    path = parse_preset("fibre:" + ",".join(f"{key}={texts[key]}" for key in order))
    assert (path.down_bps, path.up_bps) == (down[0] * down[1][1], up[0] * up[1][1])
    assert path.rtt_ns == rtt[0] * rtt[1][1]
    assert (path.queue.kind, path.queue.amount) == (queue[1][1], queue[0] * queue[1][2])
    assert parse_preset(path.text) == path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "unknown preset"),
        ("dumbbell:", "not key=value"),
        ("dumbbell:rate", "not key=value"),
        ("dumbbell:rate=", "not key=value"),
        ("dumbbell:rate=1mbit,rate=2mbit", "given twice"),
        ("dumbbell:down=1mbit", "unknown parameter of preset dumbbell"),
        ("fibre:rate=1mbit", "unknown parameter of preset fibre"),
        ("dumbbell:rate=100", "not a number with a unit"),
        ("dumbbell:rate=-1mbit", "not a number with a unit"),
        ("dumbbell:rate=1e3mbit", "not a number with a unit"),
        ("dumbbell:rate=100mbits", "did you mean 'mbit'"),
        ("dumbbell:rate=0mbit", "out of range"),
        ("dumbbell:rate=1001gbit", "out of range"),
        ("dumbbell:rate=1.5bit", "finer than the smallest unit"),
        ("dumbbell:rtt=0ms", "out of range"),
        ("dumbbell:rtt=61s", "out of range"),
        ("dumbbell:rtt=40mbit", "unknown unit"),
        ("dumbbell:queue=0bdp", "out of range"),
        ("dumbbell:queue=1.5packets", "finer than the smallest unit"),
        ("dumbbell:queue=1mbit", "unknown unit"),
    ],
)
def test_invalid_presets_are_refused(text, says):
    with pytest.raises(UserError, match=says) as error:
        parse_preset(text)
    assert_one_line(error)


@given(st.text() | st.text("0123456789.mkgbitsdp=,:ratequ", max_size=30).map("dumbbell:".__add__))
def test_any_text_gives_a_preset_or_a_one_line_error(text):
    path = result_or_message(parse_preset, text)
    if isinstance(path, str):
        assert len(path.splitlines()) == 1
    else:
        assert path.down_bps > 0
        assert path.rtt_ns > 0
