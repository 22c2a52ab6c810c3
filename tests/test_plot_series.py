"""What figures are drawn from."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from bentpipe.execution.racing import race
from bentpipe.experiments.experiment import Flow
from bentpipe.plots import series, style
from bentpipe.plots.profile import plot_profile, save_profile_figure
from bentpipe.plots.timeline import plot_timeline
from bentpipe.plots.tradeoff import Point, plot_tradeoffs
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.path import raced_path

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z

RATE_BPS = 9.85e6


def run_of(start_s, took_s, *, run_s=60.0, warmup_s=0.0, stops=False):
    """A Run of one flow at `RATE_BPS` from `start_s` on, sampled every 100 ms, and once at or after its close."""
    steps = np.arange(1, round(run_s * 10) + 1) / 10
    t_s = [t for t in steps if start_s < t < start_s + took_s + 0.1 and t <= run_s + 1e-9]
    received = [round(RATE_BPS / 8 * (min(t, start_s + took_s) - start_s)) for t in t_s]
    samples = pl.DataFrame({"t_s": t_s, "flow": [0] * len(t_s), "goodput_bytes": received})
    stop_ns = round((start_s + took_s) * 1e9) if stops else None
    spec = Flow(controller="cubic", start_ns=round(start_s * 1e9), stop_ns=stop_ns)
    return SimpleNamespace(
        record=SimpleNamespace(experiment=SimpleNamespace(flows=[spec])),
        flows=[{"completed_s": None if stops else took_s}],
        samples=lambda: samples,
        duration_s=run_s,
        warmup_s=warmup_s,
    )


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(
    ("start_s", "took_s", "bins"), [(0.0, 2.0, 2), (3.3, 2.05, 2), (0.25, 0.4, 1), (7.77, 0.03, 1)]
)
def test_goodput_of_a_short_flow_covers_its_own_duration(start_s, took_s, bins, stops):
    """Not of the seconds of the run that it lay in, with the silence before and after it."""
    goodput = series.flow_goodput(run_of(start_s, took_s, stops=stops), 0, 1.0)
    assert goodput == pytest.approx([RATE_BPS] * bins, rel=0.001)


def test_goodput_over_time_is_drawn_during_the_flow():
    at_s, bps = series.flow_bins(run_of(3.3, 2.05), 0, 1.0)
    assert at_s == pytest.approx([3.8, 4.8])
    assert bps == pytest.approx([RATE_BPS] * 2, rel=0.001)


def test_the_warm_up_is_excluded_if_the_flow_outlasts_it():
    long = run_of(0.0, 60.0, warmup_s=10.0)
    assert series.flow_goodput(long, 0, 1.0) == pytest.approx([RATE_BPS] * 50, rel=0.001)
    short = run_of(0.0, 4.0, warmup_s=10.0)
    assert series.flow_goodput(short, 0, 1.0) == pytest.approx([RATE_BPS] * 4, rel=0.001)


def test_a_flow_without_samples_has_no_goodput():
    run = run_of(1.0, 0.5)
    run.samples = lambda: pl.DataFrame({"t_s": [], "flow": [], "goodput_bytes": []})
    assert len(series.flow_goodput(run, 0, 1.0)) == 0


def links(**columns):
    rows = {
        "t_s": [1.0, 2.0],
        "profile": ["path"] * 2,
        "hop": ["air"] * 2,
        "direction": ["down"] * 2,
        "flow": [-1] * 2,
        "drops_queue": [0, 3],
        "drops_loss": [0, 0],
        "drops_event": [0, 0],
    }
    return pl.DataFrame({**rows, **columns})


def test_the_queue_is_the_peak_of_each_window_and_in_older_runs_its_end():
    both = series.path_series(links(backlog_bytes=[0, 10], backlog_max_bytes=[900, 10]), "down")
    assert (both.has_peak, both.backlog_bytes.tolist()) == (True, [900.0, 10.0])
    assert both.drops_queue.tolist() == [0.0, 3.0]
    assert both.drops_no_route.tolist() == [0.0, 0.0]
    outage = links(backlog_max_bytes=[0, 0], hop=["no_route"] * 2, drops_no_route=[40, 45], drops_queue=[0, 0])
    assert series.path_series(outage, "down").drops_no_route.tolist() == [40.0, 5.0]
    older = series.path_series(links(backlog_bytes=[0, 10]), "down")
    assert (older.has_peak, older.backlog_bytes.tolist()) == (False, [0.0, 10.0])


def test_every_loss_episode_and_outage_leaves_a_mark(tmp_path):
    """Episodes of some milliseconds in a Run of 100 s are narrower than a dot of the figure."""
    path = make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=60.0, seed=3)
    (run,) = race([path], ["reno"], out=tmp_path, duration_s=60.0, phase_s=0.0).runs
    episodes = raced_path(run).loss_episodes("down")
    assert min(end - start for start, end in episodes) < 0.03
    axis = plot_timeline([run]).axes[0]
    marks = [p.get_extents() for p in axis.collections[-1].get_paths()]
    assert len(marks) == len(episodes)
    for mark, (start, end) in zip(marks, episodes, strict=True):
        assert mark.width > 0.999 * max(end - start, run.duration_s * style.NARROWEST)
        assert mark.x0 <= start + 1e-9
        assert mark.x1 >= end - 1e-9


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted), max_size=5), st.floats(1e-3, 1e6))
def test_widened_spans_contain_the_originals_and_stay_on_the_axis(spans, length):
    spans = [(start * length, end * length) for start, end in spans]
    for (start, end), (low, high) in zip(spans, style.widened(spans, length), strict=True):
        assert low <= start * (1 + 1e-9)
        assert high >= end * (1 - 1e-9)
        assert low >= 0
        assert high <= length * (1 + 1e-9)
        assert high - low >= 0.999 * style.NARROWEST * length


@pytest.mark.parametrize("name", [r"$\frac$", "costs $5 to $6", r"a\$b$"])
def test_a_dollar_in_a_name_starts_no_formula(tmp_path, name):
    path = preset_profile("dumbbell:rate=20mbit", 3.0, start_unix_ns=START_UNIX_NS, name=name)
    save_profile_figure(path, tmp_path / "profile.svg")
    assert plot_profile(path).axes[0].get_title(loc="left") == name
    assert not plot_profile(path).axes[0].title.get_parse_math()
    points = [Point(name, name, 1.0, 2.0)]
    figure = plot_tradeoffs(points, title=name)
    style.save(figure, tmp_path / "tradeoffs.png")
    assert not any(text.get_parse_math() for text in figure.findobj(Text) if "$" in text.get_text())


def test_ticks_of_a_logarithmic_axis_are_plain_numbers(tmp_path):
    figure = plot_tradeoffs([Point("cubic", "a", 0.5, 2.0), Point("bbr", "a", 2000.0, 2.0)], title="")
    style.save(figure, tmp_path / "tradeoffs.png")
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert {"1", "10", "100", "1000"} <= set(labels)


def test_names_in_the_serving_strip_do_not_overlap(tmp_path):
    """Louvain's gateway and PoP change with the satellite, so their names are three times as long."""
    path = make_profile("louvain", "london", start_unix_ns=START_UNIX_NS, duration_s=60.0, seed=3)
    (run,) = race([path], ["reno"], out=tmp_path, duration_s=60.0, phase_s=0.0).runs
    figure = plot_timeline([run])
    style.save(figure, tmp_path / "timeline.png")
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) > 2
    assert all(a.x1 < b.x0 for a, b in pairwise(boxes))
