"""Others at a loaded controller: processes without rights, a program that writes its maps, many connections."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from loaded_controllers import connection, info, network, seen, send, turn, until

from bentpipe.errors import UserError
from bentpipe.kernel import controllers, libbpf, owned
from bentpipe.kernel.clock.record import Hint, HostClockMaps
from bentpipe.kernel.only_one import only_one
from bentpipe.kernel.tunables import maps_of, option_words, stored_words
from bentpipe.validation import kernel_twins
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


def test_a_program_that_another_version_loaded_gets_no_tunables():
    loaded = controllers.load_controller("bbr3-leo")
    (each,) = maps_of(libbpf.map_info(loaded.id))
    with libbpf.open_map(each.id) as file:
        others = stored_words(1, option_words("bbr3", {}))  # whole, but its words are others
        libbpf.set_value(file, controllers.FIRST_KEY, others)
        with pytest.raises(UserError, match="was loaded by another version of bentpipe"):
            controllers.set_controller_options("bbr3-leo", {"queue_ms": 10.0})
        assert libbpf.value_of(file, controllers.FIRST_KEY, each.value_bytes) == others


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


@contextlib.contextmanager
def foreign(name, kind, fill):
    """A map of another program; the value is its descriptor."""
    type_, key_bytes, value_bytes = kind
    file = ctypes.CDLL(libbpf.LIBRARY).bpf_map_create(type_, name.encode(), key_bytes, value_bytes, 1, None)
    assert file >= 0
    try:
        libbpf.set_value(file, bytes(key_bytes), bytes([fill]) * value_bytes)
        yield file
    finally:
        os.close(file)


def kind_of(prefix):
    (info,) = (each for each in libbpf.maps(prefix) if each.name == f"{prefix}bbr3_leo")
    return info.type, info.key_bytes, info.value_bytes


def test_a_map_with_a_controllers_name_that_no_controller_uses_is_let_alone():
    controllers.load_controller("bbr3-leo")
    until(
        lambda: len([each for each in libbpf.maps("bpo_") if each.name == "bpo_bbr3_leo"]) == 1
    )  # earlier ones are gone
    kinds = {prefix: kind_of(prefix) for prefix in ("bpo_", "bpt_", "bps_")}
    with contextlib.ExitStack() as stack:
        files = {prefix: stack.enter_context(foreign(f"{prefix}bbr3_leo", kinds[prefix], 7)) for prefix in kinds}
        assert controllers.has_default_options("bbr3-leo")
        controllers.set_controller_options(
            "bbr3-leo", {"queue_ms": 50.0}
        )  # into its own map, though that is the older one
        assert not controllers.has_default_options("bbr3-leo")
        assert "bbr3_leo" in HostClockMaps().write(Hint(15 * 10**9, 0), time.monotonic_ns() + 10**9)
        assert not list(controllers.controller_sockets("bbr3-leo"))
        for prefix, (_, key_bytes, value_bytes) in kinds.items():
            assert libbpf.value_of(files[prefix], bytes(key_bytes), value_bytes) == bytes([7]) * value_bytes
    assert owned.owned_maps("bpo_", (libbpf.ARRAY, 4, 8)) == []  # another size


def test_a_map_whose_programs_are_no_controllers_is_not_asked():
    with foreign("bpc_hybla", (libbpf.ARRAY, 4, 256), 1):
        assert "hybla" not in {each.name for each in controllers.loaded_controllers()}


def test_new_connections_have_whole_options_while_they_change_all_the_time():
    controllers.load_controller("bbr3-leo")
    stop = threading.Event()

    def change():
        while not stop.is_set():
            for queue_ms in (1.0, 50.0):
                controllers.set_controller_options("bbr3-leo", {"queue_ms": queue_ms})

    changing = threading.Thread(target=change)
    changing.start()
    try:
        with network() as own:
            for _ in range(30):
                with connection("bbr3-leo", own) as near:
                    send(near, 1_000_000)
                    assert seen("bbr3-leo", near) is not None  # a socket without options has no state
    finally:
        stop.set()
        changing.join()


HOLD = """
import sys
from bentpipe.kernel.only_one import only_one
from bentpipe.kernel.tunables import maps_of, option_words, stored_words
with only_one("test", "tests"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_program_at_a_time_also_across_containers():
    apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces here")
    with subprocess.Popen(
        [*apart, sys.executable, "-c", f"import socket; socket.sethostname('apart')\n{HOLD}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="process 1 on apart tests already"), only_one("test", "tests"):
            pass
        other.stdin.close()
        assert other.wait(10) == 0
    with only_one("test", "tests"), subprocess.Popen([sys.executable, "-c", HOLD], stderr=subprocess.PIPE) as second:
        assert f"process {os.getpid()} on" in second.stderr.read().decode()
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        assert killed.stdout.readline() == b"held\n"
        killed.send_signal(signal.SIGKILL)
    with only_one("test", "tests"):  # the kernel has ended its hold
        pass


def test_twins_are_not_compared_with_a_controller_that_has_other_options():
    controllers.load_controller("hybla", {"rtt0_ms": 50.0})
    outcome = kernel_twins.check(None, lambda _: None, quick=True)
    assert "hybla is loaded with other options than its twin" in outcome.skipped
