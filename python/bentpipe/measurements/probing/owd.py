"""``owd``: one-way delays to a `reflector`, from four timestamps; the clock offset is estimated for the whole Run."""

from __future__ import annotations

import os
import socket
import time

from bentpipe.errors import UserError
from bentpipe.measurements.probing import kernel, owd_wire
from bentpipe.measurements.probing.loop import Loop
from bentpipe.measurements.probing.owd_wire import ECHO, FULL, HELLO, PROBE, WELCOME, Message
from bentpipe.measurements.probing.ping import send_failure
from bentpipe.measurements.probing.reflector import CLIENTS_PER_ADDRESS, MOST_CLIENTS
from bentpipe.measurements.probing.spec import Target
from bentpipe.measurements.probing.tracker import ProbeTracker

#: Interval of hello messages, and how long to wait for a welcome at the start [ns].
_HELLO_NS, _PATIENCE_NS = 500_000_000, 3 * 10**9
_LOOK_S = 0.005
#: Time [ns] and number of probes without an echo after which the reflector may have forgotten us, or restarted.
_SILENT_NS, _SILENT_PROBES = 3 * 10**9, 2
_AT_ONCE = 8


class Owd:
    """One-way delay prober of one target.

    Attributes:
        same_clock: Whether the reflector runs on this machine.
        lost_up: Probes that the reflector did not receive, by its latest count.
        far_overruns: Datagrams of all probers dropped at the reflector's full buffer.
        far_refused: Probes that the reflector did not echo because of its limits.

    Raises:
        UserError: No reflector answers, or it has no slot for another prober.
    """

    def __init__(self, loop: Loop, target: Target, tracker: ProbeTracker) -> None:
        """Send a hello, and wait for the welcome."""
        self.tracker, self._target = tracker, target
        self.same_clock = False
        self._lost_before = self._lost_now = 0
        self._overruns_before = self._overruns_at_first = self._overruns_now = 0
        self._refused_before = self._refused_now = 0
        self._sent = self._sent_since_received = 0
        self._token: bytes | None = None
        self._hello_number = int.from_bytes(os.urandom(7), "big")
        self._sock = socket.socket(target.family, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        kernel.enable_stamps(self._sock)
        kernel.enable_errors(self._sock)
        self._sock.connect((target.address, target.port))
        self._last_received_ns = time.monotonic_ns()
        self._hello_sent_ns = self._last_received_ns - _HELLO_NS
        try:
            self._wait_for_welcome()
        except BaseException:
            self._sock.close()
            raise
        loop.watch(self._sock, self._read)

    @property
    def lost_up(self) -> int:
        """Probes that the reflector did not receive, by its own count."""
        return self._lost_before + self._lost_now

    @property
    def far_overruns(self) -> int:
        """Datagrams of all probers dropped at the reflector's full buffer since it welcomed this prober."""
        return self._overruns_before + self._overruns_now - self._overruns_at_first

    @property
    def far_refused(self) -> int:
        """Probes that the reflector did not echo because of its limits."""
        return self._refused_before + self._refused_now

    def send(self, seq: int, late_ns: int) -> None:
        """Send a probe."""
        self.tracker.start(seq, late_ns)
        self._sent += 1
        self._sent_since_received += 1
        try:
            self._transmit(Message(PROBE, self._token or b"", seq, self._sent))
        except OSError as error:
            self.tracker.mark_lost(seq, send_failure(error))

    def tick(self) -> None:
        """Send another hello to a silent reflector."""
        now = time.monotonic_ns()
        silent = now - self._last_received_ns > _SILENT_NS and self._sent_since_received >= _SILENT_PROBES
        if silent and now - self._hello_sent_ns > _HELLO_NS:
            self._hello(now)

    def close(self) -> None:
        """Close the socket; the reflector forgets silent probers."""
        self._sock.close()

    def overruns(self) -> int:
        """Return the number of packets dropped at the full socket buffer."""
        return kernel.overruns(self._sock)

    def _transmit(self, message: Message) -> None:
        try:
            self._sock.send(owd_wire.encode(message))
        except ConnectionRefusedError:
            # Reported for an earlier datagram; the error queue has it too.
            self._sock.send(owd_wire.encode(message))

    def _hello(self, now_ns: int) -> None:
        self._hello_sent_ns = now_ns
        try:
            self._transmit(Message(HELLO, number=self._hello_number))
        except OSError:
            return  # the probes report the error

    def _wait_for_welcome(self) -> None:
        begin = time.monotonic_ns()
        while self._token is None:
            now = time.monotonic_ns()
            if now - begin > _PATIENCE_NS:
                target = self._target
                raise UserError(
                    f"{target.name} port {target.port}: no reflector answers there; start one with `bentpipe probe "
                    f"reflect --port {target.port}`, and let UDP to that port through"
                )
            if now - self._hello_sent_ns >= _HELLO_NS:
                self._hello(now)
            time.sleep(_LOOK_S)  # select would return for each of our transmit timestamps
            self._read(time.monotonic_ns())

    def _read(self, seen_ns: int) -> None:
        self._read_errors()
        for _ in range(_AT_ONCE):
            try:
                data, controls, _, _ = self._sock.recvmsg(owd_wire.SIZE + 1, kernel.CONTROL_BYTES)
            except BlockingIOError:
                return
            except OSError:  # the error queue has it too
                continue
            message = owd_wire.decode(data)
            if message is None:
                continue
            if message.kind == WELCOME and message.number == self._hello_number:
                self._welcomed(message, seen_ns)
            elif message.kind == FULL and (message.number == self._hello_number or message.token == self._token):
                self._reject()
            elif message.kind == ECHO and message.token == self._token:
                self._echoed(message, seen_ns, kernel.stamp_ns(controls))

    def _welcomed(self, message: Message, seen_ns: int) -> None:
        self._last_received_ns = seen_ns
        self.same_clock = message.machine == owd_wire.this_machine()
        if message.token != self._token:
            self._token, self._sent = message.token, 0
            self._lost_before, self._lost_now = self.lost_up, 0
            self._overruns_before, self._refused_before, self._refused_now = self.far_overruns, self.far_refused, 0
            self._overruns_at_first = self._overruns_now = message.overruns

    def _reject(self) -> None:
        """End at the start; later, count the probes since the latest echo as refused: the path did not lose them."""
        if self._token is None:
            target = self._target
            raise UserError(
                f"{target.name} port {target.port}: the reflector has no slot for another prober; expected at most "
                f"{CLIENTS_PER_ADDRESS} of one address and {MOST_CLIENTS} in all; end another, or wait five minutes"
            )
        self._refused_before += self._sent_since_received
        self._sent_since_received = 0

    def _echoed(self, message: Message, seen_ns: int, rx_ns: int | None) -> None:
        self._last_received_ns, self._sent_since_received = seen_ns, 0
        sent = self.tracker.pending(message.number)
        if sent is not None and sent.tx_ns is None:
            self._read_errors()
        # Counts of the latest echo; a late echo has older ones.
        self._lost_now = max(0, message.sent - message.received) if message.sent <= self._sent else self._lost_now
        self._overruns_now = max(self._overruns_now, message.overruns)
        self._refused_now = max(self._refused_now, message.refused)
        self.tracker.record_answer(message.number, seen_ns, rx_ns, far=(message.rx_ns, message.tx_ns))

    def _read_errors(self) -> None:
        for _ in range(2 * _AT_ONCE):
            try:
                data, controls, _, _ = self._sock.recvmsg(2048, kernel.CONTROL_BYTES, kernel.MSG_ERRQUEUE)
            except BlockingIOError:
                return
            error, stamp = kernel.icmp_error(controls), kernel.stamp_ns(controls)
            message = owd_wire.decode(data[-owd_wire.SIZE :])
            if message is None or message.kind != PROBE or message.token != self._token:
                continue
            if error is not None:
                self.tracker.mark_lost(message.number, error.cause)
            elif stamp is not None:
                self.tracker.set_tx_time(message.number, stamp)
