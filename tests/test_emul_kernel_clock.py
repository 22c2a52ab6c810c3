"""The host's clock in the maps of loaded controllers, and what a socket's polls tell on an emulated path."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from emulation import require_emulation
from loaded_controllers import turn
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.execution.program import run_program
from bentpipe.kernel import controllers, libbpf
from bentpipe.kernel.clock import record
from bentpipe.kernel.clock.record import Hint, HostClockMaps
from bentpipe.profiles.parquet import write_profile
from bentpipe.validation.kernel_clock.paths import leo_path, other_path, phase_error_s

S = 10**9


@pytest.fixture
def loadable():
    with turn():
        yield


def change_first_map(name, value):
    for info in libbpf.maps(f"{record.PREFIX}{name}"):
        with contextlib.suppress(libbpf.KernelRefusedError), libbpf.open_map(info.id) as file:
            libbpf.set_value(file, bytes(4), value.to_bytes())


@pytest.mark.usefixtures("loadable")
def test_maps_are_written_renewed_and_withdrawn_and_a_change_by_others_is_noticed():
    controllers.load_controller("bbr3-leo")
    foreign = []
    maps, now_ns = HostClockMaps(foreign.append), time.monotonic_ns()
    hint = Hint(15 * S, now_ns - 3 * S, now_ns - 3 * S, now_ns + 27 * S)
    assert "bbr3_leo" in maps.write(hint, now_ns + 5 * S)
    first = record.read_records()["bbr3_leo"]
    assert (first.period_ns, first.at_ns, first.until_ns) == (15 * S, hint.at_ns, now_ns + 5 * S)
    assert abs(first.unix_ns + time.monotonic_ns() - time.time_ns()) < S
    controllers.load_controller("satcp")  # later
    assert {"bbr3_leo", "satcp"} <= set(maps.write(hint, now_ns + 60 * S))
    records = record.read_records()
    assert records["bbr3_leo"].generation > first.generation
    assert records["satcp"].next_ns(now_ns) == now_ns + 27 * S
    assert foreign == []
    change_first_map("bbr3_leo", record.HostClockRecord(1, 7 * S, 0, 2**62, 0))
    maps.write(hint, now_ns + 60 * S)
    change_first_map("bbr3_leo", record.HostClockRecord(1, 7 * S, 0, 2**62, 0))
    maps.write(hint, now_ns + 60 * S)
    assert foreign == ["bbr3_leo"]  # once while it goes on
    assert record.read_records()["bbr3_leo"].period_ns == 15 * S
    maps.withdraw()
    assert {each.period_ns for each in record.read_records().values()} == {0}


@pytest.mark.usefixtures("loadable")
def test_a_map_of_another_kind_with_such_a_name_is_let_alone():
    controllers.load_controller("satcp")
    library = ctypes.CDLL(libbpf.LIBRARY)
    hash_map = library.bpf_map_create(1, b"bpt_other", 4, 8, 1, None)  # values of 8 bytes
    assert hash_map >= 0
    try:
        for names in (record.read_records(), HostClockMaps().write(Hint(15 * S, 0), time.monotonic_ns() + S)):
            assert "satcp" in names
            assert "other" not in names
    finally:
        os.close(hash_map)


def lines_of(process, kind):
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == kind:
            return event
    raise AssertionError(f"no {kind}: {process.stderr.read()}")


@pytest.mark.usefixtures("loadable")
def test_the_program_writes_a_profiles_clock_and_ends_with_it_or_leaves_it_to_run_out(tmp_path):
    controllers.load_controller("bbr3-leo")
    write_profile(leo_path(1, 130.0), tmp_path / "P.parquet")
    command = [sys.executable, "-P", "-m", "bentpipe", "clock", "--profile", str(tmp_path / "P.parquet"), "--json"]
    for number in (signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            event = lines_of(process, "found")
            assert (event["period_s"], event["second_of_minute"]) == (15.0, pytest.approx(12.0, abs=0.05))
            written = record.read_records()["bbr3_leo"]
            assert written.is_valid(time.monotonic_ns())
            assert abs(phase_error_s((written.at_ns + written.unix_ns) / 1e9)) < 0.05
            shown = CliRunner().invoke(app, ["kernel", "status", "--json", "bbr3-leo"])
            assert json.loads(shown.output)["clocks"]["bbr3-leo"]["second_of_minute"] == pytest.approx(12.0, abs=0.05)
            assert "handover clock: every 15.000 s" in CliRunner().invoke(app, ["kernel", "status"]).output
            second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
            assert (second.returncode, "keeps the clock of this host already" in second.stderr) == (2, True)
            process.send_signal(number)
            assert process.wait(10) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        left = record.read_records()["bbr3_leo"]
        if number == signal.SIGTERM:
            assert left.period_ns == 0
        else:
            assert left.until_ns < time.monotonic_ns() + 6 * S
    # The next one takes it over, and withdraws it.
    done = CliRunner().invoke(app, ["clock", "--learn", "--for", "1"])
    assert (done.exit_code, "another program" in done.output) == (3, False)
    assert record.read_records()["bbr3_leo"].period_ns == 0


def test_the_kernel_tells_a_socket_of_an_emulated_path_and_a_short_transfer_has_no_clock(tmp_path):
    require_emulation()
    module = [sys.executable, "-P", "-m"]
    sender = [*module, "bentpipe.validation.kernel_clock.sender", "bulk", "5", str(tmp_path / "out.json"), "cubic"]
    receiver = [*module, "bentpipe.validation.kernel_clock.receiver", "5"]
    done = run_program(other_path("dumbbell:rate=10mbit,rtt=40ms", 30.0), receiver, server="exec " + shlex.join(sender))
    assert done.emulated.exit_code == 0
    output = json.loads((tmp_path / "out.json").read_text())
    assert len(output["polls"]) > 50
    assert max(poll[3] for poll in output["polls"]) > 100  # segments delivered
    assert all(20e6 < poll[5] < 1e9 for poll in output["polls"] if poll[5])
    assert [reading["at_ns"] for reading in output["readings"]] == [None] * len(output["readings"])
