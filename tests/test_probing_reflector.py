"""The reflector of one-way probes: limits, tokens, and drops at its own buffer."""

import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probing_helpers import HERE, MS, SECOND, counts, recorded

from bentpipe.errors import UserError
from bentpipe.measurements.probing import owd_wire
from bentpipe.measurements.probing.clocks import Clocks
from bentpipe.measurements.probing.conversion import finish
from bentpipe.measurements.probing.loop import Loop
from bentpipe.measurements.probing.owd import Owd
from bentpipe.measurements.probing.owd_wire import ECHO, FULL, HELLO, PROBE, WELCOME, Message, decode, encode
from bentpipe.measurements.probing.reflector import (
    ALL_HELLOS_PER_S,
    CLIENTS_PER_ADDRESS,
    ECHOES_PER_S,
    HELLOS_PER_S,
    MOST_CLIENTS,
    Reflector,
    ReflectorProtocol,
)
from bentpipe.measurements.probing.spec import Target
from bentpipe.measurements.probing.tracker import ProbeTracker


@given(
    st.integers(1, 5),
    st.binary(min_size=16, max_size=16),
    st.tuples(*[st.integers(0, 2**64 - 1)] * 5),
    st.tuples(*[st.integers(0, 2**32 - 1)] * 2),
)
def test_datagrams_round_trip_through_encode_and_decode(kind, token, numbers, counts):
    message = Message(kind, token, *numbers, b"machine8", *counts)
    assert decode(encode(message)) == message
    assert len(encode(message)) == owd_wire.SIZE


@given(st.binary(max_size=200))
def test_other_datagrams_decode_to_none(data):
    assert decode(data) is None
    assert decode(encode(Message(PROBE))[:6] + data) is None or len(data) == owd_wire.SIZE - 6


def test_the_reflector_echoes_only_welcomed_probers():
    protocol = ReflectorProtocol(b"machine8")
    assert protocol.answer(encode(Message(PROBE, bytes(16), 1)), HERE, 5, 0) is None
    welcome = protocol.answer(encode(Message(HELLO, number=9)), HERE, 5, 0)
    assert (welcome.kind, welcome.number, welcome.machine) == (WELCOME, 9, b"machine8")
    probe = encode(Message(PROBE, welcome.token, 1, 1))
    assert protocol.answer(probe, ("192.0.2.2", 1234), 5, 0) is None
    echo = protocol.answer(probe, HERE, 5, 0)
    assert (echo.kind, echo.number, echo.rx_ns, echo.received) == (ECHO, 1, 5, 1)
    again = protocol.answer(encode(Message(HELLO, number=10)), HERE, 5, 0)
    assert again.token == welcome.token  # a spoofed hello does not invalidate the token
    for kind in (WELCOME, ECHO, FULL):
        assert protocol.answer(encode(Message(kind, welcome.token)), HERE, 5, 0) is None
    assert protocol.refused == 5


def hello(protocol, address, now_ns=0):
    """The token that a hello from an address gets; None: none."""
    reply = protocol.answer(encode(Message(HELLO)), address, 5, now_ns)
    return None if reply is None else reply.token


def test_the_reflector_has_limits_for_each_address():
    protocol = ReflectorProtocol(b"machine8")
    flood = [hello(protocol, ("198.51.100.1", port)) for port in range(1000)]
    assert sum(token is not None for token in flood) == HELLOS_PER_S
    token = hello(protocol, HERE)  # another address has its own
    echoes = [protocol.answer(encode(Message(PROBE, token, i)), HERE, 5, 0) for i in range(3000)]
    assert sum(result is not None for result in echoes) == ECHOES_PER_S
    later = protocol.answer(encode(Message(PROBE, token, 3000)), HERE, 5, SECOND)
    assert (later.received, later.refused) == (3001, 3000 - ECHOES_PER_S)
    assert hello(protocol, ("::ffff:198.51.100.1", 7)) is None  # the same address
    assert sum(hello(protocol, (f"2001:db8::{i:x}", 7)) is not None for i in range(1000)) == HELLOS_PER_S
    assert hello(protocol, ("2001:db8:0:1::1", 7)) is not None


def test_spoofed_hellos_lock_nobody_out_of_the_reflector():
    """22,000 a second of invented addresses, for ten seconds."""
    protocol = ReflectorProtocol(b"machine8")
    for i in range(220_000):
        protocol.answer(
            encode(Message(HELLO)), (f"198.{18 + i % 2}.{i // 256 % 256}.{i % 256}", i % 65_536), 5, i * 45_000
        )
    token = hello(protocol, HERE, 11 * SECOND)
    assert protocol.answer(encode(Message(PROBE, token, 1)), HERE, 5, 11 * SECOND).kind == ECHO
    assert len(protocol._clients) == 1
    assert len(protocol._hellos) <= 4096


def test_a_flood_of_spoofed_hellos_has_a_total_limit():
    """22,000 a second for three seconds, of more addresses than have a limiter."""
    protocol, answered, welcomed = ReflectorProtocol(b"machine8"), 0, 0
    tries = set(np.random.default_rng(1).choice(66_000, 50, replace=False).tolist())
    for i in range(66_000):
        address = (f"198.18.{i // 250 % 240}.{i % 250}", 7)
        answered += hello(protocol, address, i * 45_000) is not None
        if i in tries:
            welcomed += hello(protocol, HERE, i * 45_000) is not None
    assert ALL_HELLOS_PER_S * 3 < answered <= ALL_HELLOS_PER_S * 4
    assert welcomed > 10  # each of the hellos that a prober repeats has a fair chance


def probed(protocol, port, now_ns, address="198.51.100.1"):
    """Return the kind of the answer to the first probe of a prober with a token."""
    token = protocol._token((address, port), now_ns // (60 * SECOND))
    return protocol.answer(encode(Message(PROBE, token, 1)), (address, port), 5, now_ns).kind


def test_one_address_cannot_use_all_slots_of_the_reflector():
    protocol = ReflectorProtocol(b"machine8")
    answers = [probed(protocol, port, port * SECOND // HELLOS_PER_S) for port in range(150)]
    assert answers == [ECHO] * CLIENTS_PER_ADDRESS + [FULL] * (150 - CLIENTS_PER_ADDRESS)
    now_ns = 150 * SECOND // HELLOS_PER_S
    assert probed(protocol, *HERE[1:], now_ns, HERE[0]) == ECHO
    later_ns = now_ns + 301 * SECOND  # those that are silent are forgotten
    assert probed(protocol, 5000, later_ns) == ECHO
    assert len(protocol._clients) == 1


def test_the_reflector_refuses_the_hello_of_a_prober_for_which_it_has_no_slot():
    protocol = ReflectorProtocol(b"machine8")
    assert [probed(protocol, port, port) for port in range(CLIENTS_PER_ADDRESS)] == [ECHO] * CLIENTS_PER_ADDRESS
    ask = encode(Message(HELLO, number=9))
    full = protocol.answer(ask, ("198.51.100.1", 99), 5, SECOND)
    assert (full.kind, full.number) == (FULL, 9)
    assert protocol.answer(ask, ("198.51.100.1", 0), 5, SECOND).kind == WELCOME  # a prober with a slot
    assert protocol.answer(ask, HERE, 5, SECOND).kind == WELCOME


def test_the_reflector_answers_few_probes_of_a_prober_without_a_slot():
    protocol = ReflectorProtocol(b"machine8")
    for port in range(CLIENTS_PER_ADDRESS):
        probed(protocol, port, port)
    token = protocol._token(("198.51.100.1", 99), 0)
    answers = [
        protocol.answer(encode(Message(PROBE, token, i)), ("198.51.100.1", 99), 5, SECOND + i * MS) for i in range(5000)
    ]
    assert 5 * HELLOS_PER_S < sum(answer is not None for answer in answers) <= 6 * HELLOS_PER_S


def test_the_1025th_prober_is_told_that_the_reflector_is_full():
    protocol = ReflectorProtocol(b"machine8")
    answers = [probed(protocol, 7, i, f"198.51.{i // 250}.{i % 250}") for i in range(MOST_CLIENTS + 1)]
    assert answers == [ECHO] * MOST_CLIENTS + [FULL]


@pytest.fixture
def reflector():
    serving, stop = Reflector("127.0.0.1", 0), threading.Event()
    thread = threading.Thread(target=serving.serve, args=(stop.is_set,))
    thread.start()
    yield serving
    stop.set()
    thread.join()


def test_the_33rd_prober_of_an_address_ends_with_one_line(reflector):
    for port in range(CLIENTS_PER_ADDRESS):
        probed(reflector.protocol, port, time.monotonic_ns(), "127.0.0.1")
    target, tracker = Target("here", "127.0.0.1", reflector.port), ProbeTracker(0, lambda _: None, Clocks())
    with pytest.raises(UserError, match=r"^here port \d+: the reflector has no slot for another prober") as error:
        Owd(Loop(), target, tracker)
    assert "\n" not in str(error.value)


def test_probes_of_a_prober_without_a_slot_are_no_loss_of_the_path(reflector):
    """Another prober takes the last slot between the welcome and the first probe."""
    target, tracker = Target("here", "127.0.0.1", reflector.port), ProbeTracker(0, lambda _: None, Clocks())
    prober = Owd(Loop(), target, tracker)
    for port in range(CLIENTS_PER_ADDRESS):
        probed(reflector.protocol, port, time.monotonic_ns(), "127.0.0.1")
    for seq in range(5):
        prober.send(seq, 0)
    while prober.far_refused < 5:
        time.sleep(0.01)
        prober._read(time.monotonic_ns())
    assert (prober.far_refused, prober.lost_up) == (5, 0)
    prober.close()


def test_a_token_of_the_reflector_is_bound_to_an_address_and_expires():
    protocol = ReflectorProtocol(b"machine8")
    token = hello(protocol, HERE)
    probe = encode(Message(PROBE, token, 1))
    assert protocol.answer(probe, (HERE[0], HERE[1] + 1), 5, 0) is None
    assert protocol.answer(probe, HERE, 5, 150 * SECOND) is None
    assert protocol.answer(probe, HERE, 5, 100 * SECOND) is not None
    assert hello(protocol, HERE, 200 * SECOND) == token  # while it is known
    assert hello(protocol, HERE, 600 * SECOND) == token
    other = hello(protocol, ("192.0.2.7", 7), 600 * SECOND)
    assert protocol.answer(encode(Message(PROBE, other, 1)), ("192.0.2.7", 7), 5, 600 * SECOND) is not None
    assert hello(protocol, HERE, 601 * SECOND) != token  # it was forgotten


def test_the_reflector_reports_drops_at_its_own_buffer():
    """A reflector that does not read while probes come, with the smallest buffer that the kernel gives."""
    reflector = Reflector("127.0.0.1", 0)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", reflector.port))
    reflector._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    sock.settimeout(5)
    looks = iter([False, True])
    sock.send(encode(Message(HELLO, number=1)))
    reflector_socket = reflector._sock.dup()
    reflector.serve(lambda: next(looks))
    welcome = decode(sock.recv(200))
    reflector._sock = reflector_socket
    for number in range(500):
        sock.send(encode(Message(PROBE, welcome.token, number, number + 1)))
    looks = iter([False, True])
    reflector.serve(lambda: next(looks))
    echo = decode(sock.recv(200))
    assert echo.overruns > 100
    assert welcome.overruns == 0
    sock.close()


def test_loss_at_the_reflectors_buffer_invalidates_the_run(tmp_path):
    rows = [(s * SECOND, 0, s, 40 * MS, 10 * MS, 30 * MS, 12, 0, None) for s in range(60)]
    final_counts = counts(same_clock=[True], lost_up=[9], far_overruns=[7], far_refused=[2])
    run = finish(recorded(tmp_path, rows, final_counts, method="owd"))
    (target,) = run.summary["targets"]
    assert (target["lost_up"], target["reflector_overruns"], target["reflector_refused"]) == (9, 7, 2)
    assert run.record.why_invalid == (
        "server: 7 datagrams were dropped at the reflector's full buffer, and 2 probes were over its rate "
        "limit: some loss is not the path's"
    )


@given(st.lists(st.tuples(st.binary(max_size=120), st.integers(0, 3), st.integers(0, SECOND)), max_size=30))
def test_the_reflector_never_sends_more_than_it_receives(datagrams):
    protocol, now = ReflectorProtocol(b"machine8"), 0
    for data, who, later in datagrams:
        now += later
        assert protocol.answer(data, ("192.0.2.1", who), now, now) is None
