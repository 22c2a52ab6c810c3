"""Both ends of an emulated download: the server sends with a controller, the client counts what arrives.

``python -m bentpipe.validation.kernel_safety.flow send CONTROLLER SECONDS`` and ``… receive SECONDS WARMUP OUT``: OUT
receives an object of JSON, the bytes after the warm-up and the time that they took.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from pathlib import Path

PORT = 5201
PART = bytes(1 << 18)
STALLED_S = 15.0
"""A download without a new byte for so long is given up [s]: longer than a Run lasts beyond its end."""


def send(controller: str, seconds: float) -> None:
    """Serve one client for so many seconds."""
    with socket.create_server(("", PORT)) as listener:
        connection, _ = listener.accept()
    with connection, contextlib.suppress(OSError):  # the client leaves
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            connection.sendall(PART)


def receive(seconds: float, warmup_s: float) -> dict[str, float]:
    """Read for so many seconds; return the bytes after the warm-up and their time [s]."""
    with socket.create_connection(("server", PORT), timeout=STALLED_S) as connection:
        begun_s = time.monotonic()
        count, counted_from_s, end_s = 0, begun_s + warmup_s, begun_s + seconds
        with contextlib.suppress(TimeoutError):
            while (now_s := time.monotonic()) < end_s and (part := connection.recv(1 << 18)):
                count += len(part) if now_s >= counted_from_s else 0
    return {"bytes": count, "seconds": seconds - warmup_s}


def main() -> None:
    """Run one end."""
    if sys.argv[1] == "send":
        send(sys.argv[2], float(sys.argv[3]))
    else:
        result = receive(float(sys.argv[2]), float(sys.argv[3]))
        Path(sys.argv[4]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
