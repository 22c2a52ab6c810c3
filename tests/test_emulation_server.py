"""The server of a program: start of the path and the program, and end of the server with its processes."""

import json
import sys
import time

import pytest

from bentpipe.errors import UserError
from bentpipe.execution.program import run_program
from bentpipe.profiles.presets import preset_profile

pytestmark = pytest.mark.usefixtures("emulation")


@pytest.fixture
def server(tmp_path):
    """Return a function that makes a shell command line of Python code."""

    def line(code):
        file = tmp_path / "server.py"
        file.write_text(code, encoding="utf-8")
        return f"exec {sys.executable} {file}"

    return line


ASK = [sys.executable, "-c", "import socket; socket.create_connection(('server', 8000), timeout=10).close()"]


@pytest.mark.parametrize("leaves_its_group", [True, False])
def test_a_daemon_is_waited_for_and_gets_sigterm(leaves_its_group, dumbbell, server, tmp_path):
    """Its first process exits with 0 before, or after, the daemon listens."""
    results = tmp_path / "results"
    code = f"""
import os, signal, socket, time
if os.fork():
    os._exit(0)
{"os.setsid()" if leaves_its_group else ""}
def finish(*_):
    time.sleep(0.2)
    open({str(results)!r}, "w").write("whole")
    os._exit(0)
signal.signal(signal.SIGTERM, finish)
time.sleep(0.4)
s = socket.create_server(("", 8000))
while True:
    s.accept()
"""
    assert run_program(dumbbell, ASK, server=server(code)).exit_code == 0
    assert results.read_text(encoding="utf-8") == "whole"


def test_a_daemon_that_ends_before_it_listens_is_reported(dumbbell, server):
    began = time.monotonic()
    with pytest.raises(UserError, match=r"ended before it listened \(exit code 0\)"):
        run_program(dumbbell, ["true"], server=server("import os, time\nif os.fork() == 0: time.sleep(0.5)"))
    assert time.monotonic() - began > 0.5


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", ""])
def test_other_sockets_do_not_count_as_listening(address, dumbbell, server):
    """A loopback socket does not count; a UDP socket counts after a wait for a TCP one."""
    code = f"""
import socket, time
u = socket.socket(socket.AF_INET6 if ":" in {address!r} else socket.AF_INET, socket.SOCK_DGRAM)
u.bind(({address!r}, 0))
time.sleep({0.1 if address == "" else 1.0})
s = socket.create_server(("", 8000))
while True:
    s.accept()
"""
    assert run_program(dumbbell, ASK, server=server(code)).exit_code == 0


def test_the_path_begins_when_the_server_listens(dumbbell, server, tmp_path):
    began = tmp_path / "began"
    program = [sys.executable, "-c", f"import time; open({str(began)!r}, 'w').write(str(time.time_ns()))"]
    code = "import socket, time; time.sleep(1.5); s = socket.create_server(('', 8000)); time.sleep(60)"
    started = run_program(dumbbell, program, server=server(code), offset_s=10.0).emulated.started
    assert started["offset_ns"] == 10_000_000_000
    # A Python takes some tenths of a second to start on a busy machine.
    assert 0 <= int(began.read_text(encoding="utf-8")) - started["clock_unix_ns"] < 1_000_000_000


def test_the_servers_start_up_takes_no_profile_time(server, tmp_path):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 1.0, start_unix_ns=0, name="short")
    lived = tmp_path / "lived"
    program = ["sh", "-c", f"while :; do date +%s.%N >> {lived}; sleep 0.05; done"]
    code = "import socket, time; time.sleep(1.5); s = socket.create_server(('', 8000)); time.sleep(60)"
    stopped = run_program(short, program, server=server(code), at_end="stop", offset_s=0.0)
    assert stopped.exit_code == 124
    times = [float(line) for line in lived.read_text(encoding="utf-8").split()]
    assert times[-1] - times[0] > 0.5


def test_packets_sent_before_the_path_starts_enter_it_then(dumbbell, server):
    code = """
import socket, time
s = socket.create_server(("", 80), backlog=1)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
time.sleep(60)
"""
    early = "import socket; u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.sendto(b'x', ('100.64.0.2', 9))\n"
    relay = run_program(dumbbell, ["sleep", "0.3"], server=server(early + code)).emulated.done["relay"]
    assert relay["delivered"] >= 1
    assert relay["lost"] == relay["refused"] == relay["kernel_rejected"] == 0


def test_a_server_has_the_original_descriptor_limit(dumbbell, tmp_path):
    file = tmp_path / "limits"
    code = f"import json, resource; json.dump(resource.getrlimit(resource.RLIMIT_NOFILE), open({str(file)!r}, 'w'))"
    assert run_program(dumbbell, [sys.executable, "-c", code]).exit_code == 0
    import resource

    assert json.loads(file.read_text(encoding="utf-8")) == list(resource.getrlimit(resource.RLIMIT_NOFILE))
