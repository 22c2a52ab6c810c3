"""Safety of a wrong clock: what is written, what a Run makes of it, and which rows hold."""

from __future__ import annotations

import errno
import sys
import time
from contextlib import nullcontext
from typing import ClassVar

import pytest

from bentpipe.errors import UserError
from bentpipe.execution.host_clock import ClockWrite, simulate_with_clock
from bentpipe.kernel import libbpf
from bentpipe.kernel.clock.record import HostClockRecord
from bentpipe.validation.kernel_safety import clocks, emulated, simulated, writers
from bentpipe.validation.kernel_safety.rows import UNDECIDED, UNKNOWN, rows_of
from bentpipe.validation.kernel_safety.simulated import Figures, Score

PATH = simulated.path_of(simulated.PATHS[1], 40.0)
PROFILE = PATH.profile


def test_each_clock_is_written_as_its_name_says():
    (late,) = clocks.LATE.writes(12.0, 120.0, 7)
    assert (late.written_s, late.period_s, late.at_s, late.until_s) == (0.0, 15.0, 14.5, 125.0)
    (killed,) = clocks.KILLED.writes(12.0, 120.0, 7)
    assert (killed.at_s, killed.until_s) == (12.0, 65.0)
    jumps = clocks.JUMPING.writes(12.0, 120.0, 7)
    assert [each.written_s for each in jumps] == [0, 20, 40, 60, 80, 100]
    assert len({each.at_s for each in jumps}) == 6
    assert jumps == clocks.JUMPING.writes(12.0, 120.0, 7)
    assert clocks.NONE.writes(12.0, 120.0, 7) == []
    assert len({clock.name for clock in clocks.EVERY}) == len(clocks.EVERY)


def test_the_paths_edges_are_those_of_their_profiles():
    from bentpipe.kernel.clock.profile import handover_times_s, regular_clock

    period_s, at_s = regular_clock(handover_times_s(PROFILE))
    off_s = (at_s - simulated.edge_s(PROFILE) + 7.5) % 15.0 - 7.5
    assert (period_s, off_s) == (15.0, pytest.approx(0.0, abs=0.1))


def windows(clock, scheme="bbr3-leo"):
    outcome = simulate_with_clock(simulated.experiment(PATH, scheme, 40.0), PROFILE, clock)
    return outcome.samples()["cwnd_bytes"].to_list()


@pytest.mark.parametrize("scheme", ["bbr3-leo", "cubic-leo"])
def test_a_clock_changes_a_run_only_while_it_is_valid(scheme):
    edge_s = simulated.edge_s(PROFILE)
    without = windows([], scheme)
    assert windows([ClockWrite(0.0, 15.0, edge_s, 0.0)], scheme) == without  # it is over
    assert windows([ClockWrite(0.0, 0.5, edge_s, 60.0)], scheme) == without  # no period
    whole = windows([ClockWrite(0.0, 1.0, edge_s, 60.0)], scheme)
    withdrawn = windows([ClockWrite(0.0, 1.0, edge_s, 60.0), ClockWrite(20.0, 0.0, 0.0, 0.0)], scheme)
    assert whole != without
    differing = next(n for n, (a, b) in enumerate(zip(whole, withdrawn, strict=True)) if a != b)
    assert differing >= 200  # ten samples a second


def test_without_a_clock_the_kernels_controller_does_what_the_simulators_does():
    from bentpipe.experiments.plugins import simulate

    own = simulate(simulated.experiment(PATH, "bbr3-leo", 40.0), [PROFILE])
    assert own.samples()["cwnd_bytes"].tolist() == windows([])


def test_an_impossible_time_is_refused():
    with pytest.raises(UserError, match="host's clock"):
        ClockWrite(0.0, 15.0, -1.0, 60.0).in_ns()
    with pytest.raises(UserError, match="host's clock"):
        ClockWrite(0.0, float("nan"), 1.0, 60.0).in_ns()


def scores(scheme, clock, goodputs, queues_ms=None, used_s=0.0, *, is_leo=True):
    pairs = zip(goodputs, queues_ms or [10.0] * len(goodputs), strict=True)
    figures = [Figures(goodput, queue_ms, used_s) for goodput, queue_ms in pairs]
    return [Score(f"path-{n}", is_leo, scheme, clock.name, each, each) for n, each in enumerate(figures)]


def done(ours, own=None, queues_ms=None, clock=clocks.LATE, **kind):
    return [
        *scores("bbr3", clocks.NONE, [100.0] * len(ours), **kind),
        *scores("bbr3-leo", clocks.NONE, own or [100.0] * len(ours), **kind),
        *scores("bbr3-leo", clock, ours, queues_ms, 25.0, **kind),
    ]


def rows(runs, clock=clocks.LATE, first_s=None):
    return {row.quantity.partition(": ")[2]: row for row in rows_of(runs, "bbr3-leo", clock, first_s)}


@pytest.mark.parametrize(
    ("goodputs", "holds"), [([99.0] * 5, True), ([120.0] * 4 + [96.0], False), ([96.0] * 5, False)]
)
def test_a_clock_is_safe_against_the_parent_if_mean_and_worst_path_are(goodputs, holds):
    row = rows(done(goodputs))["goodput ÷ bbr3"]
    assert row.within is holds
    assert row.reference.startswith(f"worst: {min(goodputs) / 100:.3f}, path-")


def test_a_controller_far_above_its_parent_is_judged_against_itself_without_a_clock():
    judged = rows(done([150.0] * 5, own=[200.0] * 5))
    assert judged["goodput ÷ bbr3"].within is True
    own = judged["goodput ÷ its own without a clock"]
    assert (own.within, own.ours.startswith("0.750")) == (False, True)
    assert rows(done([199.0] * 5, own=[200.0] * 5))["goodput ÷ its own without a clock"].within is True
    # The interval is judged: a mean of 0.98 from paths that scatter does not show 0.97.
    scattered = rows(done([80.0, 118.0, 85.0, 115.0, 92.0]))
    assert scattered["goodput ÷ its own without a clock"].within is False


@pytest.mark.parametrize(("queues_ms", "holds", "over"), [([11.0] * 5, True, 0), ([10.0] * 4 + [13.0], False, 1)])
def test_the_queue_beside_a_clock_has_a_limit_also_on_the_worst_path(queues_ms, holds, over):
    row = rows(done([99.0] * 5, queues_ms=queues_ms))["mean queueing delay ÷ its own without a clock"]
    assert row.within is holds
    assert row.reference.endswith(f"; {over} above the limit")


def test_a_clock_that_changed_no_run_decides_nothing():
    judged = rows(done([100.0] * 5))
    assert {row.within for row in judged.values()} == {None}
    assert judged["goodput ÷ bbr3"].tolerance.endswith(UNDECIDED)
    use = judged["Runs that the host's clock changed"]
    assert (use.ours, use.reference) == ("0 of 5; used in 5", "for 25 s in the median, 25 s at most")
    assert rows(done([100.0] * 4 + [99.5]))["Runs that the host's clock changed"].ours.startswith("1 of 5")
    assert rows(done([90.0] * 5, own=[90.0] * 5))["goodput ÷ bbr3"].within is False  # undecided never hides a failure


def test_a_path_whose_reference_had_no_goodput_is_left_out_and_counted():
    own = "goodput ÷ its own without a clock"
    row = rows(done([99.0, 98.0, 50.0], own=[100.0, 100.0, 0.0]))[own]
    assert row.ours == "0.985 (0.980 to 0.990), n = 2; 1 left out: the reference had no goodput"
    assert row.reference == "worst: 0.980, path-1"
    assert rows(done([99.0, 98.0, 0.0], own=[100.0, 100.0, 0.0]))[own].ours == row.ours
    # A controller without goodput where its reference had some is the worst path.
    assert rows(done([99.0, 98.0, 0.0]))[own].reference == "worst: 0.000, path-2"
    none = rows(done([99.0], own=[0.0]))[own]
    assert (none.ours, none.within) == ("n = 0; 1 left out: the reference had no goodput", None)
    assert none.tolerance.endswith(UNKNOWN)


def test_a_shorter_flow_has_rows_of_its_own():
    titles = [row.quantity for row in rows_of(done([99.0] * 5), "bbr3-leo", clocks.LATE, 40.0)]
    assert sum("first 40 s" in each for each in titles) == 3
    assert {row.within for row in rows_of(done([99.0] * 5), "bbr3-leo", clocks.NONE, 40.0)} == {None}


def test_paths_without_handovers_have_rows_of_their_own():
    still = rows_of(done([96.0], queues_ms=[None], is_leo=False), "bbr3-leo", clocks.LATE, 40.0)
    assert [row.within for row in still] == [False, None, None, False]
    assert all("not LEO" in row.quantity for row in still)
    (path,) = {simulated.still_path(text, 5.0).profile.name for text in simulated.STILL[2:]}
    assert path == "dumbbell"


@pytest.mark.parametrize(("clock", "is_used"), [([], False), ([ClockWrite(0.0, 1.0, 0.5, 60.0)], True)])
def test_the_use_of_a_hosts_clock_is_measured(clock, is_used):
    outcome = simulate_with_clock(simulated.experiment(PATH, "bbr3-leo", 40.0), PROFILE, clock)
    whole, half = (simulated.used_s(outcome, end_s) for end_s in (40.0, 20.0))
    assert (whole > 0) is is_used
    assert 0 <= half <= min(whole, 20.0)
    assert whole <= 40.0


def run(path, scheme, clock, goodput_bps, invalid=None, valid_after_kill_s=None):
    row = {"path": path, "scheme": scheme, "clock": clock.name, "goodput_bps": goodput_bps, "invalid": invalid}
    return {**row, "valid_after_kill_s": valid_after_kill_s, "load": [0.0, 0.0]}


def kernel_rows(runs):
    return {row.quantity: row for row in emulated.rows_of(runs)}


def test_rows_of_the_kernel_need_three_valid_runs():
    runs = [run(path, scheme, clocks.NONE, 100.0) for path in "abc" for scheme in ("bbr3", "bbr3-leo")]
    values = zip("abc", (99.0, 101.0, 98.0), strict=True)
    runs += [run(path, "bbr3-leo", clocks.LATE, value) for path, value in values]
    runs += [run("a", "bbr3-leo", clocks.JUMPING, 50.0), run("b", "bbr3-leo", clocks.JUMPING, 1.0, "late")]
    runs += [run(path, "bbr3-leo", clocks.KILLED, 98.0, None, 4.8) for path in "abc"]
    judged = kernel_rows(runs)
    late = f"bbr3-leo, {clocks.LATE.name}: goodput ÷"
    for reference in ("bbr3", "its own without a clock"):
        assert judged[f"{late} {reference}"].within is None  # 0.95 to 1.03
    jumping = judged[f"bbr3-leo, {clocks.JUMPING.name}: goodput ÷ bbr3"]
    assert (jumping.within, jumping.ours.endswith("n = 1")) == (None, True)
    assert judged[f"bbr3-leo, {clocks.NONE.name}: goodput ÷ bbr3"].within is None
    assert judged["clock of a killed program: valid for"].within is True
    assert (judged["valid Runs"].within, judged["valid Runs"].ours) == (False, "13")


def test_the_kernels_controller_is_judged_against_its_parent_and_itself_by_the_interval():
    runs = [run(path, scheme, clocks.NONE, 100.0) for path in "abc" for scheme in ("bbr3", "bbr3-leo")]
    late_over = f"bbr3-leo, {clocks.LATE.name}: goodput ÷"
    for values, within in (((99.0, 99.1, 98.9), True), ((90.0, 90.1, 89.9), False)):
        late = [run(path, "bbr3-leo", clocks.LATE, value) for path, value in zip("abc", values, strict=True)]
        judged = kernel_rows([*runs, *late])
        for reference in ("bbr3", "its own without a clock"):
            assert judged[f"{late_over} {reference}"].within is within


def test_a_mean_above_its_parents_shows_no_safety_if_the_paths_scatter():
    runs = [run(path, "bbr3", clocks.NONE, 100.0) for path in "abc"]
    runs += [run(path, "bbr3-leo", clocks.LATE, value) for path, value in zip("abc", (80.0, 85.0, 230.0), strict=True)]
    row = kernel_rows(runs)[f"bbr3-leo, {clocks.LATE.name}: goodput ÷ bbr3"]
    assert (row.ours, row.within) == ("1.161 (0.27–5.06), n = 3", None)


def test_a_killed_programs_clock_that_stays_valid_fails():
    late = [run("a", "bbr3-leo", clocks.KILLED, 98.0, None, 60.0)]
    assert kernel_rows(late)["clock of a killed program: valid for"].within is False
    once = [run("a", "bbr3-leo", clocks.KILLED, 98.0, None, 4.9)]
    assert kernel_rows(once)["clock of a killed program: valid for"].within is None


class Maps:
    """Maps of a host that has these controllers."""

    names: ClassVar = []
    error: ClassVar = None

    def write(self, hint, until_ns):
        del hint, until_ns
        if self.error is not None:
            raise self.error
        return self.names

    def withdraw(self):
        pass


def written(monkeypatch, names, error=None):
    monkeypatch.setattr(Maps, "names", names)
    monkeypatch.setattr(Maps, "error", error)
    monkeypatch.setattr(writers, "HostClockMaps", Maps)
    writes = [ClockWrite(0.0, 15.0, 2.5, 60.0), ClockWrite(0.01, 15.0, 3.5, 60.0)]
    writer = writers.Writer(writes, "bbr3_leo", time.time_ns() - 10**9)
    writer.start()
    writer.join(0.2)  # both writes are due
    writer.stop()
    return writer.why_invalid()


def test_a_run_is_valid_only_if_its_controller_had_each_record(monkeypatch):
    assert written(monkeypatch, ["bbr3_leo", "satcp"]) is None
    assert written(monkeypatch, ["satcp"]) == "bbr3_leo had 0 of the 2 records of its clock"
    refused = written(monkeypatch, [], libbpf.KernelRefusedError(errno.EPERM))
    assert refused == "its clock failed: Operation not permitted"


def test_a_killed_programs_run_needs_a_record_of_the_controller(monkeypatch, tmp_path):
    monkeypatch.setattr(writers, "HostClockMaps", Maps)
    for command, records, why in (
        ("import time; time.sleep(60)", {"bbr3_leo": HostClockRecord(1, 15 * 10**9, 0, 2**63, 0)}, None),
        ("import time; time.sleep(60)", {"satcp": HostClockRecord(1, 15 * 10**9, 0, 2**63, 0)}, "no valid clock for"),
        ("raise SystemExit(3)", {}, "ended with 3 before"),
    ):
        monkeypatch.setattr(writers, "COMMAND", [sys.executable, "-c", command])
        monkeypatch.setattr(writers, "read_records", lambda records=records: records)
        killed = writers.Killed(tmp_path / "none", "bbr3_leo", time.time_ns(), 0.0 if why is None else 2.0)
        killed.start()
        killed.join()
        killed.stop()
        assert why in killed.why_invalid() if why else killed.why_invalid() is None


def test_an_error_in_a_run_leaves_out_that_run_only(monkeypatch, tmp_path):
    def fake(path, scheme, clock, duration_s):
        del duration_s
        if clock == clocks.JUMPING:
            raise UserError("another program keeps the clock of this host")
        if clock == clocks.KILLED:
            raise libbpf.KernelRefusedError(errno.EPERM)
        return [run(path.name, scheme, clock, 100.0)]

    monkeypatch.setattr(emulated, "may_load", lambda: None)
    monkeypatch.setattr(emulated, "loaded", lambda _: nullcontext())
    monkeypatch.setattr(emulated, "emulated", fake)
    outcome = emulated.check(None, lambda _: None, quick=True, out=tmp_path)
    assert (outcome.skipped, outcome.holds) == (None, False)
    assert sum("not valid" in note for note in outcome.notes) == 2
    assert len(list(tmp_path.iterdir())) == 3  # the others are tried again
    monkeypatch.setattr(emulated, "CASES", [(emulated.SCHEME, clocks.KILLED)])
    outcome = emulated.check(None, lambda _: None, quick=True, out=tmp_path)
    assert (outcome.holds, outcome.skipped) == (None, "no Run is valid; the first: Operation not permitted")
