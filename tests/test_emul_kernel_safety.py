"""Writers of a wrong clock in the maps of loaded controllers, and one emulated download."""

from __future__ import annotations

import time

import pytest
from emulation import require_emulation
from loaded_controllers import turn

from bentpipe.errors import UserError
from bentpipe.execution.host_clock import ClockWrite
from bentpipe.kernel import controllers
from bentpipe.kernel.clock.record import HostClockMaps, read_records
from bentpipe.validation.kernel_safety import clocks, emulated, simulated, writers

S = 10**9
PATH = simulated.path_of(simulated.PATHS[0], 60.0).profile


@pytest.fixture
def loadable():
    with turn():
        controllers.load_controller("bbr3-leo")
        yield
        HostClockMaps().withdraw()


def written():
    return read_records()["bbr3_leo"]


def until(condition):
    end_s = time.monotonic() + 15
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.02)
    assert condition(), written()


@pytest.mark.usefixtures("loadable")
def test_a_writer_writes_at_its_times_and_withdraws():
    begin_unix_ns = time.time_ns()
    writer = writers.Writer(
        [ClockWrite(0.0, 15.0, 2.5, 60.0), ClockWrite(0.5, 13.0, 4.0, 60.0)], "bbr3_leo", begin_unix_ns
    )
    writer.start()
    until(lambda: written().period_ns == 15 * S)
    assert abs(written().at_ns + written().unix_ns - begin_unix_ns - 2.5 * S) < 0.05 * S
    until(lambda: written().period_ns == 13 * S)
    writer.stop()
    assert writer.why_invalid() is None
    assert written().period_ns == 0


@pytest.mark.usefixtures("loadable")
def test_a_run_of_a_controller_that_is_not_loaded_is_invalid():
    writer = writers.Writer([ClockWrite(0.0, 15.0, 2.5, 60.0)], "cubic_leo", time.time_ns())
    writer.start()
    until(lambda: written().period_ns == 15 * S)
    writer.stop()
    assert writer.why_invalid() == "cubic_leo had 0 of the 1 records of its clock"


@pytest.mark.usefixtures("loadable")
def test_a_killed_programs_clock_is_valid_for_five_seconds(tmp_path):
    with writers.stored(PATH, tmp_path) as file:
        killed = writers.Killed(file, "bbr3_leo", time.time_ns(), 60.0)
        killed.start()
        until(lambda: written().is_valid(time.monotonic_ns()))
        with pytest.raises(UserError, match="another program keeps"), writers.stored(PATH, tmp_path):
            pass
        killed.stop()
    assert 0 < killed.valid_s <= clocks.VALID_S
    assert killed.why_invalid() is None
    assert written().period_ns == 0


@pytest.mark.usefixtures("loadable")
def test_a_download_beside_a_wrong_clock_is_measured():
    require_emulation()
    (row,) = emulated.emulated(PATH, "bbr3-leo", clocks.LATE, emulated.WARMUP_S + 1.0)
    assert row["goodput_bps"] > 1e5
    assert row["valid_after_kill_s"] is None
    assert written().period_ns == 0
