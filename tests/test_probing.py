"""Parts of the probers: packets and their parsers, the tracker, clocks, the reflector's protocol, the recording."""

import socket
import struct
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probing_helpers import MS, SECOND

from bentpipe.errors import UserError
from bentpipe.measurements.probing import clock_offset, kernel
from bentpipe.measurements.probing.clocks import Clocks
from bentpipe.measurements.probing.echo import PACKET_BYTES, REPLY, Codec, Echo
from bentpipe.measurements.probing.icmp import IcmpSocket
from bentpipe.measurements.probing.loop import Loop
from bentpipe.measurements.probing.spec import Spec, look_up
from bentpipe.measurements.probing.tracker import DUPLICATE, KERNEL_RX, KERNEL_TX, OUT_OF_ORDER, ProbeTracker
from bentpipe.times import parse_duration_ns

NONCE = b"nonce678"


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


@settings(max_examples=25)
@given(st.floats(-1e5, 1e5), st.floats(-50, 50), st.floats(5, 300), st.integers(0, 99))
def test_offset_and_drift_of_two_clocks_are_estimated(offset_ms, drift_ppm, one_way_ms, seed):
    rng = np.random.default_rng(seed)
    t_s = np.arange(0, 120, 0.05)
    queue = rng.exponential(3.0, (2, t_s.size)) * (rng.random((2, t_s.size)) < 0.7)
    theta = offset_ms + t_s * drift_ppm / 1e3
    (result,) = clock_offset.estimate(t_s, one_way_ms + queue[0] + theta, one_way_ms + queue[1] - theta)
    assert abs(result.offset_ms - offset_ms) < 0.5
    assert abs(result.drift_ppm - drift_ppm) < 5
    assert result.uncertain_ms == pytest.approx(one_way_ms, abs=0.5)


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
    estimated = clock_offset.estimate(t_s, 20 + queue[0] + theta, 20 + queue[1] - theta)
    assert [one.from_s for one in estimated[1:]] == pytest.approx(set_at_s, abs=0.051)
    wrong = clock_offset.offsets_ms(estimated, t_s) - theta
    assert np.abs(wrong).max() < max(one.uncertain_ms for one in estimated)
    assert np.median(np.abs(wrong)) < 0.5


@pytest.mark.parametrize(("every_s", "ppm", "rtt_ms"), [(10.0, 30.0, 0.2), (0.05, 400.0, 0.2), (1500.0, 30.0, 40.0)])
def test_drift_is_not_a_clock_step(every_s, ppm, rtt_ms):
    t_s = np.arange(1200) * every_s
    theta = t_s * ppm / 1e3
    (result,) = clock_offset.estimate(t_s, rtt_ms / 2 + theta, rtt_ms / 2 - theta)
    assert result.drift_ppm == pytest.approx(ppm)


def test_a_slewed_clock_has_a_large_uncertainty():
    t_s = np.arange(0, 120, 0.05)
    theta = np.where(t_s < 60, 0.0, (t_s - 60) * 0.5)  # 500 ppm, as adjtime does it
    (result,) = clock_offset.estimate(t_s, 20 + theta, 20 - theta)
    wrong = clock_offset.offsets_ms([result], t_s) - theta
    assert result.uncertain_ms >= 20 + np.abs(wrong).max() * 0.9


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


def test_missing_permission_is_reported_with_remedies(monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("bentpipe.measurements.probing.icmp.socket.socket", refused)
    with pytest.raises(UserError, match=r"permission denied: .*ping_group_range.*CAP_NET_RAW"):
        IcmpSocket(4, Loop())
