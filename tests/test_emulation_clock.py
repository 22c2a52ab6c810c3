"""Profile time of an emulation: at the start, and after the Profile's end."""

import json
import re
import time
from dataclasses import replace

import pytest
from emulation import echo, python

from bentpipe.execution import kernel
from bentpipe.execution.emulation.spec import Spec
from bentpipe.execution.program import run_program
from bentpipe.execution.racing import race
from bentpipe.experiments.experiment import ROLE, ProfileRef, for_scheme
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.report.build import write_report

pytestmark = pytest.mark.usefixtures("emulation")


def test_behaviour_after_the_profiles_end(tmp_path):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 1.0, start_unix_ns=0, name="short")
    for at_end, loops in (("loop", True), ("hold", False)):
        rtts, emulated = echo(short, tmp_path, n=40, gap=0.02, at_end=at_end, offset_s=0.0)
        assert all(rtt is not None and rtt >= 30.0 for rtt in rtts)
        assert (emulated.done["relay"]["loops"] >= 1) == loops
        assert ("the Profile was played" in (emulated.warning or "")) == loops
    stopped = run_program(short, ["sleep", "60"], at_end="stop", offset_s=0.0)
    assert stopped.exit_code == 124
    assert stopped.emulated.done["stopped"] == "profile_ended"


def test_every_packet_is_counted_when_the_profile_restarts(tmp_path):
    """With a queue longer than the Profile, several passages hold packets at once."""
    slow = preset_profile("dumbbell:rate=1mbit,rtt=600ms,queue=20bdp", 1.0, start_unix_ns=0, name="slow")
    code = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for _ in range(300): s.sendto(bytes(1200), ('server', 9)); time.sleep(0.001)\n"
        "time.sleep(4.5)"
    )
    relay = run_program(slow, python(code), at_end="loop", offset_s=0.0).emulated.done["relay"]
    assert relay["loops"] >= 3
    # Each datagram, and what comes back: nobody listens on port 9, and a kernel says so at most once for each, and
    # sends some reports of its own groups. None counts twice.
    everything = sum(relay[fate] for fate in ("delivered", "lost", "held", "refused", "kernel_rejected"))
    assert 300 <= everything <= 2 * 300 + 20
    assert relay["held"] == 0


def test_a_computed_path_follows_the_wall_clock(tmp_path):
    """Without --offset the Profile follows the machine's second of the minute."""
    path = make_profile("melbourne", "sydney", start_unix_ns=1_778_403_600_000_000_000, duration_s=125.0)
    before = time.time() % 60
    emulated = run_program(path, ["true"]).emulated
    elapsed = (emulated.started["offset_ns"] / 1e9 - before) % 60
    assert elapsed < 30  # the start-up; and at the moment of the start itself:
    started = emulated.started
    apart = (started["offset_ns"] + path.start_unix_ns - started["clock_unix_ns"]) % 60_000_000_000
    assert min(apart, 60_000_000_000 - apart) < 1_000_000


@pytest.mark.parametrize(
    ("duration_s", "phase", "begin"),
    [
        (14.9, "beginning", {"at": 0}),
        (15.0, "wall_clock", {"wall_clock": 15_000_000_000}),
        (120.0, "wall_clock", {"wall_clock": 60_000_000_000}),
    ],
)
def test_the_phase_names_the_source_of_the_start_time(duration_s, phase, begin):
    path = preset_profile("dumbbell:rate=10mbit,rtt=30ms", duration_s, start_unix_ns=0, name="path")
    requested = Spec(workload={})
    assert (requested.phase(path), json.loads(requested.to_json(path))["begin"]) == (phase, begin)
    given = Spec(workload={}, offset_s=0.5)
    assert (given.phase(path), json.loads(given.to_json(path))["begin"]) == ("given", {"at": 500_000_000})
    kept = replace(given, aligned_ns=15_000_000_000)
    at_second = {"at": 500_000_000, "period": 15_000_000_000}
    assert (kept.phase(path), json.loads(kept.to_json(path))["begin"]) == ("given", {"at_second": at_second})


def test_a_race_waits_for_the_second_if_a_controller_goes_by_the_clock(tmp_path, monkeypatch):
    plain = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 20.0, start_unix_ns=7_000_000_000, name="plain")
    leo = make_profile("melbourne", "sydney", start_unix_ns=1_778_403_600_000_000_000, duration_s=20.0)
    slot, ref = 15_000_000_000, [ProfileRef(role=ROLE, name="path", hash=plain.content_hash())]
    for program, expected in (
        (None, [None] * 2 + [slot] * 2 + [None] * 4),
        ("1 on x", [None, None, slot, slot, None, slot, None, slot]),
    ):
        monkeypatch.setattr(kernel, "clock_program", lambda program=program: program)
        waits = [
            kernel._aligned_ns(for_scheme(scheme, "down", ref, duration_ns=10**9, seed=0), path)
            for scheme in ("cubic", "cubic+leocc", "bbr3-leo", "satcp")
            for path in (plain, leo)
        ]
        assert waits == expected
    monkeypatch.setattr(kernel, "_aligned_ns", lambda *_: slot)
    (run,) = race([plain], ["cubic"], out=tmp_path / "out", duration_s=1.0, phase_s=3.5, on_kernel=True).runs
    emulated, (flow,) = run.record.summary["emulator"], run.record.summary["flows"]
    assert emulated["offset_ns"] == 3_500_000_000
    assert (emulated["clock_unix_ns"] - 10_500_000_000) % 15_000_000_000 < 1_000_000
    assert emulated["relay"]["wall_clock_off_ms"] is None
    assert flow["goodput_bps"] > 1e6


def test_a_profile_shorter_than_a_slot_starts_at_its_beginning(dumbbell, tmp_path):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 10.0, start_unix_ns=0, name="short")
    record = run_program(short, ["true"], out=tmp_path / "out").run.record
    assert (record.phase, record.experiment.offset_ns) == ("beginning", 0)
    assert run_program(dumbbell, ["true"], out=tmp_path / "out").run.record.phase == "wall_clock"
    assert run_program(short, ["true"], out=tmp_path / "out", offset_s=3.0).run.record.phase == "given"
    text = write_report(tmp_path / "out").read_text(encoding="utf-8")
    for output in ("at the start", "at the machine&#39;s second of the minute", "given"):
        assert output in text, output


def test_a_report_mentions_repeated_passages(tmp_path):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 1.0, start_unix_ns=0, name="short")
    run_program(short, ["sleep", "2.5"], out=tmp_path / "out", offset_s=0.0)
    text = write_report(tmp_path / "out").read_text(encoding="utf-8")
    assert "Longer than the Profile" in text
    assert re.search(r"1 of 1, played up to \d+ times: the events are those of the first passage alone", text)
