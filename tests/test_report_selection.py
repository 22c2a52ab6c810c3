"""Reports of a part of a folder's Runs."""

import html
import re
from urllib.parse import unquote

import pytest
from object_profiles import dumbbell

import bentpipe as bp
from bentpipe.report.content import parts
from bentpipe.report.place import Place


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    bp.Experiment(dumbbell(duration=2), schemes=["cubic", "bbr"], seeds=2).simulate(out=out)
    return out


def test_a_selection_of_a_finished_race_is_not_called_unfinished(raced, tmp_path):
    selected = bp.RunSet.read(raced).filter(scheme="bbr")
    text = html.unescape(selected.report(tmp_path / "bbr.html").read_text(encoding="utf-8"))
    assert "Unfinished" not in text
    assert "<dt>Runs</dt><dd>2, all valid, a selection of those in the folder</dd>" in text


def test_pages_of_one_folder_keep_their_own_files(raced, tmp_path):
    runs = bp.RunSet.read(raced)
    runs.filter(scheme="cubic").report(tmp_path / "report.html")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    text = runs.filter(scheme="bbr").report(tmp_path / "my page.html").read_text(encoding="utf-8")
    assert all(file.read_bytes() == content for file, content in before.items())
    assert {file.name for file in tmp_path.iterdir()} == {
        *("report.html", "figures", "results.csv"),
        *("my page.html", "my page-figures", "my page-results.csv"),
    }
    links = [unquote(link) for link in re.findall(r'href="([^"#]+\.(?:png|csv))"', text)]
    assert "my page-results.csv" in links
    assert all((tmp_path / link).is_file() for link in links)


def test_all_runs_of_an_unfinished_folder_are(raced):
    stored = [run.stored for run in bp.RunSet.read(raced)]
    place = Place.in_folder(raced)
    assert [part.unfinished for part in parts(place, stored[1:], is_selection=True)] == [""]
    (part,) = parts(place, stored[1:])
    assert re.match("Unfinished: 3 of 4 Runs are stored", part.unfinished)
