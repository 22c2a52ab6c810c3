"""Real programs on this kernel behind a Profile: what they meet, and how what cannot be run is said."""

import os
import signal
import sys

import pytest
from emulation import bentpipe, echo, python

from bentpipe.errors import UserError
from bentpipe.execution.emulation.engine import Spec, emulate
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.runs.store import find_runs

pytestmark = pytest.mark.usefixtures("emulation")


@pytest.mark.parametrize("family", [4, 6])
def test_the_path_is_between_a_program_and_the_server(bell, tmp_path, family):
    rtts, emulated = echo(bell, tmp_path, family=family)
    assert all(rtt >= 30.0 for rtt in rtts)  # never early, however busy the machine
    relay = emulated.done["relay"]
    assert relay["delivered"] >= 2 * len(rtts)
    assert relay["lost"] == relay["refused"] == relay["kernel_rejected"] == 0
    assert emulated.done["device_drops"] == [0, 0]


def test_the_user_the_files_and_the_directory_stay(bell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import os; open('mine', 'w').write(f'{os.getuid()} {os.getcwd()}')"
    assert run_program(bell, python(code)).exit_code == 0
    assert (tmp_path / "mine").read_text() == f"{os.getuid()} {tmp_path}"
    assert (tmp_path / "mine").stat().st_uid == os.getuid()


def test_exit_codes_are_the_programs(bell):
    assert run_program(bell, ["sh", "-c", "exit 7"]).exit_code == 7
    assert run_program(bell, ["sh", "-c", "kill -TERM $$"]).exit_code == 128 + signal.SIGTERM


def test_what_cannot_be_run_is_one_line(bell):
    with pytest.raises(UserError, match="no-such-program: cannot start it: No such file"):
        run_program(bell, ["no-such-program"])
    for _ in range(4):  # beside a server it is process 1 that waits for all children, and may be first
        with pytest.raises(UserError, match="no-such-program: cannot start it: No such file"):
            run_program(bell, ["no-such-program"], server="exec python3 -m http.server 8000")
    with pytest.raises(UserError, match=r"ended before it listened \(exit code 3\)"):
        run_program(bell, ["true"], server="exit 3")
    with pytest.raises(UserError, match=r"ended before it listened \(killed by signal 9\)"):
        run_program(bell, ["true"], server="kill -9 $$")
    spec = Spec(
        workload={"program": {"command": ["true"], "server": "sleep 60", "server_log": None}}, listen_within_s=0.2
    )
    with pytest.raises(UserError, match=r"after 0\.2 s it listens neither on TCP nor on UDP \(--listen-within\)"):
        emulate(bell, spec)
    inside = "exec python3 -c \"import socket, time; s = socket.create_server(('127.0.0.1', 8123)); time.sleep(60)\""
    with pytest.raises(UserError, match=r"after 5 s it listens on the loopback only, .* \(0\.0\.0\.0, ::\)"):
        run_program(bell, ["true"], server=inside, listen_within_s=5.0)
    with pytest.raises(UserError, match="--mtu: 20"):
        run_program(bell, ["true"], mtu=20)
    with pytest.raises(UserError, match="--offset: 60 s"):
        run_program(bell, ["true"], offset_s=60.0)


@pytest.mark.parametrize("kept", [False, True])
def test_a_server_that_fails_is_quoted_and_leaves_no_folder(kept, bell, tmp_path):
    server = "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exec no-such-server"
    with pytest.raises(UserError) as caught:
        run_program(bell, ["true"], server=server, out=tmp_path / "new" / "out" if kept else None)
    assert not list(tmp_path.iterdir())
    said = str(caught.value)
    assert "(exit code 127: not found); its output: line 4 / line 5 / line 6 / line 7 / " in said
    assert "no-such-server" in said.split("line 7 / ")[1]
    assert len(said.splitlines()) == 1


def test_an_mtu_below_ipv6s_is_said_to_leave_ipv4_only(bell, tmp_path):
    file = tmp_path / "bell.parquet"
    write_profile(bell, file)
    done = bentpipe("run", file, "--mtu", 1279, "--", "true")
    assert done.returncode == 0
    assert "--mtu 1279: below the 1280 bytes that IPv6 wants, so inside there is IPv4 only" in done.stderr
    assert "IPv6" not in bentpipe("run", file, "--mtu", 1280, "--", "true").stderr


def test_a_forgotten_profile_is_said_to_be_missing():
    done = bentpipe("run", "--", "curl", "http://server/")
    assert done.returncode == 2
    assert "curl: no such file; wanted a Profile" in done.stderr


def test_the_record_names_the_log_beside_it(bell, tmp_path):
    server = f"exec {sys.executable} -m http.server 80"
    result = run_program(bell, ["true"], server=server, out=tmp_path / "out")
    record = result.run.record["program"]
    assert (result.run.path / record["server_log"]).exists()
    assert [run.path for run in find_runs(str(tmp_path / "out"))] == [result.run.path]
