"""How a flow is written: a controller's name and, behind a colon, its tunables."""

from __future__ import annotations

import re

COMMAND = "$ "
"""How the name of a scheme begins that is a program's command line: no controller's name is in it."""


def is_command(scheme: str) -> bool:
    """Whether a scheme is named by a program's command."""
    return scheme.startswith(COMMAND)


def flow_parts(scheme: str) -> list[str]:
    """Return the flows of a scheme: ``cubic+bbr`` has two; a command is one name, whatever is in it."""
    return [scheme] if is_command(scheme) else scheme.split("+")


_FLOW = re.compile(r"(?P<name>[^:]*\.py:[A-Za-z_]\w*|[^:]*)(?P<colon>:?)(?P<options>.*)\Z", re.DOTALL)


def split_flow(part: str) -> tuple[str, str | None]:
    """``bbr:min_rtt_win_s=20`` or ``./mine.py:Mine:gain=2``: the controller's name, and what stands behind a colon."""
    match = _FLOW.match(part.strip())
    assert match is not None  # it matches anything
    if not match["colon"]:  # what stands behind a class without a colon is no tunable of it
        return (match["name"] + match["options"]).strip(), None
    return match["name"].strip(), match["options"]
