"""Items of applications by their kind: summaries, tables, report and comparison."""

import dataclasses

import pytest
from object_profiles import dumbbell

import bentpipe as bp
from bentpipe.report import compare
from bentpipe.runs import summary as summaries
from bentpipe.runs.items import Items, items_by_kind
from bentpipe.runs.summary import summarise
from bentpipe.runs.text import result_tables

TWO_KINDS = """
from bentpipe.plugin import App


class Polls(App):
    def on_started(self, now_s):
        self.open()

    def on_opened(self, now_s, stream):
        self.stream = stream
        self.on_timer(now_s, 0)

    def on_timer(self, now_s, number):
        kind, size = ("poll", 2_000) if number % 3 else ("picture", 200_000)
        self.write(self.stream, 200, number=number, answer_bytes=size)
        self.record(number, kind=kind, start_s=now_s, size_bytes=size)
        if number < 11:
            self.set_timer(now_s + 0.3, number + 1)

    def on_message(self, now_s, stream, message):
        self.record(message.number, first_byte_s=message.first_byte_s, completed_s=now_s)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    file = tmp_path_factory.mktemp("apps") / "mine.py"
    file.write_text(TWO_KINDS, encoding="utf-8")
    return bp.Experiment(dumbbell(), schemes=["cubic", "bbr"], app=f"{file}:Polls", seeds=2).simulate()


def test_items_are_summarised_by_kind(runs):
    table = runs.items().filter(scheme="cubic")
    assert table.select("kind", "items", "completed").rows() == [("picture", 4, 4), ("poll", 8, 8)]
    picture, poll = table["median_s"]
    assert picture > 2 * poll
    own = items_by_kind(runs["cubic", 0].stored)["poll"]
    assert own.quantile_s(50) == sorted(own.durations_s)[3]  # nearest rank, as in run.json
    assert set(runs.summary()["item_median_s"]) == {None}


def test_items_of_one_kind_are_those_of_run_json():
    run = bp.Experiment(dumbbell(), schemes=["cubic"], app="request:200bytes/30kb,n=9").simulate()
    app = run[0].stored.flows[0]["app"]
    ((kind, items, median_s, p95_s),) = run.items().select("kind", "items", "median_s", "p95_s").rows()
    assert (kind, items, median_s, p95_s) == ("request", app["items"], app["median_s"], app["p95_s"])
    assert run.summary()["item_p95_s"][0] == app["p95_s"]


def test_no_item_has_no_quantile():
    assert Items("poll", 2, 0, []).quantile_s(50) is None


def test_the_table_and_the_report_have_a_row_for_each_kind(runs, tmp_path):
    (table,) = result_tables(summarise(run.stored for run in runs))
    assert table.title.startswith("dumbbell, down: ")
    item = table.columns.index("item")
    assert [row[item] for row in table.rows] == ["picture", "poll"] * 2
    assert [bool(row[0]) for row in table.rows] == [True, False] * 2
    page = runs.report(tmp_path / "page.html").read_text(encoding="utf-8")
    results = page.partition("<table>")[2].partition("</table>")[0]
    assert results.count("<small>picture</small>") == results.count("<small>poll</small>") == 2


def test_a_comparison_has_items_by_kind(runs, tmp_path):
    comparison = runs.compare(runs)
    table = comparison.items()
    assert table.select("scheme", "kind", "n").rows() == [
        (scheme, kind, len(comparison.schemes[i].pairs))
        for i, scheme in enumerate(("cubic", "bbr"))
        for kind in ("picture", "poll")
    ]
    assert table["median_ratio"].to_list() == [1.0] * 4
    assert table["median_a_s"].to_list() == table["median_b_s"].to_list()
    assert "picture" in comparison._repr_html_()
    page = comparison.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Items of the applications" in page
    assert all(head in page for head in compare.ITEM_HEADS)
    plain = bp.Experiment(dumbbell(), schemes=["cubic"]).simulate()
    assert plain.compare(plain).items().height == 0
    assert "Items" not in plain.compare(plain)._repr_html_()


def test_the_share_is_of_the_flows_direction():
    flows = [bp.Flow("cubic"), bp.Flow("cubic"), bp.Flow("bbr", direction="up")]
    summary = bp.Experiment(dumbbell(), flows=flows).simulate().summary()
    down = summary.filter(direction="down")["share"]
    assert down.sum() == pytest.approx(1.0)
    assert summary.filter(direction="up")["share"].to_list() == [None]
    assert summary["jain"].to_list() == [None] * 3


def test_the_share_is_of_flows_of_one_path_and_time():
    late = bp.Experiment(dumbbell(), flows=[bp.Flow("cubic"), bp.Flow("bbr", start="1s")]).simulate().summary()
    assert late["share"].to_list() == late["jain"].to_list() == [None, None]
    network = bp.Network({"home": dumbbell(), "office": dumbbell(name="office")})
    flows = [bp.Flow("cubic", path="home"), bp.Flow("cubic", path="office")]
    apart = bp.Experiment(network, flows=flows).simulate().summary()
    assert apart["share"].to_list() == apart["jain"].to_list() == [None, None]


def test_a_run_without_items_counts_as_zero(monkeypatch):
    path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
    done = bp.Experiment(path, schemes=["cubic"], app="request:200bytes/10kb,n=20", seeds=2).simulate()
    runs = [run.stored for run in done]
    figures = [{**runs[0].record.summary["flows"][0], "goodput_bps": bps} for bps in (1e6, 2e6)]  # two results
    records = [
        run.record.replace(summary={**run.record.summary, "flows": [flow]})
        for run, flow in zip(runs, figures, strict=True)
    ]
    runs = [dataclasses.replace(run, record=record) for run, record in zip(runs, records, strict=True)]
    of_run = summaries.items_by_kind
    monkeypatch.setattr(summaries, "items_by_kind", lambda run, flows: of_run(run, flows) if run.seed == 0 else {})
    (scheme,) = summaries.summarise(runs)
    (items,) = scheme.flows[0].items
    assert (items.items.mean, items.completed.mean) == (10.0, 10.0)


def test_flows_of_a_damaged_record_are_summarised_together():
    (run,) = bp.Experiment(dumbbell(), schemes=["cubic+bbr"]).simulate()
    stored = run.stored
    one = stored.record.experiment.replace(flows=stored.record.experiment.flows[:1])
    damaged = dataclasses.replace(stored, record=stored.record.replace(experiment=one))
    assert summaries.flows_together(damaged) == [(0,), (1,)]
