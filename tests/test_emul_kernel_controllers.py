"""Controllers in this machine's kernel: loaded, used by connections in a network namespace, set, unloaded."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loaded_controllers import connection, network, port_of, seen, send, turn, until
from loaded_controllers import run as run_in
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.kernel import controllers

BYTES = 200_000_000


@pytest.fixture(autouse=True)
def _turn():
    with turn():
        yield


@pytest.mark.parametrize("name", controllers.available())
def test_a_connection_transfers_under_a_loaded_controller_and_outlives_it(name):
    loaded = controllers.load_controller(name)
    assert (loaded.name, loaded.state) == (name, "loaded")
    with connection(name) as near:
        send(near, BYTES)
        time.sleep(0.15)  # a socket is shown ten times a second, at an ACK
        send(near, 1000)
        time.sleep(0.05)
        ours = seen(name, near)
        assert ours.cwnd_bytes > 0
        assert ours.rtt_min_ms > 0
        assert ours.delivered_bytes > BYTES / 2
        controllers.unload_controller(name)
        assert name not in {each.name for each in controllers.loaded_controllers() if each.state == "loaded"}
        send(near, BYTES // 10)  # it keeps the controller until it closes
        assert (
            near.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
            == controllers.kernel_name(name).encode()
        )
        other = socket.socket()
        with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
            other.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controllers.kernel_name(name).encode())
        other.close()
    assert port_of(ours) not in {port_of(each) for each in controllers.controller_sockets(name)}


@pytest.mark.parametrize("name", controllers.available())
def test_a_connection_changes_its_controller_and_comes_back_to_it_after_a_pause(name):
    controllers.load_controller(name)
    with connection(name) as near:
        for each in (name, "reno", name):
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controllers.kernel_name(each).encode())
            send(near, 20_000_000)
            time.sleep(0.15)
        send(near, 20_000_000)
        ours = seen(name, near)
        assert ours.delivered_bytes > 20_000_000


def test_a_socket_of_any_user_may_choose_a_loaded_controller():
    controllers.load_controller("hybla")
    os.seteuid(65534)
    try:
        with socket.socket() as own:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"hybla")
    finally:
        os.seteuid(0)


def test_a_second_load_is_refused_and_a_loaded_one_takes_options():
    controllers.load_controller("hybla", {"rtt0_ms": 10.0})
    with pytest.raises(UserError, match="hybla is loaded already"):
        controllers.load_controller("hybla")
    controllers.set_controller_options("hybla", {"rtt0_ms": 50.0})
    with pytest.raises(UserError, match="expected a number from 1 to 10000 ms"):
        controllers.set_controller_options("hybla", {"rtt0_ms": 0.0})
    controllers.unload_controller("hybla")
    with pytest.raises(UserError, match="hybla is not loaded"):
        controllers.set_controller_options("hybla", {})


def test_a_hundred_loads_under_traffic_leave_nothing():
    name = controllers.available()[0]
    for _ in range(100):
        controllers.load_controller(name)
        with connection(name) as near:
            send(near, 1_000_000)
        controllers.unload_controller(name)
    # The kernel frees a registration some time after its last socket.
    for _ in range(200):
        if name not in {each.name for each in controllers.loaded_controllers()}:
            break
        time.sleep(0.05)
    assert name not in {each.name for each in controllers.loaded_controllers()}
    assert (
        controllers.kernel_name(name)
        not in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    )


def loaded(name):
    (own,) = (each for each in controllers.loaded_controllers() if each.name == name and each.state == "loaded")
    return own


def test_connections_and_other_references_are_counted_apart():
    controllers.load_controller("hybla")
    with network() as own:
        with connection("hybla", own) as near, socket.socket() as idle:
            send(near, 1_000_000)
            assert (loaded("hybla").connections, loaded("hybla").other_references) == (1, 0)
            idle.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"hybla")
            assert (loaded("hybla").connections, loaded("hybla").other_references) == (1, 1)
        until(lambda: not loaded("hybla").references)
        run_in(own, "sysctl -w net.ipv4.tcp_congestion_control=hybla")
        assert (loaded("hybla").connections, loaded("hybla").other_references) == (0, 1)
        left = controllers.unload_controller("hybla")
        assert (left.connections, left.other_references) == (0, 1)
        result = CliRunner().invoke(app, ["kernel", "list"])
        assert "Other references: sockets that listen" in result.output
    until(lambda: left.id not in {each.id for each in controllers.loaded_controllers()})


@pytest.mark.parametrize("name", controllers.available())
def test_a_controller_that_is_the_default_of_a_namespace_ends_with_it(name):
    own = controllers.load_controller(name)
    with network() as inside:
        # The kernel leaks a reference where it refuses this, as to a program without TCP_CONG_NON_RESTRICTED.
        run_in(inside, f"sysctl -w net.ipv4.tcp_congestion_control={controllers.kernel_name(name)}")
    controllers.unload_controller(name)
    until(lambda: own.id not in {each.id for each in controllers.loaded_controllers()})


def test_the_command_line_loads_shows_and_unloads():
    def run(*line):
        result = CliRunner().invoke(app, ["kernel", *line])
        assert result.exit_code == 0, result.output
        return result.output

    assert "hybla is loaded" in run("load", "hybla:rtt0_ms=20")
    assert "rtt0_ms=20" in run("list")
    with connection("hybla") as near:
        send(near, 1_000_000)
        shown = json.loads(run("status", "--json"))["connections"]
        assert "hybla" in {each["controller"] for each in shown}
        assert "hybla" in run("status")
    watching = [sys.executable, "-P", "-m", "bentpipe", "kernel", "status", "--watch", "--json"]
    with subprocess.Popen(watching, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert [set(json.loads(watch.stdout.readline())) for _ in range(2)] == [
            {"clocks", "clock_program", "connections"}
        ] * 2
        watch.send_signal(signal.SIGINT)
        assert (watch.wait(10), watch.stderr.read()) == (0, "")
    run("set", "hybla", "rtt0_ms=30")
    (own,) = (each for each in json.loads(run("list", "--json"))["loaded"] if each["state"] == "loaded")
    assert own["tunables"] == {"rtt0_ms": 30.0, "counts": "acks"}
    run("set", "hybla", "rtt0_ms=25")
    assert "defaults" in run("list")
    assert "hybla is unloaded" in run("unload", "hybla")
    for wrong in ("hibla", "hybla+bbr3", "hybla:ecn=on", "cubic"):
        assert CliRunner().invoke(app, ["kernel", "load", wrong]).exit_code == 2, wrong
