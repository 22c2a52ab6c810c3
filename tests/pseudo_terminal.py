"""Commands on a pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios


def on_a_terminal(command: list[str], columns: int, terminal: str = "dumb") -> str:
    """Run a command on a pseudo-terminal of this width and return what it prints."""
    main, worker = pty.openpty()
    fcntl.ioctl(worker, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(command, stdout=worker, env=environment | {"TERM": terminal})
    os.close(worker)
    output = b""
    with contextlib.suppress(OSError):  # Linux's report of a closed pseudo-terminal
        while block := os.read(main, 65536):
            output += block
    os.close(main)
    assert process.wait() == 0
    return output.decode()
