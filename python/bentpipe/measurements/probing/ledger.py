"""What became of the probes to one target: sent, answered, answered twice, out of order, lost and why."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bentpipe.measurements.probing.clocks import Clocks

#: After how long a probe without an answer is lost [ns]. Chosen here: five times the longest RTT to Google's DNS
#: that T3P reports from five terminals (16 × 35 ms).
TIMEOUT_NS = 3 * 10**9
#: For how long a second answer is known for one [ns]. Chosen here.
_KNOWN_NS = 30 * 10**9

# Flags of a row.
DUPLICATE, OUT_OF_ORDER, KERNEL_SENT, KERNEL_CAME = 1, 2, 4, 8

#: A probe's fate: target, seq, when it was sent [ns since 1970], RTT [ns] or None, up and down [ns] or None,
#: flags, how late it was sent [ns], why it is lost.
Row = tuple[int, int, int, int | None, int | None, int | None, int, int, str | None]


@dataclass(slots=True)
class Sent:
    """A probe under way.

    Attributes:
        unix_ns: When it was handed to the kernel [ns since 1970].
        mono_ns: The same by the clock that nobody sets.
        late_ns: How much later than it should have been.
        jumps: As `Clocks.jumps` was.
        tx_ns: When the kernel handed it to the device [ns since 1970], once known.
        answered: Whether it was.
    """

    unix_ns: int
    mono_ns: int
    late_ns: int
    jumps: int
    tx_ns: int | None = None
    answered: bool = False

    @property
    def at_ns(self) -> int:
        """The best time there is for when it was sent [ns since 1970]."""
        return self.unix_ns if self.tx_ns is None else self.tx_ns

    def round_trip(self, came_ns: int | None, seen_mono_ns: int, jumps: int) -> tuple[int, int]:
        """RTT [ns] and flags, of kernel stamps where there are two and nobody set the clock in between.

        Args:
            came_ns: The kernel's stamp of the answer [ns since 1970].
            seen_mono_ns: When this process saw the answer.
            jumps: As `Clocks.jumps` is now.
        """
        flags = (KERNEL_SENT if self.tx_ns is not None else 0) | (KERNEL_CAME if came_ns is not None else 0)
        ours_ns = seen_mono_ns - self.mono_ns
        # Between our sending and our seeing lies all that the kernel saw: more cannot be.
        if came_ns is not None and jumps == self.jumps and 0 < came_ns - self.at_ns <= ours_ns:
            return came_ns - self.at_ns, flags
        return max(1, ours_ns), 0


@dataclass(slots=True)
class Ledger:
    """Probes to one target.

    Attributes:
        target: Its number.
        write: Takes each fate.
        clocks: For jumps.
        timeout_ns: After how long a probe is lost.
        late_answers: Answers to probes that were lost already.
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
        """How many are under way."""
        return len(self._pending)

    def sending(self, seq: int, late_ns: int) -> Sent:
        """A probe that is handed to the kernel now."""
        sent = Sent(time.time_ns(), time.monotonic_ns(), late_ns, self.clocks.jumps)
        self._pending[seq] = sent
        return sent

    def under_way(self, seq: int) -> Sent | None:
        """The probe, if its fate is open."""
        return self._pending.get(seq)

    def nearest(self, low_bits: int) -> int | None:
        """The latest probe under way whose number has these 16 bits at its end."""
        latest = next(reversed(self._pending), None)
        if latest is None:
            return None
        seq = latest - ((latest - low_bits) & 0xFFFF)
        return seq if seq in self._pending else None

    def stamped(self, seq: int, tx_ns: int) -> None:
        """The kernel says when it left."""
        sent = self._pending.get(seq)
        if sent is not None and sent.tx_ns is None and sent.jumps == self.clocks.jumps:
            sent.tx_ns = tx_ns

    def answered(
        self,
        seq: int,
        seen_mono_ns: int,
        came_ns: int | None = None,
        *,
        rtt: tuple[int, int] | None = None,
        far: tuple[int, int] | None = None,
    ) -> None:
        """An answer came.

        Args:
            seq: To which.
            seen_mono_ns: When this process saw it.
            came_ns: The kernel's stamp [ns since 1970].
            rtt: RTT [ns] and flags, where the kernel measured it itself.
            far: When the other end, by its own clock, got the probe and sent the answer [ns since 1970].
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
        rtt_ns, how = rtt or sent.round_trip(came_ns, seen_mono_ns, self.clocks.jumps)
        up_ns = down_ns = None
        if far is not None:
            came_ns = sent.at_ns + rtt_ns if came_ns is None or not how else came_ns
            up_ns, down_ns = far[0] - sent.at_ns, came_ns - far[1]
            rtt_ns = max(1, rtt_ns - (far[1] - far[0]))
        self.write((self.target, seq, sent.at_ns, rtt_ns, up_ns, down_ns, flags | how, sent.late_ns, None))

    def lost(self, seq: int, cause: str | None) -> None:
        """It will not be answered."""
        sent = self._pending.pop(seq, None)
        if sent is not None:
            self._known[seq] = sent
            self.write((self.target, seq, sent.at_ns, None, None, None, 0, sent.late_ns, cause))

    def expire(self, mono_ns: int) -> None:
        """Gives up what is under way for too long, and forgets what is long over."""
        _each_before(self._pending, mono_ns - self.timeout_ns, lambda seq: self.lost(seq, None))
        _each_before(self._known, mono_ns - _KNOWN_NS, self._known.pop)


def _each_before(probes: dict[int, Sent], mono_ns: int, then: Callable[[int], object]) -> None:
    """Calls `then`, which removes it, for each probe sent before; the oldest are first, but for answers' order."""
    while probes:
        seq = next(iter(probes))
        if probes[seq].mono_ns > mono_ns:
            return
        then(seq)
