"""Syntax of a flow: a controller's name and, after a colon, its tunables."""

from __future__ import annotations

import re

COMMAND = "$ "
"""Prefix of a scheme that is a program's command line and not a list of controllers."""


def is_command(scheme: str) -> bool:
    """Tell whether a scheme is a program's command."""
    return scheme.startswith(COMMAND)


def flow_parts(scheme: str) -> list[str]:
    """Return the flows of a scheme: ``cubic+bbr`` has two; a command is one name."""
    return [scheme] if is_command(scheme) else scheme.split("+")


def without_folders(scheme: str) -> str:
    """Return a scheme for people: classes in Python without the folders of their files.

    Example:
        >>> without_folders("cubic+/home/me/mine.py:Mine:gain=2")
        'cubic+mine.py:Mine:gain=2'
    """
    if is_command(scheme):
        return scheme
    parts = [part if split_flow(part)[0].find(".py:") < 0 else _FOLDERS.sub("", part) for part in flow_parts(scheme)]
    return "+".join(parts)


_FOLDERS = re.compile(r"\A.*/(?=[^/]*\.py:)", re.DOTALL)
_FLOW = re.compile(r"(?P<name>[^:]*\.py:[A-Za-z_]\w*|[^:]*)(?P<colon>:?)(?P<options>.*)\Z", re.DOTALL)


def split_flow(part: str) -> tuple[str, str | None]:
    """Split ``bbr:min_rtt_win_s=20`` or ``./mine.py:Mine:gain=2`` into the controller's name and its tunables."""
    match = _FLOW.match(part.strip())
    assert match is not None  # it matches anything
    if not match["colon"]:  # text after a class without a colon is no tunable
        return (match["name"] + match["options"]).strip(), None
    return match["name"].strip(), match["options"]
