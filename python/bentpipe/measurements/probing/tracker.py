"""Tracker of the probes to one target: pending, answered, duplicate, out of order, or lost with a cause."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bentpipe.measurements.probing.clocks import Clocks

#: Time after which a probe without an answer is marked lost [ns]. Chosen here: five times the longest RTT to Google's
#: DNS that T3P reports from five terminals (16 × 35 ms).
TIMEOUT_NS = 3 * 10**9
#: Time for which duplicates of an answer are recognised [ns]. Chosen here.
_KNOWN_NS = 30 * 10**9

# Flags of a row.
DUPLICATE, OUT_OF_ORDER, KERNEL_TX, KERNEL_RX = 1, 2, 4, 8

#: Outcome of a probe: target, seq, send time [ns since 1970], RTT [ns] or None, up and down [ns] or None, flags, how
#: late it was sent [ns], cause of loss.
Row = tuple[int, int, int, int | None, int | None, int | None, int, int, str | None]


@dataclass(slots=True)
class Sent:
    """A probe that was sent.

    Attributes:
        unix_ns: When it was passed to the kernel [ns since 1970].
        mono_ns: The same by the monotonic clock.
        late_ns: How late it was sent.
        jumps: `Clocks.jumps` at that time.
        tx_ns: When the kernel passed it to the device [ns since 1970], once known.
        answered: Whether it was answered.
    """

    unix_ns: int
    mono_ns: int
    late_ns: int
    jumps: int
    tx_ns: int | None = None
    answered: bool = False

    @property
    def at_ns(self) -> int:
        """The most accurate known send time [ns since 1970]."""
        return self.unix_ns if self.tx_ns is None else self.tx_ns

    def rtt(self, rx_ns: int | None, seen_mono_ns: int, jumps: int) -> tuple[int, int]:
        """Return the RTT [ns] and flags, from kernel timestamps if both exist and the clock was not set in between.

        Args:
            rx_ns: The kernel's timestamp of the answer [ns since 1970].
            seen_mono_ns: When this process received the answer.
            jumps: `Clocks.jumps` now.
        """
        flags = (KERNEL_TX if self.tx_ns is not None else 0) | (KERNEL_RX if rx_ns is not None else 0)
        ours_ns = seen_mono_ns - self.mono_ns
        # The kernel's interval lies within ours, so a longer one is wrong.
        if rx_ns is not None and jumps == self.jumps and 0 < rx_ns - self.at_ns <= ours_ns:
            return rx_ns - self.at_ns, flags
        return max(1, ours_ns), 0


@dataclass(slots=True)
class ProbeTracker:
    """Tracks the probes to one target.

    Attributes:
        target: Number of the target.
        write: Receives the outcome of each probe.
        clocks: Detects clock jumps.
        timeout_ns: Time after which a probe is marked lost.
        late_answers: Number of answers to probes already marked lost.
    """

    target: int
    write: Callable[[Row], None]
    clocks: Clocks
    timeout_ns: int = TIMEOUT_NS
    late_answers: int = 0
    _pending: dict[int, Sent] = field(default_factory=dict)
    _known: dict[int, Sent] = field(default_factory=dict)
    _highest: int = -1

    def __len__(self) -> int:
        """Return the number of pending probes."""
        return len(self._pending)

    def start(self, seq: int, late_ns: int) -> Sent:
        """Register a probe that is passed to the kernel now."""
        sent = Sent(time.time_ns(), time.monotonic_ns(), late_ns, self.clocks.jumps)
        self._pending[seq] = sent
        return sent

    def pending(self, seq: int) -> Sent | None:
        """Return the probe if it is pending."""
        return self._pending.get(seq)

    def nearest(self, low_bits: int) -> int | None:
        """Return the latest pending probe whose number ends in these 16 bits."""
        latest = next(reversed(self._pending), None)
        if latest is None:
            return None
        seq = latest - ((latest - low_bits) & 0xFFFF)
        return seq if seq in self._pending else None

    def set_tx_time(self, seq: int, tx_ns: int) -> None:
        """Store the kernel's transmit timestamp of a probe."""
        sent = self._pending.get(seq)
        if sent is not None and sent.tx_ns is None and sent.jumps == self.clocks.jumps:
            sent.tx_ns = tx_ns

    def record_answer(
        self,
        seq: int,
        seen_mono_ns: int,
        rx_ns: int | None = None,
        *,
        rtt: tuple[int, int] | None = None,
        far: tuple[int, int] | None = None,
    ) -> None:
        """Record an answer.

        Args:
            seq: Number of the probe.
            seen_mono_ns: When this process received the answer.
            rx_ns: The kernel's timestamp [ns since 1970].
            rtt: RTT [ns] and flags, if the kernel measured it itself.
            far: When the other host, by its own clock, received the probe and sent the answer [ns since 1970].
        """
        sent, flags = self._pending.pop(seq, None), 0
        if sent is None:
            sent = self._known.get(seq)
            if sent is None or not sent.answered:
                self.late_answers += 1
                return
            flags |= DUPLICATE
        else:
            self._known[seq] = sent
            sent.answered = True
            if seq < self._highest:
                flags |= OUT_OF_ORDER
            self._highest = max(seq, self._highest)
        rtt_ns, how = rtt or sent.rtt(rx_ns, seen_mono_ns, self.clocks.jumps)
        up_ns = down_ns = None
        if far is not None:
            rx_ns = sent.at_ns + rtt_ns if rx_ns is None or not how else rx_ns
            up_ns, down_ns = far[0] - sent.at_ns, rx_ns - far[1]
            rtt_ns = max(1, rtt_ns - (far[1] - far[0]))
        self.write((self.target, seq, sent.at_ns, rtt_ns, up_ns, down_ns, flags | how, sent.late_ns, None))

    def mark_lost(self, seq: int, cause: str | None) -> None:
        """Mark a probe lost."""
        sent = self._pending.pop(seq, None)
        if sent is not None:
            self._known[seq] = sent
            self.write((self.target, seq, sent.at_ns, None, None, None, 0, sent.late_ns, cause))

    def expire(self, mono_ns: int) -> None:
        """Mark timed-out probes lost, and forget old ones."""
        _each_before(self._pending, mono_ns - self.timeout_ns, lambda seq: self.mark_lost(seq, None))
        _each_before(self._known, mono_ns - _KNOWN_NS, self._known.pop)


def _each_before(probes: dict[int, Sent], mono_ns: int, then: Callable[[int], object]) -> None:
    """Call `then`, which removes the probe, for each probe sent before `mono_ns`; probes are about in send order."""
    while probes:
        seq = next(iter(probes))
        if probes[seq].mono_ns > mono_ns:
            return
        then(seq)
