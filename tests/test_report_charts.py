"""The data of the report's interactive figures: thinned without losing an extreme, and safe in a script element."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bentpipe.execution.racing import race
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.report import charts
from bentpipe.report.build import write_report
from bentpipe.report.charts import Chart, Entry, Marks, Panel
from bentpipe.runs.store import find_runs

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    path = make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=40.0)
    race([path], ["reno", "bbr", "bbr+bbr"], out=out, duration_s=30.0)
    return out


def values(size):
    return arrays.arrays(np.float64, size, elements=st.floats(-1e6, 1e6) | st.just(float("nan")))


@given(st.integers(1, 400).flatmap(values), st.integers(2, 60))
def test_thinning_keeps_every_span_s_extremes(y, most):
    x = np.arange(len(y)) * 0.1
    thin_x, thin_y = charts.thin(x, y, most)
    assert len(thin_x) == len(thin_y) <= max(most, 2)
    assert (np.diff(thin_x) > 0).all()
    assert x[0] <= thin_x[0]
    assert thin_x[-1] <= x[-1]
    known = y[np.isfinite(y)]
    if len(known):
        assert (np.nanmin(thin_y), np.nanmax(thin_y)) == (known.min(), known.max())
        assert set(thin_y[np.isfinite(thin_y)]) <= set(known)
    if len(y) > most:  # each span by the definition
        spans = most // 2
        at = np.minimum((x / (x[-1] / spans)).astype(int), spans - 1)
        for i, pair in enumerate(thin_y.reshape(-1, 2)):
            inside = y[(at == i) & np.isfinite(y)]
            assert np.isnan(pair).all() if not len(inside) else sorted(pair) == [inside.min(), inside.max()]


def test_a_long_run_s_lines_are_thinned_and_regular():
    x = np.arange(1, 36_001) * 0.1
    line = charts.line(0, x, np.sin(x), most=1000)
    assert line.regular
    assert len(line.y) == 1000
    assert line.x[0] + line.x[1] * 999 == pytest.approx(x[-1], abs=2 * line.x[1])
    short = charts.line(0, x[:600], x[:600], most=1000)
    assert (short.regular, short.x, len(short.y)) == (True, [0.1, 0.1], 600)
    odd = charts.line(0, np.array([0.1, 0.2, 0.4]), np.array([1.0, np.nan, 123456.0]))
    assert (odd.regular, odd.x, odd.y) == (False, [0.1, 0.2, 0.4], [1.0, None, 123500.0])


def test_a_large_page_s_lines_have_fewer_points():
    assert charts.points_per_line(6) == charts.MOST_POINTS
    assert charts.points_per_line(240) == 1000
    assert charts.points_per_line(10**6) == charts.FEWEST_POINTS


def test_a_timeline_s_chart_agrees_with_the_runs(raced):
    runs = [run for run in find_runs(raced) if len(run.flows) == 1]
    chart = charts.timeline(runs, 2400, absent=["cubic"])
    assert [entry.name for entry in chart.entries] == ["Capacity", "BBR", "NewReno (reno)", "CUBIC: not valid"]
    assert [entry.absent for entry in chart.entries] == [False, False, False, True]
    goodput, cwnd, rtt, backlog = chart.panels
    assert [panel.unit for panel in chart.panels] == ["Mbit/s", "MB", "ms", "kB"]
    for i, run in enumerate(runs, 1):
        (line,) = [line for line in goodput.lines if line.entry == i]
        assert np.mean(line.y) == pytest.approx(run.flows[0]["whole_run_bps"] * 1e-6, rel=0.02)
        (line,) = [line for line in cwnd.lines if line.entry == i]
        assert max(line.y) == pytest.approx(run.samples()["cwnd_bytes"].max() * 1e-6, rel=1e-3)
    assert len(rtt.lines) == len(backlog.lines) == 2
    assert chart.end == 30.0
    assert len(chart.marks.handovers) + len(chart.marks.slots) >= 2
    assert chart.marks.serving[0][0] == 0.0
    assert chart.marks.serving[-1][1] == 30.0


def test_flows_of_one_controller_are_told_apart(raced):
    (run,) = [run for run in find_runs(raced) if len(run.flows) == 2]
    chart = charts.sharing(run, 2400)
    assert [entry.name for entry in chart.entries] == ["Capacity", "BBR (1)", "BBR (2)", "All flows"]
    assert [bool(entry.dashes) for entry in chart.entries] == [False, False, True, False]


def test_a_cdf_s_chart_has_quantiles(raced):
    runs = [run for run in find_runs(raced) if len(run.flows) == 1]
    chart = charts.cdfs(runs, 400)
    rtt = chart.panels[2]
    for line in rtt.lines:
        assert line.y == sorted(line.y)
        assert len(line.y) == 100
    samples = runs[0].samples().filter(__import__("polars").col("t_s") > runs[0].warmup_s)["rtt_latest_ms"].drop_nulls()
    assert (rtt.lines[0].y[0], rtt.lines[0].y[-1]) == pytest.approx((samples.min(), samples.max()), rel=1e-3)


@given(st.text())
def test_no_text_ends_the_script_element(text):
    marks = Marks([], [], [], [], [(0.0, 1.0, text)])
    chart = Chart("time", text, [Entry(text, "#000000")], [Panel(text, text, text, [])], 1.0, marks)
    written = chart.to_json()
    assert not set("<>&") & set(written)
    assert json.loads(written)["entries"][0]["name"] == text


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "$x$ <!--<script>", "a\x1b[2J\ud800\u2028b"])
def test_a_hostile_label_stays_text_in_the_page(raced, tmp_path, name):
    path = preset_profile("dumbbell:rate=20mbit", 3.0, start_unix_ns=START_UNIX_NS, name="near")
    race([path], ["reno"], out=tmp_path, duration_s=3.0)
    (file,) = tmp_path.glob("race-down/*/*/*/run.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    record["profiles"][0]["label"] = name
    record["summary"]["flows"][0]["controller"] = name
    record["scheme"] = name
    file.write_text(json.dumps(record), encoding="utf-8")
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert len(re.findall("<script", text)) == 1 + text.count('<script type="application/json">') >= 3
    assert text.count("</script>") == text.count("<script")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", text)
    for data in re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL):
        assert json.loads(data)["panels"]
