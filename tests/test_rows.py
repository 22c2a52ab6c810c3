"""Rows of Runs in progress: they make the tables, change nothing, and reach a function, a file or a thread."""

import json
import threading

import pytest
from row_tables import plain, tables_of

import bentpipe as bp
from bentpipe.errors import StoreError, UserError
from bentpipe.execution import rows as execution_rows
from bentpipe.execution.racing import race, repeat
from bentpipe.execution.rows import RowThread, RunRows, escaped, row_file
from bentpipe.execution.sinks.folder import FolderSink
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.rows import (
    FORMAT,
    DroppedRow,
    EndRow,
    FlowRow,
    HeaderRow,
    RunKey,
    SampleRow,
    json_schema,
    parse_rows,
)

KEY = RunKey(experiment="race-down", profile="dumbbell", scheme="cubic", seed=0)
EVENT = b'{"type":"event","t_s":1.0,"flow":-1,"kind":"outage","detail":"air"}\n'


def dumbbell(name="dumbbell"):
    return preset_profile("dumbbell:rate=10mbit", 8.0, start_unix_ns=0, name=name)


@pytest.mark.parametrize("app", ["bulk", "request:200bytes/20kb,n=50"])
def test_the_rows_of_a_run_make_its_tables(app):
    parts = []
    (run,) = race(
        [dumbbell()], ["cubic+bbr"], out=None, app=app, traffic="peak", duration_s=6.0, on_rows=parts.append
    ).runs
    tables = tables_of(parse_rows(b"".join(parts)))
    assert len(tables["samples"]) > 50
    for name, rows in tables.items():
        table = run.applications() if name == "applications" else getattr(run, name)()
        if name == "applications" and app == "bulk":
            assert rows == []
            continue
        assert plain(table, rows[0] if rows else ()) == rows, name


def test_a_reader_of_rows_does_not_change_a_run():
    options = {"out": None, "duration_s": 4.0, "seeds": 2}
    with_rows = race([dumbbell()], ["cubic", "bbr"], on_rows=lambda _: None, **options)
    without = race([dumbbell()], ["cubic", "bbr"], **options)
    assert [run.record for run in with_rows.runs] == [run.record for run in without.runs]


def test_each_run_begins_with_a_header_and_ends_with_its_validity():
    rows, shares = [], []
    bp.Experiment(bp.Profile(dumbbell()), ["cubic", "bbr"], seeds=2, duration=4).simulate(
        on_row=rows.append, on_progress=shares.append, jobs=2
    )
    runs = {}
    for row in rows:
        runs.setdefault(str(row.run), []).append(row)
    assert len(runs) == 4
    for of_run in runs.values():
        header, flow, *_, end = of_run
        assert isinstance(header, HeaderRow)
        assert (header.format, header.world, header.duration_s) == (FORMAT, "simulated", 4.0)
        assert [path.hops for path in header.paths] == [("bottleneck",)]
        assert isinstance(flow, FlowRow)
        assert (flow.flow, flow.controller, flow.direction) == (0, of_run[0].run.scheme, "down")
        assert isinstance(end, EndRow)
        assert end.valid
        times = [row.t_s for row in of_run if isinstance(row, SampleRow)]
        assert times == sorted(times)


def test_the_last_row_of_a_run_comes_when_the_run_is_stored(monkeypatch, tmp_path):
    def fail(*_):
        raise StoreError("out: cannot write it")

    parts = []
    monkeypatch.setattr(FolderSink, "keep", fail)
    with pytest.raises(StoreError, match="out: cannot write it; 0 of 1 Runs"):
        race([dumbbell()], ["cubic"], out=tmp_path, duration_s=1.0, on_rows=parts.append)
    *_, end = parse_rows(b"".join(parts))
    assert isinstance(end, EndRow)
    assert (end.valid, end.why_invalid) == (False, "out: cannot write it")


def test_experiments_of_one_folder_have_keys_of_their_own(tmp_path):
    for direction in ("down", "up"):
        race([dumbbell()], ["cubic"], out=tmp_path / "out", duration_s=1.0, direction=direction)
    parts = []
    repeat(tmp_path / "out", out=tmp_path / "again", on_rows=parts.append)
    runs = {row.run for row in parse_rows(b"".join(parts))}
    assert {run.experiment for run in runs} == {"race-down", "race-up"}


def test_rows_reach_the_callers_thread_while_the_run_goes_on():
    threads, shares = set(), []
    share = [0.0]

    def on_rows(_):
        threads.add(threading.get_ident())
        shares.append(share[0])

    profile = preset_profile("dumbbell:rate=200mbit", 60.0, start_unix_ns=0, name="dumbbell")
    race(
        [profile],
        ["cubic"],
        out=None,
        on_rows=on_rows,
        on_progress=lambda progress: share.__setitem__(0, progress.share),
    )
    assert threads == {threading.get_ident()}
    assert any(0 < each < 1 for each in shares)


def test_an_error_of_the_reader_ends_the_race():
    def stop(row):
        raise RuntimeError(f"enough: {row.type}")

    with pytest.raises(RuntimeError, match="enough: header"):
        bp.Experiment(bp.Profile(dumbbell()), ["cubic"], seeds=50).simulate(on_row=stop)
    with pytest.raises(UserError, match="on_row: 3; expected a function"):
        bp.Experiment(bp.Profile(dumbbell()), ["cubic"]).simulate(on_row=3)


def test_a_slow_reader_delays_a_simulation_and_misses_nothing(monkeypatch):
    monkeypatch.setattr("bentpipe.execution.pools.QUEUED", 1)
    parts = []
    (run,) = race([dumbbell()], ["cubic"], out=None, duration_s=6.0, on_rows=parts.append).runs
    rows = list(parse_rows(b"".join(parts)))
    assert not any(isinstance(row, DroppedRow) for row in rows)
    assert len(tables_of(rows)["samples"]) == run.samples().height


def test_rows_of_a_python_controller_come_from_its_process(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from bentpipe.plugin import Controller\n"
        "class Mine(Controller):\n"
        "    def on_ack(self, ack):\n"
        "        self.cwnd_bytes = 50_000\n"
    )
    parts = []
    (run,) = race([dumbbell()], [f"{file}:Mine"], out=None, duration_s=4.0, on_rows=parts.append).runs
    tables = tables_of(parse_rows(b"".join(parts)))
    assert plain(run.samples(), tables["samples"][0]) == tables["samples"]


def test_dropped_rows_are_counted_in_a_row():
    taken, room = [], [True, False, False, True]

    def give(lines, *, wait):
        if wait or room.pop(0):
            taken.append(lines)
            return True
        return False

    rows = RunRows(give, KEY, real_time=True)
    for _ in range(4):
        rows.add(EVENT)
    rows.end("the machine stalled")
    values = list(parse_rows(b"".join(taken)))
    assert [row.type for row in values] == ["event", "dropped", "event", "end"]
    assert (values[1].rows, values[3].valid, values[3].why_invalid) == (2, False, "the machine stalled")
    assert all(row.run == KEY for row in values)


def test_a_slow_function_in_its_thread_does_not_block(monkeypatch):
    monkeypatch.setattr(execution_rows, "QUEUED", 2)
    go, taken = threading.Event(), []

    def slow(lines):
        go.wait(10)
        taken.append(lines)

    with RowThread(slow) as thread:
        rows = RunRows(thread.give, KEY, real_time=True)
        for _ in range(10):
            rows.add(EVENT)
        go.set()
        rows.end(None)
    values = list(parse_rows(b"".join(taken)))
    dropped = sum(row.rows for row in values if isinstance(row, DroppedRow))
    assert 6 <= dropped <= 8
    assert sum(row.type == "event" for row in values) + dropped == 10


def test_the_error_of_a_function_in_its_thread_is_raised_at_the_end():
    def fail(_):
        raise StoreError("out/rows: cannot be written: the disk is full")

    with pytest.raises(StoreError, match="the disk is full"), RowThread(fail) as thread:
        assert [thread.give(EVENT, wait=False) for _ in range(3)] == [True] * 3

    def closed(_):
        raise BrokenPipeError

    with RowThread(closed) as thread:
        assert thread.give(EVENT, wait=True)


def test_a_file_of_rows_is_replaced_and_errors_are_one_line(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("of an earlier race\n")
    with row_file(file) as write:
        write(EVENT)
        assert json.loads(file.read_text()) == json.loads(EVENT)  # at once
    with pytest.raises(StoreError, match=r"/dev/full: cannot be written: the disk is full"), row_file("/dev/full") as w:
        w(EVENT)
    with pytest.raises(UserError, match="cannot be written: no such file"), row_file(tmp_path / "no" / "rows"):
        pass


def test_control_characters_of_names_are_escaped():
    name = "sat\x1b]52;c;aGk=\x07\x9b31m\x7f"
    parts = []
    race([dumbbell(name)], ["cubic"], out=None, duration_s=1.0, on_rows=parts.append)
    lines = escaped(b"".join(parts))
    assert not set(lines.decode()) & set("\x1b\x07\x9b\x7f")
    header = json.loads(lines.splitlines()[0])
    assert header["paths"][0]["profile"] == name


def test_the_schema_names_every_type_of_row():
    schema = json_schema()
    assert set(schema["discriminator"]["mapping"]) == {
        "header", "flow", "sample", "link", "event", "application", "dropped", "end",
    }  # fmt: skip
    assert schema["$defs"]["SampleRow"]["properties"]["rtt_smoothed_ms"]["description"] == "Smoothed RTT [ms]."
