"""Syntax of a flow: a controller's name and, after a colon, its tunables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

COMMAND = "$ "
"""Prefix of a scheme that is a program's command line and not a list of controllers."""


def is_command(scheme: str) -> bool:
    """Tell whether a scheme is a program's command."""
    return scheme.startswith(COMMAND)


def flow_parts(scheme: str) -> list[str]:
    """Return the flows of a scheme: ``cubic+bbr`` has two; a command is one name."""
    return [scheme] if is_command(scheme) else scheme.split("+")


def without_folders(scheme: str, among: Iterable[str] = ()) -> str:
    """Return a scheme for people: classes in Python without the folders of their files.

    Among other schemes with a class of the same name, as many folders remain as tell the files apart.

    Example:
        >>> without_folders("cubic+/home/me/mine.py:Mine:gain=2")
        'cubic+mine.py:Mine:gain=2'
        >>> without_folders("old/mine.py:Mine", among=["old/mine.py:Mine", "new/mine.py:Mine"])
        'old/mine.py:Mine'
    """
    if is_command(scheme):
        return scheme
    parts = flow_parts(scheme)
    if not any(map(_is_in_python, parts)):
        return scheme
    others = {split_flow(part)[0] for each in among for part in flow_parts(each) if _is_in_python(part)}
    return "+".join(_shortest(part, others) if _is_in_python(part) else part for part in parts)


def _is_in_python(part: str) -> bool:
    return not is_command(part) and ".py:" in split_flow(part)[0]


def _shortest(part: str, others: Iterable[str]) -> str:
    """Return a flow with the fewest folders that tell its class from those of other names."""
    name, options = split_flow(part)
    folders = name.split("/")
    different = [other.split("/") for other in others if other != name]
    kept = next((n for n in range(1, len(folders)) if all(other[-n:] != folders[-n:] for other in different)), None)
    short = name if kept is None else "/".join(folders[-kept:])
    return short if options is None else f"{short}:{options}"


_FLOW = re.compile(r"(?P<name>[^:]*\.py:[A-Za-z_]\w*|[^:]*)(?P<colon>:?)(?P<options>.*)\Z", re.DOTALL)


def split_flow(part: str) -> tuple[str, str | None]:
    """Split ``bbr:min_rtt_win_s=20`` or ``./mine.py:Mine:gain=2`` into the controller's name and its tunables."""
    match = _FLOW.match(part.strip())
    assert match is not None  # it matches anything
    if not match["colon"]:  # text after a class without a colon is no tunable
        return (match["name"] + match["options"]).strip(), None
    return match["name"].strip(), match["options"]
