"""Races without a folder: their Runs are in memory, and equal to those on disk."""

import pytest

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


def test_ctrl_c_leaves_nothing_of_a_race_in_memory():
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(RunsInterruptedError, match="0 of 3 Runs are stored, as there is no folder") as stopped:
        race([dumbbell()], ["reno"], out=None, seeds=3, on_progress=stop)
    assert (stopped.value.stored, stopped.value.total) == (0, 3)


def test_captures_need_a_folder():
    with pytest.raises(UserError, match=r"^capture: "):
        race([dumbbell()], ["reno"], out=None, capture=True)
