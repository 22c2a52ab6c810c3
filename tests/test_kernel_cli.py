"""`bentpipe kernel` without a kernel: errors name what was typed, and what `status` draws."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from pseudo_terminal import on_a_terminal
from typer.testing import CliRunner

from bentpipe.cli import kernel_status
from bentpipe.cli.main import app
from bentpipe.kernel import controllers

needs_programs = pytest.mark.skipif("hybla" not in controllers.available(), reason="no programs (make kernel)")


@needs_programs
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("load hibla", "no program for 'hibla'; did you mean 'hybla'?; expected bbr2, "),
        ("load cubic", "no program for 'cubic'; did you mean 'cubic-leo'?; expected bbr2, "),
        ("set hibla rtt0_ms=1", "no program for 'hibla'; did you mean 'hybla'?"),
        ("status hibla", "no program for 'hibla'; did you mean 'hybla'?"),
        ("load hybla+bbr3", "'hybla+bbr3'; expected one controller"),
        ("load hybla:ecn=on", "'hybla:ecn=on'; expected one controller"),
        ("load hybla:ecn=x", "hybla: ecn is 'x'; expected on, off"),
        ("set hybla rtt0_ms", "hybla: 'rtt0_ms' is no tunable; expected tunable=value"),
        ("set hybla rtt0=5", "controller `hybla` has no option `rtt0`; it takes: rtt0_ms, "),
        ("load hybla:rtt0_ms=0", "controller `hybla`: option `rtt0_ms` is 0; expected a number from 1"),
    ],
)
def test_an_error_names_what_was_typed(line, says):
    result = CliRunner().invoke(app, ["kernel", *line.split()])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {says}"), result.stderr
    assert result.stderr.count("\n") == 1
    assert "--" not in result.stderr


#: Three readings of two connections, the last of which Ctrl-C interrupts.
WATCH = """
import sys
from bentpipe.cli import kernel_status
from bentpipe.kernel.connections import SocketState

kernel_status.EVERY_S = 0.01
CLOCK = {"period_s": 15.0, "second_of_minute": 12.0, "next_s": 3.0, "valid_s": 5.0}
readings = iter(range(3))

def read():
    number = next(readings, None)
    if number is None:
        raise KeyboardInterrupt
    sent = [("bbr3-leo", "203.0.113.7:443", 0.05, "slot"), ("bbr3", sys.argv[2], 4.2, "probe_bw_cruise")]
    connections = [
        SocketState(name, 1, "198.51.100.2:44118", remote, silent_s, 512_000, 98_700_000, 41.2, 38.51,
                    102_300_000 + number * 1_000_000, 400_000, phase, 1, 0, 0, 0, 0)
        for name, remote, silent_s, phase in sent
    ]
    return kernel_status.Status({"bbr3-leo": CLOCK}, connections)

kernel_status.watch_status(read, as_json=sys.argv[1] == "json")
"""


IPV4, IPV6 = "198.51.100.250:65535", "[2001:db8:1111:2222:3333:4444:5555:6666]:65535"
TABLE = [sys.executable, "-c", WATCH, "table", IPV4]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_a_narrow_terminal_is_redrawn_in_place_without_broken_numbers():
    output = on_a_terminal(TABLE, 80, "xterm")
    assert output.count("\x1b[1A") >= 8  # the cursor goes back up
    drawn = [ESCAPES.sub("", line).rstrip() for line in output.replace("\r", "\n").split("\n")]
    assert max(map(len, drawn)) <= 80
    text = "\n".join(drawn)
    assert all(each in text for each in ("102.3", "103.3", "104.3"))
    assert all(each in text for each in ("198.51.100.2:44118", "198.51.100.250:65535", "handover clock", "lost"))
    assert re.search(r"silent\s+for 4 s", text)


def test_a_port_is_whole_below_an_address_that_is_broken():
    lines = [line.split() for line in on_a_terminal([*TABLE[:-1], IPV6], 80).splitlines()]
    assert [":65535"] in lines


def test_a_clock_program_that_has_no_clock_is_named(capsys):
    none = {"bbr3-leo": dict.fromkeys(("period_s", "next_s", "second_of_minute", "valid_s"))}
    kernel_status.Status(none, [], "123 on host").show()
    kernel_status.Status(none, []).show()
    first, _, second, _ = capsys.readouterr().out.splitlines()
    assert first == "bbr3-leo: no handover clock now; `bentpipe clock` runs (process 123 on host)"
    assert second == "bbr3-leo: no handover clock (`bentpipe clock` keeps one)"


def test_a_wide_terminal_has_a_line_for_each_connection():
    drawn = [ESCAPES.sub("", line) for line in on_a_terminal(TABLE, 150, "xterm").split("\n")]
    assert any("probe_bw_cruise, silent for 4 s" in line and "bbr3" in line and "0.4" in line for line in drawn)
    assert any(
        line.split() == ["controller", "local", "remote", "phase", "[kB]", "[Mbit/s]", "[ms]", "[ms]", "[MB]", "[MB]"]
        for line in drawn
    )


def test_a_terminal_without_cursor_gets_each_reading_once_below_the_other():
    output = on_a_terminal(TABLE, 160)
    assert "\x1b" not in output
    assert output.count("controller") == 3


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_pipe_gets_plain_lines(form):
    done = subprocess.run([sys.executable, "-c", WATCH, form, IPV4], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "\x1b" not in done.stdout
    if form == "table":
        assert [line.split()[0] for line in lines] == ["bbr3-leo:", "controller", "bbr3-leo", "bbr3"] * 3
        assert all("lost [MB]" in line for line in lines[1::4])
        return
    connections = [json.loads(line)["connections"] for line in lines]
    assert len(connections) == 3
    assert connections[0][1]["silent_s"] == 4.2
