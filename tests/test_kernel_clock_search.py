"""The search for sockets that send, on hosts with many: it delays no poll, and takes a hundredth of a processor."""

import struct
from ipaddress import ip_address
from itertools import pairwise

import pytest

from bentpipe.kernel.clock import learning, sockets
from bentpipe.kernel.clock.learning import MOST_SOCKETS, POLL_NS, SEARCH_NS, SEARCH_SHARE, Learned, Watch
from bentpipe.kernel.clock.sockets import SocketId

MS = 10**6
S = 10**9
SENDING = range(1, MOST_SOCKETS + 1)
SOCKETS = 50_000
IN_DATAGRAM = 80
"""Sockets in a datagram of 32 KiB, the largest of a dump by Linux."""
READ_NS, POLLED_NS = MS // 2, MS // 50
"""What a datagram of a dump and a poll of a socket cost [ns]."""


def address(text):
    return ip_address(text).packed.ljust(16, b"\0")


ENDS = bytes(4) + address("192.0.2.1") + address("203.0.113.7") + bytes(4)


class Kernel:
    """A kernel with many sockets, of which a few deliver a segment each millisecond; reading takes virtual time."""

    AF_NETLINK, SOCK_DGRAM, AF_INET, AF_INET6, IPPROTO_TCP = 16, 2, 2, 10, 6

    def __init__(self, count):
        self.now_ns, self.busy_ns, self.count, self.dumps = S, 0, count, []

    def monotonic_ns(self):
        return self.now_ns

    def thread_time_ns(self):
        return self.busy_ns

    def sleep(self, seconds):
        self.now_ns += round(seconds * S)

    def work(self, ns):
        self.now_ns += ns
        self.busy_ns += ns

    def socket(self, *_):
        return Netlink(self)

    def message(self, sequence, number):
        delivered = self.now_ns // MS if number in SENDING else 5
        info = struct.pack("=24x I 28x I 8x I 68x I 4x I 40x I", 3, 0, 30_000, delivered, 30_000, delivered)
        body = (
            struct.pack("=BBBB48s20x", 2, 1, 0, 0, ENDS + number.to_bytes(8, "little"))
            + struct.pack("=HH", 4 + len(info), 2)
            + info
        )
        return struct.pack("=IHHII", 16 + len(body), 20, 2, sequence, 0) + body


class Netlink:
    """A socket to that kernel."""

    def __init__(self, kernel):
        self.kernel, self.answer = kernel, iter(())

    def settimeout(self, _):
        pass

    def bind(self, _):
        pass

    def close(self):
        pass

    def send(self, request):
        flags, sequence = struct.unpack_from("=HI", request, 6)
        family = request[16]
        number = int.from_bytes(request[64:72], "little")
        self.answer = self.dump(sequence, family) if flags & 0x300 else iter([self.poll(sequence, number)])

    def poll(self, sequence, number):
        self.kernel.work(POLLED_NS)
        return self.kernel.message(sequence, number)

    def dump(self, sequence, family):
        count = self.kernel.count if family == 2 else 0
        if count:
            self.kernel.dumps.append(self.kernel.now_ns)
        for first in range(1, count + 1, IN_DATAGRAM):
            self.kernel.work(READ_NS)
            numbers = range(first, min(first + IN_DATAGRAM, count + 1))
            yield b"".join(self.kernel.message(sequence, number) for number in numbers)
        yield struct.pack("=IHHIIi", 20, 3, 2, sequence, 0, 0)

    def recv(self, _):
        return next(self.answer)


class Polls(Watch):
    """A watch that keeps when it was polled, and how many sockets."""

    def __init__(self):
        super().__init__()
        self.polls = []

    def take(self, now_ns, samples):
        self.polls.append((now_ns, len(samples)))
        super().take(now_ns, samples)


@pytest.fixture
def learn(monkeypatch):
    def learn(count, until_s):
        kernel, watch = Kernel(count), Polls()
        monkeypatch.setattr(learning, "time", kernel)
        monkeypatch.setattr(sockets, "time", kernel)
        monkeypatch.setattr(sockets, "socket", kernel)
        learned = Learned(watch)
        for second in range(2, until_s + 2):
            learned.wait(second * S)
        learned.close()
        return kernel, watch

    return learn


def test_polls_keep_their_rate_while_fifty_thousand_sockets_are_searched(learn):
    kernel, watch = learn(SOCKETS, 70)
    took_ns = SOCKETS // IN_DATAGRAM * READ_NS
    first, second, *_ = kernel.dumps
    assert second - first == pytest.approx(took_ns / SEARCH_SHARE, abs=POLL_NS)
    assert len(kernel.dumps) == 3
    assert {each.number for each in watch.sockets} == set(SENDING)
    assert {many for _, many in watch.polls} == {0, MOST_SOCKETS}
    polled = [at for at, many in watch.polls if many]
    assert polled[0] < second + 10 * S  # all are polled at the end of the second search
    assert polled[-1] > kernel.dumps[2] + 5 * S  # and during the third
    gaps = [after - before for before, after in pairwise(polled)]
    assert max(gaps) < POLL_NS + 2 * READ_NS  # the kernel's detector takes 30 ms for a pause
    assert len(kernel.dumps) * took_ns < 1.5 * SEARCH_SHARE * 70 * S


def test_few_sockets_are_searched_each_second(learn):
    kernel, watch = learn(100, 5)
    gaps = [after - before for before, after in pairwise(kernel.dumps)]
    assert len(gaps) == 4
    assert all(SEARCH_NS <= gap < SEARCH_NS + 2 * POLL_NS for gap in gaps)
    assert {each.number for each in watch.sockets} == set(SENDING)
    idle, _ = learn(0, 5)
    assert idle.dumps == []


@pytest.mark.parametrize(
    ("here", "there", "is_local"),
    [
        ("192.0.2.1", "203.0.113.7", False),
        ("192.0.2.1", "192.0.2.1", True),
        ("127.0.0.1", "127.9.9.9", True),
        ("::ffff:192.0.2.1", "::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.1", "::ffff:203.0.113.7", False),
        ("2001:db8::1", "2001:db8::2", False),
        ("2001:db8::1", "::1", True),
        ("2001:db8::1", "7f00::1", False),
    ],
)
def test_sockets_to_this_machine_are_known_by_their_ends(here, there, is_local):
    family = 2 if ip_address(here).version == 4 else 10
    assert SocketId(family, bytes(4) + address(here) + address(there) + bytes(12)).is_local is is_local
