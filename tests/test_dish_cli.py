"""`bentpipe dish` in a pipe, on a terminal, and with errors."""

import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import sys

import pytest
import starlink_grpc
from dish_world import START, at, local, profile, served

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient
from bentpipe.measurements.dish.display import LiveTable, Observation, Watcher, place_of
from bentpipe.measurements.dish.following import Change, Sample
from bentpipe.measurements.dish.recording.reading import scan_recording
from bentpipe.measurements.serving.live import LiveEstimator
from bentpipe.profiles.parquet import write_profile
from bentpipe.scenarios.places import parse_place


def bentpipe(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "bentpipe", *map(str, args)], capture_output=True, text=True, check=False, **options
    )


@contextlib.contextmanager
def simulated(tmp_path, *args):
    path = tmp_path / "P.parquet"
    write_profile(profile(), path)
    process = subprocess.Popen(
        [sys.executable, "-m", "bentpipe", "dish", "simulate", "--profile", path, "--port", "0", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert "Traceback" not in out + err


def test_simulate_prints_its_address_and_other_tools_read_it(tmp_path):
    with simulated(tmp_path, "--firmware", "2024", "--uptime", "1000", "--location") as (host, process):
        starlink_grpc.imports_pending = True
        context = starlink_grpc.ChannelContext(host)
        assert starlink_grpc.status_data(context)[0]["software_version"] == "2024.01.01.bentpipe"
        assert starlink_grpc.location_data(context)["latitude"] == -37.85
        assert 1000 <= starlink_grpc.get_history(context).current < 1060
        context.close()
        assert process.poll() is None


def test_watch_in_a_pipe_prints_a_line_per_sample():
    with served() as server:
        host = f"127.0.0.1:{server.port}"
        plain = bentpipe("dish", "watch", "--host", host, "--for", 2, "--every", 0.5)
        records = bentpipe("dish", "watch", "--host", host, "--for", 2, "--every", 0.5, "--json")
    lines = plain.stdout.splitlines()
    assert len(lines) == 4
    assert all("CONNECTED" in line and "next slot" in line for line in lines)
    assert plain.stderr.count("connected") == 1
    parsed = [json.loads(line) for line in records.stdout.splitlines()]
    assert len(parsed) == 4
    assert all(0 < record["next_slot_s"] <= 15 for record in parsed)
    assert parsed[0]["state"] == "CONNECTED"


def test_watch_on_a_terminal_draws():
    leader, follower = pty.openpty()
    with served() as server:
        done = subprocess.run(
            [sys.executable, "-m", "bentpipe", "dish", "watch", "--host", f"127.0.0.1:{server.port}", "--for", "2"],
            stdout=follower,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        )
    os.close(follower)
    drawn = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(leader, 65536):
            drawn += chunk
    os.close(leader)
    assert done.returncode == 0, done.stderr
    text = drawn.decode()
    assert all(word in text for word in ("latency", "alignment", "obstructed", "next slot", "satellite"))


def test_a_missing_terminal_is_reported_once_and_awaited():
    done = bentpipe("dish", "watch", "--host", "127.0.0.1:1", "--for", 4)
    assert done.returncode == 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "no terminal answers" in done.stderr


def test_recorded_tables_can_be_read(tmp_path):
    with served() as server:
        done = bentpipe("dish", "record", "--host", f"127.0.0.1:{server.port}", "--for", 3, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert scan_recording(tmp_path / "out").collect().height == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["record", "--every", "0", "-o", "x"], "every: 0 s; expected"),
        (["record", "--map-every", "-1", "-o", "x"], "map-every: -1 s; expected"),
        (["simulate", "--profile", "nothing.parquet"], "no such file"),
        (["simulate", "--profile", "P.parquet", "--firmware", "1999"], "firmware: 1999; expected 2021"),
        (["simulate", "--profile", "P.parquet", "--speed", "0"], "speed: 0; expected"),
        (["simulate", "--profile", "P.parquet", "--load", "3"], "load: 3; expected"),
        (["watch", "--elements", "nothing.tle"], "no such file"),
        (["record", "-o", "/proc/nowhere"], "cannot be written"),
    ],
)
def test_invalid_options_give_one_line_errors(tmp_path, args, message):
    write_profile(profile(), tmp_path / "P.parquet")
    done = bentpipe("dish", *args, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("command", [["watch"], ["record", "-o", "x"], ["simulate"]])
def test_a_missing_extra_gives_a_one_line_error(command):
    code = f"import sys; sys.modules['grpc'] = None; from bentpipe.cli.main import app; app(['dish', *{command!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == ("error: a dish needs grpc, which is not installed: pip install 'bentpipe[dish]'\n")


def test_a_recording_is_read_without_the_extra():
    code = "import sys; sys.modules['grpc'] = None; import bentpipe.measurements.dish.recording"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_watch_names_the_serving_satellite():
    from bentpipe.orbits import elements

    terminal, clock = at(0, uptime_s=0)
    client = DishClient(local(terminal))
    serving = LiveEstimator(elements.load_satellites(None, None, START), parse_place("melbourne"))
    watcher = Watcher(client, serving)
    named = []
    for _ in range(60):
        seen = watcher.observe(Sample(clock.now_unix_ns(), clock.elapsed_ns(), client.status()))
        truth = int(terminal.world.serving[int((clock.now_unix_ns() - START) // 10**9) % 60])
        named.append((seen.satellite.norad_id if seen.satellite else None, truth))
        clock.sleep_s(1)
    identified = [(name, truth) for name, truth in named if name is not None]
    assert len(identified) > 30
    assert sum(name == truth for name, truth in identified) >= 0.9 * len(identified)


def test_the_live_table_renders_any_values():
    from rich.console import Console

    terminal, clock = at(5, firmware=2021)
    status = DishClient(local(terminal)).status()
    picture, out = LiveTable(), io.StringIO()
    Console(file=out, width=100).print(picture)
    picture.add_observation(Observation(Sample(clock.now_unix_ns(), clock.elapsed_ns(), status), 3.2, None))
    picture.add_change(Change(0, "lost", "[red]odd[/"))
    Console(file=out, width=100).print(picture)
    assert "no answer" in out.getvalue()
    assert "3.2 s" in out.getvalue()
    assert "[red]odd[/" in out.getvalue()


def test_watch_needs_the_place_of_the_terminal():
    refused, _ = at(5)
    with pytest.raises(UserError, match="site: none given, and the terminal reports none"):
        place_of(DishClient(local(refused)), None)
    allowed, _ = at(5, allow_location=True)
    assert place_of(DishClient(local(allowed)), None).lat_deg == pytest.approx(-37.81, abs=0.1)
    assert place_of(DishClient(local(refused)), "melbourne").name == "melbourne"
