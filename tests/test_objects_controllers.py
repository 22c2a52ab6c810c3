"""Controllers in Python as schemes of the Python objects."""

import importlib.util
import sys

import polars as pl
import pytest
from object_profiles import dumbbell

import bentpipe as bp


def test_a_class_in_a_file_is_a_scheme(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from bentpipe.plugin import Controller\n\n\nclass Mine(Controller):\n    def on_ack(self, ack):\n"
        "        self.cwnd_bytes = 60_000\n",
        encoding="utf-8",
    )
    spec = importlib.util.spec_from_file_location("mine", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mine"] = module
    spec.loader.exec_module(module)
    runs = bp.Experiment(dumbbell(), schemes=[module.Mine, "cubic"]).simulate()
    run = runs[0]
    assert run.scheme == f"{file}:Mine"
    assert run is runs[module.Mine, 0] is runs["mine.py:Mine", 0] is runs[module.Mine][0]
    assert len(runs.filter(scheme=module.Mine)) == len(runs["mine.py:Mine"]) == 1
    assert runs.summary()["scheme"].to_list() == runs.schemes
    page = runs.report(tmp_path / "page.html").read_text(encoding="utf-8")
    for shown in (repr(runs), repr(run), runs._repr_html_(), run._repr_html_(), page):
        assert "mine.py:Mine" in shown
        assert str(tmp_path) not in shown
    with pytest.raises(bp.UserError, match="no such scheme"):
        runs["/elsewhere/mine.py:Mine"]
    assert run.samples()["cwnd_bytes"].max() == 60_000

    class Inside:
        pass

    with pytest.raises(bp.UserError, match=r"is not at the top of a \.py file"):
        bp.Experiment(dumbbell(), schemes=[Inside])


def test_classes_of_one_name_have_one_name_in_frames_and_are_told_apart_where_shown(tmp_path):
    files = [tmp_path / folder / "mine.py" for folder in ("old", "new")]
    for file, cwnd in zip(files, (30_000, 60_000), strict=True):
        file.parent.mkdir()
        file.write_text(
            "from bentpipe.plugin import Controller\n\n\nclass Mine(Controller):\n    def on_ack(self, ack):\n"
            f"        self.cwnd_bytes = {cwnd}\n",
            encoding="utf-8",
        )
    schemes = [f"{file}:Mine" for file in files]
    runs = bp.Experiment(dumbbell(), schemes=schemes, app="request:200bytes/10kb,n=5").simulate()
    comparison = bp.Comparison(runs, runs)
    names = pl.Series("scheme", schemes)
    for frame in (runs.summary(), runs.items(), comparison.to_polars(), comparison.items()):
        assert frame["scheme"].equals(names)
    assert [run.scheme for name in names for run in runs[name]] == schemes
    assert [runs[f"{folder}/mine.py:Mine", 0].scheme for folder in ("old", "new")] == schemes
    figure = runs.plot.overview()
    ticks = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert ticks == ["old/mine.py:Mine", "new/mine.py:Mine"]
    page = runs.report(tmp_path / "page.html").read_text(encoding="utf-8")
    for shown in (repr(runs), runs._repr_html_(), comparison._repr_html_(), page):
        assert "old/mine.py:Mine" in shown
        assert "new/mine.py:Mine" in shown
        assert str(tmp_path) not in shown
    with pytest.raises(bp.UserError, match="no such scheme"):
        runs["mine.py:Mine"]


def test_runs_that_fail_in_a_controller_are_listed(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(
        "from bentpipe.plugin import Controller\n\n\nclass Bad(Controller):\n    def on_ack(self, ack):\n"
        "        raise ValueError('no')\n",
        encoding="utf-8",
    )
    with pytest.warns(UserWarning, match=r"1 Run of 2 failed .*ValueError: no"):
        runs = bp.Experiment(dumbbell(), schemes=[f"{file}:Bad", "cubic"]).simulate()
    assert runs.schemes == ["cubic"]
    (failed,) = runs.failed
    assert "ValueError: no" in failed.why
    assert "1 failed" in repr(runs)
