"""The report and the figures of tests of latency under load."""

import csv
import json
import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from report_page import Page

import bentpipe as bp
from bentpipe.errors import UserError
from bentpipe.plots import load_test as plots
from bentpipe.report import latency

START = "2026-05-10T09:00Z"


@pytest.fixture(scope="module")
def runs():
    path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms,queue=1bdp", duration=30, start=START)
    return bp.Experiment(path, schemes=["cubic", "bbr"], test="rrul", seeds=2, duration=20).simulate()


def test_the_figure_shows_the_sum_of_the_flows_and_every_ping(runs):
    figure = runs.plot.latency(seed=1)
    assert isinstance(figure, Figure)
    down, up, rtt = figure.axes
    assert down.get_title(loc="left").startswith("Download")
    assert up.get_title(loc="left").startswith("Upload")
    run = runs["cubic", 1]
    summary = run.summary()
    for axis, direction in ((down, "down"), (up, "up")):
        (line,) = [line for line in axis.get_lines() if line.get_label() == "CUBIC"]
        # Four flows over ten seconds of twenty.
        assert np.nansum(line.get_ydata()) * 1e6 == pytest.approx(
            10 * summary.filter(direction=direction)["whole_run_bps"].sum(), rel=0.02
        )
    (line, *_) = [line for line in rtt.get_lines() if len(line.get_xdata()) > 300]
    pings = run.pings()
    assert np.array_equal(line.get_xdata(), pings["t_s"])
    assert np.array_equal(np.isnan(line.get_ydata()), pings["lost"])
    assert np.nanmax(line.get_ydata()) == pings["rtt_ms"].max()


def test_a_figure_of_latency_needs_pings(runs):
    plain = bp.Experiment(bp.Profile.preset("dumbbell:rate=10mbit", duration=3), schemes=["cubic"]).simulate()
    with pytest.raises(UserError, match="latency: no Run with pings"):
        plain.plot.latency()
    with pytest.raises(UserError, match="expected 3 Matplotlib axes"):
        runs.plot.latency(ax=Figure().subplots())


def test_the_page_shows_latency_idle_and_under_load(runs, tmp_path):
    page = runs.report(tmp_path / "report.html")
    text = page.read_text(encoding="utf-8")
    assert not Page(text).open
    assert "<h1>Latency under load: test rrul</h1>" in text
    table = text.partition("<h3>Latency under load</h3>")[2].partition("</table>")[0]
    assert re.findall(r"</span>(\w+)</td>", table) == ["idle", "both", "idle", "both"]
    assert re.search(r"with CUBIC, the median RTT of pings was 40.1 ms idle and [\d.]+ ms under load both ways", text)
    results = text.partition("<h3>Latency under load</h3>")[2].partition("</table>")[2]
    for name in ("CUBIC", "BBR"):
        scheme = name.lower()
        assert results.count(f"4 × {scheme} down") == results.count(f"4 × {scheme} up") == 3  # and no flow alone
    assert not re.search(r"</span>(cubic|bbr)</td>", results)
    assert "Share" not in results
    assert "Jain" not in text.partition("<main>")[0]
    (chart,) = [json.loads(data) for data in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)]
    assert [panel["short"] for panel in chart["panels"]] == ["Download", "Upload", "Pings"]
    assert [entry["name"] for entry in chart["entries"]] == ["Capacity (down)", "Capacity (up)", "CUBIC", "BBR"]
    assert [len(panel["lines"]) for panel in chart["panels"]] == [3, 3, 2]
    with (tmp_path / "results.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 4 * 8
    assert [file.name for file in (tmp_path / "figures").iterdir()] == [
        "test-rrul-dumbbell-rate-10mbit-rtt-40ms-queue-1bdp-loss-0-latency.png"
    ]


def test_the_table_and_the_sentences_are_of_the_loads(runs):
    stored = [run.stored for run in runs]
    rows = latency.rows(stored)
    assert [(row.scheme, row.flow, row.first, row.flows) for row in rows] == [
        (scheme, load, load == "idle", 2) for scheme in ("cubic", "bbr") for load in ("idle", "both")
    ]
    assert all(len(row.cells) == len(latency.COLUMNS) for row in rows)
    one, two = latency.sentences("here", stored)
    assert one.startswith("Over here with CUBIC, the median RTT of pings was 40.1 ms idle and")
    assert re.search(r"at [\d.]+ Mbit/s down and [\d.]+ Mbit/s up\.$", two)
    assert latency.rows([]) == []


def test_goodput_is_that_of_the_path_of_the_pings(runs):
    run = runs["bbr", 0].stored
    at_s, bps = plots.total_goodput(run, "down")
    assert len(at_s) == 20
    assert bps[:5].max() == 0
    assert bps[7:14].mean() == pytest.approx(9.2e6, rel=0.08)
    assert plots.ping_path(run) == "path"


def test_flows_of_an_experiment_file_keep_their_figures_beside_the_latency(tmp_path):
    path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=12, start=START)
    path.write(tmp_path / "p.parquet")
    file = tmp_path / "e.toml"
    file.write_text(
        'name = "mine"\nduration_s = 12\n[[profiles]]\nrole = "a"\nfile = "p.parquet"\n'
        '[[flows]]\ncontroller = "cubic"\nstart_s = 4\n[[pings]]\nevery_s = 0.1\n',
        encoding="utf-8",
    )
    text = bp.Experiment.read(file).simulate().report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h3>Latency under load</h3>" in text
    assert sorted(each.name.rpartition("-")[2] for each in (tmp_path / "figures").iterdir()) == [
        "cdf.png", "destinations.png", "latency.png", "overview.png", "timeline.png",
    ]  # fmt: skip
    assert "carried" in text
