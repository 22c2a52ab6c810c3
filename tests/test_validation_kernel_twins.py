"""Comparison of loaded controllers with their twins: paths, ratios and what is within."""

from __future__ import annotations

import errno
import json
import random
import sys
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace

import pytest

from bentpipe.errors import UserError
from bentpipe.kernel.clock.record import HostClockRecord
from bentpipe.kernel.libbpf import KernelRefusedError
from bentpipe.validation import kernel_twins
from bentpipe.validation.kernel_twins import Twins, announcing, paths
from bentpipe.validation.kernel_twins.chance import ratio_beside_chance, simulate_again
from bentpipe.validation.sim_vs_kernel.cells import Cell, Effort
from bentpipe.validation.sim_vs_kernel.worlds import simulate


def twins(path, goodput, window, why_invalid=None):
    simulated = [[100.0]] * len(goodput), [[50.0]] * len(window)
    return Twins("bbr3", path, (goodput, simulated[0]), (window, simulated[1]), why_invalid)


def test_the_whole_takes_at_most_fifty_minutes(monkeypatch):
    names = ["bbr2", "bbr3", "bbr3-leo", "cubic-leo", "hybla", "leocc", "satcp"]
    monkeypatch.setattr(kernel_twins.controllers, "available", lambda: names)
    assert 40 * 60 < kernel_twins.real_time_s(quick=False) < 50 * 60


def test_all_is_simulated_before_the_first_run_in_real_time_and_the_order_is_that_of_the_cells(monkeypatch, tmp_path):
    calls, shares = [], []
    monkeypatch.setattr(kernel_twins, "kernel_host", dict)
    monkeypatch.setattr(kernel_twins, "simulate", lambda cell, *_: calls.append(("simulated", cell.flows)))
    monkeypatch.setattr(kernel_twins, "simulate_again", lambda cell, *_: calls.append(("again", cell.flows)))
    monkeypatch.setattr(kernel_twins, "_compare", lambda worlds, others: (worlds, others))

    def run_cell(cell, path, effort, out, on_progress):
        calls.append(("kernel", cell.flows))
        return path.name, cell.flows, out.relative_to(tmp_path).as_posix()

    monkeypatch.setattr(kernel_twins, "run_cell", run_cell)
    every, names = paths.make_paths(1.0, quick=True), ["bbr3", "hybla"]
    twins = kernel_twins._run(every, names, kernel_twins.SHORT, 3, tmp_path, shares.append)
    assert twins == [((path.name, name, f"{path.name}/{name}"), [None]) for path in every for name in names]
    assert [world for world, _ in calls] == ["simulated", "again"] * 4 + ["kernel"] * 4
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_controllers_that_get_the_schedule_run_last_beside_the_clock_of_their_paths(monkeypatch, tmp_path):
    order = []

    @contextmanager
    def clock_of(path, folder):
        order.append(path.name)
        yield lambda name: order.append(f"{name} had it")
        order.append("withdrawn")

    monkeypatch.setattr(kernel_twins, "kernel_host", dict)
    monkeypatch.setattr(kernel_twins, "simulate", lambda *_: None)
    monkeypatch.setattr(kernel_twins, "simulate_again", lambda *_: None)
    monkeypatch.setattr(kernel_twins, "_compare", lambda worlds, _: worlds)
    monkeypatch.setattr(kernel_twins, "clock_of", clock_of)

    def run_cell(cell, *_):
        order.append(f"{cell.profile} {cell.flows}")
        return cell.profile, cell.flows

    monkeypatch.setattr(kernel_twins, "run_cell", run_cell)
    every, names = paths.make_paths(30.0, quick=True), ["satcp", "leocc"]
    twins = kernel_twins._run(every, names, kernel_twins.SHORT, 0, tmp_path, lambda _: None)
    assert twins == [(path.name, name) for path in every for name in names]
    assert order[-4:] == ["melbourne-sydney", "melbourne-sydney satcp", "satcp had it", "withdrawn"]
    assert set(order[:-4]) == {"plain satcp", "plain leocc", "melbourne-sydney leocc"}


def test_runs_beside_a_clock_that_was_lost_are_removed(monkeypatch, tmp_path):
    @contextmanager
    def clock_of(*_):
        def check(name):
            raise UserError(f"{name} had no clock")

        yield check

    (tmp_path / "run").mkdir()
    monkeypatch.setattr(kernel_twins, "kernel_host", dict)
    monkeypatch.setattr(kernel_twins, "simulate", lambda *_: None)
    monkeypatch.setattr(
        kernel_twins, "run_cell", lambda *_: SimpleNamespace(kernel=[SimpleNamespace(path=tmp_path / "run")])
    )
    monkeypatch.setattr(kernel_twins, "clock_of", clock_of)
    with pytest.raises(UserError, match="satcp had no clock"):
        kernel_twins._run(
            paths.make_paths(30.0, quick=True)[1:], ["satcp"], kernel_twins.SHORT, 0, tmp_path, lambda _: None
        )
    assert not (tmp_path / "run").exists()


def test_hybla_runs_one_at_a_time(monkeypatch, tmp_path):
    running, most = [], {"hybla": 0, "bbr3": 0}
    monkeypatch.setattr(kernel_twins, "kernel_host", dict)
    monkeypatch.setattr(kernel_twins, "simulate", lambda *_: None)
    monkeypatch.setattr(kernel_twins, "_compare", lambda worlds, _: worlds)

    def run_cell(cell, *_):
        running.append(cell)
        time.sleep(0.05)
        most[cell.flows] = max(most[cell.flows], len(running))
        running.remove(cell)

    monkeypatch.setattr(kernel_twins, "run_cell", run_cell)
    kernel_twins._run(paths.make_paths(1.0, quick=False), list(most), kernel_twins.SHORT, 0, tmp_path, lambda _: None)
    assert most == {"hybla": 1, "bbr3": kernel_twins.TOGETHER}


def line(kind):
    return f"print('{json.dumps({'event': kind})}', flush=True); "


WAITS = "import time; time.sleep(60)"


@pytest.mark.parametrize(
    ("code", "until_ns", "says"),
    [
        (line("found") + WAITS, 2**62, None),
        (line("found"), 2**62, "has ended: code 0"),
        ("exit('no root')", 2**62, "has ended: no root"),
        (WAITS, 2**62, "has found no clock within 0.2 s"),
        (line("found") + line("moved") + WAITS, 2**62, r"has changed \(moved\)"),
        (line("found") + WAITS, 1, "satcp had no clock"),
    ],
)
def test_a_clock_that_was_not_kept_is_an_error(monkeypatch, tmp_path, code, until_ns, says):
    path = paths.make_paths(30.0, quick=True)[1]
    monkeypatch.setattr(announcing, "COMMAND", (sys.executable, "-c", code))
    monkeypatch.setattr(announcing, "read_records", lambda: {"satcp": HostClockRecord(1, 15 * 10**9, 0, until_ns)})
    monkeypatch.setattr(announcing, "LONGEST_WAIT_S", 0.2 if code == WAITS else 30.0)
    with (
        pytest.raises(UserError, match=says) if says else nullcontext(),
        announcing.clock_of(path, tmp_path / "new") as check,
    ):
        check("satcp")
        until_s = time.monotonic() + 30.0
        while says and time.monotonic() < until_s:
            time.sleep(0.05)
            check("satcp")


def test_the_five_computed_paths_have_the_same_clock():
    every = paths.make_paths(30.0, quick=False)
    clocks = {path.name: announcing.clock_for(path, "satcp") for path in every}
    assert {name: clock for name, clock in clocks.items() if clock} == {
        f"{site}-{to}": (15.0, 12.0) for site, to, _ in paths.ROUTES
    }
    assert announcing.clock_for(every[-1], "bbr3-leo") is None


def test_each_controller_is_unloaded_and_the_first_error_is_raised(monkeypatch):
    unloaded = []

    def unload(name):
        unloaded.append(name)
        if name == "hybla":
            raise UserError("hybla is the default")
        if name == "bbr3":
            raise KernelRefusedError(errno.EPERM)

    monkeypatch.setattr(kernel_twins.controllers, "loaded_controllers", list)
    monkeypatch.setattr(kernel_twins.controllers, "load_controller", lambda _: None)
    monkeypatch.setattr(kernel_twins.controllers, "unload_controller", unload)
    names = ["hybla", "bbr3", "satcp"]
    run_error = KeyError("a Run")
    with pytest.raises(KeyError) as caught, kernel_twins.loaded(names):
        raise run_error
    assert caught.value is run_error
    assert caught.value.__notes__ == ["hybla is the default", "Operation not permitted"]
    with pytest.raises(UserError, match="hybla is the default") as caught, kernel_twins.loaded(names):
        pass
    assert caught.value.__notes__ == ["Operation not permitted"]
    assert unloaded == names * 2


def test_there_are_ten_paths():
    every = paths.make_paths(1.0, quick=False)
    assert len({path.name for path in every}) == kernel_twins.PATHS
    assert {path.name for path in every} >= set(paths.QUICK)


def test_a_row_is_within_if_each_path_is():
    same = twins("fibre", [101.0, 99.0], [50.0, 51.0])
    goodput, window = kernel_twins._rows([same, twins("geo", [104.0, 102.0], [60.0, 58.0])])
    assert (goodput.within, window.within) == (True, False)
    assert "of 2 paths 1 within, 1 off, 1 by the mean" in window.ours
    assert window.reference == "worst: geo 1.180"


def test_a_path_whose_runs_stay_invalid_is_outside_and_in_no_mean():
    rows = kernel_twins._rows([twins("fibre", [100.0], [50.0]), twins("geo", [1.0], [1.0], "late")])
    for row in rows:
        assert row.within is False
        assert row.ours.startswith("1.000")
        assert row.reference == "worst: geo not valid"


def test_a_path_is_off_only_where_chance_does_not_explain_it():
    """The same ratio of 1.2, beside Runs of the simulator that differ by a third and beside Runs that hardly differ."""
    for spread, off, holds in ((30.0, 0, None), (0.1, 1, False)):
        one = Twins(
            "bbr3", "geo", ([120.0, 120.0], [[100.0, 100.0 + spread, 100.0 - spread]] * 2), ([50.0], [[50.0]]), None
        )
        goodput, _ = kernel_twins._rows([one])
        assert f"of 1 paths 0 within, {off} off, 0 by the mean" in goodput.ours
        assert goodput.within is holds


def test_the_interval_covers_as_often_as_it_says():
    """Kernel and simulator draw from one distribution: about 95 % of the intervals contain 1."""
    draw = random.Random(7)
    run = partial(draw.lognormvariate, 3.0, 0.2)
    ratios = [ratio_beside_chance([run(), run()], [[run() for _ in range(11)] for _ in range(2)]) for _ in range(2000)]
    assert 0.935 < sum(ratio.low <= 1 <= ratio.high for ratio in ratios) / 2000 < 0.965


def test_further_runs_are_over_the_same_realised_path(tmp_path):
    (path,) = (each for each in paths.make_paths(12.0, quick=True) if each.name == "melbourne-sydney")
    cell, effort = Cell(path.name, "bbr3"), Effort(alone_s=12.0)
    seed_1 = simulate(cell, path, effort, 2, tmp_path / "first", {})[1]
    again = simulate_again(cell, path, 12.0, 1, 2, tmp_path / "again", {})
    drawn = {(run.record.profiles[0].hash, run.record.experiment.offset_ns) for run in (seed_1, *again)}
    assert len(drawn) == 1
    assert len({run.record.content_hash for run in (seed_1, *again)}) == 3
    assert [run.seed for run in again] == [1000, 1001]


def test_a_flow_without_goodput_has_no_ratio():
    assert twins("fibre", [0.0], [50.0]).ratio("goodput_bps") is None
    assert kernel_twins._rows([twins("fibre", [0.0], [50.0])])[0].within is False
