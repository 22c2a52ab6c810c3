"""The claims `calls` and `applications`: paths, comparison, and what is stored."""

from dataclasses import replace

import pytest

from bentpipe.apps.browser import chromium
from bentpipe.execution.calls import CallResult
from bentpipe.validation import applications, calls
from bentpipe.validation.measured import measured


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
    assert [row.within for row in calls.compare("P", [result(**changed)], [result()])] == within


def test_the_larger_tolerance_counts():
    rows = calls.compare("P", [result(delay_mean_ms=480.0)], [result(delay_mean_ms=400.0)])
    assert rows[0].within is True


def test_means_of_several_calls_are_compared_and_counted():
    real = [result(delay_mean_ms=delay) for delay in (40.0, 60.0, 110.0)]
    rows = calls.compare("P", [result(delay_mean_ms=89.0)], real) + calls.compare(
        "P", [result(delay_mean_ms=91.0)], real
    )
    assert [row.within for row in rows if "delay" in row.quantity] == [True, False]
    assert rows[0].reference.startswith("70.0 (0–")  # Student's t with three calls
    assert calls.summary(rows, "mean delay [ms]") == "mean delay [ms]: 1 of 2 within the tolerance"


def test_what_is_measured_is_stored_for_its_settings(tmp_path):
    made = []

    def measure():
        made.append(len(made))
        return [{"made": len(made)}]

    file = tmp_path / "calls" / "a.json"
    assert measured(file, {"seconds": 5}, measure) == measured(file, {"seconds": 5}, measure) == [{"made": 1}]
    assert measured(file, {"seconds": 6}, measure) == [{"made": 2}]
    file.write_text("{")
    assert measured(file, {"seconds": 6}, measure) == [{"made": 3}]


@pytest.mark.parametrize(
    ("real", "within"),
    [
        ([(100, 90), (110, 98), (120, 110)], True),  # the same order
        ([(90, 100), (98, 110), (110, 120)], False),
        ([(100, 90), (90, 100), (100, 100)], None),  # none
    ],
)
def test_orders_of_schemes_are_compared_where_there_is_one(real, within):
    def world(pairs):
        return {scheme: [{"plt_ms": pair[at]} for pair in pairs] for at, scheme in enumerate(applications.SCHEMES)}

    simulated = world([(50, 40), (60, 47), (70, 57)])
    row = applications.compare("page load time [ms]", "plt_ms", simulated, world(real))
    assert row.within is within
    assert row.ours.startswith("60.0 → 48.0: 0.80 (0.7")


def test_applications_take_the_mean_over_loads_and_directions():
    loads = [{"plt_ms": plt_ms, "valid": True} for plt_ms in (500.0, 700.0)]
    both = [result().to_dict(), result(delay_mean_ms=80.0, freezes=2, valid=False).to_dict()]
    seen = applications.figures(loads, both)
    assert (seen["plt_ms"], seen["delay_mean_ms"], seen["freezes"], seen["invalid"]) == (600.0, 70.0, 2, 1)


def test_without_a_browser_it_is_skipped(monkeypatch):
    monkeypatch.setattr(chromium.shutil, "which", lambda _: None)
    assert "this machine has no browser" in calls.check(None, lambda _: None).skipped
    assert "this machine has no browser" in applications.check(None, lambda _: None).skipped
