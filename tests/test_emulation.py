"""Programs behind a Profile on this kernel: delays, exit codes, and errors for requests that cannot run."""

import os
import signal
import sys

import pytest
from emulation import bentpipe, echo, python

from bentpipe.errors import UserError
from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.spec import Spec
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.runs.store import find_runs

pytestmark = pytest.mark.usefixtures("emulation")


@pytest.mark.parametrize("family", [4, 6])
def test_packets_cross_the_path_to_the_server(dumbbell, tmp_path, family):
    rtts, emulated = echo(dumbbell, tmp_path, family=family)
    assert all(rtt >= 30.0 for rtt in rtts)  # never early, at any load of the machine
    relay = emulated.done["relay"]
    assert relay["delivered"] >= 2 * len(rtts)
    assert relay["lost"] == relay["refused"] == relay["kernel_rejected"] == 0
    assert emulated.done["device_drops"] == [0, 0]


def test_the_program_keeps_user_files_and_directory(dumbbell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import os; open('mine', 'w').write(f'{os.getuid()} {os.getcwd()}')"
    assert run_program(dumbbell, python(code)).exit_code == 0
    assert (tmp_path / "mine").read_text() == f"{os.getuid()} {tmp_path}"
    assert (tmp_path / "mine").stat().st_uid == os.getuid()


def test_the_exit_code_is_the_programs(dumbbell):
    assert run_program(dumbbell, ["sh", "-c", "exit 7"]).exit_code == 7
    assert run_program(dumbbell, ["sh", "-c", "kill -TERM $$"]).exit_code == 128 + signal.SIGTERM


def test_a_request_that_cannot_run_is_a_one_line_error(dumbbell):
    with pytest.raises(UserError, match="no-such-program: cannot start it: No such file"):
        run_program(dumbbell, ["no-such-program"])
    for _ in range(4):  # with a server, process 1 reaps all children and may reap this one first
        with pytest.raises(UserError, match="no-such-program: cannot start it: No such file"):
            run_program(dumbbell, ["no-such-program"], server="exec python3 -m http.server 8000")
    with pytest.raises(UserError, match=r"ended before it listened \(exit code 3\)"):
        run_program(dumbbell, ["true"], server="exit 3")
    with pytest.raises(UserError, match=r"ended before it listened \(killed by signal 9\)"):
        run_program(dumbbell, ["true"], server="kill -9 $$")
    spec = Spec(
        workload={"program": {"command": ["true"], "server": "sleep 60", "server_log": None}}, listen_within_s=0.2
    )
    with pytest.raises(UserError, match=r"after 0\.2 s it listens neither on TCP nor on UDP \(--listen-within\)"):
        emulate(dumbbell, spec)
    inside = "exec python3 -c \"import socket, time; s = socket.create_server(('127.0.0.1', 8123)); time.sleep(60)\""
    with pytest.raises(UserError, match=r"after 5 s it listens on the loopback only, .* \(0\.0\.0\.0, ::\)"):
        run_program(dumbbell, ["true"], server=inside, listen_within_s=5.0)
    with pytest.raises(UserError, match="mtu: 20"):
        run_program(dumbbell, ["true"], mtu=20)
    with pytest.raises(UserError, match="offset_s: 60 s"):
        run_program(dumbbell, ["true"], offset_s=60.0)


@pytest.mark.parametrize("kept", [False, True])
def test_a_failed_servers_output_is_quoted_and_no_folder_remains(kept, dumbbell, tmp_path):
    server = "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exec no-such-server"
    with pytest.raises(UserError) as caught:
        run_program(dumbbell, ["true"], server=server, out=tmp_path / "new" / "out" if kept else None)
    assert not list(tmp_path.iterdir())
    output = str(caught.value)
    assert "(exit code 127: not found); its output: line 4 / line 5 / line 6 / line 7 / " in output
    assert "no-such-server" in output.split("line 7 / ")[1]
    assert len(output.splitlines()) == 1


def test_an_mtu_below_ipv6s_minimum_is_a_warning(dumbbell, tmp_path):
    file = tmp_path / "dumbbell.parquet"
    write_profile(dumbbell, file)
    done = bentpipe("run", file, "--mtu", 1279, "--", "true")
    assert done.returncode == 0
    assert "--mtu 1279: below the 1280 bytes that IPv6 requires, so the program has IPv4 only" in done.stderr
    assert "IPv6" not in bentpipe("run", file, "--mtu", 1280, "--", "true").stderr


def test_a_missing_profile_argument_is_reported():
    done = bentpipe("run", "--", "curl", "http://server/")
    assert done.returncode == 2
    assert "curl: no such file; expected a Profile" in done.stderr


def test_the_record_names_the_server_log(dumbbell, tmp_path):
    server = f"exec {sys.executable} -m http.server 80"
    result = run_program(dumbbell, ["true"], server=server, out=tmp_path / "out")
    record = result.run.record.program
    assert (result.run.path / record.server_log).exists()
    assert [run.path for run in find_runs(str(tmp_path / "out"))] == [result.run.path]
