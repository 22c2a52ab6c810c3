"""Units of systemd for the testbed's programs, with this installation's Python."""

from __future__ import annotations

import sys
from importlib.resources import files

from bentpipe.errors import UserError, did_you_mean, shown

UNITS = {
    "node": "the agent of a node (bentpipe-node.service)",
    "kernel": "the kernel service of a node, as a unit of its own (bentpipe-kernel.service)",
    "testbed": "an orchestrator (bentpipe-testbed.service)",
}
"""Units, and what each runs."""


def unit_text(name: str) -> str:
    """Return a unit file.

    Raises:
        UserError: There is no such unit.

    Example:
        >>> import bentpipe as bp
        >>> "StateDirectory=bentpipe-node" in bp.unit_text("node")
        True
    """
    if name not in UNITS:
        raise UserError(f"{shown(name)}{did_you_mean(name, UNITS)}", where="unit", expected=", ".join(UNITS))
    text = files(__package__).joinpath(f"bentpipe-{name}.service").read_text(encoding="utf-8")
    return text.replace("@PYTHON@", sys.executable)
