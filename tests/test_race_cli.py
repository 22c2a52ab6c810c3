"""`bentpipe race`, `bentpipe report` and `bentpipe demo` on the command line."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bentpipe import demo, recovery_schemes
from bentpipe.cli.made_profile import MadeProfile
from bentpipe.cli.main import app
from bentpipe.errors import StoreError, UserError
from bentpipe.execution import racing
from bentpipe.execution.sinks import folder as folder_sink
from bentpipe.profiles import parquet
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.report import drawing
from bentpipe.runs import store
from bentpipe.runs.store import find_runs
from bentpipe.runs.summary import summarise
from bentpipe.runs.text import number

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z
COMMAND = [sys.executable, "-c", "from bentpipe.cli.main import app; app()"]
PING = "".join(
    f"[{1_778_403_600 + i / 2:.6f}] 64 bytes from 192.0.2.1: icmp_seq={i + 1} ttl=60 time={40 + i % 5} ms\n"
    for i in range(20)
)
LIMITED = (
    "import resource, signal, sys\n"
    "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
    "from bentpipe.cli.main import app\n"
    "app()\n"
)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "dumbbell.parquet"
    write_profile(preset_profile("dumbbell:rate=10mbit", 30.0, start_unix_ns=START_UNIX_NS, name="dumbbell"), file)
    return str(file)


def interrupt(*_, **__):
    """Raise as Ctrl-C does."""
    raise KeyboardInterrupt


def bentpipe(*arguments):
    """Run the command in this process; only tests of the process itself need a separate one."""
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_json_follows_the_contract(path, tmp_path):
    arguments = ["--cc", "reno,cubic+bbr", "--duration", 2, "--seeds", 2]
    done = bentpipe("race", path, *arguments, "-o", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document) == ["runs"]
    assert [(run["profile"], run["scheme"], run["seed"], run["world"]) for run in document["runs"]] == [
        ("dumbbell", scheme, seed, "simulated") for seed in (0, 1) for scheme in ("reno", "cubic+bbr")
    ]
    promised = {"controller", "goodput_bps", "rtt_median_ms", "rtt_p95_ms", "retransmits"}
    assert all(promised <= flow.keys() for run in document["runs"] for flow in run["flows"])


def test_the_table_shows_means_over_the_seeds(path, tmp_path):
    done = bentpipe("race", path, "--cc", "reno", "--duration", 2, "--seeds", 2, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    (summary,) = summarise(find_runs(tmp_path / "out"))
    assert f" {number(summary.total_bps.mean / 1e6)} " in done.stdout
    assert "bentpipe report" in done.stderr
    again = bentpipe("race", path, "--cc", "reno", "--duration", 2, "--seeds", 2, "-o", tmp_path / "out")
    assert again.stdout == done.stdout
    assert "2 of 2 Runs were stored already" in again.stderr


def test_the_table_has_units_and_the_durations_of_items(path, tmp_path):
    options = ["--cc", "reno", "--duration", 4, "--app", "request:200bytes/100kb,n=5"]
    done = bentpipe("race", path, *options, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    title, heads, row = done.stdout.splitlines()
    assert title.rstrip() == "dumbbell, down: means over seeds; goodput after the warm-up"
    for head in ("goodput [Mbit/s]", "RTT p95 [ms]", "items", "item median [ms]", "item p95 [ms]"):
        assert head in heads
    assert "share" not in heads
    (run,) = find_runs(tmp_path / "out")
    (summary,) = summarise([run])
    (items,) = summary.flows[0].items
    assert (items.kind, items.median_s.mean) == ("request", run.flows[0]["app"]["median_s"])
    assert items.p95_s.mean == run.flows[0]["app"]["p95_s"]
    assert number(1e3 * run.flows[0]["app"]["p95_s"]) in row.split()
    assert "5" in row.split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["PATH", "--cc", "bbbr"], "error: --cc: no controller 'bbbr'; did you mean 'bbr'"),
        (["PATH", "--cc", "bbr:x=1"], "error: --cc: "),
        (["PATH", "--app", "bulky"], "error: --app: no application 'bulky'; did you mean 'bulk'"),
        (["PATH", "--cc", "vegas,bbr"], "vegas is a controller of Linux that bentpipe does not have"),
        (["PATH", "--cc", "zzz,bbr"], "bentpipe cc describes them"),
        (["PATH", "--cc", "reno", "cubic+bbr"], "try one --cc, with commas: --cc reno,cubic+bbr"),
        (["PATH", "--cc", "cubic", "--duration", "31"], "31 s exceeds the Profile 'dumbbell'; expected at most 30 s"),
        (["PATH", "--direction", "left"], "expected up or down"),
        (["PATH", "--seeds", "0"], "--seeds"),
        (["PATH", "--seeds", "many"], "'--seeds'"),
        (["nowhere.parquet"], "nowhere.parquet"),
        ([], "PROFILES"),
        (["PATH", "-x", "e.toml"], "--experiment"),
        (["-x", "nowhere.toml"], "nowhere.toml"),
        (["-x", "nowhere.toml", "--phase", "0"], "--phase cannot be given"),
        (["-x", "nowhere.toml", "--duration", "0"], "--duration cannot be given"),
        (["PATH", "--cc", ""], "names no controller"),
        (["PATH", "--cc", "reno,,bbr"], "nothing between two commas"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(path, tmp_path, arguments, message):
    given = [path if argument == "PATH" else argument for argument in arguments]
    done = bentpipe("race", *given, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stdout == ""
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert all(line.startswith("hint: ") for line in rest)
    assert not (tmp_path / "out").exists()


def test_a_damaged_profile_is_one_line_and_exit_code_2(path, tmp_path):
    data = bytearray(Path(path).read_bytes())
    data[100] ^= 1
    Path(path).write_bytes(data)
    done = bentpipe("race", path, "--cc", "reno", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {path}")


def test_a_full_disk_is_one_line_and_exit_code_1(path, tmp_path):
    arguments = [path, "--cc", "reno", "--duration", "20", "-o", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "race", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"File too large; 0 of 1 Runs are stored in {tmp_path / 'out'}: make room; then the same" in done.stderr


def test_ctrl_c_reports_stored_runs_and_exits_with_130(path, tmp_path):
    out = tmp_path / "out"
    arguments = ["race", path, "--cc", "reno,cubic,bbr", "--duration", "30", "--seeds", "40", "-o", str(out), "-j", "1"]
    child = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(out.glob("race-down/*/*/*/run.json")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert output == ""
    kept = len(find_runs(out))
    assert errors == f"error: interrupted: {kept} of 120 Runs are stored in {out}; the same command runs the rest\n"


def test_ctrl_c_before_the_first_run_reports_stored_runs(path, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert bentpipe("race", path, "--cc", "reno", "--duration", 2, "-o", out).exit_code == 0
    with monkeypatch.context() as early:
        early.setattr(parquet, "read_either", interrupt)
        done = bentpipe("race", path, "--cc", "reno,cubic", "--duration", 2, "-o", out)
    assert done.exit_code == 130
    assert done.stderr == f"error: interrupted: Runs stored in {out}: 1; the same command runs the rest\n"
    monkeypatch.setattr(folder_sink, "store_profiles", interrupt)
    done = bentpipe("race", path, "--cc", "reno,cubic", "--duration", 2, "-o", out)
    assert done.exit_code == 130
    assert done.stderr == f"error: interrupted: 1 of 2 Runs are stored in {out}; the same command runs the rest\n"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted: 1 of 4 new Runs are finished in OUT; the same"),
        (
            StoreError("OUT: full"),
            1,
            "OUT: full; 1 of 4 new Runs are finished in OUT: make room; then the same",
        ),
    ],
)
def test_a_fresh_race_that_ends_early_counts_its_own_runs_alone(path, tmp_path, monkeypatch, error, code, message):
    out = tmp_path / "out"
    arguments = ["race", path, "--cc", "reno,cubic", "--duration", 2, "--seeds", 2, "-o", out, "-j", 1]
    assert bentpipe(*arguments).exit_code == 0
    write, calls = store.write_run, []

    def struck(folder, *rest):
        calls.append(folder)
        if len(calls) >= 2:
            raise error
        return write(folder, *rest)

    with monkeypatch.context() as second:
        second.setattr(store, "write_run", struck)
        done = bentpipe(*arguments, "--fresh")
    assert done.exit_code == code
    expected = f"error: {message} command without --fresh runs the rest\n".replace("OUT", str(out))
    assert done.stderr.replace("OUT", str(out)) == expected
    assert len(find_runs(out)) == 4
    with monkeypatch.context() as early:
        early.setattr(parquet, "read_either", interrupt)
        done = bentpipe(*arguments, "--fresh")
    assert done.stderr == f"error: interrupted: Runs stored in {out}: 4; the same command starts over\n"
    for run in find_runs(out):  # of another build: without --fresh they would be refused
        versions = {**run.record.versions, "build": "another"}
        (run.path / "run.json").write_text(
            json.dumps(run.record.replace(versions=versions).to_dict()), encoding="utf-8"
        )
    calls.clear()
    with monkeypatch.context() as second:
        second.setattr(store, "write_run", struck)
        assert "the same command starts over" in bentpipe(*arguments, "--fresh").stderr


def test_ctrl_c_while_the_report_is_written_reports_stored_runs(path, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert bentpipe("race", path, "--cc", "reno", "--duration", 2, "-o", out).exit_code == 0
    monkeypatch.setattr(drawing, "plot_overview", interrupt)
    done = bentpipe("report", out)
    assert done.exit_code == 130
    assert done.stderr == (
        f"error: interrupted: the page is not written; 1 Run stored in {out}; bentpipe report {out} writes it\n"
    )
    assert not (out / "report.html").exists()


def test_ctrl_c_in_the_demo_reports_stored_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "DURATION_S", 1.0)
    monkeypatch.setattr(demo, "PROFILE_S", 1.0)
    monkeypatch.setattr(demo, "SEEDS", 1)
    out = tmp_path / "demo"
    with monkeypatch.context() as late:
        late.setattr(drawing, "plot_overview", interrupt)
        done = bentpipe("demo", "-o", out)
    assert done.exit_code == 130
    assert f"error: interrupted: the page is not written; 8 Runs stored in {out}; " in done.stderr
    with monkeypatch.context() as early:
        early.setattr(demo, "make_profile", interrupt)
        done = bentpipe("demo", "-o", out)
    assert done.exit_code == 130
    assert f"error: interrupted: Runs stored in {out}: 8; the same command starts over" in done.stderr
    monkeypatch.setattr(folder_sink, "store_profiles", interrupt)
    done = bentpipe("demo", "-o", out)
    assert done.exit_code == 130
    assert f"error: interrupted: 0 of 8 new Runs are finished in {out}; the same command starts over" in done.stderr


def test_a_bulk_flow_over_a_path_without_capacity_is_refused(tmp_path):
    (tmp_path / "ping.txt").write_text(PING, encoding="utf-8")
    file = tmp_path / "measured.parquet"
    assert bentpipe("profile", "from", tmp_path / "ping.txt", "-o", file).exit_code == 0
    done = bentpipe("race", file, "--cc", "reno", "--duration", 2, "-o", tmp_path / "out")
    assert done.exit_code == 2
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "no capacity downwards" in error
    assert "--capacity down=100mbit" in error
    assert not (tmp_path / "out").exists()
    (tmp_path / "e.toml").write_text(
        f'name = "page"\nduration_s = 2\n[[profiles]]\nrole = "path"\nfile = "{file.name}"\n'
        '[[flows]]\ncontroller = "cubic"\napp = "transfers:50kb,n=1"\n',
        encoding="utf-8",
    )
    done = bentpipe("race", "-x", tmp_path / "e.toml", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "has no capacity downwards: only windows and buffers limit its flows" in done.stderr
    assert bentpipe("report", tmp_path / "out").exit_code == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "has no capacity limit" in page
    assert "CUBIC carried" not in page


def test_seeds_with_the_same_offset_are_noted(path, tmp_path):
    note = "note: dumbbell is as long as a run, so all seeds begin at the same offset"
    arguments = ["race", path, "--cc", "reno", "-o"]
    assert note in bentpipe(*arguments, tmp_path / "whole", "--seeds", 2).stderr
    assert note not in bentpipe(*arguments, tmp_path / "part", "--seeds", 2, "--duration", 2).stderr
    assert note not in bentpipe(*arguments, tmp_path / "one").stderr
    assert note not in bentpipe(*arguments, tmp_path / "given", "--seeds", 2, "--duration", 2, "--phase", 1).stderr


def test_report_prints_the_path_of_the_page(path, tmp_path):
    out = tmp_path / "out"
    bentpipe("race", path, "--cc", "reno", "--duration", 2, "-o", out)
    done = bentpipe("report", out, "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"report": str(out / "report.html")})
    nothing = bentpipe("report", tmp_path / "nowhere")
    assert nothing.exit_code == 2
    assert "no such folder" in nothing.stderr


@pytest.mark.parametrize("command", ["race", "report", "demo"])
def test_help_has_an_example(command):
    done = bentpipe(command, "--help")
    assert done.exit_code == 0
    assert f"bentpipe {command} " in done.stdout.split("Example")[1]


def test_the_demo_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "DURATION_S", 4.0)
    monkeypatch.setattr(demo, "PROFILE_S", 19.0)
    monkeypatch.setattr(demo, "SEEDS", 1)
    shares = []
    result, page = demo.run_demo(tmp_path / "demo", on_progress=shares.append)
    assert [run.scheme for run in result.runs] == [*demo.SCHEMES, *demo.SCHEMES]
    assert {run.label for run in result.runs} == {"melbourne-sydney", "melbourne-london"}
    assert page.is_file()
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    again, _ = demo.run_demo(tmp_path / "demo")
    assert [run.record.content_hash for run in again.runs] == [run.record.content_hash for run in result.runs]


def test_a_race_makes_its_profile_a_slot_longer_than_a_run(tmp_path):
    made = "--site", "louvain", "--to", "london", "--start", "2026-05-10T10:00Z", "--loss", "idle"
    done = bentpipe("race", *made, "--cc", "reno", "--duration", "2s", "--seeds", 3, "-o", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "louvain-london, 17 s from 2026-05-10T10:00:00Z" in done.stderr
    assert [file.name for file in (tmp_path / "profiles").iterdir()] == ["louvain-london.parquet"]
    assert len({run.offset_s for run in find_runs(tmp_path)}) == 3
    again = bentpipe("race", *made, "--cc", "reno", "--duration", "2s", "--seeds", 3, "-o", tmp_path)
    assert "3 of 3 Runs were stored already" in again.stderr


@pytest.mark.parametrize(
    ("words", "run_s", "made_s"),
    [("", 300.0, 315.0), ("--phase 10", 300.0, 310.0), ("--phase 10 --duration 60", 60.0, 70.0)],
)
def test_a_made_profile_holds_its_runs(tmp_path, monkeypatch, words, run_s, made_s):
    made, raced = [], []

    def stop(*_, duration_s, **__):
        raced.append(duration_s)
        raise UserError("stopped")

    monkeypatch.setattr(MadeProfile, "make", lambda _, duration_s: made.append(duration_s))
    monkeypatch.setattr(racing, "race", stop)
    bentpipe("race", "--site", "louvain", "--to", "london", *words.split(), "-o", tmp_path / "out")
    assert (raced, made) == ([run_s], [made_s])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--site louvain", "--site needs --to"),
        ("--site louvain --to london --duration 10ms", "0.01 s; expected at least 0.1 s"),
        ("--to london", "--to: belongs to a Profile that --site makes"),
        ("P.parquet --gateways g.toml", "--gateways: belongs to a Profile that --site makes"),
        ("P.parquet --site louvain --to london", "P.parquet: --site makes the Profile; expected either of them"),
        ("-x E.toml --site louvain --to london", "--site cannot be given with it"),
        ("--repeat out --start 2026-05-10", "--start cannot be given with it"),
        ("--site 50.67 4.62 --to london", "expected --site 50.67,4.62"),
        ("", "PROFILES: none given"),
    ],
)
def test_options_of_a_made_profile_are_refused_in_one_line(tmp_path, words, message):
    done = bentpipe("race", *words.split(), "-o", tmp_path / "out")
    assert done.exit_code == 2
    (line, *_) = done.stderr.splitlines()
    assert message in line


def test_the_help_of_recovery_names_every_scheme_of_the_registry():
    (option,) = [each for each in get_command(app).commands["race"].params if each.name == "recovery"]
    names = option.help.partition("own: ")[2].partition(", with tunables")[0].split(", ")
    assert sorted(names) == sorted(entry["name"] for entry in recovery_schemes())
