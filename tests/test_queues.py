"""Queue disciplines as they are written, and CoDel against a second implementation of RFC 8289."""

from __future__ import annotations

import json
import math
from collections import deque

import numpy as np
import pytest

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.queues import parse_queue, with_queues

MS = 1_000_000
PACKET_BYTES, PACKET_NS = 1500, MS  # at 12 Mbit/s
DELAY_NS = 10 * MS


def test_what_is_written_is_what_the_simulator_reads():
    assert parse_queue("drop_tail").to_dict() == {"discipline": "drop_tail"}
    codel = {"target_ns": 5 * MS, "interval_ns": 100 * MS, "ecn": True}
    assert parse_queue("down=fq_codel").to_dict() == {
        "discipline": {"fq_codel": {"codel": codel, "flows": 1024, "quantum_bytes": 1514}},
        "direction": "down",
    }
    assert parse_queue("sat:*/up=codel:ecn=off,target_ms=0.5,limit_packets=7").to_dict() == {
        "discipline": {"codel": {**codel, "target_ns": MS // 2, "ecn": False}},
        "hop": "sat:*",
        "direction": "up",
        "limit": {"packets": 7},
    }
    assert parse_queue("step:threshold_packets=20").to_dict()["discipline"] == {"step": {"threshold": {"packets": 20}}}
    assert parse_queue("red:max_p=0.02").to_dict()["discipline"]["red"]["max_probability_ppb"] == 20_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fqcodel", "no queue discipline 'fqcodel'; did you mean 'fq_codel'?"),
        ("codel:traget_ms=5", "no parameter 'traget_ms'; did you mean 'target_ms'?"),
        ("codel:target_ms=0", "target_ms is '0'; expected a number from 0.001 to 1e+06 ms"),
        ("codel:target_ms=nan", "expected a number"),
        ("codel:ecn=maybe", "ecn is 'maybe'; expected on or off"),
        ("codel:target_ms", "'target_ms' is no parameter; expected parameter=value"),
        ("codel:target_ms=5,target_ms=6", "target_ms is given twice"),
        ("codel:target_ms=200", "interval_ms is below target_ms"),
        ("fq_codel:flows=0.5", "flows is '0.5'; expected a whole number from 1 to 65536 queues"),
        ("step:threshold_ms=1,threshold_bytes=3000", "threshold_ms and threshold_bytes; expected one of them"),
        ("red:min_ms=20", "max_ms is not above min_ms"),
        ("sat:1/sideways=codel", "'sideways' is no direction"),
        ("", "no queue discipline ''"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(text, message):
    with pytest.raises(UserError, match=r"^queues: ") as error:
        parse_queue(text)
    assert message in str(error.value)


def test_a_rule_that_no_hop_answers_to_is_refused():
    path = preset_profile("dumbbell", 1.0)
    with pytest.raises(UserError, match=r"queues\[0\]: no hop of .* is called .*; expected one of"):
        with_queues(path, ["sat:1=codel"])


def test_a_profile_keeps_its_queue_when_it_is_written_and_drawn_again(tmp_path):
    from bentpipe.profiles.parquet import read_profile, write_profile

    path = with_queues(preset_profile("dumbbell", 1.0), ["fq_codel:limit_packets=33"])
    write_profile(path, tmp_path / "p.parquet")
    again = read_profile(tmp_path / "p.parquet")
    assert again.content_hash() == path.content_hash()
    meta = json.loads(again.metadata_json())
    assert meta["format"] == 2
    assert meta["hops"][0]["up_queue"]["limit"] == {"packets": 33}


class Codel:
    """CoDel as RFC 8289 §5 tells it in words: a second implementation, without ECN.

    What is irrational, the interval over a root, is cut to the nanosecond, as the elements do: cycles of thousands of
    drops add it up.
    """

    def __init__(self, target_s: float, interval_s: float) -> None:
        self.target, self.interval = target_s, interval_s
        self.queue: deque[tuple[int, int]] = deque()  # number, arrival [ns]
        self.above_until: float | None = None
        self.dropping, self.next_drop_ns, self.count, self.last_count = False, 0, 0, 0
        self.dropped: list[int] = []

    def wait_is_bad(self, arrived_ns: int, now_ns: int) -> bool:
        now = now_ns / 1e9
        if now - arrived_ns / 1e9 < self.target - 1e-12 or len(self.queue) <= 1:
            self.above_until = None
            return False
        if self.above_until is None:
            self.above_until = now + self.interval
            return False
        return now >= self.above_until - 1e-12

    def pause_ns(self) -> int:
        return math.isqrt(round(self.interval * 1e9) ** 2 // self.count)

    def take(self, now_ns: int) -> tuple[tuple[int, int] | None, bool]:
        if not self.queue:
            self.above_until = None
            return None, False
        head = self.queue.popleft()
        return head, self.wait_is_bad(head[1], now_ns)

    def next_packet(self, now_ns: int) -> int | None:
        head, bad = self.take(now_ns)
        if self.dropping:
            if not bad:
                self.dropping = False
            while self.dropping and now_ns >= self.next_drop_ns:
                assert head is not None
                self.dropped.append(head[0])
                self.count += 1
                head, bad = self.take(now_ns)
                if bad:
                    self.next_drop_ns += self.pause_ns()
                else:
                    self.dropping = False
        elif bad:
            assert head is not None
            self.dropped.append(head[0])
            head, _ = self.take(now_ns)
            self.dropping = True
            recently = now_ns - self.next_drop_ns < 16e9 * self.interval
            grown = self.count - self.last_count
            self.count = grown if recently and grown > 1 else 1
            self.last_count = self.count
            self.next_drop_ns = now_ns + self.pause_ns()
        return None if head is None else head[0]


def reference(sent_ns: list[int], target_s: float, interval_s: float) -> dict[int, int]:
    """When each packet has left a link of a packet a millisecond; those that CoDel drops are missing."""
    codel = Codel(target_s, interval_s)
    left: dict[int, int] = {}
    free_at = 0  # when the line is free; a packet that finds it so passes the queue by
    busy: int | None = None
    for number, at in [*enumerate(sent_ns), (-1, 1 << 62)]:
        while busy is not None and free_at <= at:
            left[busy] = free_at
            busy = codel.next_packet(free_at)
            free_at += PACKET_NS
        if busy is None:
            busy, free_at = number, at + PACKET_NS
        else:
            codel.queue.append((number, at))
    left.pop(-1, None)
    return left


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("target_ms", "interval_ms"), [(5, 100), (20, 400)])
def test_codel_drops_the_packets_that_a_second_implementation_drops(seed, target_ms, interval_ms):
    # Bursts at up to twice what the link sends, lulls between them: cycles of drops begin, end and begin again soon.
    rng = np.random.default_rng(seed)
    rates = np.repeat(rng.uniform(0.3, 2.0, 60), 300)
    gaps_us = rng.exponential(1000.0 / rates).astype(np.int64) + 1
    sent_ns = (np.cumsum(gaps_us) * 1000 + 137).tolist()
    path = preset_profile("dumbbell:rate=12mbit,rtt=20ms,queue=60000kB", sent_ns[-1] / 1e9 + 10)
    path = with_queues(path, [f"up=codel:target_ms={target_ms},interval_ms={interval_ms},limit_packets=1000000"])
    trips_ms = _native.ping(path, np.array(sent_ns) / 1e9, PACKET_BYTES, 0)
    expected = reference(sent_ns, target_ms / 1e3, interval_ms / 1e3)
    dropped = [number for number, trip in enumerate(trips_ms) if np.isnan(trip)]
    assert dropped == sorted(set(range(len(sent_ns))) - set(expected))
    assert len(dropped) > 100
    for number, left_ns in expected.items():
        wanted_ms = (left_ns - sent_ns[number] + 2 * DELAY_NS + PACKET_NS) / 1e6
        assert trips_ms[number] == pytest.approx(wanted_ms, abs=2e-6)
