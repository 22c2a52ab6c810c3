"""A disk that is full for a while: recorders wait and go on, and the message says that the disk is full."""

import subprocess
import sys
import time

import polars as pl
import pytest
from dish_recording import Faulty, seconds_of
from dish_world import at

from bentpipe import segments
from bentpipe.errors import DiskFullError, StoreError
from bentpipe.files import replace_file
from bentpipe.measurements.dish.client import DishClient
from bentpipe.measurements.dish.recording import recorder
from bentpipe.measurements.dish.recording.reading import scan_recording
from bentpipe.measurements.runs.store import read_measured
from bentpipe.runs.store import write_folder


def fill(disk):
    """Leave no room on a small disk."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


@pytest.fixture
def patient(monkeypatch):
    """A recorder whose clock runs faster than the machine's tries every time."""
    monkeypatch.setattr(recorder, "FLUSH_S", 0.0)
    monkeypatch.setattr(segments, "FULL_RETRY_S", 0.0)
    monkeypatch.setattr(segments, "FULL_END_S", 0.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("full_s", [5, 90])
def test_a_recorder_waits_for_room_and_loses_no_row(small_disk, full_s):
    terminal, _ = at(0)
    out, notes = small_disk / "dish", []
    plan = {20: lambda _: fill(small_disk), 20 + full_s: lambda _: (small_disk / "filler").unlink()}
    client = DishClient(Faulty(terminal, then=plan))
    made = recorder.Recorder(client, out, terminal.clock, map_every_s=0, on_change=notes.append)
    assert made.run(150) == 150
    assert seconds_of(out) == [float(s) for s in range(150)]
    full, room = [change.text for change in notes if change.kind == "disk"]
    assert "the disk is full" in full
    assert "no row was lost" in room
    events = scan_recording(out, "events").filter(pl.col("kind") == "disk").collect()
    assert events["text"].to_list() == [full, room]
    assert not list(out.rglob("*.tmp"))


@pytest.mark.usefixtures("patient")
def test_a_disk_that_stays_full_ends_a_recorder_in_one_line(small_disk):
    terminal, _ = at(0)
    client = DishClient(Faulty(terminal, then={20: lambda _: fill(small_disk)}))
    made = recorder.Recorder(client, small_disk / "dish", terminal.clock, map_every_s=0)
    with pytest.raises(StoreError, match=r"the disk is full .*; the last \d+ rows are lost, earlier rows are stored"):
        made.run(60)
    assert seconds_of(small_disk / "dish") == [float(s) for s in range(20)]


@pytest.mark.usefixtures("patient")
def test_rows_that_wait_for_room_are_bounded(small_disk):
    made = segments.Segments(small_disk, "samples", "test", recorder.LAYOUT)
    writer = segments.Writer({"samples": made}, print, full_rows=50)
    fill(small_disk)
    blank = (None,) * (len(recorder.SAMPLES) - 1)
    for number in range(50):
        made.add((number, *blank))
        writer.flush()
    made.add((50, *blank))
    with pytest.raises(DiskFullError, match="51 rows wait in memory, expected at most 50; make room"):
        writer.flush()


def test_a_prober_waits_for_room_and_loses_no_probe(small_disk):
    out = small_disk / "probe"
    command = [sys.executable, "-m", "bentpipe", "probe", "ping", "127.0.0.1", "--every", "0.01", "--for", "5"]
    with subprocess.Popen([*command, "-o", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(out.rglob("probes/*.parquet")):
            time.sleep(0.05)
        fill(small_disk)
        time.sleep(2)
        (small_disk / "filler").unlink()
        _, errors = process.communicate(timeout=60)
    if "permission" in errors or "not permitted" in errors:
        pytest.skip("no ICMP socket on this machine")
    assert process.returncode == 0, errors
    assert "the disk is full" in errors
    assert "no row was lost" in errors
    run = read_measured(out)
    assert run.probes.height + run.summary["skipped"] == 500


def test_a_full_disk_is_named(small_disk):
    fill(small_disk)
    with pytest.raises(DiskFullError, match="the disk is full"):
        replace_file(small_disk / "table.csv", bytes(100_000))
    table = pl.DataFrame({"x": pl.Series(range(100_000)).shuffle(seed=1)})
    with pytest.raises(DiskFullError, match="the disk is full"):
        write_folder(small_disk / "run", {}, {"samples": table})
    assert [file.name for file in small_disk.iterdir()] == ["filler"]
