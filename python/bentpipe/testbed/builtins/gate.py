"""The gate of a server's program: it imports what it needs, then waits until a client has come, then listens."""

from __future__ import annotations

import os
import sys
from pathlib import Path

GATE = "gate"
"""Pipe among the inputs of a run, at which its program waits."""
GATE_OPEN = b"open\n"
"""What a server's program reads there when it may listen."""


def wait_at_gate() -> None:
    """Wait at the gate, if there is one; end the process if the agent closes it unopened."""
    folder = os.environ.get("BENTPIPE_INPUTS")
    gate = None if folder is None else Path(folder, GATE)
    if gate is not None and gate.exists() and gate.read_bytes() != GATE_OPEN:
        sys.exit("bentpipe: gate: closed; expected the agent's start")
