"""Keep the queue of a Starlink uplink short: an adaptive shaper for a Linux router.

    python3 shaper.py eth0 --target 1.1.1.1

The queue of the uplink, in the terminal, is long and first-in-first-out, so one upload delays everything else. A shaper
with a short queue of its own helps if its rate is just below the link's, which changes every 15 s. This one follows:

- It pings a host and takes the smallest RTT of the last 0.3 s, which jitter hardly moves.
- The RTT without a queue is the smallest one since the last slot edge. It is not compared across edges, where the path
  itself becomes longer or shorter: that is no queue. At an edge the rate is lowered for a moment, so that the queue
  empties and the new path shows itself; again, while its RTT is far above the least of a minute.
- RTTs above that by 10 ms: the rate falls below what passed. Otherwise, while it is used, the rate rises.

Edges come from bentpipe's awareness service (``--aware``), else from the published schedule (:12, :27, :42, :57) by
this machine's clock. ``--no-edges`` is the control, in the manner of cake-autorate: a base RTT that falls at once and
rises slowly, and a lower rate where three of the last six RTTs are 30 ms above it.

It needs ``tc`` with ``htb`` and ``u32``, ``ping``, and root (CAP_NET_ADMIN). At the end it removes the shaper.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from pathlib import Path

PING_S = 0.05
STEP_S = 0.2
"""Time between changes of the rate: a few RTTs."""
NEWEST_S = 0.3
"""Time whose smallest RTT counts as the newest: six pings, of which jitter does not delay all."""
QUEUE_S = 0.025
"""Queue of the shaper itself, for all but small packets."""
EXCESS_MS = 10.0
"""RTT above that without a queue from which on there is one; chosen here: above the jitter of minima of ten."""
UNLIKELY_MS = 35.0
"""Base RTT of a slot over the least of a minute that is rather a queue; chosen here: 95 % of steps are below it."""
MOST_DRAINS = 5
"""Times that the rate is lowered in a slot to see its base RTT."""
FIRST, PERIOD = 12.0, 15.0
"""Published schedule of slot edges: seconds of the minute."""


class Rtts:
    """The newest RTTs to a host, by a ping that runs all the time."""

    def __init__(self, target: str) -> None:
        """Start to ping."""
        self.samples: deque[tuple[float, float]] = deque(maxlen=4096)
        self._ping = subprocess.Popen(
            ["ping", "-n", "-i", str(PING_S), target], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._ping.stdout is not None
        for line in self._ping.stdout:
            if (seen := re.search(r"time=([\d.]+) ms", line)) is not None:
                self.samples.append((time.time(), float(seen[1])))

    def newest(self, count: int) -> list[float]:
        """Return the newest RTTs [ms]."""
        return [rtt for _, rtt in list(self.samples)[-count:]]

    def lowest(self, since_s: float) -> float | None:
        """Return the smallest RTT since a time [ms]; None: there is none."""
        return min((rtt for at_s, rtt in list(self.samples) if at_s >= since_s), default=None)

    @property
    def is_running(self) -> bool:
        """Whether it still pings."""
        return self._ping.poll() is None

    def close(self) -> None:
        """Stop."""
        self._ping.terminate()
        self._ping.wait()


class Edges:
    """The time of the last slot edge."""

    def __init__(self, aware: str | None) -> None:
        """Follow the service at this address, or the schedule."""
        self._aware = aware
        self._next_s: float | None = None
        self._asked_s = 0.0

    def last(self, now_s: float) -> float:
        """Return the last edge before `now_s` [s since 1970]."""
        scheduled = now_s - (now_s - FIRST) % PERIOD
        if self._aware is not None and now_s - self._asked_s >= 1.0:
            self._asked_s = now_s
            with (
                contextlib.suppress(OSError, ValueError),
                urllib.request.urlopen(f"{self._aware}/v1/next", timeout=0.2) as reply,
            ):
                self._next_s = json.load(reply).get("edge_s")
        if self._next_s is None:
            return scheduled
        return now_s - (now_s - self._next_s) % PERIOD


class Shaper:
    """A rate limit (``htb``) on a device: small packets first, the others in a short queue.

    The short queue is ``fq_codel`` where the kernel has it, else a plain one of `QUEUE_S`.
    """

    def __init__(self, device: str, rate_bps: float) -> None:
        """Put it there."""
        self.device = device
        self._tc(
            f"qdisc replace dev {device} root handle 1: htb default 20",
            *self._classes(rate_bps),
            # Packets below 256 bytes: the upper octet of the length is zero.
            f"filter add dev {device} parent 1: protocol ip u32 match u16 0 0xff00 at 2 flowid 1:10",
            f"filter add dev {device} parent 1: protocol ipv6 u32 match u16 0 0xff00 at 4 flowid 1:10",
        )
        fair = ["tc", "qdisc", "replace", "dev", device, "parent", "1:20", "fq_codel"]
        self._is_fair = subprocess.run(fair, capture_output=True, check=False).returncode == 0
        self.set(rate_bps)

    def set(self, rate_bps: float) -> None:
        """Set the rate."""
        commands = self._classes(rate_bps)
        if not self._is_fair:
            limit = max(15_000, round(rate_bps * QUEUE_S / 8))
            commands.append(f"qdisc replace dev {self.device} parent 1:20 bfifo limit {limit}")
        self._tc(*commands)
        self.rate_bps = rate_bps

    def _classes(self, rate_bps: float) -> list[str]:
        whole, part = round(rate_bps), round(rate_bps / 10)
        front = f"class replace dev {self.device} parent"
        return [
            f"{front} 1: classid 1:1 htb rate {whole}",
            f"{front} 1:1 classid 1:10 htb rate {part} ceil {whole} prio 0",
            f"{front} 1:1 classid 1:20 htb rate {whole - part} ceil {whole} prio 1",
        ]

    def _tc(self, *commands: str) -> None:
        done = subprocess.run(
            ["tc", "-batch", "-"], input="\n".join(commands), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            reason = (done.stderr.splitlines() or ["tc failed"])[0]
            raise SystemExit(f"shaper: {self.device}: {reason}; expected a device, htb, u32 and CAP_NET_ADMIN")

    def sent_bytes(self) -> int:
        """Return how much the device has sent."""
        # Not /sys/class/net, which shows the devices of the namespace that mounted it.
        for line in Path("/proc/self/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == self.device:
                return int(counters.split()[8])
        raise SystemExit(f"shaper: {self.device}: no such device")

    def close(self) -> None:
        """Remove it."""
        command = ["tc", "qdisc", "del", "dev", self.device, "root"]
        subprocess.run(command, capture_output=True, check=False)


class Rate:
    """A rate within limits."""

    def __init__(self, rate_bps: float, least_bps: float, most_bps: float) -> None:
        """Begin at a rate."""
        self.least_bps, self.most_bps = least_bps, most_bps
        self.set(rate_bps)

    def set(self, rate_bps: float) -> None:
        """Set the rate."""
        self.bps = min(max(rate_bps, self.least_bps), self.most_bps)


class EdgeControl:
    """Compares RTTs within a slot alone."""

    def __init__(self, rate: Rate) -> None:
        """Begin before the first edge."""
        self.rate = rate
        self.edge_s: float | None = None
        self._before_edge_bps: float | None = None
        self._drains = 0
        self._wait_until_s = 0.0

    def step(
        self,
        now_s: float,
        edge_s: float,
        sent_bps: float,
        newest_ms: float | None,
        base_ms: float | None,
        minute_ms: float | None,
    ) -> None:
        """Set the rate by the last edge, what was sent, and the smallest RTTs: newest, of the slot, of a minute."""
        rate = self.rate
        if edge_s != self.edge_s:
            if self.edge_s is not None:  # empty the queue
                self._before_edge_bps, self._drains = rate.bps, 0
                rate.set(0.6 * rate.bps)
                self._wait_until_s = now_s + 0.75
            self.edge_s = edge_s
        elif now_s < self._wait_until_s:
            return
        elif newest_ms is None or base_ms is None or minute_ms is None:  # nothing comes back
            rate.set(0.8 * rate.bps)
            self._wait_until_s = now_s + 0.5
        elif base_ms - minute_ms > UNLIKELY_MS and self._drains < MOST_DRAINS:
            # Longer paths are rare: the queue is not yet empty, and its RTT is no base.
            self._drains += 1
            rate.set(0.6 * rate.bps)
            self._wait_until_s = now_s + 0.4
        elif self._before_edge_bps is not None:  # most slots are like the last one
            if not self._drains:
                rate.set(0.9 * self._before_edge_bps)
            self._before_edge_bps = None
        elif newest_ms - base_ms > EXCESS_MS:
            rate.set(0.8 * min(rate.bps, max(sent_bps, 0.5 * rate.bps)))
            self._wait_until_s = now_s + 0.5
        elif sent_bps > 0.8 * rate.bps:
            rate.set(rate.bps * (1.04 if newest_ms - base_ms < EXCESS_MS / 2 else 1.01))


class BlindControl:
    """Compares RTTs with a base that rises slowly, whatever the path does (in the manner of cake-autorate)."""

    LATE_MS = 30.0
    RISE, FALL = 0.001, 0.9

    def __init__(self, rate: Rate) -> None:
        """Begin without a base."""
        self.rate = rate
        self._base_ms: float | None = None
        self._wait_until_s = 0.0

    def step(self, now_s: float, sent_bps: float, newest_ms: list[float]) -> None:
        """Set the rate by what was sent and the RTTs since the last step."""
        late = 0
        for rtt_ms in newest_ms:
            base_ms = self._base_ms if self._base_ms is not None else rtt_ms
            self._base_ms = base_ms + (self.RISE if rtt_ms > base_ms else self.FALL) * (rtt_ms - base_ms)
            late += rtt_ms > self._base_ms + self.LATE_MS
        if now_s < self._wait_until_s:
            return
        if late >= 3:
            self.rate.set(0.9 * min(self.rate.bps, max(sent_bps, 0.5 * self.rate.bps)))
            self._wait_until_s = now_s + 0.3
        elif sent_bps > 0.75 * self.rate.bps:
            self.rate.set(1.02 * self.rate.bps)


def run(arguments: argparse.Namespace, stop: threading.Event) -> None:
    """Shape until `stop` is set."""
    rate = Rate(arguments.start * 1e6, arguments.least * 1e6, arguments.most * 1e6)
    control, blind = EdgeControl(rate), BlindControl(rate)
    shaper, rtts, edges = Shaper(arguments.device, rate.bps), Rtts(arguments.target), Edges(arguments.aware)
    sent: deque[tuple[float, int]] = deque([(time.time(), shaper.sent_bytes())], maxlen=3)
    try:
        while not stop.wait(STEP_S):
            if not rtts.is_running:
                raise SystemExit(f"shaper: ping {arguments.target}: it has ended; expected a host that answers")
            now_s = time.time()
            sent.append((now_s, shaper.sent_bytes()))
            sent_bps = 8 * (sent[-1][1] - sent[0][1]) / (sent[-1][0] - sent[0][0])
            if arguments.no_edges:
                blind.step(now_s, sent_bps, rtts.newest(6))
            else:
                newest_ms, base_ms = rtts.lowest(now_s - NEWEST_S), rtts.lowest(control.edge_s or 0.0)
                minute_ms = rtts.lowest(now_s - 60.0)
                control.step(now_s, edges.last(now_s), sent_bps, newest_ms, base_ms, minute_ms)
                if arguments.verbose:
                    print(f"{now_s:.2f} {rate.bps / 1e6:.1f} {sent_bps / 1e6:.1f} {newest_ms} {base_ms}", flush=True)
            if rate.bps != shaper.rate_bps:
                shaper.set(rate.bps)
    finally:
        rtts.close()
        shaper.close()


def main() -> None:
    """Read the arguments, and shape until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description="Adaptive shaper for a Starlink uplink.")
    parser.add_argument("device", help="device towards the terminal")
    parser.add_argument("--target", default="1.1.1.1", help="host to ping (default: %(default)s)")
    parser.add_argument("--start", type=float, default=10.0, help="first rate [Mbit/s] (default: %(default)s)")
    parser.add_argument("--least", type=float, default=2.0, help="least rate [Mbit/s] (default: %(default)s)")
    parser.add_argument("--most", type=float, default=100.0, help="greatest rate [Mbit/s] (default: %(default)s)")
    parser.add_argument("--aware", metavar="URL", help="awareness service, as http://127.0.0.1:8790")
    parser.add_argument("--no-edges", action="store_true", help="do not use slot edges")
    parser.add_argument("--verbose", action="store_true", help="print time, rate, load [Mbit/s], RTT, base [ms]")
    arguments = parser.parse_args()
    if not 0 < arguments.least <= arguments.start <= arguments.most:
        parser.error("expected 0 < --least <= --start <= --most")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    run(arguments, stop)


if __name__ == "__main__":
    sys.exit(main())
