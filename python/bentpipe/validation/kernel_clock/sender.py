"""The far end of a path: sends to the client, and learns the clock from its own sockets meanwhile.

``python -m bentpipe.validation.kernel_clock.sender FLOW SECONDS OUT [CONTROLLER]``: FLOW is ``bulk`` or ``light``; OUT
receives one object of JSON: what the clock told each second, and the polls that it had.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.kernel.clock.learning import Learned, Watch
from bentpipe.kernel.clock.record import wall_clock_ns

if TYPE_CHECKING:
    from bentpipe.kernel.clock.sockets import TcpSample

PORT = 5201
CONTROLLER = "bbr"
"""Default controller. Chosen here: the kernel's own that losses of handovers stop least."""
LIGHT_BYTES, LIGHT_EVERY_S = 20_000, 0.1
"""A light application: messages of so many bytes so often (1.6 Mbit/s), as an adaptive video call in pictures."""


def send(connection: socket.socket, flow: str, stop: threading.Event) -> None:
    """Send until the client leaves."""
    data = bytes(1 << 18)
    try:
        while not stop.is_set():
            if flow == "bulk":
                connection.sendall(data)
            else:
                connection.sendall(data[:LIGHT_BYTES])
                time.sleep(LIGHT_EVERY_S)
    except OSError:
        pass  # it left


class Recorder(Watch):
    """A watch that also keeps its polls, as lists: time, time of the last ACK [ns], ACKs, delivered, RTTs, idle."""

    def __init__(self) -> None:
        """Begin without polls."""
        super().__init__()
        self.polls: list[list[int]] = []

    def take(self, now_ns: int, samples: list[TcpSample]) -> None:
        """Keep a poll, and take it."""
        self.polls += [
            [now_ns, each.last_ack_ns, each.acks, each.delivered, each.srtt_ns, each.min_rtt_ns, int(each.is_idle)]
            for each in samples
        ]
        super().take(now_ns, samples)


def main() -> None:
    """Serve one client and learn."""
    flow, seconds, out = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    controller = sys.argv[4] if len(sys.argv) > 4 else CONTROLLER
    stop, watch = threading.Event(), Recorder()
    learned = Learned(watch)
    with socket.create_server(("", PORT)) as listener:
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())
    begun_ns, readings, polling_s = time.monotonic_ns(), [], 0.0
    threading.Thread(target=send, args=(connection, flow, stop), daemon=True).start()
    for second in range(1, round(seconds) + 1):
        before_s = time.thread_time()
        learned.wait(begun_ns + second * 10**9)
        polling_s += time.thread_time() - before_s
        now_ns = time.monotonic_ns()
        reading = learned.read(now_ns)
        readings.append(
            {
                "t_s": (now_ns - begun_ns) / 1e9,
                "at_ns": reading.hint.at_ns if reading.is_sure else None,
                "period_s": reading.hint.period_ns / 1e9,
                "confidence": reading.confidence,
                "evidence": reading.evidence,
                "doubt": reading.doubt,
            }
        )
    times = {"begun_ns": begun_ns, "wall_ns": wall_clock_ns(), "polling_s": polling_s}
    out.write_text(json.dumps({**times, "readings": readings, "polls": watch.polls}), encoding="utf-8")
    stop.set()
    connection.close()  # this ends the receiver, and that the emulation


if __name__ == "__main__":
    main()
