"""`bentpipe run -o` where the disk is full, or standard output takes nothing or is closed."""

import subprocess
import sys
from pathlib import Path

import pytest
from emulation import bentpipe, dumbbell_file, kept

from bentpipe.measurements.tool_output.stored import program_output

PING = b"PING server(server (fd62:656e:7470::1)) 56 data bytes\n" + b"".join(
    b"64 bytes from server (fd62:656e:7470::1): icmp_seq=%d ttl=64 time=40.4 ms\n" % i for i in range(1, 50)
)


@pytest.fixture(scope="module")
def dumbbell(tmp_path_factory):
    return dumbbell_file(tmp_path_factory.mktemp("path"))


FLOOD = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(4000):
    s.sendto(bytes(1000), ("server", 9))
"""


def test_a_capture_that_fills_the_disk_leaves_room_for_the_run(dumbbell, small_disk):
    code = FLOOD + "print('done'); raise SystemExit(7)"
    done = bentpipe("run", dumbbell, "-o", small_disk / "o", "--capture", "--", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (7, "done\n")
    assert "Traceback" not in done.stderr
    assert "the capture is not complete: it could not be written to its end, and is not stored" in done.stderr
    run, _ = kept(small_disk / "o")
    assert (run.path / "program.out").read_text() == "done\n"
    assert run.links().height > 0
    assert not list(run.path.glob("*.pcapng"))
    assert {file.name for file in (small_disk / "o").iterdir()} == {"program", "profiles"}


def test_an_output_that_fills_the_disk_leaves_room_for_the_run(dumbbell, small_disk):
    code = "import sys; sys.stdout.write('x' * 2_000_000)"
    done = bentpipe("run", dumbbell, "-o", small_disk / "o", "--", sys.executable, "-c", code)
    assert (done.returncode, len(done.stdout)) == (0, 2_000_000)
    assert "standard output is not stored" in done.stderr
    assert "No space left on device" in done.stderr
    run, summary = kept(small_disk / "o")
    assert (summary["raw"], summary["written_bytes"]) == (None, 2_000_000)
    assert not (run.path / "program.out").exists()


def test_a_disk_that_is_full_leaves_what_there_is_and_says_where(dumbbell, small_disk):
    """The server's own log takes all that there is, so that no table fits."""
    listen = "import socket, time; s = socket.create_server(('', 7)); time.sleep(60)"
    server = f'echo found; head -c 2000000 /dev/zero; exec {sys.executable} -c "{listen}"'
    code = "print('done'); raise SystemExit(7)"
    done = bentpipe("run", dumbbell, "-o", small_disk / "o", "--server", server, "--", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (1, "done\n")
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "no space left on device" in error.lower()
    assert "; the program's exit code was 7; its output is in " in error
    assert "Traceback" not in done.stderr
    (folder,) = (small_disk / "o").glob(".unfinished-*")
    assert error.endswith(str(folder))
    assert (folder / "server.log").read_bytes().startswith(b"found")


def test_a_standard_output_that_takes_nothing_does_not_end_the_program(dumbbell, tmp_path):
    code = f"import os; os.write(1, {PING!r})"
    command = [
        sys.executable,
        "-m",
        "bentpipe",
        "run",
        dumbbell,
        "-o",
        tmp_path / "out",
        "--",
        sys.executable,
        "-c",
        code,
    ]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert done.returncode == 0
    assert "standard output refused part of the program's output: No space left on device" in done.stderr
    run, summary = kept(tmp_path / "out")
    assert summary["not_passed_on"] == "No space left on device"
    assert (run.path / "program.out").read_bytes() == PING
    assert program_output(run).tool == "ping"
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize("redirected", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["run {dumbbell} -o {out} -- echo said", "kernel check --help"])
def test_closed_streams_are_no_fault(dumbbell, tmp_path, redirected, words):
    line = words.format(dumbbell=dumbbell, out=tmp_path / "out")
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m bentpipe {line} {redirected}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "error" not in done.stderr
    if "run" in words:
        assert kept(tmp_path / "out")[1]["written_bytes"] == len("said\n")
