"""Safety of a wrong clock: what is written, what a Run makes of it, and which rows hold."""

from __future__ import annotations

import pytest

from bentpipe.errors import UserError
from bentpipe.execution.host_clock import ClockWrite, simulate_with_clock
from bentpipe.validation import kernel_safety
from bentpipe.validation.kernel_safety import clocks, emulated, simulated
from bentpipe.validation.kernel_safety.simulated import Score

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


def scores(scheme, clock, goodputs, queue_ms=10.0):
    return [Score(f"path-{n}", True, scheme, clock, each, queue_ms) for n, each in enumerate(goodputs)]


@pytest.mark.parametrize(
    ("goodputs", "holds"), [([99.0] * 5, True), ([120.0] * 4 + [96.0], False), ([96.0] * 5, False)]
)
def test_a_clock_is_safe_if_mean_and_worst_path_are(goodputs, holds):
    done = [
        *scores("bbr3", clocks.NONE.name, [100.0] * 5),
        *scores("bbr3-leo", clocks.NONE.name, [100.0] * 5, 5.0),
        *scores("bbr3-leo", clocks.LATE.name, goodputs, 5.0),
    ]
    goodput, own, queue = kernel_safety.rows_of(done, "bbr3-leo", clocks.LATE)
    assert (goodput.within, own.within, queue.within) == (holds, None, None)
    assert goodput.reference.startswith(f"worst: {min(goodputs) / 100:.3f}, path-")
    assert queue.ours.startswith("0.500")
    assert kernel_safety.rows_of(done, "bbr3-leo", clocks.NONE)[0].within is None


def test_paths_without_handovers_have_rows_of_their_own():
    done = [Score("fibre", False, "bbr3", clocks.NONE.name, 100.0, None)]
    done += [Score("fibre", False, "bbr3-leo", clock.name, 96.0, None) for clock in (clocks.NONE, clocks.LATE)]
    goodput, own, queue = kernel_safety.rows_of(done, "bbr3-leo", clocks.LATE)
    assert (goodput.within, "not LEO" in goodput.quantity) == (False, True)
    assert own.ours.startswith("1.000")
    assert queue.ours.startswith("nan")
    (path,) = {simulated.still_path(text, 5.0).profile.name for text in simulated.STILL[2:]}
    assert path == "dumbbell"


def run(path, scheme, clock, goodput_bps, invalid=None, valid_after_kill_s=None):
    row = {"path": path, "scheme": scheme, "clock": clock, "goodput_bps": goodput_bps, "invalid": invalid}
    return {**row, "valid_after_kill_s": valid_after_kill_s}


def test_rows_of_the_kernel_leave_out_invalid_runs_and_judge_a_killed_programs_clock():
    runs = [run(path, "bbr3", clocks.NONE.name, 100.0) for path in "abc"]
    runs += [
        run(path, "bbr3-leo", clocks.LATE.name, value) for path, value in zip("abc", (99.0, 101.0, 97.0), strict=True)
    ]
    runs += [run("a", "bbr3-leo", clocks.JUMPING.name, 50.0), run("b", "bbr3-leo", clocks.JUMPING.name, 1.0, "late")]
    runs += [run(path, "bbr3-leo", clocks.KILLED.name, 98.0, None, 4.8) for path in "abc"]
    rows = {row.quantity: row for row in emulated.rows_of(runs)}
    assert {row.within for name, row in rows.items() if clocks.LATE.name in name} == {True}
    jumping = rows[f"bbr3-leo, {clocks.JUMPING.name}: goodput ÷ bbr3"]
    assert (jumping.within, jumping.ours.endswith("n = 1")) == (False, True)
    assert rows[f"bbr3-leo, {clocks.NONE.name}: goodput ÷ bbr3"].within is None
    assert rows["clock of a killed program: valid for"].within is True
    late = [run("a", "bbr3-leo", clocks.KILLED.name, 98.0, None, 60.0)]
    assert emulated.rows_of(late)[-1].within is False
