"""Losses, time-outs, marks and a smaller path MTU reach the controllers in the kernel as what they are."""

from __future__ import annotations

import contextlib
import os
import time
from contextlib import ExitStack

import pytest
from loaded_controllers import (
    LOSS_STATE,
    as_on_a_link,
    connection,
    info,
    network,
    one_processor,
    rule,
    run,
    seen,
    send,
    turn,
    until,
    watch,
)

from bentpipe.errors import UserError
from bentpipe.kernel import controllers, requirements

NO_SSTHRESH = 0x7FFFFFFF

EACH_KIND = ("bbr3-leo", "leocc", "cubic-leo")
"""BBR 3, BBR 1 and a window: the others have the same hooks."""


@pytest.fixture(autouse=True)
def _turn():
    with turn():
        yield


@pytest.fixture
def own():
    with network() as each, one_processor():
        as_on_a_link(each)
        yield each


def counted(name, near):
    """What `status` counts of a connection, after a further ACK."""
    time.sleep(0.12)
    near.send(b"1")
    quiet(near)
    return seen(name, near)


def quiet(near, seconds=60):
    until(lambda: not info(near).unacked, seconds)


@contextlib.contextmanager
def used(name, own):
    """A connection of a loaded controller that has transferred 2 MB, and what `status` counts of it."""
    controllers.load_controller(name)
    with connection(name, own) as near:
        send(near, 2_000_000)
        quiet(near)
        yield near, counted(name, near)


@pytest.mark.parametrize("name", controllers.available())
def test_a_transfer_with_losses_and_a_time_out_ends(name, own):
    controllers.load_controller(name)
    with connection(name, own) as near:
        with rule(own, "meta length > 500 numgen random mod 200 < 1 drop"):
            send(near, 10_000_000)
            quiet(near)
        lossy = counted(name, near)
        assert lossy.lost_bytes > 0
        assert lossy.losses > 0
        with rule(own, "meta length > 500 drop"):
            near.send(bytes(100_000))
            (*_, lost) = watch(near, lambda now: now.state == LOSS_STATE and now.retransmits)
            assert lost.cwnd <= 2
        quiet(near)  # the time-out has doubled once or twice
        send(near, 10_000_000)
        quiet(near)
        assert counted(name, near).timeouts > lossy.timeouts


@pytest.mark.parametrize("name", EACH_KIND)
def test_a_recovery_with_nothing_in_flight_is_no_time_out(name, own):
    with used(name, own) as (near, before):
        with rule(own, "meta length > 500 drop"):
            near.send(bytes(info(near).mss * 3))
            until(lambda: info(near).unacked == 3)
        near.send(bytes(info(near).mss))  # its ACK shows the others lost
        quiet(near)
        after = counted(name, near)
        assert (after.losses - before.losses, after.timeouts - before.timeouts) == (1, 0)


@pytest.mark.parametrize("name", EACH_KIND)
def test_a_loss_that_a_probe_repairs_is_told_as_one(name, own):
    with used(name, own) as (near, before):
        with rule(own, "meta length > 500 numgen inc mod 1000000 0 drop"):  # the first one
            near.send(bytes(info(near).mss))
            quiet(near)
        counted(name, near)  # beyond the probe: only this ACK shows that one of two packets was lost
        after = counted(name, near)
        assert (after.probes - before.probes, after.losses - before.losses, after.marks - before.marks) == (1, 0, 0)


@pytest.mark.parametrize("name", ["cubic-leo", "bbr3"])
def test_marks_are_no_losses(name, own):
    run(own, "sysctl -qw net.ipv4.tcp_ecn=1")
    controllers.load_controller(name)
    with rule(own, "ip ecn ect0 numgen inc mod 50 0 ip ecn set ce"), connection(name, own) as near:
        send(near, 5_000_000)
        quiet(near)
        after = counted(name, near)
        assert after.marks > 0
        assert (after.losses, after.timeouts, after.probes) == (0, 0, 0)
        assert (info(near).ssthresh < NO_SSTHRESH) == (name == "cubic-leo")


@pytest.mark.parametrize(
    ("name", "option", "others"), [("bbr2", "ecn_enable", {}), ("bbr3", "ecn_low", {"rules": "linux"})]
)
def test_bbr_responds_to_marks_if_its_option_says_so(name, option, others, own):
    run(own, "sysctl -qw net.ipv4.tcp_ecn=1")
    windows = {}
    controllers.load_controller(name)
    for ecn in (0.0, 1.0):
        controllers.set_controller_options(name, {option: ecn, "tso_rtt_shift": 9.0, **others})  # bursts, on a loopback
        with rule(own, "ip ecn ect0 ip ecn set ce"), connection(name, own) as near:
            send(near, 20_000_000)
            windows[ecn] = info(near).cwnd
            assert info(near).marked > 0
    assert windows[1.0] < windows[0.0] / 2, windows


@pytest.fixture
def routed():
    """Two hosts and a router between them, whose second link takes 1500 bytes."""
    with one_processor(), ExitStack() as stack:
        a, r, b = (stack.enter_context(network()) for _ in range(3))
        pid = os.getpid()
        for left, right, number in ((a, r, 1), (r, b, 2)):
            names = f"v{number}l", f"v{number}r"
            run(left, f"ip link add {names[0]} gso_max_segs 1 type veth peer name {names[1]}")
            run(left, f"ip link set {names[1]} netns /proc/{pid}/fd/{right}")
            for each, name, host in ((left, names[0], 1), (right, names[1], 2)):
                run(each, f"ip address add 198.18.{number}.{host}/24 dev {name}", f"ip link set {name} up")
        run(r, "sysctl -qw net.ipv4.ip_forward=1")
        run(a, "ip route add default via 198.18.1.2")
        run(b, "ip route add default via 198.18.2.1")
        yield a, r, b


@pytest.mark.parametrize("name", EACH_KIND)
def test_a_smaller_path_mtu_is_no_congestion(name, routed):
    a, r, b = routed
    controllers.load_controller(name)
    with connection(name, a, "198.18.2.2", far_network=b) as near:
        send(near, 2_000_000)
        quiet(near)
        window = info(near).cwnd
        with rule(a, "ip protocol tcp drop"):  # the router's message arrives, no ACK
            run(r, "ip link set v2l mtu 900")
            near.send(bytes(4 * info(near).mss))
            (*_, smaller) = watch(near, lambda now: now.mss < 900)
            assert (smaller.state, smaller.retransmits, smaller.cwnd) == (LOSS_STATE, 0, window)
        quiet(near)
        send(near, 2_000_000)
        quiet(near)


def test_networks_with_the_same_addresses_are_apart_and_version_6_is_shown():
    controllers.load_controller("hybla")
    with network() as one, network() as two:
        with ExitStack() as stack:
            for own in (one, two):
                for address in ("127.0.0.1", "::1"):
                    send(stack.enter_context(connection("hybla", own, address, 2001, 2002)), 100_000)
            shown = list(controllers.controller_sockets("hybla"))
            assert sorted({(each.local, each.remote) for each in shown}) == [
                ("127.0.0.1:2001", "127.0.0.1:2002"),
                ("[::1]:2001", "[::1]:2002"),
            ]
            assert sorted(each.network for each in shown) == sorted([os.fstat(own).st_ino for own in (one, two)] * 2)
        assert not list(controllers.controller_sockets("hybla"))


@pytest.mark.parametrize("name", ["hybla", "bbr3"])
def test_a_socket_without_memory_for_its_state_is_renos(name, own):
    controllers.load_controller(name)
    run(own, "sysctl -qw net.core.optmem_max=500")
    with connection(name, own) as near, rule(own, "meta length > 500 numgen random mod 200 < 1 drop"):
        send(near, 5_000_000)
        quiet(near)
        now = info(near)
        assert now.retransmitted > 0
        assert now.ssthresh < NO_SSTHRESH
        assert now.rate < 2**40  # also under a controller that paces, for which the kernel sets no rate
        assert seen(name, near) is None


def test_a_window_that_a_route_limits_is_reduced_below_the_limit(routed):
    own, _, far = routed
    run(own, "ip route change default via 198.18.1.2 cwnd lock 20")
    controllers.load_controller("hybla", {"rtt0_ms": 1.0})
    with connection("hybla", own, "198.18.2.2", far_network=far) as near:
        near.send(b"1")  # the kernel copies the route's limit into its metrics of the address
    with connection("hybla", own, "198.18.2.2", far_network=far) as near:
        send(near, 5_000_000)
        quiet(near)
        assert info(near).cwnd == 20
        with rule(far, "meta length > 500 numgen inc mod 30 0 drop"):
            send(near, 1_000_000)
            quiet(near)
        assert info(near).ssthresh <= 10


def test_a_kernel_that_calls_with_the_other_arguments_checks_the_other_branch(monkeypatch):
    at = requirements.rate_sample_argument()
    monkeypatch.setattr(requirements, "rate_sample_argument", lambda: {1: 3, 3: 1}[at])
    with pytest.raises(UserError, match="the verifier of this kernel"):
        controllers.load_controller("bbr3")
    assert controllers.load_controller("hybla").state == "loaded"  # a window's controller has no such call
