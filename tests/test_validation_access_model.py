"""The rank test of the access model: its readers, its distances, and that it can fail."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.validation.access_model import pings
from bentpipe.validation.access_model.model import replays, shuffled
from bentpipe.validation.access_model.rank_test import rank
from bentpipe.validation.access_model.statistics import distances, summarise

DATA = Path(os.environ.get("BENTPIPE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def process(seed, *, slots=True, level=1.0):
    """Round trips of a made-up path every 12 ms: slot offsets, and noise with a memory of 100 ms."""
    rng = np.random.default_rng(seed)
    t_s = np.arange(0, pings.WINDOW_S, 0.012)
    noise = np.convolve(rng.exponential(5.0, t_s.size + 9), np.ones(10), "valid") / 10
    offsets = rng.exponential(8.0, 8) * level * np.exp(0.3 * rng.standard_normal())
    return t_s, 20 + noise + (offsets[(t_s / pings.SLOT_S).astype(int)] if slots else offsets.mean())


def summaries(seeds, **kind):
    return [summarise(*process(seed, **kind)) for seed in seeds]


def fails(model):
    real = summaries(range(24))
    return {r.statistic.split(" [")[0] for r in rank(real, real[12:], model) if not r.passes}


def test_the_process_itself_passes_and_each_control_fails_where_it_should():
    assert fails(summaries(range(100, 130))) == set()
    assert "slot steps" in fails(summaries(range(100, 130), slots=False))
    rng = np.random.default_rng(1)
    mixed = [(t, shuffled(t, r, rng)) for t, r in (process(seed) for seed in range(100, 130))]
    assert "SF 12 ms" in fails([summarise(t, r) for t, r in mixed])
    one = pings.Window(0, *process(3))
    assert "slot medians" in fails(replays(one, 10, rng, summarise))


def test_distances_are_zero_to_oneself_and_symmetric():
    made = summaries(range(4))
    d = distances(made, made)
    assert d.shape == (8, 4, 4)
    assert np.allclose(d[:, range(4), range(4)], 0)
    assert np.allclose(d, d.transpose(0, 2, 1))
    assert (d[:, 0, 1] > 0).all()


def test_an_undefined_lag_is_left_out():
    t_s, _ = process(1)
    coarse = [summarise(t_s[::40], process(seed)[1][::40], (1.0, 7.0)) for seed in range(4)]
    assert [r.statistic for r in rank(coarse, coarse, coarse)] == [
        "W1 [ms]",
        "slot medians [ms]",
        "in-slot W1 [ms]",
        "slot steps [|ln|]",
        "SF 1000 ms [|ln|]",
        "SF 7000 ms [|ln|]",
    ]


def test_probes_are_timed_when_sent_and_lost_ones_left_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("100.050\t1\t50.0\n101.0\t2\t-1.0\n102.030\t3\t30.0\n")
    sent_s, rtt_ms = pings.read_columns(path, 0, 2, 1.0)
    assert sent_s == pytest.approx([100.0, 102.0])
    assert rtt_ms.tolist() == [50.0, 30.0]


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\nhello\n")
    with pytest.raises(UserError, match=r"a\.csv:2: 'hello'"):
        pings.read_columns(path, 0, 1, 1.0)


@given(st.binary(max_size=200))
def test_readers_never_crash(tmp_path_factory, junk):
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_bytes(junk)
    for read in (lambda: pings.read_columns(path, 0, 1, 1.0), lambda: pings.read_pings(path)):
        try:
            sent_s, rtt_ms = read()
        except UserError:
            continue
        assert sent_s.size == rtt_ms.size > 0
        assert np.isfinite(sent_s).all()


def test_windows_begin_at_edges_and_need_replies():
    t_s = np.arange(1000.0, 1400.0, 0.5)
    t_s = t_s[(t_s < 1160) | (t_s > 1200)]  # three slots of the second window without replies
    found = pings.cut(t_s, np.full(t_s.size, 30.0), phase_s=12.0)
    assert [w.start_unix_s % 15 for w in found] == [12] * len(found)
    assert [w.start_unix_s for w in found] == [1002, 1242]


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no measurements at {DATA} (set BENTPIPE_DATA)")
def test_campaigns_read_as_their_readme_says():
    sites = {site.name: site for site in pings.load_sites(DATA)}
    victoria = sites["victoria"]
    assert len(victoria.fitted) == 6
    rtt_ms = np.concatenate([w.rtt_ms for w in victoria.fitted])
    assert np.median(rtt_ms) == pytest.approx(26.4, abs=1.0)
    assert all((w.t_s >= 0).all() and (w.t_s < pings.WINDOW_S).all() for site in sites.values() for w in site.held_out)
    assert all((w.rtt_ms > 0).all() for site in sites.values() for w in site.held_out)
