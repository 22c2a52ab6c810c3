"""Control measurements of `bentpipe validate emulator`, and its prober."""

import numpy as np
import pytest

from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation import Outcome, Row
from bentpipe.validation.emulator import START_UNIX_NS, calm, delays, traffic
from bentpipe.validation.emulator.calm import Calm, Control, Measured

GOOD = Control(p50_us=10.0, p99_us=100.0, p999_us=200.0, stolen=0.0)
BAD = Control(p50_us=10.0, p99_us=7000.0, p999_us=9000.0, stolen=0.2)


def guard(controls, measured):
    """Return the result of measurements between these controls, their number, and the notes."""
    controls, left = iter(controls), list(measured)
    guarded = Calm(lambda: next(controls))
    rows = guarded.guarded("it", lambda: left.pop(0))
    return rows, len(measured) - len(left), guarded


def result(ours, within=True, why_not=None):
    return Measured([Row("it", ours, "0", "1", within)], why_not)


def test_a_measurement_between_two_good_controls_counts():
    rows, times, guarded = guard([BAD, GOOD, GOOD], [result("1"), result("2")])
    assert (rows, times) == ([Row("it", "1", "0", "1", within=True)], 1)
    assert guarded.notes[0].startswith(f"it: 1 of at most {calm.ATTEMPTS} attempts: ")
    assert guarded.notes[0].endswith("% stolen, counts")
    assert guarded.summary().startswith("2 of 3 idle controls pass; the host took 0.0 to 20.0 %")


def test_a_failure_that_counts_is_not_repeated():
    rows, times, _ = guard([GOOD, GOOD], [result("9", within=False), result("1")])
    assert (rows[0].ours, rows[0].within, times) == ("9", False, 1)


def test_a_bad_control_after_it_or_a_run_that_is_not_valid_is_repeated():
    rows, times, guarded = guard([GOOD, BAD, GOOD, GOOD, GOOD], [result("1"), result("2", why_not="late"), result("3")])
    assert (rows[0].ours, times) == ("3", 3)
    assert "the control after it fails (p50 10, p99 7000 µs, 20.0 % stolen)" in guarded.notes[0]
    assert "late" in guarded.notes[0]


def test_the_control_after_one_is_the_control_before_the_next():
    controls = iter([GOOD, GOOD, GOOD])
    guarded = Calm(lambda: next(controls))
    for _ in range(2):
        assert guarded.guarded("it", lambda: result("1"))[0].within
    assert not list(controls)


def test_a_measurement_that_never_counts_fails():
    rows, times, _ = guard([GOOD] + [BAD, GOOD] * calm.ATTEMPTS, [result("1")] * calm.ATTEMPTS)
    assert times == calm.ATTEMPTS
    assert (rows[0].ours, rows[0].within) == ("not measurable here (1)", False)
    rows, times, guarded = guard([BAD] * calm.CONTROLS, [])
    assert (rows[0].ours, rows[0].within, times) == ("not measurable here", False, 0)
    assert "no calm moment" in guarded.notes[0]
    assert not Outcome("emulator", rows).holds


def test_a_figure_without_a_limit_neither_passes_nor_fails():
    reported = Row("it", "1", "0", "reported", within=None)
    assert Outcome("emulator", [reported, Row("it", "1", "1", "0", within=True)]).holds
    assert not Outcome("emulator", [reported, Row("it", "1", "0", "1", within=False)]).holds


def probed(count, known, lost_on_path=0):
    """A prober's result: 20 ms for every packet; those beyond `known` alternately lost or without a timestamp."""
    sent = np.arange(count, dtype=float) * 1e6
    arrived = (sent + 20e6).astype(np.int64)
    arrived[known::2] = 0
    sent[known + 1 :: 2] = np.nan
    relay = {
        "delivered": count - lost_on_path,
        "lost": lost_on_path,
        "refused": 0,
        "kernel_rejected": 0,
        "lateness_n": count,
        "late": 0,
        "wakeups": count,
        "wakeups_late": 0,
        "lateness_p50_ms": 0.0,
        "lateness_p99_ms": 0.0,
        "lateness_max_ms": 0.0,
        "wakeup_p99_ms": 0.0,
        "wakeup_max_ms": 0.0,
        "ingress_wait_p99_ms": 0.0,
    }
    return traffic.Probe(
        sent, arrived, 0, EmulationResult(done={"relay": relay, "device_drops": [0, 0], "flows": [], "gateway": None})
    )


@pytest.mark.parametrize(
    ("known", "lost", "counts"), [(1000, 0, True), (990, 0, True), (980, 0, False), (900, 100, True)]
)
def test_delays_count_only_if_nearly_all_packets_are_known(monkeypatch, known, lost, counts):
    monkeypatch.setattr(traffic, "probe", lambda *_, **__: probed(1000, known, lost))
    monkeypatch.setattr(traffic, "counted_bps", lambda _: delays.LOAD_BPS)
    result = delays.under_udp()
    if counts:
        assert result.why_not is None
        assert f"UDP, {known} packets, median" in result.rows[0].quantity
        assert all(row.within for row in result.rows)
    else:
        assert result.why_not == "of 1000 probes that the path let through only 980 arrived with both stamps"
        assert not any(row.within for row in result.rows)
    assert delays.idle_control().passes is counts


@pytest.mark.parametrize(("off_ms", "holds"), [(0.0, True), (0.9, True), (1.4, False), (3.0, False)])
def test_the_time_of_a_reconfiguration_is_checked(monkeypatch, off_ms, holds):
    path = make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=60.0)

    def probe(path, count, every_s, *, offset_s):
        """What a prober would see if the whole Profile were `off_ms` late."""
        count, every_s = 5 * count, every_s / 5  # a prober's own steps would hide parts of them
        seen = probed(count, count)
        seen.emulated.started = {"clock_unix_ns": 0, "offset_ns": round(offset_s * 1e9)}
        # The first packet that has to wait is the one that waits longest, so its number tells when it struck.
        at_s = offset_s + np.arange(count) * every_s + off_ms / 1e3
        sent = (at_s - offset_s) * 1e9
        arrived = (sent + path.delay_ms("up", at_s - off_ms / 1e3) * 1e6).astype(np.int64)
        return traffic.Probe(sent, arrived, 0, seen.emulated)

    monkeypatch.setattr(traffic, "probe", probe)
    (row,) = [row for row in delays.reconfiguration(path).rows if "strikes at its time" in row.quantity]
    assert row.within is holds, row.ours


@pytest.mark.usefixtures("emulation")
def test_the_prober_measures_the_paths_delay():
    path = preset_profile("dumbbell:rate=100mbit,rtt=30ms,loss=0.1", 10.0, start_unix_ns=0, name="dumbbell")
    probe = traffic.probe(path, 300, 1e-3)
    assert np.all(probe.delay_us >= 15_000.0), "none is faster than the path"
    assert np.isfinite(probe.sent).mean() > 0.9, "the kernel says when packets leave"
    assert probe.overflowed == 0
    assert int((probe.arrived == 0).sum()) == probe.emulated.done["relay"]["lost"] > 0


@pytest.mark.usefixtures("emulation")
def test_a_stream_and_a_flood_fill_the_path():
    path = preset_profile("dumbbell:rate=10mbit,rtt=20ms,queue=1bdp", 10.0, start_unix_ns=0, name="dumbbell")
    stream = traffic.stream(path, 2.0, "reno")
    assert 5e6 < stream.goodput_bps(1.0) < 10e6
    flood = traffic.flood(path, 1.0, 13e6)
    assert set(flood.packets[:, 1]) == {1500}
