"""`race --live` and `race --rows`: a view or lines while Runs go on, the same Runs, and clear ends."""

import json
import os
import pty
import select
import subprocess
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.live import LiveView
from bentpipe.runs.rows import RunKey, RunLines, parse_rows
from bentpipe.runs.store import find_runs

BAD = """
from bentpipe.plugin import Controller


class Bad(Controller):
    def on_ack(self, ack):
        if ack.now_s > 1:
            raise ValueError("no")
"""

COMMAND = [sys.executable, "-c", "from bentpipe.cli.main import app; app()"]
LINES = RunLines(RunKey(experiment="race-down", profile="dumbbell", scheme="cubic", seed=0))


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "dumbbell.parquet"
    write_profile(preset_profile("dumbbell:rate=10mbit", 30.0, start_unix_ns=0, name="dumbbell"), file)
    return str(file)


def bentpipe(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def row(**fields):
    """One row of the Run."""
    (parsed,) = parse_rows(LINES.add(json.dumps(fields).encode()))
    return parsed


def header(duration_s=60.0):
    path = {"role": "path", "profile": "dumbbell", "start_unix_ns": 0, "hops": ["air"]}
    facts = {"format": 1, "world": "simulated", "experiment": "race-down", "sample_step_s": 0.1}
    return row(type="header", duration_s=duration_s, paths=[path], **facts)


def flow(controller="cubic"):
    return row(type="flow", flow=0, profile="path", direction="down", controller=controller, start_s=0.0)


def sample(t_s, goodput_bytes, rtt_ms):
    zeros = ("cwnd_bytes", "inflight_bytes", "retransmits", "losses", "marks")
    spans = ("cwnd_limited_s", "receiver_limited_s", "sender_limited_s")
    unknown = ("rtt_latest_ms", "rtt_min_ms", "rtt_var_ms", "pacing_bps", "delivery_bps")
    rest = {**dict.fromkeys(zeros, 0), **dict.fromkeys(spans, 0.0), **dict.fromkeys(unknown)}
    fields = {"t_s": t_s, "flow": 0, "goodput_bytes": goodput_bytes, "rtt_smoothed_ms": rtt_ms, "state": "open"}
    return row(type="sample", **fields, **rest)


def link(t_s, hop, delivered_bytes, backlog_bytes):
    drops = ("drops_queue", "drops_loss", "drops_event", "drops_aqm", "drops_no_route", "marks_law", "marks_threshold")
    delays = ("delay_mean_ms", "delay_p50_ms", "delay_p95_ms", "delay_max_ms")
    rest = {**dict.fromkeys(drops, 0), **dict.fromkeys(delays), "delay_n": 0, "capacity_bps": None}
    where = {"t_s": t_s, "profile": "path", "hop": hop, "direction": "down", "flow": -1}
    traffic = {"delivered_bytes": delivered_bytes, "backlog_bytes": backlog_bytes, "backlog_max_bytes": backlog_bytes}
    return row(type="link", **where, **traffic, **rest)


def test_the_view_shows_the_last_seconds_throughput_rtt_and_queue():
    view = LiveView()
    view.add(header())
    view.add(flow())
    for tenth in range(1, 31):  # 1 MB in the first second, then 2 MB/s
        at_s = tenth / 10
        view.add(sample(at_s, int(1e6 * at_s + 1e6 * max(0.0, at_s - 1)), 40.0 + tenth))
        if tenth % 10 == 0:
            view.add(link(at_s, "air", 5_000_000, 120_000))
            view.add(link(at_s, "wire", 5_000_000, 500))
    assert view.lines() == [
        "cubic, seed 0, on dumbbell at 3.0 s: 0 cubic down: 16.0 Mbit/s, RTT 70.0 ms, queue 120.0 kB"
    ]


def test_a_flow_is_not_faster_than_its_path_whose_window_is_the_same():
    view = LiveView()
    view.add(header(duration_s=None))
    view.add(flow())
    sent = 0
    for tenth in range(1, 31):  # 8 Mbit/s in the first two seconds, then nothing
        sent += 100_000 if tenth <= 20 else 0
        view.add(sample(tenth / 10 + 0.003, sent, 40.0))
        if tenth in (10, 20):
            view.add(link(tenth / 10, "air", sent, 0))
    assert [line.rpartition("down: ")[2][:3] for line in view.lines()] == ["8.0", "8.0"]
    view.add(link(3.0, "air", sent, 0))
    assert [line.rpartition("down: ")[2][:3] for line in view.lines()] == ["0.0", "0.0"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
@pytest.mark.parametrize("runs", [1, 3])
def test_throughput_rtt_and_queue_are_whole_at_every_width(width, runs):
    view = LiveView()
    for number in range(runs):
        key = RunKey(
            experiment="race-down",
            profile="louvain-london-with-a-long-name",
            scheme="bbr:min_rtt_win_s=20",
            seed=number,
        )
        lines = RunLines(key)

        def add(row, lines=lines):
            fields = row.to_dict()
            del fields["run"]
            (parsed,) = parse_rows(lines.add(json.dumps(fields).encode()))
            view.add(parsed)

        add(header())
        add(flow("bbr3"))
        for tenth in range(1, 351):
            add(sample(tenth / 10, int(34_567_000 * tenth / 10), 1234.5))
            if tenth % 10 == 0:
                add(link(tenth / 10, "air", int(34_567_000 * tenth / 10), 7_654_321))
    console = Console(force_terminal=True, color_system=None, width=width, height=40)
    with console.capture() as capture:
        console.print(view)
    shown = capture.get()
    assert max(map(len, shown.splitlines())) <= width
    for text in ("Mbit/s", "RTT [ms]", "queue [kB]"):
        assert shown.count(text) == 1
    for text in ("276.5", "1234.5", "7654.3", "35.0 of 60"):
        assert shown.count(text) == runs, shown
    assert ("█████" in shown) == (width >= 60)


def test_a_programs_view_has_a_line_for_each_direction_of_the_path():
    view = LiveView()
    view.add(header(duration_s=None))
    for second in (1.0, 2.0):
        view.add(link(second, "air", int(1e6 * second), 9000))
        view.add(link(second, "wire", int(1e6 * second) - 3000 * (second == 1.0), 0))
    assert view.lines() == ["cubic, seed 0, on dumbbell at 2.0 s: path down: 8.0 Mbit/s, RTT – ms, queue 9.0 kB"]


def test_finished_runs_leave_the_view_and_dropped_rows_are_told():
    view = LiveView()
    view.add(header())
    view.add(row(type="dropped", rows=7))
    assert view.lines()[-1].endswith("7 rows were dropped, because this display was too slow")
    ended = view.add(row(type="end", valid=True, why_invalid=None))
    assert ended is not None
    assert view.lines() == []


def test_runs_of_two_experiments_are_two_and_named_by_them():
    view, other = LiveView(), RunLines(RunKey(experiment="race-up", profile="dumbbell", scheme="cubic", seed=0))
    for lines in (LINES, other):
        for each in (header(), flow(), sample(1.0, 1000, 40.0)):
            (parsed,) = parse_rows(lines.add(each.model_dump_json(exclude={"run"}).encode()))
            view.add(parsed)
    first, second = view.lines()
    assert first.startswith("cubic, seed 0, on dumbbell at 1.0 s: ")
    assert second.startswith("cubic, seed 0, on dumbbell, race-up at 1.0 s: ")


def test_control_sequences_of_names_do_not_reach_the_terminal():
    view = LiveView()
    view.add(header())
    view.add(flow("cubic\x1b]0;title\x07[bold]"))
    console = Console(force_terminal=True, color_system=None, width=200)
    with console.capture() as capture:
        console.print(view)
    assert "\x1b]" not in capture.get()
    assert "\x07" not in capture.get()
    assert "[bold]" in capture.get()


def test_a_race_in_a_pipe_prints_lines_and_the_same_table(path, tmp_path):
    race = ["race", path, "--cc", "cubic,bbr", "--duration", 6]
    shown = bentpipe(*race, "-o", tmp_path / "live", "--live")
    plain = bentpipe(*race, "-o", tmp_path / "plain")
    assert (shown.exit_code, shown.stdout) == (0, plain.stdout.replace("plain", "live"))
    lines = [line for line in shown.stderr.splitlines() if line.startswith("live: ")]
    assert any("bbr, seed 0, on dumbbell at 6.0 s: 0 bbr down: " in line and "(end)" in line for line in lines)
    assert "live:" not in plain.stderr
    hashes = [[run.record.content_hash for run in find_runs(tmp_path / out)] for out in ("live", "plain")]
    assert hashes[0] == hashes[1]


def test_a_race_on_a_terminal_draws_a_table(tmp_path):
    path = tmp_path / "fast.parquet"  # a Run of a second or more, so that the table is seen
    write_profile(preset_profile("dumbbell:rate=200mbit", 60.0, start_unix_ns=0, name="fast"), path)
    outer, inner = pty.openpty()
    options = ["--cc", "cubic", "-j", "1", "-o", tmp_path / "out", "--live"]
    environment = {**os.environ, "COLUMNS": "80", "LINES": "40", "TERM": "xterm"}
    with subprocess.Popen(
        [*COMMAND, "race", path, *options], stdout=subprocess.PIPE, stderr=inner, env=environment
    ) as process:
        os.close(inner)
        seen = b""
        while True:
            ready, _, _ = select.select([outer], [], [], 60)
            try:
                part = os.read(outer, 65536) if ready else b""
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        table = process.stdout.read().decode()
    os.close(outer)
    assert process.returncode == 0, seen
    assert "cubic" in table
    text = seen.decode()
    assert "queue [kB]" in text
    assert "0 cubic down" in text
    assert "\nlive: " not in text


def test_rows_go_to_a_file_as_lines_of_json(path, tmp_path):
    file = tmp_path / "rows.jsonl"
    done = bentpipe("race", path, "--cc", "cubic,bbr", "--duration", 2, "-o", tmp_path / "out", "--rows", file)
    assert done.exit_code == 0, done.stderr
    assert "cubic" in done.stdout
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["run"]["scheme"] for row in rows} == {"cubic", "bbr"}
    assert [row["type"] for row in rows if row["run"]["scheme"] == "bbr"][:: len(rows)] == ["header"]
    assert sum(row["type"] == "end" for row in rows) == 2


def test_rows_on_standard_output_are_alone_there(path, tmp_path):
    race = ["race", path, "--cc", "cubic", "--duration", 2, "-o", tmp_path / "out", "--rows", "-"]
    done = bentpipe(*race)
    assert done.exit_code == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert (rows[0]["type"], rows[-1]["type"]) == ("header", "end")
    refused = bentpipe(*race, "--json")
    assert refused.exit_code == 2
    assert "--rows - and --json both write to standard output" in refused.stderr


def test_a_closed_pipe_ends_the_race_quietly(path, tmp_path):
    race = ["race", path, "--cc", "cubic,bbr,reno", "--seeds", "20", "-o", tmp_path / "out", "--rows", "-"]
    with subprocess.Popen([*COMMAND, *race], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["type"] == "header"
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, b"")


def test_a_full_disk_is_one_line(path, tmp_path):
    done = bentpipe("race", path, "--cc", "cubic", "--duration", 2, "-o", tmp_path / "out", "--rows", "/dev/full")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: /dev/full: cannot be written: the disk is full")


def test_a_race_that_is_refused_leaves_the_file_of_rows_unchanged(path, tmp_path):
    file = tmp_path / "rows.jsonl"
    refused = ["race", path, "--cc", "cubic", "--duration", 90, "-o", tmp_path / "out", "--rows", file]
    assert bentpipe(*refused).exit_code == 2
    assert not file.exists()
    file.write_text("of an earlier race\n")
    assert bentpipe(*refused).exit_code == 2
    assert file.read_text() == "of an earlier race\n"
    race = ["race", path, "--cc", "cubic", "--duration", 1, "-o", tmp_path / "out", "--rows", file]
    assert bentpipe(*race).exit_code == 0
    assert json.loads(file.read_text().splitlines()[0])["type"] == "header"
    assert bentpipe(*race).exit_code == 0
    assert file.read_text() == ""  # the Run is stored already


def test_a_failed_run_ends_in_the_rows_and_leaves_the_view(path, tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    file, bad = tmp_path / "rows.jsonl", f"{tmp_path}/bad.py:Bad"
    race = ["race", path, "--cc", f"{bad},cubic", "--duration", 2, "-j", 1, "-o", tmp_path / "out"]
    done = bentpipe(*race, "--rows", file, "--live")
    assert done.exit_code == 2
    ends = [json.loads(line) for line in file.read_text().splitlines()]
    ends = {row["run"]["scheme"]: row for row in ends if row["type"] == "end"}
    assert ends["cubic"]["valid"]
    assert not ends[bad]["valid"]
    assert ends[bad]["why_invalid"].endswith("raised ValueError: no (line 8)")
    view = LiveView()
    for each in parse_rows(file.read_bytes()):
        view.add(each)
    assert view.lines() == []


def test_a_file_that_cannot_be_opened_is_refused_before_the_race(path, tmp_path):
    done = bentpipe("race", path, "-o", tmp_path / "out", "--rows", tmp_path / "no" / "rows.jsonl")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
    assert not list(tmp_path.glob("out/**/run.json"))


def test_a_programs_rows_cannot_share_its_standard_output(path):
    done = bentpipe("run", path, "--rows", "-", "--", "true")
    assert done.exit_code == 2
    assert "--rows -: standard output is the program's; expected a file or a named pipe" in done.stderr
