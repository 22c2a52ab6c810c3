"""The recorder: written rows survive, gaps are filled from the history, no row is duplicated."""

import contextlib
import dataclasses
import json
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from dish_recording import Faulty, record, seconds_of, since_start
from dish_world import SECOND, START, at, world
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient, DishError
from bentpipe.measurements.dish.following import Follower
from bentpipe.measurements.dish.recording.reading import maps, scan_recording
from bentpipe.measurements.dish.recording.recorder import Recorder
from bentpipe.measurements.dish.recording.tables import LAYOUT, STATUS
from bentpipe.measurements.dish.simulation.pings import running_mean
from bentpipe.measurements.dish.simulation.terminal import BOOT_S, LocalTransport
from bentpipe.measurements.dish.status import Status
from bentpipe.segments import Segments
from bentpipe.validation import dish_recorder


def test_recording_columns_match_status_fields():
    assert list(STATUS) == [field.name for field in dataclasses.fields(Status)]


def smoothed(seconds):
    """Drop rate, and latency as firmware since 2025 has it."""
    drop, latency_ms, *_ = world().samples(seconds)
    return drop, running_mean(drop, latency_ms)


def test_every_second_is_recorded_once_with_its_values(tmp_path):
    terminal, _ = at(0)
    changes = record(Faulty(terminal), tmp_path, 200)
    assert changes == ["connected"]
    rows = scan_recording(tmp_path).collect()
    assert seconds_of(tmp_path) == [float(s) for s in range(200)]
    drop, latency_ms = (values[14:] for values in smoothed(np.arange(-15, 199)))
    down = world().samples(np.arange(-1, 199))[2]
    assert np.allclose(rows["pop_ping_drop_rate"], drop)
    assert np.allclose(rows["pop_ping_latency_ms"].fill_null(0), np.where(drop < 1, latency_ms, 0))
    assert np.allclose(rows["downlink_throughput_bps"], down)
    assert rows["software_version"].unique().to_list() == [terminal.software_version]
    assert rows["source"].unique().to_list() == ["status"]


def test_a_second_in_which_every_ping_was_lost_has_no_latency(tmp_path):
    terminal, _ = at(0, outages=True)
    record(Faulty(terminal), tmp_path, 120)
    rows = scan_recording(tmp_path).collect()
    lost = rows.filter(pl.col("pop_ping_drop_rate") >= 1)
    assert lost.height > 0
    assert rows["pop_ping_latency_ms"].null_count() == lost["pop_ping_latency_ms"].null_count() == lost.height


@pytest.mark.parametrize("away", [(30.5, 75.2), (30.0, 31.0), (20.0, 600.0), (0.0, 40.0)])
def test_a_gap_is_filled_from_the_history(tmp_path, away):
    terminal, _ = at(0)
    changes = record(Faulty(terminal, [away]), tmp_path, 700)
    first = math.ceil(away[1]) if away[0] == 0 else 0
    times = seconds_of(tmp_path)
    assert len(times) == len(set(times))
    assert max(np.diff(times)) <= 1.5
    assert times[0] <= first + 15
    assert changes.count("lost") == 1, "once, however many polls failed"
    rows = scan_recording(tmp_path).collect()
    filled = rows.filter(pl.col("source") == "history")
    if away[0] > 0:
        assert abs(filled.height - (away[1] - away[0])) <= 17
        # A sample of the history is of the second before its end.
        second = (filled["counter"].to_numpy().astype(np.int64) - 1800) % 60
        lead = np.arange(second[0] - 14, second[0])
        drop, latency_ms = (values[14:] for values in smoothed(np.concatenate([lead, second])))
        assert np.allclose(filled["pop_ping_drop_rate"], drop)
        assert np.allclose(filled["pop_ping_latency_ms"].fill_null(0), np.where(drop < 1, latency_ms, 0))
        gap = scan_recording(tmp_path, "events").filter(pl.col("kind") == "gap").collect()
        assert gap["filled"].to_list() == [filled.height]


def test_a_gap_across_a_reboot_is_filled_from_the_boot_on(tmp_path):
    terminal, _ = at(0)
    reboot = {60: lambda t: DishClient(LocalTransport(t.terminal)).reboot()}
    changes = record(Faulty(terminal, [(50.0, 100.0)], reboot), tmp_path, 200)
    assert changes[:1] == ["connected"]
    assert {"lost", "rebooted"} <= set(changes)
    times = seconds_of(tmp_path)
    # It asks again with growing intervals; it rebooted at the first question after second 60.
    hole = [(a, b) for a, b in pairwise(times) if b - a > 1.5]
    assert len(hole) == 1
    assert hole[0][0] == 49.0
    assert 60 + BOOT_S <= hole[0][1] <= 80 + BOOT_S
    record(Faulty(terminal), tmp_path, 10)  # knows that nothing more can be had
    gaps = scan_recording(tmp_path, "events").filter(pl.col("kind") == "gap").collect()["start_unix_ns"]
    assert since_start(gaps).count(49.0) == 1
    bootcount = scan_recording(tmp_path).filter(pl.col("source") == "status").collect()["bootcount"]
    assert bootcount.unique().sort().to_list() == [1, 2]


def test_firmware_changes_are_recorded_with_each_sample(tmp_path):
    terminal, _ = at(0, firmware=2021)
    newer, clock = at(0, firmware=2026)
    newer.clock = terminal.clock

    def change(transport):
        transport.terminal = newer

    changes = record(Faulty(terminal, then={50: change}), tmp_path, 100)
    assert changes == ["connected", "firmware"]
    rows = scan_recording(tmp_path).collect()
    versions = rows.group_by("software_version", maintain_order=True).len()
    assert versions.rows() == [("2021.01.01.bentpipe", 50), ("2026.01.01.bentpipe", 50)]
    assert rows["snr"].null_count() == 50
    assert rows["quaternion_x"].null_count() == 50
    del clock


def test_outages_are_recorded_once(tmp_path):
    terminal, clock = at(0, outages=True, uptime_s=0)
    record(Faulty(terminal), tmp_path, 400)
    record(Faulty(terminal), tmp_path, 400)
    long = scan_recording(tmp_path, "events").filter(pl.col("kind") == "outage", pl.col("duration_s") > 1).collect()
    # The history is read every five minutes: what came after the last reading is in the samples alone.
    starts = since_start(long["start_unix_ns"])
    assert starts == sorted(set(starts))
    assert starts[:4] == [20.0, 31.0, 80.0, 91.0]
    assert long["cause"].to_list()[:2] == ["OBSTRUCTED", "NO_DOWNLINK"]
    assert len(starts) >= 2 * (600 // 60)
    del clock


class LogOnly(Faulty):
    """A terminal of which most outages are in the event log alone, and one has no usable time."""

    def call(self, request):
        response = self.terminal.wire.message("Response").FromString(super().call(request))
        if response.HasField("dish_get_history"):
            del response.dish_get_history.outages[1:]
            response.dish_get_history.outages.add(cause=7)
        return response.SerializeToString()


def test_outages_of_the_event_log_are_recorded(tmp_path):
    terminal, _ = at(0, outages=True, uptime_s=0)
    changes = record(LogOnly(terminal), tmp_path, 400)
    events = scan_recording(tmp_path, "events").collect()
    outages = events.filter(pl.col("kind") == "outage", pl.col("duration_s") > 1)
    assert since_start(outages["start_unix_ns"])[:4] == [20.0, 31.0, 80.0, 91.0]
    assert outages["did_switch"].null_count() >= outages.height - 1 > 3
    assert changes.count("undated") == 1
    assert "without a usable time" in events.filter(kind="undated")["text"][0]


def test_recording_continues_after_a_kill_and_fills_the_gap(tmp_path):
    terminal, clock = at(0)
    record(Faulty(terminal), tmp_path, 30)
    clock.sleep_s(101)
    record(Faulty(terminal), tmp_path, 30)
    times = seconds_of(tmp_path)
    assert len(times) == len(set(times)) == 160
    assert max(np.diff(times)) <= 1.5


def test_a_gap_left_by_a_kill_is_filled_later(tmp_path):
    terminal, clock = at(0)
    record(Faulty(terminal), tmp_path, 30)
    clock.sleep_s(100)
    transport = Faulty(terminal)
    client = DishClient(transport)
    client.history = lambda: (_ for _ in ()).throw(DishError("slow", "no answer"))
    Recorder(client, tmp_path, clock).run(3)  # ends before the terminal gave its history
    assert max(np.diff(seconds_of(tmp_path))) > 90
    record(Faulty(terminal), tmp_path, 30)
    assert max(np.diff(seconds_of(tmp_path))) <= 1.5


def test_obstruction_maps_are_restored(tmp_path):
    terminal, clock = at(0, uptime_s=0)
    shown = {}

    class Keeping(Faulty):
        def call(self, request):
            answer = super().call(request)
            shown[clock.now_unix_ns()] = terminal._map.quality.copy()
            return answer

    clear = {100: lambda t: DishClient(LocalTransport(t.terminal)).clear_obstruction_map()}
    record(Keeping(terminal, then=clear), tmp_path, 200, map_every_s=5)
    values = list(maps(tmp_path))
    assert len(values) == 40
    for t_unix_ns, quality in values:
        assert np.array_equal(quality, shown[t_unix_ns])
    assert (values[-1][1] >= 0).sum() < (values[19][1] >= 0).sum() * 3


def test_merged_hours_read_the_same(tmp_path):
    terminal, _ = at(0)
    record(Faulty(terminal), tmp_path, 7300, every_s=10, map_every_s=0)
    names = sorted(p.name for p in (tmp_path / "samples").iterdir())
    assert names[:2] == ["20260510T09Z.parquet", "20260510T10Z.parquet"]
    assert seconds_of(tmp_path) == [10.0 * s for s in range(730)]


def test_a_crash_during_merging_duplicates_no_rows(tmp_path):
    terminal, _ = at(0)
    record(Faulty(terminal), tmp_path, 300)
    folder = tmp_path / "samples"
    parts = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert len(parts) >= 1
    made = Segments(tmp_path, "samples", "test", LAYOUT)
    made.merge_hours()
    for name, data in parts.items():
        (folder / name).write_bytes(data)
    assert seconds_of(tmp_path) == [float(s) for s in range(300)]
    Segments(tmp_path, "samples", "test", LAYOUT)  # the next start removes them
    assert {p.name for p in folder.iterdir()} & parts.keys() == set()


def test_leftovers_of_a_killed_write_are_removed(tmp_path):
    terminal, _ = at(0)
    record(Faulty(terminal), tmp_path, 5)
    left = tmp_path / "samples" / ".20260510T090012.000Z.parquet.12.34.tmp"
    left.write_bytes(b"PAR1")
    assert len(seconds_of(tmp_path)) == 5
    record(Faulty(terminal), tmp_path, 5)
    assert not left.exists()


def test_requests_for_a_failing_history_back_off(tmp_path):
    terminal, clock = at(0)
    client, requests_s = DishClient(Faulty(terminal)), []

    def slow():
        requests_s.append((clock.now_unix_ns() - START) / SECOND)
        clock.sleep_s(3)
        raise DishError("slow", "no answer in 3 s")

    client.history = slow
    Recorder(client, tmp_path, clock).run(2000)
    assert np.diff(requests_s).round().tolist()[:5] == [18, 33, 63, 123, 243]
    assert len(requests_s) <= 12
    assert scan_recording(tmp_path).collect().height >= 2000 - 3 * len(requests_s) - 1


def test_maps_go_on_over_the_hour_and_without_the_hours_before(tmp_path):
    terminal, clock = at(0, uptime_s=0)
    clock.sleep_s(3600 - 90)
    shown = {}
    client = DishClient(Faulty(terminal))
    seen = client.obstruction_map

    def keeping():
        values = seen()
        shown[clock.now_unix_ns()] = values.quality.copy()
        return values

    client.obstruction_map = keeping
    Recorder(client, tmp_path, clock, map_every_s=7).run(200)
    folder = tmp_path / "maps"
    for path in sorted(folder.glob("20260510T09*.parquet")):
        path.rename(path.with_name(f"{path.name}.damaged"))
    values = list(maps(tmp_path))
    assert 10 <= len(values) < len(shown)
    for t_unix_ns, quality in values:
        assert np.array_equal(quality, shown[t_unix_ns])


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(500) + b"PAR1"])
def test_damaged_files_are_set_aside_and_reported(tmp_path, content):
    terminal, clock = at(0)
    record(Faulty(terminal), tmp_path, 5)
    (path,) = (tmp_path / "samples").glob("*.parquet")
    path.write_bytes(content)
    clock.sleep_s(10)
    assert record(Faulty(terminal), tmp_path, 5)[0] == "damaged"
    assert path.with_name(f"{path.name}.damaged").exists()
    assert scan_recording(tmp_path).collect().height == 5
    assert "damaged" in scan_recording(tmp_path, "events").collect()["kind"].to_list()


def test_two_recorders_do_not_share_a_folder(tmp_path):
    terminal, clock = at(0)
    client = DishClient(Faulty(terminal))
    first = Recorder(client, tmp_path, clock)
    with pytest.raises(UserError, match="another recorder"):
        Recorder(client, tmp_path, clock)
    first.run(1)
    Recorder(client, tmp_path, clock).run(1)


def test_a_reader_refuses_in_one_line(tmp_path):
    with pytest.raises(UserError, match="holds no recording"):
        scan_recording(tmp_path)
    terminal, _ = at(0)
    record(Faulty(terminal), tmp_path, 5)
    with pytest.raises(UserError, match="expected samples, events, maps"):
        scan_recording(tmp_path, "nothing")
    newer = tmp_path / "samples" / "20990101T000000.000Z.parquet"
    pl.DataFrame({"t_unix_ns": [1]}).write_parquet(newer, metadata={LAYOUT.key: json.dumps({"format": 99})})
    with pytest.raises(UserError, match="install a newer"):
        scan_recording(tmp_path)
    newer.write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match="move it away"):
        scan_recording(tmp_path)


class Odd(Faulty):
    """Answers every status with given values."""

    def __init__(self, terminal, values):
        super().__init__(terminal)
        self.values = values

    def call(self, request):
        from bentpipe.measurements.dish import wire

        answer = wire.all_firmware().message("Response").FromString(super().call(request))
        status = answer.dish_get_status
        if answer.HasField("dish_get_status"):
            status.pop_ping_latency_ms, status.downlink_throughput_bps = self.values[:2]
            status.device_state.uptime_s, status.outage.start_timestamp_ns = self.values[2:4]
            status.obstruction_stats.patches_valid = self.values[4]
        return answer.SerializeToString()


@settings(max_examples=20)
@given(
    st.tuples(
        st.floats(width=32), st.floats(width=32), st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**32 - 1),
    )
)  # fmt: skip
def test_any_values_of_the_terminal_are_recorded(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("odd")
    terminal, _ = at(0)
    record(Odd(terminal, values), folder, 3)
    rows = scan_recording(folder).collect()
    assert rows.height == 3
    for name, value in zip(("pop_ping_latency_ms", "downlink_throughput_bps", "uptime_s"), values, strict=False):
        result = rows[name][0]
        assert result == value or (math.isnan(result) and math.isnan(value))


def test_following_backs_off_and_reports_a_loss_once():
    terminal, clock = at(0)
    transport, changes, requests_s = Faulty(terminal, [(5, 1000)]), [], []
    count = transport.call

    def call(request):
        requests_s.append((clock.now_unix_ns() - START) / SECOND)
        return count(request)

    transport.call = call
    follower = Follower(DishClient(transport), clock, 1.0, lambda change: changes.append(change.kind))
    got = [(s.t_unix_ns - START) / SECOND for s in follower.samples(1030)]
    assert changes == ["connected", "lost", "connected"]
    assert got[:5] == [0, 1, 2, 3, 4]
    assert 1000 <= got[5] <= 1015
    failed = [t for t in requests_s if 5 <= t < 1000]
    assert np.diff(failed).tolist()[:4] == [1.0, 2.0, 4.0, 8.0]
    assert max(np.diff(failed)) == 15.0


def killed_as(monkeypatch, leaves=lambda: None, says=b""):
    """Instead of each recorder one that `leaves` something, `says` something, and has ended before it asked."""

    class Killed:
        def __init__(self, *_, stderr, **__):
            leaves()
            stderr.write(says)

        def poll(self):
            return 1

        def send_signal(self, _):
            pass

        def wait(self):
            return 1

    monkeypatch.setattr(dish_recorder.subprocess, "Popen", Killed)


def test_a_file_that_a_kill_damaged_is_counted_and_fails_the_claim(tmp_path, monkeypatch):
    """The recorder is not started: what it left is a file that was truncated."""

    def leave():
        (tmp_path / "samples").mkdir(exist_ok=True)
        (tmp_path / "samples" / "1.parquet").write_bytes(b"PAR1 and no more")

    killed_as(monkeypatch, leave)
    kills = dish_recorder.kill(world(), tmp_path, 2, seed=7)
    assert (kills.opened, kills.tried) == (0, 2)
    outcome = claim_of(monkeypatch, dish_recorder.Kills([0.0], 3, 4))
    assert [row.quantity for row in outcome.rows if row.within is False] == ["files that open after a kill"]


def claim_of(monkeypatch, kills):
    """The claim, were these the kills, and all else well."""
    monkeypatch.setattr(dish_recorder, "KILLS", len(kills.lost_s) + len(kills.not_started))
    monkeypatch.setattr(dish_recorder, "kill", lambda *_: kills)
    monkeypatch.setattr(dish_recorder, "holes", lambda _: (1.0, 0))
    done = SimpleNamespace(result=lambda: (1.0, (150.0, 165.0, 168.0), 86_400, 1.0))
    fresh = contextlib.nullcontext(SimpleNamespace(submit=lambda *_: done))
    monkeypatch.setattr(dish_recorder, "ProcessPoolExecutor", lambda *_, **__: fresh)
    return dish_recorder.check(None, lambda _: None)


def test_a_recorder_that_did_not_start_is_no_kill_and_fails_the_claim(tmp_path, monkeypatch):
    killed_as(monkeypatch, says=b"error: this recording is of another terminal\n")
    kills = dish_recorder.kill(world(), tmp_path, 2, seed=7)
    assert kills.lost_s == []
    assert kills.not_started == ["error: this recording is of another terminal"] * 2
    for lost_s in ([], [0.1]):
        outcome = claim_of(monkeypatch, dish_recorder.Kills(lost_s, 4, 4, kills.not_started))
        assert next(row.ours for row in outcome.rows) == str(len(lost_s))
        outside = [row.quantity for row in outcome.rows if row.within is False]
        assert outside[0].startswith("recorders that ran when they were killed")
        assert len(outside) == (1 if lost_s else 2), "what was not lost by nobody is no success"
        assert "a recorder did not start: error: this recording is of another terminal" in outcome.notes


def test_killed_at_random_moments_every_file_opens_and_little_is_lost(tmp_path):
    kills = dish_recorder.kill(world(), tmp_path, 4, seed=7)
    assert len(kills.lost_s) == 4
    assert kills.not_started == []
    assert max(kills.lost_s) <= 1.0
    assert kills.opened == kills.tried > 4
    apart_s, doubled = dish_recorder.holes(tmp_path)
    assert doubled == 0
    assert apart_s <= dish_recorder.APART_S


def test_memory_is_constant_over_hours(tmp_path):
    if not dish_recorder.STATM.exists():
        pytest.skip("no /proc/self/statm")
    _, (_, second_mib, last_mib), count, size_mb = dish_recorder.replay(tmp_path, 3)
    assert count == 10_800
    assert last_mib - second_mib < 32  # beside other tests, whose memory is given back or taken meanwhile
    assert 0.5 < size_mb < 20
