"""Races without a folder: their Runs are in memory, and equal to those on disk."""

import pytest

import bentpipe as bp
from bentpipe.errors import UserError
from bentpipe.execution.engine import RunsInterruptedError
from bentpipe.execution.racing import race
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.path import raced_path
from bentpipe.runs.store import TABLES
from bentpipe.runs.summary import summarise


def dumbbell():
    return preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0, name="dumbbell")


def test_runs_in_memory_are_those_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reports = []
    options = {"duration_s": 2.0, "seeds": 2}
    held = race([dumbbell()], ["reno", "cubic"], out=None, on_progress=reports.append, **options)
    assert list(tmp_path.iterdir()) == []
    stored = race([dumbbell()], ["reno", "cubic"], out=tmp_path / "out", **options)
    assert (held.out, held.resumed) == (None, 0)
    assert repr(held) == "RaceResult(out=None, runs=4, resumed=0)"
    for ours, theirs in zip(held.runs, stored.runs, strict=True):
        assert ours.record == theirs.record.replace(files={})
        for name in TABLES:
            assert getattr(ours, name)().equals(getattr(theirs, name)())
    assert summarise(held.runs) == summarise(stored.runs)
    assert (
        raced_path(held.runs[0]).view.profile.content_hash() == raced_path(stored.runs[0]).view.profile.content_hash()
    )
    assert (reports[-1].share, reports[-1].done, reports[-1].total) == (pytest.approx(1.0), 4, 4)


def test_ctrl_c_keeps_the_finished_runs_of_a_race_in_memory(tmp_path):
    def stop(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(RunsInterruptedError, match="of 4 Runs are finished; a folder") as stopped:
        race([dumbbell()], ["reno"], out=None, seeds=4, jobs=1, on_progress=stop)
    assert stopped.value.total == 4
    assert [run.seed for run in stopped.value.finished][:2] == [0, 1]
    assert stopped.value.stored == len(stopped.value.finished)


def test_an_interrupted_experiment_hands_over_its_runs(tmp_path):
    path = bp.Profile.preset("dumbbell:rate=10mbit", duration=4)

    def stop(share):
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(
        bp.ExperimentInterruptedError, match="of 6 Runs are finished, in `runs` of this error"
    ) as stopped:
        bp.Experiment(path, "cubic", seeds=6).simulate(jobs=1, on_progress=stop)
    assert stopped.value.exit_code == 130
    runs = stopped.value.runs
    assert 3 <= len(runs) < 6
    assert runs.unfinished == 6 - len(runs)
    assert repr(runs).endswith(f", unfinished: {runs.unfinished} missing>")
    assert runs[0].content_hash == bp.Experiment(path, "cubic").simulate()[0].content_hash
    page = runs.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Unfinished: the Experiment was interrupted; " in page
    with pytest.raises(bp.ExperimentInterruptedError, match="Runs are stored in") as stopped:
        bp.Experiment(path, "cubic", seeds=6).simulate(tmp_path / "out", jobs=1, on_progress=stop)
    assert len(stopped.value.runs) == len(bp.RunSet.read(tmp_path / "out"))


def test_captures_need_a_folder():
    with pytest.raises(UserError, match=r"^capture: "):
        race([dumbbell()], ["reno"], out=None, capture=True)
