"""Rows of emulations: they make the tables, arrive while the emulation runs, and do not slow it."""

import json
import re
import sys
import time

import pytest
from emulation import python
from row_tables import plain, tables_of
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.execution import rows as execution_rows
from bentpipe.execution.program import run_program
from bentpipe.execution.racing import race
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.rows import DroppedRow, EndRow, FlowRow, HeaderRow, LinkRow, SampleRow, parse_rows

pytestmark = pytest.mark.usefixtures("emulation")

#: Reads from every connection on port 80 until its end.
SINK = (
    "import socket; s = socket.create_server(('', 80))\n"
    "while True:\n"
    "    c, _ = s.accept()\n"
    "    while c.recv(65536): pass\n"
    "    c.close()"
)
SERVER = f'exec {sys.executable} -c "{SINK}"'

#: Sends for three seconds.
SEND = (
    "import socket, time\n"
    "s = socket.create_connection(('server', 80)); end = time.monotonic() + 3\n"
    "while time.monotonic() < end: s.sendall(bytes(20_000))\n"
    "s.close()"
)


def path():
    return preset_profile("dumbbell:rate=10mbit,rtt=20ms", 30.0, start_unix_ns=0, name="dumbbell")


def test_the_rows_of_a_race_on_the_kernel_make_its_tables():
    parts = []
    (run,) = race(
        [path()],
        ["cubic+reno"],
        out=None,
        duration_s=3.0,
        on_kernel=True,
        careful=False,
        on_rows=lambda lines: parts.append((time.monotonic(), lines)),
    ).runs
    ended_s = time.monotonic()
    rows = list(parse_rows(b"".join(lines for _, lines in parts)))
    assert isinstance(rows[0], HeaderRow)
    assert (rows[0].world, rows[0].duration_s) == ("emulated", 3.0)
    assert [(row.flow, row.controller) for row in rows if isinstance(row, FlowRow)] == [(0, "cubic"), (1, "reno")]
    assert isinstance(rows[-1], EndRow)
    assert rows[-1].valid == run.record.valid
    tables = tables_of(rows)
    assert {row["flow"] for row in tables["samples"]} == {0, 1}
    for name in ("samples", "links"):
        columns = [column for column in tables[name][0] if column != "losses"]  # unknown to the kernel: null in a Run
        ours = [{column: row[column] for column in columns} for row in tables[name]]
        assert plain(getattr(run, name)(), columns) == ours
    first_s = next(at_s for at_s, lines in parts if b'"sample"' in lines)
    assert ended_s - first_s > 2.0


def test_a_slow_reader_does_not_slow_a_program_and_is_told_what_it_missed(monkeypatch, tmp_path):
    monkeypatch.setattr(execution_rows, "QUEUED", 4)
    parts = []

    def slow(lines):
        parts.append(lines)
        time.sleep(0.2)

    done = run_program(path(), python(SEND), server=SERVER, out=tmp_path, on_rows=slow)
    rows = list(parse_rows(b"".join(parts)))
    dropped = sum(row.rows for row in rows if isinstance(row, DroppedRow))
    assert dropped > 5
    assert isinstance(rows[-1], EndRow)
    run = done.run
    assert run is not None
    assert done.emulated.done["rows_lost"] == 0
    samples = sum(isinstance(row, SampleRow) for row in rows)
    links = sum(isinstance(row, LinkRow) for row in rows)
    assert samples + links < run.samples().height + run.links().height <= samples + links + dropped


def test_a_programs_flows_are_announced_before_their_samples():
    parts = []
    run_program(path(), python(SEND), server=SERVER, on_rows=parts.append)
    rows = list(parse_rows(b"".join(parts)))
    assert isinstance(rows[0], HeaderRow)
    assert rows[0].duration_s is None
    announced = set()
    for row in rows:
        if isinstance(row, FlowRow):
            announced.add(row.flow)
        if isinstance(row, SampleRow):
            assert row.flow in announced
    assert announced
    flow = next(row for row in rows if isinstance(row, FlowRow))
    assert (flow.direction, flow.profile) == ("up", rows[0].paths[0].role)


def test_items_of_applications_leave_while_they_change():
    parts = []
    options = {"on_kernel": True, "careful": False, "app": "request:200bytes/20kb,n=30"}
    (run,) = race([path()], ["cubic"], out=None, duration_s=3.0, on_rows=parts.append, **options).runs
    rows = list(parse_rows(b"".join(parts)))
    first = next(place for place, row in enumerate(rows) if row.type == "application")
    assert any(isinstance(row, SampleRow) for row in rows[first:])
    items = tables_of(rows)["applications"]
    assert len(items) == 30
    assert plain(run.applications(), items[0]) == items


def test_a_program_is_watched_in_lines_and_in_a_file(tmp_path):
    write_profile(path(), tmp_path / "P.parquet")
    command = ["run", tmp_path / "P.parquet", "--live", "--rows", tmp_path / "rows", "--server", SERVER, "--"]
    done = CliRunner().invoke(app, list(map(str, [*command, *python(SEND)])))
    assert done.exit_code == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("live: ")]
    assert any(": path up: " in line for line in lines)
    assert any(re.search(r": \d+ \w+ up: [\d.]+ Mbit/s, RTT [\d.]+ ms", line) for line in lines)
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert (rows[0]["type"], rows[-1]["type"]) == ("header", "end")
    assert rows[0]["run"]["profile"] == "dumbbell"
