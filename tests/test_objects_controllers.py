"""Controllers in Python as schemes of the Python objects."""

import importlib.util
import sys

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
    assert runs.summary()["scheme"].to_list() == ["mine.py:Mine", "cubic"]
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
