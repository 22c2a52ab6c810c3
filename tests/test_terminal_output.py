"""What leaves to a terminal: no control characters from files or devices, and a full standard output is one line."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bentpipe import cli
from bentpipe.cli import console
from bentpipe.errors import printable
from bentpipe.measurements.dish.display import LiveTable
from bentpipe.measurements.dish.following import Change
from bentpipe.measurements.probing import live_table, spec
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile

#: Sets the clipboard (OSC 52), the title (OSC 0), and clears the screen by C1's CSI.
HOSTILE = "evil\x1b]52;c;cm0gLXJm\x07\x1b]0;title\x07\x9b2J\x7f"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def command(*arguments, stdout=subprocess.PIPE):
    words = [sys.executable, "-m", "bentpipe", *map(str, arguments)]
    return subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, encoding="utf-8", check=False)


@given(st.text())
def test_printable_text_has_no_control_characters_and_encodes(text):
    escaped = printable(text)
    assert not CONTROLS.search(escaped)
    escaped.encode()
    assert printable(escaped) == escaped
    assert len(escaped) == len(text)


@given(st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False, allow_infinity=False)))
def test_json_keeps_what_it_escapes(capsys, value):
    capsys.readouterr()
    console.print_json(value)
    output = capsys.readouterr().out
    assert not CONTROLS.search(output)
    assert json.loads(output) == value


def test_a_profile_whose_name_is_hostile(tmp_path):
    write_profile(preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0, name=HOSTILE), tmp_path / "P.parquet")
    shown = command("profile", "show", tmp_path / "P.parquet")
    assert "evil" in shown.stdout
    assert not CONTROLS.search(shown.stdout + shown.stderr)


def test_a_measurement_whose_target_is_hostile(tmp_path):
    rows = pl.DataFrame({"unix_ns": [10**18 + i * 10**9 for i in range(50)], "rtt_ms": 30.0, "target": HOSTILE})
    rows.write_parquet(tmp_path / "pings.parquet")
    for more in ((), ("--json",)):
        shown = command("analyze", "latency", tmp_path / "pings.parquet", *more)
        assert "evil" in shown.stdout, shown.stderr
        assert not CONTROLS.search(shown.stdout + shown.stderr)


def test_a_file_whose_name_is_hostile(tmp_path):
    file = tmp_path / f"{HOSTILE}\udcff.txt"
    Path(os.fsencode(file).decode("utf-8", "surrogateescape")).write_text("nothing", encoding="utf-8")
    shown = command("read", file, "-o", tmp_path / "out")
    assert shown.returncode == 2
    assert shown.stderr.startswith("error: ")
    assert not CONTROLS.search(shown.stdout + shown.stderr)


def drawn(command):
    screen = Console(width=200, color_system=None, file=io.StringIO())
    screen.print(command)
    return screen.file.getvalue()


def test_what_is_drawn_of_a_terminal_and_of_probes(capsys):
    looked = LiveTable()
    looked.add_change(Change(0, "firmware", f"firmware {HOSTILE}"))
    assert "evil" in str(looked.__rich__().title)
    assert not CONTROLS.search(str(looked.__rich__().title))
    requested = spec.Spec("ping", (spec.Target(HOSTILE, "::1", 0),), 10**9, None)
    assert "evil" in drawn(live_table.LiveTable(requested))
    assert not CONTROLS.search(drawn(live_table.LiveTable(requested)))
    console.table(HOSTILE, [HOSTILE], [[HOSTILE]])
    assert not CONTROLS.search(capsys.readouterr().out)


def test_commands_print_in_one_place():
    """Help alone is Typer's."""
    for file in Path(cli.__file__).parent.glob("*.py"):
        text = file.read_text(encoding="utf-8").replace("typer.echo(context.get_help())", "")
        assert file.name == "console.py" or not re.search(r"typer\.echo|typer\.secho|(?<!\.)\bprint\(", text), file


@pytest.mark.parametrize("words", [["sites"], ["sites", "--json"], ["--version"], ["race", "--help"]])
def test_a_standard_output_on_a_full_disk_is_one_line(words):
    with Path("/dev/full").open("wb") as full:
        done = command(*words, stdout=full)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    if "--json" in words:
        line = "error: " + json.loads(line)["error"]["message"]
    assert line.startswith("error: standard output")
    assert "the disk is full" in line


@pytest.mark.parametrize("command_words", [["profile", "plot"], ["profile", "convert", "--to", "csv"]])
def test_a_device_in_the_place_of_a_file_is_refused(tmp_path, command_words):
    write_profile(preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0), tmp_path / "P.parquet")
    for device in ("/dev/full", "/dev/full/x.png"):
        done = command(*command_words[:2], tmp_path / "P.parquet", *command_words[2:], "-o", device)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
