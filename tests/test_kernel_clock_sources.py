"""Sources of a host's clock beside its sockets: a Profile that is emulated, and a terminal."""

import os
import shutil
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.kernel.clock.dish import MAX_SILENCE_S, TerminalState, reading_of
from bentpipe.kernel.clock.emulations import Emulations, emulating
from bentpipe.kernel.clock.learning import Learned, Watch
from bentpipe.kernel.clock.profile import Emulated, NoClockError, regular_clock
from bentpipe.kernel.clock.reading import Reading
from bentpipe.kernel.clock.record import Hint, wall_clock_ns
from bentpipe.kernel.clock.time_of_day import TimeOfDay, parse_timex, time_of_day
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.parquet import write_profile
from bentpipe.times import parse_utc
from bentpipe.validation.kernel_clock.paths import irregular_path, leo_path, other_path, phase_error_s

S = 10**9
SLOT = 15 * S
UNKNOWN = dict.fromkeys(("from_satellite", "to_satellite", "from_gateway", "to_gateway"))
SIDES = {side: {"queue": "keep", "in_flight": "deliver", "order": "clamp"} for side in ("up", "down")}


def test_a_profile_with_regular_handovers_has_a_clock():
    assert regular_clock([5.0]) is None
    assert regular_clock([12.0, 42.05, 57.0])[0] == pytest.approx(15.0, abs=0.05)
    assert regular_clock([1.0, 1.5, 2.0]) is None
    source = Emulated(leo_path(1, 130.0))
    now = 10**6 * S
    reading = source.read(now)
    assert (reading.hint.period_ns, reading.hint.next_ns) == (SLOT, 0)
    assert phase_error_s((reading.hint.at_ns + wall_clock_ns()) / 1e9) == pytest.approx(0.0, abs=0.01)
    started = Emulated(leo_path(1, 130.0), wall_clock_ns() + now - 20 * S)
    hint = started.read(now).hint
    assert (hint.last_ns - now) / S == pytest.approx(-8.0, abs=0.01)
    assert (hint.next_ns - now) / S == pytest.approx(7.0, abs=0.01)


@pytest.mark.filterwarnings("ignore::UserWarning")  # seconds without a satellite
def test_a_profile_that_starts_within_a_slot_has_the_clock_of_its_own_seconds():
    start_unix_ns = parse_utc("2026-05-10T09:00:07Z")
    profile = make_profile("london", "amsterdam", start_unix_ns=start_unix_ns, duration_s=100.0, seed=1)
    hint = Emulated(profile).read(10**6 * S).hint
    assert phase_error_s((hint.at_ns + wall_clock_ns()) / 1e9) == pytest.approx(0.0, abs=0.01)


def test_a_profile_without_a_clock_is_refused_and_irregular_ones_need_their_start():
    with pytest.raises(NoClockError, match="fibre has no reconfigurations"):
        Emulated(other_path("fibre", 60.0))
    with pytest.raises(UserError, match="start: the handovers of irregular-0 do not repeat each minute"):
        Emulated(irregular_path(0, 130.0))
    reading = Emulated(irregular_path(0, 130.0), wall_clock_ns()).read(50 * S)
    assert (reading.hint.period_ns, reading.is_sure) == (0, True)
    assert reading.hint.last_ns <= 50 * S < reading.hint.next_ns


@pytest.mark.parametrize(("duration_s", "is_followed"), [(180.0, True), (130.0, False), (90.0, True), (100.0, False)])
def test_a_profile_that_its_run_repeats_is_followed_where_both_ways_to_repeat_agree(duration_s, is_followed):
    started = Emulated(leo_path(1, duration_s), wall_clock_ns())
    assert started.read(20 * S).is_sure
    after = started.read(round((duration_s + 20) * S))
    assert after.is_sure == is_followed
    if is_followed:
        assert phase_error_s(after.hint.at_ns / S) == pytest.approx(0.0, abs=0.01)
    else:
        assert "is over" in after.doubt


@pytest.mark.filterwarnings("ignore::UserWarning")  # seconds without a satellite
def test_a_profile_below_two_minutes_follows_the_slot_only_so_its_period_must_divide_it():
    assert Emulated(leo_path(1, 90.0)).read(10**6 * S).is_sure
    with pytest.raises(UserError, match="do not repeat every 15 s, in its 119 s"):
        Emulated(every_20_s(119.0))
    assert Emulated(every_20_s(120.0)).read(10**6 * S).hint.period_ns == 20 * S


def every_20_s(duration_s):
    events = [
        {"at_ns": at * S, "interruption_ns": 0, "hop": 0, "kind": {"handover": {**UNKNOWN, "to_hop": 0}}, **SIDES}
        for at in range(10, int(duration_s), 20)
    ]
    side = Side(delay_s=Points.of([0.0], [0.02]), capacity_bps=Points.of([0.0], [1e7]), queue={"bytes": 50_000})
    return single_hop_profile(
        name="every-20-s",
        hop="satellite",
        start_unix_ns=parse_utc("2026-05-10T09:00:00Z"),
        duration_s=duration_s,
        basis="one_way",
        provenance=Provenance("preset", "a handover every 20 s"),
        up=side,
        down=side,
        events=events,
    )


def test_the_end_of_the_last_run_of_a_profile_is_noticed(tmp_path):
    write_profile(leo_path(1, 130.0), tmp_path / "P.parquet")
    proc = tmp_path / "proc"

    def process(number, folder, *words):
        (proc / number).mkdir(parents=True)
        (proc / number / "cmdline").write_bytes(b"\0".join(os.fsencode(word) for word in words) + b"\0")
        (proc / number / "cwd").symlink_to(folder)

    process("7", tmp_path, "/usr/bin/python", "/usr/local/bin/bentpipe", "clock", "--profile", "P.parquet")
    process("8", tmp_path, "vim", "P.parquet")
    process("9", tmp_path.parent, "bentpipe", "run", "P.parquet")  # another file of this name
    emulations = Emulations(tmp_path / "P.parquet", proc)
    assert not emulations.have_ended()
    process("10", tmp_path, "/usr/bin/python", "/usr/local/bin/bentpipe", "run", "P.parquet", "--", "iperf3")
    assert not emulations.have_ended()
    shutil.rmtree(proc / "10")
    assert emulations.have_ended()
    process("11", tmp_path.parent, "bentpipe", "race", str(tmp_path / "P.parquet"), "--on-kernel")
    assert not emulations.have_ended()
    assert not Emulations(tmp_path / "P.parquet").have_ended()  # this machine's


@pytest.mark.parametrize(
    ("line", "is_emulation"),
    [
        ("bentpipe run P --", True),
        ("python -m bentpipe --debug run P", True),
        ("bentpipe shell P", True),
        ("bentpipe race P --cc bbr --on-kernel", True),
        ("bentpipe race P --cc bbr", False),
        ("bentpipe call P --browser", True),
        ("bentpipe call P", False),
        ("bentpipe web load page.har P --browser", True),
        ("bentpipe video race P --browser", True),
        ("bentpipe video race P", False),
        ("bentpipe profile show P", False),
        ("bentpipe clock --profile P", False),
        ("bentpipe run Q -- bentpipe profile show P", False),
        ("python run P", False),
        ("bentpipe", False),
        ("", False),
    ],
)
def test_only_subcommands_that_emulate_count(line, is_emulation):
    assert ("P" in emulating(line.split(" "))) == is_emulation


def test_after_the_end_of_its_emulation_a_start_gives_no_clock(monkeypatch):
    ends = iter([False, True, False, False, True, False])
    monkeypatch.setattr(Emulations, "have_ended", lambda _: next(ends))
    path = leo_path(1, 130.0)
    started = Emulated(path, wall_clock_ns())
    assert [started.read(t * S).is_sure for t in (20, 30, 40)] == [True, False, False]
    aligned = Emulated(path)
    assert [aligned.read(t * S).doubt for t in (20, 30, 40)] == ["", "the emulation has ended", ""]


def test_a_time_of_day_that_is_not_synchronized_is_one_line_and_a_learned_phase_counts_instead():
    now = 100 * S
    state, bad = TerminalState(now, now, "", ahead_ns=0), TimeOfDay(False)
    assert "not synchronized; try" in reading_of(state, now, None, bad).doubt
    assert "may be wrong by 2.5 s; expected 2 s or less" in reading_of(state, now, None, TimeOfDay(True, 2.5)).doubt
    assert reading_of(state, now, None, TimeOfDay(True, 1.024)).is_sure  # timesyncd before its next poll
    assert reading_of(state, now, None, TimeOfDay()).is_sure  # the kernel does not tell
    published = reading_of(state, now).hint.at_ns
    for off_s, text in ((0.2, "as the published slots"), (3.0, "+3.0 s from the published slots"), (-4.0, "-4.0 s")):
        learned = Reading(Hint(SLOT, published + round(off_s * S)), 0.99, "1 socket watched")
        for host in (bad, TimeOfDay(True, 0.02)):
            reading = reading_of(replace(state, ahead_ns=5 * S), now, learned, host)
            assert (reading.hint, text in reading.evidence) == (learned.hint, True), reading.evidence
    other = Reading(Hint(21 * S, 0), 0.99, "1 socket watched")
    assert reading_of(state, now, other, TimeOfDay(True)).hint.at_ns == pytest.approx(published, abs=S / 100)
    assert not reading_of(TerminalState(), now, learned).is_sure


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="socket statistics of Linux")
def test_a_learner_has_no_published_phase_while_the_time_of_day_is_in_doubt():
    times, is_trusted = [], True
    watch = Watch()
    watch.set_time_of_day = times.append
    learned = Learned(watch, lambda: is_trusted)
    learned.wait(time.monotonic_ns() + S // 100)
    is_trusted, learned._time_ns = False, 0
    learned.wait(time.monotonic_ns() + S // 100)
    learned.close()
    assert times[0] == pytest.approx(wall_clock_ns(), abs=S)
    assert times[1:] == [None]
    Watch().set_time_of_day(None)


@given(st.binary(max_size=300))
def test_any_answer_about_the_time_of_day_is_read(data):
    parsed = parse_timex(data)
    assert isinstance(parsed.trouble, str)
    assert time_of_day().max_error_s >= 0


def test_a_terminal_has_the_published_slots_while_it_is_connected():
    now = 100 * S
    state = TerminalState(now, now, "", ahead_ns=-S)
    reading = reading_of(state, now)
    assert phase_error_s((reading.hint.at_ns + wall_clock_ns()) / 1e9) == pytest.approx(0.0, abs=0.01)
    assert reading_of(replace(state, period_s=15.1), now).confidence > reading.confidence
    assert "its time is +3.0 s from" in reading_of(replace(state, ahead_ns=3 * S), now).doubt
    assert "every 21.0 s" in reading_of(replace(state, period_s=21.0), now).doubt
    late = reading_of(replace(state, trouble="no answer within 3 s"), now + round((MAX_SILENCE_S + 1) * S))
    assert (late.is_sure, late.doubt) == (False, "no answer within 3 s")
