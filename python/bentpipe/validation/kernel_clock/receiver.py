"""The near end of a path: reads all that `sender` sends.

``python -m bentpipe.validation.kernel_clock.receiver SECONDS``.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time

from bentpipe.validation.kernel_clock.sender import PORT


def main() -> None:
    """Read until the sender leaves, or for so many seconds and half a minute more."""
    end_s = time.monotonic() + float(sys.argv[1]) + 30.0
    with socket.create_connection(("server", PORT), timeout=10) as connection, contextlib.suppress(OSError):
        while time.monotonic() < end_s and connection.recv(1 << 18):
            pass


if __name__ == "__main__":
    main()
