"""The terminal in the agent: recorded all the time, within a budget, and sliced for runs."""

import errno
import io
import threading
import time

import numpy as np
import polars as pl
import pytest

pytest.importorskip("grpc")

from dish_world import SECOND, START, at, local
from testbed_records import policy

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient
from bentpipe.measurements.dish.errors import DishError
from bentpipe.measurements.dish.recording import maps, rebuild_maps, scan_recording
from bentpipe.measurements.runs.store import Source, read_measured, write_measured
from bentpipe.segments import Segments, parts
from bentpipe.testbed.agent import dish_slice
from bentpipe.testbed.agent.dish import COLUMNS, DishRecording
from bentpipe.testbed.agent.dish_budget import keep_within
from bentpipe.testbed.agent.dish_slice import slice_recording
from bentpipe.testbed.agent.terminal import RecordedTerminal, add_telemetry
from bentpipe.testbed.schemas.policy import Sharing

ALL = Sharing()
START_MS = START // 10**6


def wait_for(is_done, limit_s=20.0):
    end_s = time.monotonic() + limit_s
    while not is_done():
        assert time.monotonic() < end_s
        time.sleep(0.002)


class Limited:
    """A clock that ends the recording after so many samples."""

    def __init__(self, clock, samples):
        self.clock, self.samples, self.recording = clock, samples, None

    def __getattr__(self, name):
        return getattr(self.clock, name)

    def sleep_s(self, seconds):
        self.clock.sleep_s(seconds)
        if self.recording._samples >= self.samples:
            self.recording._stopped.set()


def record(folder, samples=120, begin_s=10.0, **options):
    """Record so many seconds of a simulated terminal, as fast as it goes."""
    terminal, clock = at(begin_s, outages=True)
    limited = Limited(clock, samples)
    recording = limited.recording = DishRecording(
        DishClient(local(terminal)),
        folder,
        **{"budget_bytes": 10**9, "clock": limited, "first_wait_s": 0.01, **options},
    )
    recording.start()
    recording._thread.join(20)
    assert not recording._thread.is_alive()
    recording.stop()
    return recording


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return record(tmp_path_factory.mktemp("dish"), 200)


def test_it_records_and_gives_its_newest_values(recorded):
    assert scan_recording(recorded.folder).collect().height >= 200
    newest = recorded.newest()
    assert tuple(newest) == COLUMNS
    assert newest["connected"] in (0.0, 1.0)
    assert any(row[1] is not None and row[1] > 0 for row in recorded.rows_after(0.0))
    rows = recorded.rows_after(newest["t_unix_ms"] - 5500)
    assert len(rows) == 6
    assert any(note.startswith("connected:") for note in recorded.notes)
    assert recorded.state in ("connected", "lost")


def test_a_slice_is_the_tables_of_a_measured_run(recorded, tmp_path):
    tables = recorded.slice(START_MS + 20_000, START_MS + 40_000, ALL)
    assert set(tables) == {"dish_samples", "dish_events", "dish_maps"} or set(tables) == {"dish_samples", "dish_maps"}
    samples = tables["dish_samples"]
    assert samples.height == pytest.approx(21, abs=1)
    assert samples["t_unix_ns"].is_between(START + 20 * SECOND, START + 40 * SECOND).all()
    run = write_measured(tmp_path, tables, [Source(name="dish", format="dish")], site="node")
    assert read_measured(run.path).dish["samples"].height == samples.height


def test_a_slice_says_neither_which_terminal_nor_where(recorded):
    tables = recorded.slice(START_MS, START_MS + 400_000, ALL)
    assert tables["dish_samples"]["device_id"].null_count() == tables["dish_samples"].height
    assert tables["dish_samples"]["raw"].null_count() == tables["dish_samples"].height
    assert "location" not in tables["dish_events"]["kind"].to_list()
    assert "location" in scan_recording(recorded.folder, "events").collect()["kind"].to_list()


def test_maps_of_a_slice_are_those_of_the_recording(recorded):
    whole = list(maps(recorded.folder))
    begin, end = whole[3][0] + SECOND, whole[7][0]
    table = recorded.slice(begin // 10**6, end // 10**6 + 1, ALL)["dish_maps"]
    assert table["whole"][0]
    again = list(rebuild_maps([table]))
    assert [t_unix_ns for t_unix_ns, _ in again] == [t_unix_ns for t_unix_ns, _ in whole[3:8]]
    for (_, one), (_, other) in zip(again, whole[3:8], strict=True):
        assert np.array_equal(one, other)


def test_hosts_decide_what_is_shared(recorded):
    span = START_MS, START_MS + 400_000
    assert "dish_maps" not in recorded.slice(*span, Sharing(obstruction_maps=False))
    assert recorded.slice(*span, Sharing(telemetry=False)) == {}
    assert recorded.slice(span[1], span[0], ALL) == {}
    assert recorded.slice(0, 1000, ALL) == {}
    assert slice_recording(recorded.folder / "nowhere", *span, ALL) == {}


def test_a_damaged_file_of_the_time_is_one_line(tmp_path):
    recording = record(tmp_path, 20)
    path = parts(tmp_path / "samples", scan_layout())[0]
    path.write_bytes(b"PAR1" + b"x" * 100 + b"PAR1")
    with pytest.raises(UserError, match="does not read") as caught:
        recording.slice(START_MS, START_MS + 400_000, ALL)
    assert "\n" not in str(caught.value)


def scan_layout():
    from bentpipe.measurements.dish.recording.tables import LAYOUT

    return LAYOUT


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def record_parts(folder, count, **options):
    """Record several times, each into files of its own; return the notes."""
    recordings = [record(folder, 30, begin_s=10.0 + 100 * number, **options) for number in range(count)]
    return [note for recording in recordings for note in recording.notes]


def test_the_oldest_go_first_and_the_rest_reads(tmp_path):
    record_parts(tmp_path, 8)
    before = scan_recording(tmp_path).collect()
    budget = size(tmp_path) * 2 // 3
    removed = keep_within(tmp_path, budget)
    assert removed
    assert size(tmp_path) <= budget
    after = scan_recording(tmp_path).collect()
    assert after.height < before.height
    assert after["t_unix_ns"].min() > before["t_unix_ns"].min()
    assert after["t_unix_ns"].max() == before["t_unix_ns"].max()
    assert list(maps(tmp_path))
    assert keep_within(tmp_path, budget) == []
    keep_within(tmp_path, 0)  # the files that are written stay
    assert scan_recording(tmp_path).collect()["t_unix_ns"].max() == before["t_unix_ns"].max()


def test_the_budget_holds_while_it_records(tmp_path):
    record_parts(tmp_path / "free", 8)
    budget = size(tmp_path / "free") // 2
    notes = record_parts(tmp_path / "tight", 8, budget_bytes=budget)
    assert size(tmp_path / "tight") <= budget * 1.35  # what is written until the next look
    assert any("oldest files removed" in note for note in notes)


def test_an_earlier_recording_goes_on(tmp_path):
    record(tmp_path, 30, begin_s=10.0)
    record(tmp_path, 30, begin_s=42.0)
    t_unix_ns = scan_recording(tmp_path).collect()["t_unix_ns"]
    assert t_unix_ns.n_unique() == len(t_unix_ns) >= 60


def test_a_recorder_that_fails_is_a_note_and_is_started_again(tmp_path):
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    terminal, clock = at(10.0)
    recording = DishRecording(DishClient(local(terminal)), folder, budget_bytes=10**9, clock=clock, first_wait_s=0.01)
    recording.start()
    try:
        wait_for(lambda: recording.notes)
        folder.unlink()
        wait_for(lambda: recording._samples >= 3)
    finally:
        recording.stop()
    assert "the recording stopped" in recording.notes[0]
    assert "\n" not in recording.notes[0]


class Gone:
    """A terminal that is not there."""

    def call(self, request):
        raise DishError("unreachable", "no answer")

    def reflect(self):
        return None

    def close(self):
        pass


def test_a_lost_terminal_is_waited_for_and_stopping_does_not_wait(tmp_path):
    recording = DishRecording(DishClient(Gone()), tmp_path, budget_bytes=10**9)
    recording.start()
    wait_for(lambda: recording.notes)
    assert recording.state == "lost"
    assert recording.newest() == {}
    begin_s = time.monotonic()
    recording.stop()
    assert time.monotonic() - begin_s < 3
    assert not recording._thread.is_alive()
    assert list(recording.notes) == ["lost: no answer"]


def test_outages_of_a_slice_reach_into_it(tmp_path):
    recording = record(tmp_path, 400)
    events = scan_recording(tmp_path, "events").collect().filter(pl.col("kind") == "outage")
    if events.is_empty():
        pytest.skip("the simulated history was not read in time")
    start_ms, end_ms = (int(events[0, name] // 10**6) for name in ("start_unix_ns", "t_unix_ns"))
    middle = (start_ms + end_ms) // 2
    tables = recording.slice(middle, middle + 500, ALL)
    assert "outage" in tables["dish_events"]["kind"].to_list()


def test_a_file_that_is_replaced_while_it_is_read_is_read_whole(tmp_path):
    """The open segment is replaced once a second; Polars opens a path twice."""
    recording = record(tmp_path, 40)
    (path,) = parts(tmp_path / "samples", scan_layout())
    rows = pl.read_parquet(path)
    header = pl.read_parquet_metadata(path)[scan_layout().key]
    versions = [written(rows.head(count), header) for count in (5, 20, 40)]
    replaced = threading.Event()

    def replace():
        while not replaced.is_set():
            for version in versions:
                other = tmp_path / "other"
                other.write_bytes(version)
                other.replace(path)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        heights = {recording.slice(START_MS, START_MS + 10**6, ALL)["dish_samples"].height for _ in range(150)}
    finally:
        replaced.set()
        thread.join()
    assert heights <= {5, 20, rows.height}


def written(rows, header):
    file = io.BytesIO()
    rows.write_parquet(file, metadata={scan_layout().key: header})
    return file.getvalue()


def test_no_row_is_twice_in_a_slice_while_files_are_merged(tmp_path, monkeypatch):
    recording = record(tmp_path, 40)
    (path,) = parts(tmp_path / "samples", scan_layout())
    rows, header = pl.read_parquet(path), pl.read_parquet_metadata(path)[scan_layout().key]
    segments, read = Segments(tmp_path, "samples", "test", scan_layout()), dish_slice._read
    path.write_bytes(written(rows.head(20), header))
    segments.merge_hours()  # the hour's file, which the second merging replaces while it is read
    path.with_name("20260510T090042.000Z.parquet").write_bytes(written(rows.tail(-20), header))
    has_merged = []

    def merge_after(path):
        rows = read(path)
        if not has_merged:
            has_merged.append(segments.merge_hours())
        return rows

    monkeypatch.setattr(dish_slice, "_read", merge_after)
    assert recording.slice(START_MS, START_MS + 10**6, ALL)["dish_samples"].height == rows.height
    assert has_merged


def test_a_slice_that_fails_is_a_note(tmp_path):
    class Broken:
        def slice(self, from_s, to_s, folder):
            folder.mkdir()
            raise UserError("does not read", where="a.parquet")

    (note,) = add_telemetry(Broken(), 0.0, 1.0, tmp_path / "terminal")
    assert note == "no terminal/: a.parquet: does not read"
    assert not (tmp_path / "terminal").exists()


def test_a_full_disk_is_waited_for(tmp_path):
    class Full:
        def slice(self, from_s, to_s, folder):
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        add_telemetry(Full(), 0.0, 1.0, tmp_path / "terminal")


def test_a_result_without_telemetry_says_why(recorded, tmp_path):
    shared = {"telemetry": True}
    terminal = RecordedTerminal(recorded, "attic", lambda: policy(share=shared))
    span_s = START_MS / 1e3 - 1000, START_MS / 1e3 - 900

    def why(recording=recorded):
        terminal.recording = recording
        (note,) = add_telemetry(terminal, *span_s, tmp_path / "terminal")
        return note.removeprefix("no terminal/: ")

    class Quiet:
        state = "connected"

        def __init__(self, *notes):
            self.notes = notes

        def slice(self, *_):
            return {}

    silent = Quiet("lost: no answer")
    silent.state = "lost"
    assert add_telemetry(None, *span_s, tmp_path / "terminal") == ("no terminal/: the node has no terminal",)
    assert why(Quiet()).startswith("the recording of the terminal has nothing from 20")
    assert why(silent).startswith("the terminal did not answer from 20")
    assert why(silent).endswith("(recorder: lost: no answer)")
    shared["telemetry"] = False
    assert why() == "the host's policy does not share telemetry"
    shared["telemetry"] = True
    terminal.recording = recorded
    assert add_telemetry(terminal, START_MS / 1e3, START_MS / 1e3 + 60, tmp_path / "terminal") == ()
    assert (tmp_path / "terminal" / "run.json").exists()
