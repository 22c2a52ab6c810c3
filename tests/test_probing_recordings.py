"""Recordings of a prober as measured Runs."""

import socket

import polars as pl
import pytest
from probing_helpers import MS, SECOND, counts, recorded, request

from bentpipe.errors import UserError
from bentpipe.measurements.probing.conversion import finish, finish_all
from bentpipe.measurements.probing.recording import ProbeRequest, Recording
from bentpipe.measurements.probing.session import Session
from bentpipe.measurements.probing.spec import Spec, look_up
from bentpipe.measurements.probing.tracker import DUPLICATE
from bentpipe.measurements.runs.store import find_measured


def test_a_recording_becomes_a_run(tmp_path):
    rows = [(seq * 10 * MS + SECOND, 0, seq, 30 * MS, None, None, 12, 1000, None) for seq in range(100)]
    rows[7] = (*rows[7][:3], None, None, None, 0, 2000, "host unreachable")
    rows[8] = (*rows[8][:3], None, None, None, 0, 2000, None)
    rows.append((*rows[20][:6], 12 | DUPLICATE, 1000, None))
    folder = recorded(tmp_path, reversed(rows), counts(skipped=[1]))
    run = finish(folder)
    assert not folder.exists()
    assert run.probes["unix_ns"].is_sorted()
    assert run.probes.height == 101
    assert set(run.probes["kind"]) == {"icmp"}
    assert run.summary["lost"] == 2
    (target,) = run.summary["targets"]
    assert target["lost_by_cause"] == {"host unreachable": 1, "no answer": 1}
    assert target["duplicates"] == run.summary["duplicates"] == 1
    assert target["rtt_ms"]["median"] == 30.0
    assert run.record.valid
    with pytest.raises(UserError, match="has no unfinished recording"):
        finish_all(tmp_path)


@pytest.mark.parametrize(("changed", "why"), [({"overruns": 5}, "full buffer"), ({"skipped": [50]}, "were not sent")])
def test_a_run_of_a_too_slow_machine_is_invalid(tmp_path, changed, why):
    rows = [(seq * 10 * MS, 0, seq, 30 * MS, None, None, 12, 1000, None) for seq in range(1000)]
    run = finish(recorded(tmp_path, rows, counts(**changed)))
    assert not run.record.valid
    assert why in run.record.why_invalid


def test_one_way_delays_are_corrected_only_for_unsynchronised_clocks(tmp_path):
    off = 3600 * SECOND
    rows = [(s * SECOND, 0, s, 40 * MS, 10 * MS + off, 30 * MS - off, 12, 0, None) for s in range(60)]
    same = finish(recorded(tmp_path / "a", rows, counts(same_clock=[True]), method="owd"))
    trusted = finish(recorded(tmp_path / "b", rows, counts(same_clock=[False]), method="owd", synchronised=True))
    other = finish(recorded(tmp_path / "c", rows, counts(same_clock=[False]), method="owd"))
    assert same.probes["up_ms"].unique().to_list() == trusted.probes["up_ms"].unique().to_list() == [3_600_010.0]
    assert other.probes["up_ms"].to_numpy() == pytest.approx(20.0)
    clocks = other.summary["targets"][0]["clocks"]
    assert clocks["known"] == "estimated"
    assert clocks["offset_ms"] == pytest.approx(3_600_000 - 10)
    assert clocks["uncertain_ms"] == pytest.approx(20)  # the truth, 10 and 30, lies within
    assert "estimated" in other.record.sources[0].notes[0]


def test_a_clock_step_is_corrected_on_both_sides(tmp_path):
    rows = [
        (s * 10 * MS + off, 0, s, 40 * MS, 10 * MS - off, 30 * MS + off, 12, 0, None)
        for s in range(4000)
        for off in [0 if s < 2110 else -500 * MS]
    ]
    run = finish(recorded(tmp_path, rows, counts(same_clock=[False]), method="owd"))
    assert run.probes["up_ms"].to_numpy() == pytest.approx(20.0)
    assert run.summary["targets"][0]["clocks"]["set_after_s"] == pytest.approx([21.1])
    assert "a clock was set 1 time(s)" in run.record.sources[0].notes[0]


def test_a_recording_is_converted_once(tmp_path):
    rows = [(s * SECOND, 0, s, 40 * MS, None, None, 12, 0, None) for s in range(60)]
    first, again = (recorded(tmp_path / name, rows, counts()) for name in ("a", "b"))
    run = finish(first)
    place = first.parent / again.name
    again.rename(place)  # as if it had been killed before it removed the recording
    assert finish(place).path == run.path
    assert not place.exists()
    assert len(list(tmp_path.glob("a/*/*/run.json"))) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"\xff", b'{"format": 1, "spec": 3, "site": "x", "synchronised": 0, "part": 0}']
)
def test_invalid_recordings_are_refused(tmp_path, content):
    folder = recorded(tmp_path, [], counts())
    (folder / "probe.json").write_bytes(content)
    with pytest.raises(UserError, match="does not say what was probed"):
        finish(folder)


def test_a_damaged_segment_is_named(tmp_path):
    folder = recorded(tmp_path, [(SECOND, 0, 0, MS, None, None, 12, 0, None)], counts())
    (part,) = (folder / "probes").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(UserError, match="does not read as part of a recording"):
        finish(folder)
    assert folder.exists()


def test_a_recording_is_converted_by_one_process(tmp_path):
    recording = Recording(tmp_path, request(), 1_000 * SECOND, print)
    with pytest.raises(UserError, match="is being written"):
        finish(recording.folder)
    recording.close()
    assert finish(recording.folder) is None  # nothing was in it
    assert list((tmp_path / "here").iterdir()) == []


def test_times_of_a_recording_may_be_out_of_order(tmp_path):
    hour = 3600 * SECOND
    rows = [
        (t, 0, n, MS, None, None, 12, 0, None) for n, t in enumerate([hour - 1, hour + 1, hour - 2, 3 * hour, hour + 5])
    ]
    run = finish(recorded(tmp_path, rows, counts()))
    assert run.probes["unix_ns"].to_list() == sorted(t for t, *_ in rows)
    assert isinstance(run.probes, pl.DataFrame)


def test_memory_is_bounded_by_successive_runs(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    spec = Spec("tcp", look_up(["127.0.0.1"], "tcp", port, None), 10 * MS, 2 * SECOND)
    last = Session(ProbeRequest("here", spec, synchronised=False), tmp_path, print, run_rows=60).run()
    runs = sorted(find_measured(tmp_path), key=lambda run: run.summary["part"])
    assert [run.summary["part"] for run in runs] == list(range(len(runs)))
    assert len(runs) >= 3
    assert runs[-1].path == last.path
    assert sum(run.summary["probes"] + run.summary["skipped"] for run in runs) == 200
    assert all(run.summary["complete"] for run in runs)
    assert sorted(pl.concat([run.probes for run in runs])["seq"]) == sorted(
        {seq for run in runs for seq in run.probes["seq"]}
    )
