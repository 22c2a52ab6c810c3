"""The claim `calls`: its paths, and its comparison."""

from dataclasses import replace

import pytest

from bentpipe.execution.calls import CallResult
from bentpipe.validation import calls


def result(**changed):
    figures = {"delay_mean_ms": 60.0, "delay_p99_ms": 90.0, "jitter_buffer_ms": 20.0, "fps_mean": 30.0, "fps_sd": 0.1}
    counts = {"freezes": 0, "rate_bps": 1e6, "frames": 1350, "frames_shown": 1350}
    where = {"scheme": "none", "profile": "P", "path": "path", "seed": 0, "direction": "down", "world": "simulated"}
    return replace(CallResult(**where, **figures, **counts), **changed)


def test_ten_paths_are_long_enough():
    every = calls.paths()
    assert len(every) == 10
    assert len({path.name for path in every}) == 10
    assert min(path.duration_s for path in every) > calls.CALL_S


@pytest.mark.parametrize(
    ("changed", "within"),
    [
        ({}, [True, True, True]),
        ({"delay_mean_ms": 81.0}, [False, True, True]),
        ({"delay_mean_ms": 79.0}, [True, True, True]),
        ({"jitter_buffer_ms": 41.0}, [True, False, True]),
        ({"fps_mean": 25.0}, [True, True, False]),
    ],
)
def test_a_call_is_compared_within_the_tolerances(changed, within):
    assert [row.within for row in calls.compare("P", result(**changed), result())] == within


def test_the_larger_tolerance_counts():
    rows = calls.compare("P", result(delay_mean_ms=480.0), result(delay_mean_ms=400.0))
    assert rows[0].within is True


def test_without_a_browser_it_is_skipped(monkeypatch):
    monkeypatch.setattr(calls.shutil, "which", lambda _: None)
    assert "no Chromium" in calls.check(None, lambda _: None).skipped
