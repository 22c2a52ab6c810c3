"""Parts of the probers: packets and their parsers, the tracker, clocks, the reflector's protocol, the recording."""

import json
import socket
import struct
import threading
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.measurements.probing import clock_offset, kernel, owd_wire
from bentpipe.measurements.probing.clocks import Clocks
from bentpipe.measurements.probing.conversion import finish, finish_all
from bentpipe.measurements.probing.echo import PACKET_BYTES, REPLY, Codec, Echo
from bentpipe.measurements.probing.icmp import IcmpSocket
from bentpipe.measurements.probing.loop import Loop
from bentpipe.measurements.probing.owd import Owd
from bentpipe.measurements.probing.owd_wire import ECHO, FULL, HELLO, PROBE, WELCOME, Message, decode, encode
from bentpipe.measurements.probing.recording import ProbeRequest, Recording
from bentpipe.measurements.probing.reflector import (
    ALL_HELLOS_PER_S,
    CLIENTS_PER_ADDRESS,
    ECHOES_PER_S,
    HELLOS_PER_S,
    MOST_CLIENTS,
    Reflector,
    ReflectorProtocol,
)
from bentpipe.measurements.probing.session import Session
from bentpipe.measurements.probing.spec import Spec, Target, look_up
from bentpipe.measurements.probing.tracker import DUPLICATE, KERNEL_RX, KERNEL_TX, OUT_OF_ORDER, ProbeTracker
from bentpipe.measurements.runs.store import find_measured
from bentpipe.times import parse_duration_ns

NONCE = b"nonce678"
MS, SECOND = 10**6, 10**9
HERE = ("192.0.2.1", 1234)


def words(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@given(st.sampled_from([4, 6]), st.integers(0, 0xFFFF), st.integers(0, 2**63 - 1))
def test_an_echo_request_is_recognised_and_all_have_one_checksum(version, target, seq):
    codec = Codec(version, NONCE, 77)
    packet = codec.request(target, seq)
    assert len(packet) == PACKET_BYTES == 64
    if version == 4:
        assert words(packet) == 0xFFFF  # RFC 1071: a packet with its checksum in it
        assert packet[2:4] == codec.request(0, 0)[2:4]
    else:
        assert words(packet) in (words(codec.request(0, 0)), 0xFFFF)
    answer = bytes([REPLY[version]]) + packet[1:]
    assert codec.reply(answer, ip_header=False) == Echo(target, seq)
    assert codec.reply(b"\x45" + bytes(19) + answer, ip_header=True) == Echo(target, seq)
    assert codec.sent(b"any headers" + packet) == codec.quoted(packet) == Echo(target, seq)
    assert codec.quoted(packet[:8]) == Echo(None, seq & 0xFFFF)
    other = Codec(version, b"somebody", 78)
    assert other.reply(answer, ip_header=False) is None
    assert other.quoted(packet) is other.quoted(packet[:8]) is None


@given(st.sampled_from([4, 6]), st.binary(max_size=120), st.booleans())
def test_any_bytes_decode_to_an_echo_or_none(version, data, ip_header):
    codec = Codec(version, NONCE, 77)
    assert codec.reply(data, ip_header=ip_header) is None
    assert codec.sent(data) is None
    assert codec.quoted(data) in (None, *[Echo(None, seq) for seq in [int.from_bytes(data[6:8], "big")]])


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 41]), st.sampled_from([11, 25, 37, 40]), st.binary(max_size=64)), max_size=4
    )
)
def test_any_control_message_decodes(controls):
    stamp, error = kernel.stamp_ns(controls), kernel.icmp_error(controls)
    assert stamp is None or isinstance(stamp, int)
    assert error is None or error.cause


def test_an_icmp_error_has_sender_and_cause():
    data = struct.pack("=IBBBBII", 113, 2, 3, 1, 0, 0, 0) + struct.pack("=HH4s8x", socket.AF_INET, 0, bytes(range(4)))
    assert kernel.icmp_error([(0, 11, data)]) == kernel.IcmpError("host unreachable", "0.1.2.3")
    address = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    data = struct.pack("=IBBBBII", 113, 3, 3, 0, 0, 0, 0) + struct.pack("=HHI16sI", socket.AF_INET6, 0, 0, address, 0)
    assert kernel.icmp_error([(41, 25, data)]) == kernel.IcmpError("TTL exceeded", "2001:db8::1")
    stamped = struct.pack("=IBBBBII", 42, 4, 0, 0, 0, 0, 0) + bytes(16)
    assert kernel.icmp_error([(0, 11, stamped)]) is None  # a packet's own stamp


def tracker(**options):
    rows = []
    return ProbeTracker(0, rows.append, Clocks(), **options), rows


def test_the_rtt_is_from_kernel_stamps_if_possible():
    book, rows = tracker()
    sent = book.start(0, late_ns=5)
    book.set_tx_time(0, sent.unix_ns + 10_000)
    book.record_answer(0, sent.mono_ns + 900_000, sent.unix_ns + 310_000)
    assert rows == [(0, 0, sent.unix_ns + 10_000, 300_000, None, None, KERNEL_TX | KERNEL_RX, 5, None)]


@pytest.mark.parametrize("how", ["set on", "set back", "no stamp"])
def test_kernel_stamps_are_not_used_across_a_clock_jump(how):
    book, rows = tracker()
    sent = book.start(0, 0)
    book.set_tx_time(0, sent.unix_ns + 10_000)
    came = {"set on": sent.unix_ns + 3600 * SECOND, "set back": sent.unix_ns - SECOND, "no stamp": None}[how]
    book.record_answer(0, sent.mono_ns + 900_000, came)
    assert rows[0][3] == 900_000
    assert rows[0][6] == 0
    # And a step too small to be seen in one RTT is known from the clocks.
    sent = book.start(1, 0)
    book.set_tx_time(1, sent.unix_ns)
    book.clocks.jumps += 1
    book.record_answer(1, sent.mono_ns + 900_000, sent.unix_ns + 500_000)
    assert rows[1][3] == 900_000


def test_duplicate_reordered_and_late_answers_are_distinguished():
    book, rows = tracker(timeout_ns=SECOND)
    sent = [book.start(seq, 0) for seq in range(4)]
    now = sent[3].mono_ns
    for seq in (0, 2, 1, 2):
        book.record_answer(seq, now + MS)
    assert [(row[1], row[6]) for row in rows] == [(0, 0), (2, 0), (1, OUT_OF_ORDER), (2, DUPLICATE)]
    book.expire(now + SECOND)
    assert rows[4][1:4] == (3, sent[3].unix_ns, None)
    book.record_answer(3, now + 2 * SECOND)
    book.record_answer(99, now)
    assert len(rows) == 5
    assert book.late_answers == 2
    book.expire(now + 100 * SECOND)
    assert len(book) == len(book._known) == 0


def test_a_short_quote_matches_the_nearest_pending_packet():
    book, _ = tracker()
    for seq in (0x1FFFE, 0x1FFFF, 0x20000, 0x20001):
        book.start(seq, 0)
    assert book.nearest(0xFFFF) == 0x1FFFF
    assert book.nearest(0x0001) == 0x20001
    assert book.nearest(0x0005) is None


def test_clock_jumps_and_suspend_are_distinguished(monkeypatch):
    seen = iter(
        [(100, 0), (100 + 5 * SECOND, 5 * SECOND), (100 + 2 * SECOND, 5 * SECOND), (100 + 2 * SECOND, 5 * SECOND)]
    )
    monkeypatch.setattr("bentpipe.measurements.probing.clocks._offsets", lambda: next(seen))
    clocks = Clocks()
    assert [(jump.kind, jump.by_s) for jump in clocks.look()] == [("suspended", 5.0)]
    assert [(jump.kind, jump.by_s) for jump in clocks.look()] == [("clock_jump", -3.0)]
    assert clocks.look() == []
    assert clocks.jumps == 2


def test_a_late_timer_delays_no_other():
    loop, called = Loop(), []
    begin = time.monotonic_ns() + 5 * MS

    def call(due_ns):
        called.append((due_ns, time.monotonic_ns()))
        if len(called) == 2:
            time.sleep(0.02)
        if len(called) == 10:
            loop.stop()

    for number in range(10):
        loop.at(begin + number * 5 * MS, call)
    loop.run()
    assert [due for due, _ in called] == [begin + number * 5 * MS for number in range(10)]
    assert all(at >= due for due, at in called)


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
    found = protocol.answer(encode(Message(HELLO)), address, 5, now_ns)
    return None if found is None else found.token


def test_the_reflector_has_limits_for_each_address():
    protocol = ReflectorProtocol(b"machine8")
    flood = [hello(protocol, ("198.51.100.1", port)) for port in range(1000)]
    assert sum(token is not None for token in flood) == HELLOS_PER_S
    token = hello(protocol, HERE)  # another address has its own
    echoes = [protocol.answer(encode(Message(PROBE, token, i)), HERE, 5, 0) for i in range(3000)]
    assert sum(found is not None for found in echoes) == ECHOES_PER_S
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


@settings(max_examples=25)
@given(st.floats(-1e5, 1e5), st.floats(-50, 50), st.floats(5, 300), st.integers(0, 99))
def test_offset_and_drift_of_two_clocks_are_estimated(offset_ms, drift_ppm, one_way_ms, seed):
    rng = np.random.default_rng(seed)
    t_s = np.arange(0, 120, 0.05)
    queue = rng.exponential(3.0, (2, t_s.size)) * (rng.random((2, t_s.size)) < 0.7)
    theta = offset_ms + t_s * drift_ppm / 1e3
    (found,) = clock_offset.estimate(t_s, one_way_ms + queue[0] + theta, one_way_ms + queue[1] - theta)
    assert abs(found.offset_ms - offset_ms) < 0.5
    assert abs(found.drift_ppm - drift_ppm) < 5
    assert found.uncertain_ms == pytest.approx(one_way_ms, abs=0.5)


@settings(max_examples=25)
@given(st.floats(-1e5, 1e5), st.lists(st.floats(5.0, 115.0), min_size=1, max_size=3), st.integers(0, 99))
def test_clock_steps_are_detected_and_corrected_by_stretch(offset_ms, set_at_s, seed):
    rng = np.random.default_rng(seed)
    t_s = np.arange(0, 120, 0.05)
    set_at_s = [set_at_s[0], *(at for at in set_at_s[1:] if all(abs(at - other) >= 30 for other in set_at_s[:1]))][:2]
    set_at_s.sort()
    steps = rng.choice([-1, 1], len(set_at_s)) * rng.uniform(60, 5000, len(set_at_s))
    theta = offset_ms + t_s * 0.02 + sum(size * (t_s >= at) for size, at in zip(steps, set_at_s, strict=True))
    queue = rng.exponential(3.0, (2, t_s.size)) * (rng.random((2, t_s.size)) < 0.7)
    found = clock_offset.estimate(t_s, 20 + queue[0] + theta, 20 + queue[1] - theta)
    assert [one.from_s for one in found[1:]] == pytest.approx(set_at_s, abs=0.051)
    wrong = clock_offset.offsets_ms(found, t_s) - theta
    assert np.abs(wrong).max() < max(one.uncertain_ms for one in found)
    assert np.median(np.abs(wrong)) < 0.5


@pytest.mark.parametrize(("every_s", "ppm", "rtt_ms"), [(10.0, 30.0, 0.2), (0.05, 400.0, 0.2), (1500.0, 30.0, 40.0)])
def test_drift_is_not_a_clock_step(every_s, ppm, rtt_ms):
    t_s = np.arange(1200) * every_s
    theta = t_s * ppm / 1e3
    (found,) = clock_offset.estimate(t_s, rtt_ms / 2 + theta, rtt_ms / 2 - theta)
    assert found.drift_ppm == pytest.approx(ppm)


def test_a_slewed_clock_has_a_large_uncertainty():
    t_s = np.arange(0, 120, 0.05)
    theta = np.where(t_s < 60, 0.0, (t_s - 60) * 0.5)  # 500 ppm, as adjtime does it
    (found,) = clock_offset.estimate(t_s, 20 + theta, 20 - theta)
    wrong = clock_offset.offsets_ms([found], t_s) - theta
    assert found.uncertain_ms >= 20 + np.abs(wrong).max() * 0.9


@pytest.mark.parametrize(
    ("text", "seconds"), [("0.01", 0.01), ("10ms", 0.01), ("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800)]
)
def test_durations(text, seconds):
    assert parse_duration_ns(text, "--for") == round(seconds * 1e9)


@pytest.mark.parametrize("text", ["", "0", "-1", "1e3", "2 weeks", "h", "inf", "nan", "1:30"])
def test_invalid_durations_are_refused(text):
    with pytest.raises(UserError, match=r"--for: .* is not a duration; (wanted|expected)"):
        parse_duration_ns(text, "--for")


def test_targets_are_looked_up_once_and_refused_with_a_reason():
    (target,) = look_up(["127.0.0.1"], "tcp", 80, None)
    assert (target.version, target.port) == (4, 80)
    assert look_up(["::1"], "ping", 80, None)[0].port == 0
    with pytest.raises(UserError, match=r"'nobody\.invalid': no such host"):
        look_up(["nobody.invalid"], "ping", 0, None)
    with pytest.raises(UserError, match="are both"):
        look_up(["127.0.0.1", "127.0.0.1"], "ping", 0, None)
    with pytest.raises(UserError, match="no such IPv6 host"):
        look_up(["127.0.0.1"], "ping", 0, 6)
    with pytest.raises(UserError, match=r"expected 0\.001 s or more"):
        Spec("ping", (), 1000, None)


def request(method="ping", synchronised=False):
    target = Target("server", "192.0.2.9", 0)
    return ProbeRequest("here", Spec(method, (target,), 10 * MS, None), synchronised)


def counts(**other):
    found = {"skipped": [0], "late_answers": [0], "lost_up": [None], "same_clock": [None], "overruns": 0, "over": True}
    found |= {"far_overruns": [None], "far_refused": [None]}
    return (0, json.dumps(found | other))


def recorded(tmp_path, rows, counts_row, **options):
    recording = Recording(tmp_path, request(**options), 1_000 * SECOND, print)
    for row in rows:
        recording.add("probes", row)
    recording.add("counts", counts_row)
    recording.close()
    return recording.folder


def test_a_recording_becomes_a_run(tmp_path):
    rows = [(seq * 10 * MS + SECOND, 0, seq, 30 * MS, None, None, 12, 1000, None) for seq in range(100)]
    rows[7] = (*rows[7][:3], None, None, None, 0, 2000, "host unreachable")
    rows[8] = (*rows[8][:3], None, None, None, 0, 2000, None)
    rows.append((*rows[20][:6], 12 | DUPLICATE, 1000, None))
    folder = recorded(tmp_path, reversed(rows), counts(skipped=[1]))
    run = finish(folder)
    assert not folder.exists()
    assert run.probes["unix_ns"].is_sorted()
    assert run.probes.height == 101
    assert set(run.probes["kind"]) == {"icmp"}
    assert run.summary["lost"] == 2
    (target,) = run.summary["targets"]
    assert target["lost_by_cause"] == {"host unreachable": 1, "no answer": 1}
    assert target["duplicates"] == run.summary["duplicates"] == 1
    assert target["rtt_ms"]["median"] == 30.0
    assert run.record.valid
    with pytest.raises(UserError, match="has no unfinished recording"):
        finish_all(tmp_path)


@pytest.mark.parametrize(("changed", "why"), [({"overruns": 5}, "full buffer"), ({"skipped": [50]}, "were not sent")])
def test_a_run_of_a_too_slow_machine_is_invalid(tmp_path, changed, why):
    rows = [(seq * 10 * MS, 0, seq, 30 * MS, None, None, 12, 1000, None) for seq in range(1000)]
    run = finish(recorded(tmp_path, rows, counts(**changed)))
    assert not run.record.valid
    assert why in run.record.why_invalid


def test_one_way_delays_are_corrected_only_for_unsynchronised_clocks(tmp_path):
    off = 3600 * SECOND
    rows = [(s * SECOND, 0, s, 40 * MS, 10 * MS + off, 30 * MS - off, 12, 0, None) for s in range(60)]
    same = finish(recorded(tmp_path / "a", rows, counts(same_clock=[True]), method="owd"))
    trusted = finish(recorded(tmp_path / "b", rows, counts(same_clock=[False]), method="owd", synchronised=True))
    other = finish(recorded(tmp_path / "c", rows, counts(same_clock=[False]), method="owd"))
    assert same.probes["up_ms"].unique().to_list() == trusted.probes["up_ms"].unique().to_list() == [3_600_010.0]
    assert other.probes["up_ms"].to_numpy() == pytest.approx(20.0)
    clocks = other.summary["targets"][0]["clocks"]
    assert clocks["known"] == "estimated"
    assert clocks["offset_ms"] == pytest.approx(3_600_000 - 10)
    assert clocks["uncertain_ms"] == pytest.approx(20)  # the truth, 10 and 30, lies within
    assert "estimated" in other.record.sources[0].notes[0]


def test_a_clock_step_is_corrected_on_both_sides(tmp_path):
    rows = [
        (s * 10 * MS + off, 0, s, 40 * MS, 10 * MS - off, 30 * MS + off, 12, 0, None)
        for s in range(4000)
        for off in [0 if s < 2110 else -500 * MS]
    ]
    run = finish(recorded(tmp_path, rows, counts(same_clock=[False]), method="owd"))
    assert run.probes["up_ms"].to_numpy() == pytest.approx(20.0)
    assert run.summary["targets"][0]["clocks"]["set_after_s"] == pytest.approx([21.1])
    assert "a clock was set 1 time(s)" in run.record.sources[0].notes[0]


def test_a_recording_is_converted_once(tmp_path):
    rows = [(s * SECOND, 0, s, 40 * MS, None, None, 12, 0, None) for s in range(60)]
    first, again = (recorded(tmp_path / name, rows, counts()) for name in ("a", "b"))
    run = finish(first)
    place = first.parent / again.name
    again.rename(place)  # as if it had been killed before it removed the recording
    assert finish(place).path == run.path
    assert not place.exists()
    assert len(list(tmp_path.glob("a/*/*/run.json"))) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"\xff", b'{"format": 1, "spec": 3, "site": "x", "synchronised": 0, "part": 0}']
)
def test_invalid_recordings_are_refused(tmp_path, content):
    folder = recorded(tmp_path, [], counts())
    (folder / "probe.json").write_bytes(content)
    with pytest.raises(UserError, match="does not say what was probed"):
        finish(folder)


def test_a_damaged_segment_is_named(tmp_path):
    folder = recorded(tmp_path, [(SECOND, 0, 0, MS, None, None, 12, 0, None)], counts())
    (part,) = (folder / "probes").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(UserError, match="does not read as part of a recording"):
        finish(folder)
    assert folder.exists()


def test_a_recording_is_converted_by_one_process(tmp_path):
    recording = Recording(tmp_path, request(), 1_000 * SECOND, print)
    with pytest.raises(UserError, match="is being written"):
        finish(recording.folder)
    recording.close()
    assert finish(recording.folder) is None  # nothing was in it
    assert list((tmp_path / "here").iterdir()) == []


def test_times_of_a_recording_may_be_out_of_order(tmp_path):
    hour = 3600 * SECOND
    rows = [
        (t, 0, n, MS, None, None, 12, 0, None) for n, t in enumerate([hour - 1, hour + 1, hour - 2, 3 * hour, hour + 5])
    ]
    run = finish(recorded(tmp_path, rows, counts()))
    assert run.probes["unix_ns"].to_list() == sorted(t for t, *_ in rows)
    assert isinstance(run.probes, pl.DataFrame)


def test_missing_permission_is_reported_with_remedies(monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("bentpipe.measurements.probing.icmp.socket.socket", refused)
    with pytest.raises(UserError, match=r"permission denied: .*ping_group_range.*CAP_NET_RAW"):
        IcmpSocket(4, Loop())


def test_memory_is_bounded_by_successive_runs(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    spec = Spec("tcp", look_up(["127.0.0.1"], "tcp", port, None), 10 * MS, 2 * SECOND)
    last = Session(ProbeRequest("here", spec, synchronised=False), tmp_path, print, run_rows=60).run()
    runs = sorted(find_measured(tmp_path), key=lambda run: run.summary["part"])
    assert [run.summary["part"] for run in runs] == list(range(len(runs)))
    assert len(runs) >= 3
    assert runs[-1].path == last.path
    assert sum(run.summary["probes"] + run.summary["skipped"] for run in runs) == 200
    assert all(run.summary["complete"] for run in runs)
    assert sorted(pl.concat([run.probes for run in runs])["seq"]) == sorted(
        {seq for run in runs for seq in run.probes["seq"]}
    )
