"""Default addresses and folders of an orchestrator."""

from __future__ import annotations

import os
from pathlib import Path

LISTEN = "127.0.0.1:8791"
"""Address for users."""
AGENTS = "127.0.0.1:8792"
"""Address for agents."""
EVENTS_DAYS = 90
"""Days for which events of agents are kept."""
AUDIT_DAYS = 365
"""Days for which lines of the audit are kept."""

NODE_BYTES = 100 * 10**9
"""Bytes of a node's committed results."""


def home_folder() -> Path:
    """Return the default folder of an orchestrator: ``$XDG_DATA_HOME/bentpipe/testbed``."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path("~/.local/share").expanduser())
    return Path(base) / "bentpipe" / "testbed"


def admin_file(home: Path | None = None) -> Path:
    """Return the file with the first admin's address and token, for commands on the orchestrator's own host."""
    return (home or home_folder()) / "admin.json"
