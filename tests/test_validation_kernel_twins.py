"""Comparison of loaded controllers with their twins: paths, ratios and what is within."""

from __future__ import annotations

from bentpipe.validation import kernel_twins
from bentpipe.validation.kernel_twins import Twins, paths


def twins(path, goodput, window, why_invalid=None):
    return Twins("bbr3", path, (goodput, [100.0] * len(goodput)), (window, [50.0] * len(window)), why_invalid)


def test_the_whole_takes_at_most_forty_minutes(monkeypatch):
    monkeypatch.setattr(kernel_twins.controllers, "available", lambda: ["one"] * 7)
    assert kernel_twins.real_time_s(quick=False) < 40 * 60


def test_all_is_simulated_before_the_first_run_in_real_time_and_the_order_is_that_of_the_cells(monkeypatch, tmp_path):
    calls, shares = [], []
    monkeypatch.setattr(kernel_twins, "kernel_host", dict)
    monkeypatch.setattr(kernel_twins, "simulate", lambda cell, *_: calls.append(("simulated", cell.flows)))
    monkeypatch.setattr(kernel_twins, "_compare", lambda worlds: worlds)

    def run_cell(cell, path, effort, out, on_progress):
        calls.append(("kernel", cell.flows))
        return path.name, cell.flows, out.relative_to(tmp_path).as_posix()

    monkeypatch.setattr(kernel_twins, "run_cell", run_cell)
    every, names = paths.make_paths(1.0, quick=True), ["bbr3", "hybla"]
    twins = kernel_twins._run(every, names, kernel_twins.SHORT, tmp_path, shares.append)
    assert twins == [(path.name, name, f"{path.name}/{name}") for path in every for name in names]
    assert [world for world, _ in calls] == ["simulated"] * 4 + ["kernel"] * 4
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_there_are_ten_paths():
    every = paths.make_paths(1.0, quick=False)
    assert len({path.name for path in every}) == kernel_twins.PATHS
    assert {path.name for path in every} >= set(paths.QUICK)


def test_a_row_is_within_if_each_path_is():
    same = twins("fibre", [101.0, 99.0], [50.0, 51.0])
    goodput, window = kernel_twins._rows([same, twins("geo", [104.0, 102.0], [60.0, 58.0])])
    assert (goodput.within, window.within) == (True, False)
    assert "1 of 2 paths within" in window.ours
    assert window.reference == "worst: geo 1.180"


def test_a_path_whose_runs_stay_invalid_is_outside_and_in_no_mean():
    rows = kernel_twins._rows([twins("fibre", [100.0], [50.0]), twins("geo", [1.0], [1.0], "late")])
    for row in rows:
        assert row.within is False
        assert row.ours.startswith("1.000")
        assert row.reference == "worst: geo not valid"


def test_a_flow_without_goodput_has_no_ratio():
    assert twins("fibre", [0.0], [50.0]).ratio("goodput_bps") is None
    assert kernel_twins._rows([twins("fibre", [0.0], [50.0])])[0].within is False
