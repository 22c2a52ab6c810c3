"""What tests of controllers in the kernel share: their turn, connections in networks of their own, TCP_INFO."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from emulation import cannot

from bentpipe.kernel import controllers
from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.namespaces.network import in_network, new_network

LOSS_STATE = 4
"""`TCP_CA_Loss`."""


def unload_all():
    for each in controllers.loaded_controllers():
        if each.state == "loaded":
            controllers.unload_controller(each.name)


@contextmanager
def turn():
    """One kernel for all: processes of the suite take turns, and leave no controller."""
    if not linux.has_capability(linux.CAP_SYS_ADMIN):
        cannot("needs root")
    if not controllers.available():
        cannot("no programs are compiled here (make kernel)")
    with (Path(tempfile.gettempdir()) / "bentpipe-kernel-controllers.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        unload_all()
        yield
        unload_all()


@contextmanager
def network():
    """A network of its own; the value is its descriptor. Its loopback is up."""
    own = new_network()
    try:
        run(own, "ip link set lo up")
        yield own
    finally:
        os.close(own)


def run(own, *lines, feed=None):
    """Run command lines inside a network."""

    def call():
        for line in lines:
            subprocess.run(line.split(), check=True, input=feed, text=True, capture_output=True)

    in_network(own, call)


@contextmanager
def one_processor():
    """Keep this thread, and those that it starts, on one processor: two reorder the packets of a paced connection."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def as_on_a_link(own):
    """Give the loopback packets as on a link of 1500 bytes, one by one."""
    run(own, "ip link set lo mtu 1500 gso_max_segs 1")


@contextmanager
def rule(own, text):
    """Apply a rule of nftables to the packets that come to a network: their sender does not see it."""
    run(own, "nft -f -", feed=f"table inet t {{ chain i {{ type filter hook input priority 0; {text}; }}; }}")
    try:
        yield
    finally:
        run(own, "nft delete table inet t")


@contextmanager
def connection(name, own=None, address="127.0.0.1", near_port=0, far_port=0, far_network=None):
    """A connection whose far end reads all, over the loopback of a network of its own; the sender uses `name`."""
    if own is None:
        with network() as fresh, connection(name, fresh, address) as near:
            yield near
        return
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def listen():
        return socket.create_server((address, far_port), family=family)

    def connect():
        near = socket.socket(family)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controllers.kernel_name(name).encode())
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if near_port:
            near.bind((address, near_port))
        near.settimeout(30)
        near.connect(listener.getsockname()[:2])
        return near

    listener = in_network(own if far_network is None else far_network, listen)
    near = in_network(own, connect)
    far, _ = listener.accept()
    listener.close()

    def read():
        while far.recv(1 << 20):
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield near
    finally:
        near.close()
        reader.join(30)
        far.close()


def send(near, count):
    part = bytes(1 << 20)
    while count > 0:
        count -= near.send(part[:count])


def port_of(state):
    return int(state.local.rpartition(":")[2])


def seen(name, near):
    """What `kernel status` shows of a socket."""
    own = [each for each in controllers.controller_sockets(name) if port_of(each) == near.getsockname()[1]]
    return own[0] if own else None


@dataclass
class Info:
    state: int
    retransmits: int
    mss: int
    unacked: int
    ssthresh: int
    cwnd: int
    retransmitted: int
    rate: int
    marked: int


def info(near):
    """Part of struct tcp_info."""
    data = near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    (mss, unacked), (ssthresh, cwnd) = (struct.unpack_from(form, data, at) for form, at in (("I4xI", 16), ("II", 76)))
    (retransmitted, rate), (marked,) = struct.unpack_from("=IQ", data, 100), struct.unpack_from("I", data, 196)
    return Info(data[1], data[2], mss, unacked, ssthresh, cwnd, retransmitted, rate, marked)


def until(condition, seconds=10.0):
    """Wait for a condition; return its value."""
    end_s = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end_s:
        time.sleep(0.002)
    assert value, "did not happen"
    return value


def watch(near, condition, seconds=10.0):
    """What TCP_INFO says every two milliseconds until it fulfils a condition."""
    infos = []

    def look():
        infos.append(info(near))
        return condition(infos[-1])

    until(look, seconds)
    return infos
