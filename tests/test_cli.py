"""The command line: names, exit codes, one line for every error, and no heavy import before it is needed."""

import errno
import json
import os
import signal
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import typer
from pseudo_terminal import on_a_terminal
from typer.testing import CliRunner

from bentpipe.cli import flags
from bentpipe.cli.errors import PACKAGE, ReportingGroup, report
from bentpipe.cli.main import app
from bentpipe.cli.options import duration
from bentpipe.errors import BentpipeError, StoreError, UserError
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.show import describe

RUN = CliRunner()
COMMANDS = [
    ["cc"],
    ["constellations"],
    ["demo"],
    ["policies"],
    ["presets"],
    ["profile"],
    ["profile", "convert"],
    ["profile", "make"],
    ["profile", "plot"],
    ["profile", "show"],
    ["race"],
    ["report"],
    ["route"],
    ["sites"],
    ["sky"],
    ["validate"],
]


def bentpipe(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process."""
    return subprocess.run(
        [sys.executable, "-c", "from bentpipe.cli.main import app; app()", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def one_line(error: str) -> str:
    """Return the only line of an error, without the hints below it."""
    lines = [line for line in error.splitlines() if not line.startswith("hint: ")]
    assert len(lines) == 1, error
    assert lines[0].startswith("error: ")
    return lines[0]


def test_the_command_loads_nothing_heavy() -> None:
    # Each takes a tenth of a second or more; `bentpipe --help` takes a quarter in all.
    code = (
        "import contextlib, sys, bentpipe, bentpipe.cli.main\n"
        "with contextlib.suppress(SystemExit):\n    bentpipe.cli.main.app(['--help'])\n"
        "heavy = {'polars', 'matplotlib', 'numpy', 'bentpipe._native', 'jinja2', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_an_error_of_a_json_command_is_an_object_with_its_parts() -> None:
    command = ("tune", "p.parquet", "--cc", "bbr2", "--grid", "loss_thresh")
    done = bentpipe(*command, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    error = json.loads(line)["error"]
    assert error == {
        "code": "invalid",
        "where": "--grid",
        "found": "'loss_thresh'",
        "expected": "tunable=value,value,…, for example loss_thresh=0.02,0.08",
        "hint": "",
        "message": f"--grid: 'loss_thresh'; expected {error['expected']}",
        "exit_code": 2,
    }
    assert one_line(bentpipe(*command).stderr) == f"error: {error['message']}"
    (usage,) = bentpipe(*command[:-2], "--json").stderr.splitlines()
    assert json.loads(usage)["error"]["code"] == "usage"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UserError("0", where="seeds", expected="at least 1"), "--seeds: 0; expected at least 1"),
        (UserError("no controller 'x'", where="schemes: reno"), "--cc: reno: no controller 'x'"),
        (UserError("it is there", where="a/seeds", hint="`fresh` or `out`"), "a/seeds: it is there; try --fresh or -o"),
        (UserError("see `bentpipe cc`"), "see `bentpipe cc`"),
    ],
)
def test_only_the_command_line_names_flags(error: UserError, message: str) -> None:
    assert flags.message(error) == message
    assert "--" not in str(error)


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_every_command_has_help_with_an_example(command: list[str]) -> None:
    result = RUN.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example:" in result.output
    assert f"bentpipe {' '.join(command)}".strip() in result.output


@pytest.mark.parametrize("command", [[], ["profile"]], ids=" ".join)
def test_a_group_without_a_command_shows_its_help(command: list[str]) -> None:
    result = RUN.invoke(app, command)
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_all_commands_are_listed_in_the_reference() -> None:
    text = (Path(__file__).parents[1] / "docs" / "reference" / "cli.md").read_text()
    for command in COMMANDS:
        assert f"## bentpipe {' '.join(command)}" in text or command == ["profile"], command


def test_the_version_is_the_packages() -> None:
    import bentpipe as package

    result = RUN.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"bentpipe {package.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["rase"],
        ["profile", "make"],
        ["profile", "show"],
        ["profile", "show", "a", "b"],
        ["race", "--seeds", "x", "-o", "y"],
    ],
    ids=" ".join,
)
def test_a_mistyped_command_is_one_line(arguments: list[str]) -> None:
    result = RUN.invoke(app, arguments)
    assert result.exit_code == 2
    one_line(result.stderr)
    assert result.stdout == ""


def test_errors_have_their_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    mistake = UserError("a.tle:3: bad\nchecksum")
    mistake.add_note("download it again")
    assert report(mistake, debug=False) == 2
    assert capsys.readouterr().err == "error: a.tle:3: bad checksum\nhint: download it again\n"
    assert report(ValueError("boom"), debug=False) == 1
    assert one_line(capsys.readouterr().err) == "error: ValueError: boom"
    assert report(KeyboardInterrupt(), debug=False) == 130
    assert report(typer.Abort(), debug=False) == 130


def test_debug_shows_the_traceback_of_our_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert report(caught.value, debug=True) == 1
    assert "Traceback" in capsys.readouterr().err
    assert report(UserError("theirs"), debug=True) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_of_ours_is_one_line_in_a_process(tmp_path: Path) -> None:
    """A fault that no command knows of: a package whose data cannot be read."""
    code = (
        "import bentpipe.scenarios.sites as s\n"
        "def broken(): raise RuntimeError('shelf is empty')\n"
        "s.load_sites = broken\n"
        "from bentpipe.cli.main import app\n"
        "app()"
    )
    plain = subprocess.run([sys.executable, "-c", code, "sites"], capture_output=True, text=True, check=False)
    assert plain.returncode == 1
    assert one_line(plain.stderr) == "error: RuntimeError: shelf is empty"
    for arguments, environment in ((["--debug", "sites"], {}), (["sites"], {"BENTPIPE_DEBUG": "1"})):
        loud = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | environment,
        )
        assert loud.returncode == 1
        assert "Traceback" in loud.stderr


def test_ctrl_c_is_130_and_one_line() -> None:
    code = (
        "import bentpipe.scenarios.sites as s, time\n"
        "def slow():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "s.load_sites = slow\n"
        "from bentpipe.cli.main import app\n"
        "app()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "sites"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert one_line(error) == "error: interrupted"


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    command = f"{sys.executable} -c 'from bentpipe.cli.main import app; app()' sites --json | head -c 10"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (None, 0, ""),
        (UserError("3", where="seeds", expected="at least 4"), 2, "error: --seeds: 3; expected at least 4\n"),
        (StoreError("out: the disk is full"), 1, "error: out: the disk is full\n"),
    ],
)
def test_an_error_after_a_closed_pipe_is_reported(
    error: BentpipeError | None, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @(group := typer.Typer(cls=ReportingGroup)).command()
    def write() -> None:
        try:
            raise BrokenPipeError(errno.EPIPE, "closed")
        except BrokenPipeError:
            if error is None:
                raise
            raise error  # noqa: B904 - as an error in a `finally` or `except` has it

    group.callback()(lambda: None)
    with pytest.raises(SystemExit) as ended:
        group(["write"])
    assert (ended.value.code, capsys.readouterr().err) == (code, message)


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("cc", {"name", "status", "description", "source", "needs", "tunables"}),
        (
            "sites",
            {"name", "iata", "lat_deg", "lon_deg", "alt_m", "pop", "gateways"}
            | {"coverage_percent", "coverage_with_lasers_percent", "description", "source"},
        ),
        ("constellations", {"name", "satellites", "shells", "description", "source"}),
        ("presets", {"name", "parameters", "description", "source"}),
    ],
)
def test_catalogues_have_names_and_sources(command: str, keys: set[str]) -> None:
    listed = json.loads(RUN.invoke(app, [command, "--json"]).stdout)
    assert listed
    for entry in listed:
        assert set(entry) == keys
        assert entry["description"]
        assert entry["source"]
    plain = RUN.invoke(app, [command])
    assert plain.exit_code == 0
    for entry in listed:
        assert entry["name"] in plain.stdout


@pytest.mark.parametrize("command", ["cc", "sites", "constellations", "presets", "policies"])
def test_a_catalogue_is_complete_on_a_narrow_terminal_and_in_a_pipe(command: str) -> None:
    """A pseudo-terminal of 80 columns: words may be broken, none is cut."""
    piped = bentpipe(command).stdout
    output = on_a_terminal([sys.executable, "-c", "from bentpipe.cli.main import app; app()", command], columns=80)
    lines = output.splitlines()
    assert max(map(len, lines)) <= 80 or command == "sites"  # whose last line is its source, not a table
    assert "…" not in "".join(lines).replace("20190704-…", "")
    for entry in json.loads(bentpipe(command, "--json").stdout):
        assert entry["name"] in output
        assert entry["description"] in piped  # on one line
        for word in str(entry["description"]).split():
            assert word in output, word


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run P.parquet curl -s http://server:8000/", "-s after curl would be parsed as bentpipe's; expected"),
        (
            "run P.parquet curl -o page.html http://server:8000/",
            "-o after curl would be parsed as bentpipe's; expected `--` before the program",
        ),
        ("run P.parquet --server curl curl --seed 3", "--seed after curl would be"),
        ("run P.parquet curl -o pwn -- http://x", "-o after curl would be"),
        ("run P.parquet curl -o pwn curl", "-o after curl would be"),
        ("run P.parquet curl http://x -- -o pwn", "-- after curl would be"),
        ("run P.parquet --seed 3 curl --help", "--help after curl would be"),
    ],
)
def test_program_options_without_dashes_are_refused(words, message):
    done = RUN.invoke(app, words.split())
    assert done.exit_code == 2
    first, hint = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert hint.startswith("hint: bentpipe run P.parquet -- curl")


@pytest.mark.parametrize(
    "words",
    [
        "run P.parquet --seed 3 curl",
        "run P.parquet -- curl -s x",
        "run P.parquet -- x -o y",
        "run -- P.parquet curl -s x",
        "run --seed 3 P.parquet --mtu 1400 -- x -- -o y",
        "run P.parquet cat -",
    ],
)
def test_a_program_after_dashes_keeps_its_options(words):
    assert "P.parquet: no such file" in RUN.invoke(app, words.split()).stderr


@pytest.mark.parametrize("words", ["run --seed 2 --site {} -- ./curl -o x", "shell --site={} --seed 2"])
def test_run_and_shell_make_the_profile_of_a_site(monkeypatch, words):
    given = []

    def record(path, command, **options):
        given.append((path, command, options["seed"]))
        raise UserError("stopped here")

    monkeypatch.setattr("bentpipe.execution.program.run_program", record)
    monkeypatch.setenv("SHELL", "/bin/sh")
    done = RUN.invoke(app, words.format("melbourne --to sydney --duration 15 --loss idle").split())
    ((path, command, seed),) = given
    made = make_profile("melbourne", "sydney", duration_s=15.0, loss="idle")
    assert path.content_hash() == made.content_hash()
    assert (command, seed) == (["./curl", "-o", "x"] if words.startswith("run") else ["/bin/sh"], 2)
    assert f"note: {describe(made)}\n" in done.stderr
    assert "melbourne-sydney, 15 s from 2026-05-10T09:00:00Z: median RTT" in done.stderr
    assert "idle loss" in done.stderr


def test_run_makes_the_profile_over_given_gateways_and_elements(monkeypatch, tmp_path):
    given = []

    def record(path, *_, **__):
        given.append(path)
        raise UserError("stopped here")

    monkeypatch.setattr("bentpipe.execution.program.run_program", record)
    gateways = tmp_path / "gateways.toml"
    gateways.write_text(resources.files("bentpipe.scenarios").joinpath("gateways/starlink.toml").read_text())
    words = f"run --site melbourne --to sydney --duration 15 --gateways {gateways} -- ./curl"
    RUN.invoke(app, words.split())
    made = make_profile("melbourne", "sydney", duration_s=15.0, gateways=gateways)
    assert given[0].content_hash() == made.content_hash()
    missing = f"run --site melbourne --to sydney --elements {tmp_path}/no.tle --start 2026-05-10 -- ./curl"
    assert f"{tmp_path}/no.tle: no such file" in RUN.invoke(app, missing.split()).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run --site melbourne -- curl", "--site needs --to"),
        ("run --site melbourne --to -37 145 -- curl", "expected --to -37,145"),
        ("run --site melborne --to sydney -- curl", "melbourne"),
        ("run --site melbourne --to sydney curl", "curl: --site makes the Profile; expected either of them, and `--`"),
        ("run P.parquet --site melbourne --to sydney -- curl", "P.parquet: --site makes the Profile"),
        ("run --site melbourne --to sydney --duration 0 -- curl", "duration: 0 s"),
        ("run --site melbourne --to sydney --", "Missing argument"),
        ("run P.parquet --to sydney -- curl", "--to: belongs to a Profile that --site makes"),
        ("run P.parquet --duration 10 -- curl", "--duration: belongs to a Profile that --site makes"),
        ("run P.parquet --gateways g.toml -- curl", "--gateways: belongs to a Profile that --site makes"),
        ("shell --elements e.tle", "--elements: belongs to a Profile that --site makes"),
        ("shell P.parquet --site melbourne --to sydney", "P.parquet: --site makes the Profile"),
        (
            "run --site melbourne --to sydney --loss idel -- curl",
            "--loss: unknown loss environment 'idel'; did you mean 'idle'",
        ),
        ("shell --loss idle", "--loss: belongs to a Profile that --site makes"),
        ("shell", "no Profile; expected a file (.parquet), or --site and --to"),
    ],
)
def test_a_site_and_a_profile_that_do_not_fit_are_one_line(words, message):
    done = RUN.invoke(app, words.split())
    assert done.exit_code == 2
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert message in line


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (FileNotFoundError(2, "No such file or directory", "/nonexist/x.png"), "/nonexist/x.png: No such", 2),
        (PermissionError(13, "Permission denied", b"/proc/1/x"), "/proc/1/x: Permission denied", 2),
        (OSError(28, "No space left on device", "out/x"), "out/x: the disk is full", 1),
        (OSError(9, "Bad file descriptor", 7), "fault in bentpipe", 1),
        (OSError(24, "Too many open files", "x"), "fault in bentpipe", 1),
        (FileNotFoundError(2, "No such file or directory", f"{PACKAGE}/x.html"), "fault in bentpipe", 1),
        (OSError("odd"), "fault in bentpipe", 1),
    ],
)
def test_a_system_error_about_a_path_is_one_line(capsys, error, message, code):
    assert report(error, debug=False) == code
    output = capsys.readouterr().err
    assert message in output
    assert ("fault" in output) == ("fault" in message)


def test_no_number_of_a_table_is_broken_on_a_narrow_terminal() -> None:
    columns = [
        "scheme",
        "goodput [Mbit/s]",
        "95 % CI",
        "empty",
        "retransmitted",
        "n",
        "RTT [ms]",
        "RTT p95 [ms]",
        "whole",
    ]
    row = ["cubic+bbr:min_rtt", 221.5, "89.5–352", "", "7 627", "1 (3 alike)", 73.5, 125.25, "120.75–1 446"]
    code = f"from bentpipe.cli.console import table; table('a title', {columns!r}, [{row!r}])"
    output = on_a_terminal([sys.executable, "-c", code], columns=60)
    for value in [*row[:3], *row[4:]]:
        assert str(value) in output
    assert "empty" not in output
    assert "…" not in output


def test_a_heading_with_brackets_is_whole_on_a_narrow_terminal() -> None:
    code = "from bentpipe.cli.console import table; table('[b]t', ['abcdef[bold]x', 'y'], [['[red]' * 5, 'z ' * 30]])"
    output = on_a_terminal([sys.executable, "-c", code], columns=40)
    lines = [line.split()[0] for line in output.splitlines() if line.strip()]
    assert lines[:3] == ["[b]t", "abcdef[-", "bold]x"]
    assert "[red]" in output


DURATIONS = ("--duration", "--phase", "--offset", "--for", "--every", "--map-every", "--step", "--listen-within")


def options_of(command: Any) -> list[Any]:
    return command.params + [each for sub in getattr(command, "commands", {}).values() for each in options_of(sub)]


def test_every_duration_is_seconds_or_text_with_a_unit() -> None:
    root: Any = typer.main.get_command(app)
    options = [each for each in options_of(root) if set(each.opts) & set(DURATIONS)]
    assert len(options) > 15
    probe, convert = root.commands["probe"], root.commands["profile"].commands["convert"]
    # The prober and the converter parse these themselves.
    later = [each for each in options_of(probe) if set(each.opts) & {"--for", "--every"}]
    later += [each for each in options_of(convert) if "--step" in each.opts]
    for option in options:
        for text in ("90", "90s", "1.5m"):
            value = option.type.convert(text, option, None)
            assert value == (text if option in later else 90.0), option.opts
    assert duration("10ms") == 0.01


@pytest.mark.parametrize("text", ["60x", "1e3s", "-5s", "s", ""])
def test_a_wrong_duration_names_its_flag_and_the_forms(text: str) -> None:
    done = RUN.invoke(app, ["race", "P.parquet", "--duration", text, "-o", "out"])
    assert done.exit_code == 2
    assert "'--duration'" in done.stderr
    assert "90s, 15m" in done.stderr
