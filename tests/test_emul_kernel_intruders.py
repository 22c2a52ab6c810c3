"""Others at a loaded controller: processes without rights, a program that writes its maps, many connections."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from loaded_controllers import connection, info, network, seen, send, turn, until

from bentpipe.errors import UserError
from bentpipe.kernel import controllers, libbpf
from bentpipe.validation.kernel_life import lives


@pytest.fixture(autouse=True)
def _turn():
    with turn():
        yield


@pytest.mark.parametrize(
    "within",
    [
        ["setpriv", "--reuid=65534", "--clear-groups"],
        ["setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all"],
        ["unshare", "-Ur"],
        ["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-user", "--uid", "0"],
    ],
    ids=["user", "without-capabilities", "user-namespace", "container"],
)
def test_a_process_without_the_rights_gets_one_line(within):
    def command(*line):
        return subprocess.run([*within, sys.executable, *line], check=False, capture_output=True, text=True, timeout=60)

    if shutil.which(within[0]) is None or command("-c", "import bentpipe").returncode:
        pytest.skip(f"no {within[0]} here, or Python cannot be read within")
    done = command("-m", "bentpipe", "kernel", "load", "hybla")
    assert done.returncode == 2, done.stderr
    assert "may not load programs into the kernel" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_and_a_clock_that_another_program_wrote_stop_no_connection():
    controllers.load_controller("bbr3-leo")
    with network() as own, connection("bbr3-leo", own) as near:
        send(near, 1_000_000)
        for prefix in ("bpo_", "bpt_"):
            each = [one for one in libbpf.maps(prefix) if one.name == f"{prefix}bbr3_leo"][-1]
            with libbpf.open_map(each.id) as file:
                libbpf.set_value(file, controllers.FIRST_KEY, bytes([0xA5]) * each.value_bytes)
        send(near, 10_000_000)
        until(lambda: not info(near).unacked)
        with connection("bbr3-leo", own) as new:
            send(new, 1_000_000)  # as Reno: there are no options to begin with
            until(lambda: not info(new).unacked)
            assert seen("bbr3-leo", new) is None
        controllers.set_controller_options("bbr3-leo", {"queue_ms": 10.0})
        with connection("bbr3-leo", own) as new:
            send(new, 1_000_000)
            assert seen("bbr3-leo", new) is not None


def test_a_registration_that_another_program_ended_is_not_loaded():
    loaded = controllers.load_controller("hybla")
    with libbpf.open_map(loaded.id) as file:
        libbpf.delete_value(file, controllers.FIRST_KEY)
    with pytest.raises(UserError, match="hybla is not loaded"):
        controllers.unload_controller("hybla")


@pytest.mark.parametrize("name", ["hybla", "bbr3-leo"])
def test_an_unload_under_many_connections_leaves_them_their_controller(name):
    had = lives.orphan(name, 200)
    assert (had.counted, had.served, had.left) == (200, 200, 0)
