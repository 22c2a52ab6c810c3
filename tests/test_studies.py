"""Studies: the files and output of each, and the refusal of bad requests."""

import dataclasses
import json
import math

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import BentpipeError, UserError
from bentpipe.measurements.runs.imports import import_files
from bentpipe.studies import STUDIES, find_study
from bentpipe.studies.files import FILES
from bentpipe.studies.measured import load_campaigns, measured_parts, probe_series
from bentpipe.studies.running import check, run_study
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

CLI = CliRunner()


def one_row(request: Request) -> Result:
    request.on_progress(0.5)
    rows = [Row("goodput", "Mbit/s", 100.0, 50.0, "figure 1", "simulated: here", ">")]
    return Result(rows, [Verdict("more is more", None, "text", "simulated: here")], ["here"], {"figure-1": Figure()})


@pytest.fixture
def toy(monkeypatch):
    study = Study("toy", "a <b>title</b>", "nobody", "no time", one_row)
    monkeypatch.setattr("bentpipe.studies.running.find_study", lambda name: study)
    return study


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_listed_under_its_own_name(name):
    study = find_study(name)
    assert study.name == name
    assert study.title
    assert study.source
    assert study.takes


def test_a_study_writes_figures_table_and_page(toy, tmp_path):
    done_shares = []
    done = run_study("toy", tmp_path / "new" / "out", on_progress=done_shares.append)
    assert done_shares == [0.5, 1.0]
    stored = json.loads((tmp_path / "new/out/toy.json").read_text())
    assert stored == done.to_dict()
    assert stored["rows"][0]["ratio"] == 0.5
    assert stored["verdicts"][0]["holds"] is None
    assert (tmp_path / "new/out/toy-figure-1.png").stat().st_size > 0
    page = done.page.read_text()
    assert "&lt;b&gt;title" in page
    assert "&gt; 100" in page
    assert "data:image/png;base64," in page


def test_a_study_is_printed_as_a_table_and_as_json(toy, tmp_path):
    output = CLI.invoke(app, ["study", "run", "toy", "-o", str(tmp_path)])
    assert output.exit_code == 0, output.output
    assert "> 100" in output.stdout
    assert "0.50" in output.stdout
    assert f"figure: {tmp_path}/toy-figure-1.png" in output.stderr
    machine = CLI.invoke(app, ["study", "run", "toy", "-o", str(tmp_path), "--json"])
    document = json.loads(machine.stdout)
    assert {"study", "rows", "verdicts"} <= set(document)
    assert {"quantity", "unit", "published", "ours", "ratio", "source", "basis"} <= set(document["rows"][0])


def test_studies_are_listed():
    listed = json.loads(CLI.invoke(app, ["study", "list", "--json"]).stdout)
    assert [study["name"] for study in listed] == list(STUDIES)
    assert "huston-ping" in CLI.invoke(app, ["study", "list"]).stdout


def test_an_unknown_study_and_a_bad_path_are_refused(tmp_path):
    with pytest.raises(UserError, match="unknown study 'huston-pin'; did you mean 'huston-ping'"):
        find_study("huston-pin")
    with pytest.raises(UserError, match="no such file or folder"):
        run_study("huston-ping", tmp_path, data=tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a folder"):
        run_study("huston-ping", tmp_path / "file")


def test_unused_measurements_are_refused_or_noted(toy, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="on: given, but the study toy is not a sweep; expected none"):
        run_study("toy", tmp_path, on="tcp://127.0.0.1:8786")
    with pytest.raises(UserError, match="data: given, but the study toy is simulated; expected none"):
        run_study("toy", tmp_path, data=tmp_path)
    with_data = dataclasses.replace(toy, measured="pings")
    monkeypatch.setattr("bentpipe.studies.running.find_study", lambda name: with_data)
    notes = run_study("toy", tmp_path, data=tmp_path).result.notes
    assert "no pings that toy can use" in notes[0]


def test_a_value_that_is_not_finite_is_refused(toy):
    row = Row("goodput", "Mbit/s", 1.0, math.nan, "figure 1", "simulated: here")
    with pytest.raises(BentpipeError, match="goodput is nan"):
        check(toy, Result([row], [], []))
    with pytest.raises(BentpipeError, match="no row"):
        check(toy, Result([], [], []))


def test_a_ratio_needs_both_values():
    assert Row("a", "", None, 1.0, "", "").ratio is None
    assert Row("a", "", 1.0, None, "", "").ratio is None
    assert Row("a", "", 0.0, 1.0, "", "").ratio is None


WITHOUT_NUMBERS = {
    "ecn-on-starlink": "nobody has published an answer",
    "leo-kernel": "nobody has published an answer",
    "multi-access-kernel": "nobody has published an answer",
    "t3p-handovers": "the paper proposes the model, and has no figures of one",
    "t3p-fairness": "figure 5d is a plot, and the text gives no number of it",
}


@pytest.mark.parametrize("name", STUDIES)
def test_every_published_figure_names_its_source(name):
    if name in WITHOUT_NUMBERS:
        pytest.skip(WITHOUT_NUMBERS[name])
    published = FILES[name].load().published
    assert published
    assert all(figure.source and figure.quantity for figure in published.values())


def test_campaigns_cover_every_table():
    assert {campaign.table for campaign in load_campaigns()} == {"probes", "hops", "orientation"}
    assert probe_series(None) == []


def ping_log(folder, replies=5):
    lines = [
        f"[{1700000000 + k}.0] 64 bytes from 1.1.1.1: icmp_seq={k + 1} ttl=60 time=30.0 ms" for k in range(replies)
    ]
    log = folder / "ping.txt"
    log.write_text("PING 1.1.1.1 (1.1.1.1) 56(84) bytes of data.\n" + "\n".join(lines) + "\n")
    return log


def test_a_users_ping_log_is_accepted_as_data(tmp_path):
    log = ping_log(tmp_path)
    (part,) = probe_series(log)
    assert part.basis == f"measured: {log}"
    assert part.table.height == 5
    assert not part.losses_known
    assert "5 rows, 4 s from 2023-11-14T22:13:19Z" in part.text


def test_a_users_measured_runs_are_accepted_as_data(tmp_path):
    (tmp_path / "logs").mkdir()
    import_files([ping_log(tmp_path / "logs")], tmp_path / "runs", site="roof")
    (part,) = probe_series(tmp_path / "runs")
    assert part.name == "roof → 1.1.1.1"
    assert part.basis == "measured: roof/20231114T221319Z"
    assert measured_parts(tmp_path / "runs", "hops") == []
    assert probe_series(tmp_path / "logs") == []


def test_simulated_runs_are_refused_as_data(tmp_path):
    (tmp_path / "run.json").write_text('{"format": 3, "world": "simulated"}')
    with pytest.raises(UserError, match="no measured Run"):
        probe_series(tmp_path)
