"""The report on measured Runs: of every table, and of the results of every built-in experiment of the testbed."""

import csv
import json
import re
import shutil

import measured_runs as made
import numpy as np
import polars as pl
import pytest
from report_page import Page
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.measurements.runs.figures import TimeFigure, TimeSeries, figures_of
from bentpipe.plots.measured import plot_measured
from bentpipe.report.build import write_report
from bentpipe.report.measured import MOST_DRAWN

TABLES = {
    "ping": {"probes": made.pings()},
    "tcp-ping": {"probes": made.pings("tcp", "192.0.2.1:443")},
    "traceroute": {"hops": made.routes()},
    "irtt": {"probes": made.pings("udp").with_columns(up_ms=pl.col("rtt_ms") / 2, down_ms=pl.col("rtt_ms") / 2)},
    "iperf3": {"samples": made.transfers(2).with_columns(rtt_smoothed_ms=40.0, retransmits=1)},
    "web": {"samples": made.transfers()},
    "video": {"samples": made.transfers()},
    "http3": {"samples": made.transfers()},
    "call": {"probes": made.pings("udp")},
    "dish": {"dish_samples": made.telemetry()},
}
MEDIANS = {
    "ping": {"rtt": 40.0},
    "tcp-ping": {"rtt": 40.0},
    "traceroute": {"hops": 1.0},
    "irtt": {"rtt": 40.0, "one_way": 20.0},
    "iperf3": {"throughput": 16e6, "tcp_rtt": 40.0, "retransmits": 2.0},
    **{name: {"throughput": 8e6} for name in ("web", "video", "http3")},
    "call": {"rtt": 40.0},
    "dish": {"dish_latency": 25.5, "dish_throughput": 2e6, "dish_loss": 0.0},
}


def charts_of(page):
    """The data of the charts."""
    return [json.loads(each) for each in re.findall(r'<script type="application/json">(.*?)</script>', page)]


def result(folder, name, tables=None):
    """Write a result of the testbed, as it is downloaded; return its folder."""
    target = folder / "study/attic/20260510T090000Z/0123"
    run = made.write(folder / "written", tables or TABLES[name])
    shutil.copytree(run.path, target)
    shutil.rmtree(folder / "written")
    (target / "testbed.json").write_text("{}")
    outcome = {"builtin": name, "error": None, "figures": {"packets": 152, "up": {"mos": 4.4}, "chunks": [1]}}
    (target / "builtin.json").write_text(json.dumps(outcome))
    return target


@pytest.mark.parametrize("name", TABLES)
def test_each_built_in_experiment_gets_a_page(name, tmp_path):
    folder = result(tmp_path, name)
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert (done.exit_code, done.output.strip()) == (0, str(folder / "report.html"))
    page = (folder / "report.html").read_text()
    assert f"<dt>Program</dt><dd>{name}</dd>" in page
    assert "<dt>Experiment</dt><dd>study</dd>" in page
    assert "· measured</p>" in page
    assert "<dt>up</dt><dd>mos 4.4</dd>" in page
    Page(page)
    (chart,) = charts_of(page)
    rows = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert {row["figure"]: float(row["median"]) for row in rows[::-1]} == MEDIANS[name]
    assert len(chart["panels"]) == len(MEDIANS[name])
    assert len(list((folder / "figures").iterdir())) == 1


@pytest.mark.parametrize("command", ["analyze", "profile"])
def test_the_other_commands_read_them_too(command, tmp_path):
    analyses = {"probes": "latency", "hops": "path", "samples": "throughput"}
    for name, tables in TABLES.items():
        folder = result(tmp_path / name, name)
        (table,) = tables
        if command == "analyze" and table in analyses:
            done = CliRunner().invoke(app, ["analyze", analyses[table], str(folder)])
            assert done.exit_code == 0, done.output
        elif command == "profile":
            done = CliRunner().invoke(app, ["profile", "from", str(folder), "-o", str(tmp_path / f"{name}.parquet")])
            assert done.exit_code == (0 if table == "probes" else 2), (name, done.output)
            assert table == "probes" or done.output.count("\n") == 1, done.output


def test_a_folder_of_results_has_medians_over_time_and_the_terminal_beside(tmp_path):
    folder = result(tmp_path, "ping")
    shutil.copytree(made.write(tmp_path / "dish", TABLES["dish"]).path, folder / "terminal")
    shutil.copytree(folder, folder.with_name("0124"))
    overview, first, second = charts_of(write_report(tmp_path / "study/attic").read_text())
    assert overview["panels"][0]["title"] == "RTT, median of each measurement"
    assert [panel["title"] for panel in first["panels"]] == [panel["title"] for panel in second["panels"]]
    assert [panel["short"] for panel in first["panels"]][:2] == ["RTT", "Terminal: latency to the PoP"]
    assert first["panels"][0]["ticks"] == [[0, [0.4]]]


def test_measurements_of_the_same_second_have_headings_of_their_own(tmp_path):
    folder = result(tmp_path, "ping")
    shutil.copytree(folder, folder.with_name("0124"))
    page = write_report(tmp_path / "study/attic").read_text()
    headings = re.findall(r"<h2>(.*, study.*)</h2>", page)
    assert len(headings) == len(set(headings)) == 2
    assert headings[1] == f"{headings[0]} (2)"


@pytest.mark.filterwarnings("ignore::bentpipe.runs.store.DamagedRunWarning")
def test_a_rehearsal_is_not_headed_measured_and_names_its_emulation(tmp_path):
    folder = result(tmp_path, "ping")
    emulated = folder / "emulation/program/emulated/20260510T090000.0Z"
    emulated.mkdir(parents=True)
    (emulated / "run.json").write_text("{}")
    page = write_report(folder).read_text()
    Page(page)
    assert "· emulated</p>" in page
    assert ">emulation/program/emulated/20260510T090000.0Z</a>" in page


def test_many_measurements_keep_the_page_small(tmp_path):
    for number in range(MOST_DRAWN + 3):
        made.write(tmp_path, {"probes": made.pings()}, f"{number}")
    text = write_report(tmp_path).read_text()
    assert f"Figures show {MOST_DRAWN} of {MOST_DRAWN + 3} measurements" in text
    assert len(charts_of(text)) == MOST_DRAWN + 1


def test_a_missing_or_damaged_table_is_one_line(tmp_path):
    folder = result(tmp_path, "ping")
    (folder / "probes.parquet").write_bytes(b"PAR1")
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 2
    assert "probes.parquet: its SHA-256 is not the one in run.json" in done.output
    assert done.output.count("\n") == 1
    (folder / "probes.parquet").unlink()
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert not (folder / "report.html").exists()


def test_text_of_a_stranger_is_text_and_all_lost_is_shown(tmp_path):
    lost = made.pings(target="<script>alert(1)</script>").with_columns(rtt_ms=pl.lit(None, pl.Float64))
    folder = result(tmp_path, "ping", {"probes": lost})
    (folder / "builtin.json").write_text('{"builtin": "<b>", "error": "<script>", "figures": 7}')
    page = write_report(folder).read_text()
    assert "<script>alert" not in page
    assert ">20</td>" in page
    (folder / "builtin.json").write_text('{"builtin": "<b>", "error": "<script>", "figures": {}}')
    assert "<b>" not in write_report(folder).read_text()


def test_equal_values_are_below_the_upper_edge():
    times = np.array([0, 10**9])
    figure = TimeFigure("rtt", "RTT", "ms", (TimeSeries("", times, np.array([40.0, 40.0])),))
    low, high = plot_measured([figure], 0).axes[0].get_ylim()
    assert low == 0
    assert high > 42


def test_flows_add_up_and_hops_are_medians():
    class Run:
        start_unix_ns = made.START
        probes = links = None
        hops, samples = (
            made.routes(),
            TABLES["iperf3"]["samples"].with_columns(pl.lit(None).alias(name) for name in ("omitted", "sent_bps")),
        )

        def table(self, _):
            return None

    hops, rate, *_ = figures_of(Run())
    assert [(each.name, each.values.tolist()) for each in hops.series] == [("hop 1", [1.0]), ("hop 2", [30.0, 34.0])]
    assert rate.series[0].name == "down"
    assert np.array_equal(rate.series[0].unix_ns, made.START + np.array([1, 3, 5]) * made.SECOND // 2)
