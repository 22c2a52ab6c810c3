"""The leak detectors of the emulator's validation, on deliberate leaks."""

import contextlib
import ctypes
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from emulation import cannot, need

from bentpipe.validation.emulator import leaks


@pytest.fixture
def root():
    if os.getuid() != 0:
        cannot("needs root")


@contextlib.contextmanager
def in_new_namespaces(count=1):
    """Start a thread that enters `count` new namespaces, holds a descriptor of each but the last, and stays there."""
    there, leave, names = threading.Event(), threading.Event(), []

    def go():
        libc = ctypes.CDLL(None, use_errno=True)
        held = []
        for i in range(count):
            if libc.unshare(leaks.CLONE_NEWNET) != 0:
                break
            names.append(str(Path("/proc/thread-self/ns/net").readlink()))
            if i < count - 1:
                held.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        there.set()
        leave.wait()
        for descriptor in held:
            os.close(descriptor)

    thread = threading.Thread(target=go)
    thread.start()
    there.wait()
    try:
        assert len(names) == count
        yield names
    finally:
        leave.set()
        thread.join()


@pytest.mark.usefixtures("root")
def test_a_namespace_of_a_thread_or_a_descriptor_is_seen():
    before = leaks.namespaces()
    with in_new_namespaces(2) as names:
        assert set(names) <= leaks.left_of(leaks.namespaces, before, within_s=0.0)
        assert (names[1], "lo") in leaks.devices()
    # Of others' on this machine nothing is said here.
    assert not leaks.left_of(lambda: leaks.namespaces() & set(names), set())


@pytest.mark.usefixtures("root")
def test_a_namespace_that_is_only_mounted_is_seen(tmp_path):
    """A namespace as from `ip netns add`, without a process."""
    need("unshare")
    make = (
        "mount -t tmpfs none . && touch held && unshare -n sh -c 'mount --bind /proc/self/ns/net held; "
        "readlink /proc/self/ns/net' && exec cat"
    )
    with subprocess.Popen(
        ["unshare", "-m", "sh", "-c", make], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        name = child.stdout.readline().strip()
        assert leaks.NAMESPACE.fullmatch(name)
        assert name in leaks.namespaces()
        child.stdin.close()
    assert not leaks.left_of(lambda: leaks.namespaces() & {name}, set())


@pytest.mark.usefixtures("root")
def test_a_device_in_another_namespace_is_seen():
    need("unshare", "ip")
    make = "(ip link add left type veth peer right || ip tuntap add dev left mode tun) && echo there && exec cat"
    with subprocess.Popen(
        ["unshare", "-n", "sh", "-c", make], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        if child.stdout.readline() != "there\n":
            cannot("neither veth nor TUN")
        name = str(Path(f"/proc/{child.pid}/ns/net").readlink())
        assert (name, "left") in leaks.devices()
        child.stdin.close()


@pytest.mark.usefixtures("root")
def test_the_kernels_own_count_goes_up_and_down_again():
    """Other processes may create and end a few namespaces meanwhile, but not forty."""
    before = leaks.least_counted()
    if before is None:
        pytest.skip("this kernel does not tell of its slabs")
    with in_new_namespaces(60):
        assert leaks.more_than(leaks.counted_namespaces, before, within_s=0.0) >= 40
    assert leaks.more_than(leaks.counted_namespaces, before + 20) == 0


def test_an_ordinary_user_sees_leaks_of_own_processes():
    need("unshare")
    user = ["--user"] if os.getuid() else []
    with subprocess.Popen(["unshare", *user, "--net", "cat"], stdin=subprocess.PIPE) as child:
        ours = str(Path("/proc/self/ns/net").readlink())
        while (name := str(Path(f"/proc/{child.pid}/ns/net").readlink())) == ours:
            if child.poll() is not None:
                pytest.skip("this kernel does not let users make namespaces")
            time.sleep(0.01)
        assert name in leaks.namespaces()
        assert (name, "lo") in leaks.devices()
        child.stdin.close()
    assert not leaks.left_of(lambda: leaks.namespaces() & {name}, set())


def test_resources_released_in_time_are_no_leak():
    looks = iter([{1, 2, 3}, {1, 2}, {1}])
    assert leaks.left_of(lambda: next(looks), {1}) == set()
    counts = iter([5, 4, 3])
    assert leaks.more_than(lambda: next(counts), 3) == 0
    assert leaks.left_of(lambda: {1, 2}, {1}, within_s=0.0) == {2}
    assert leaks.more_than(lambda: 5, 3, within_s=0.0) == 2
