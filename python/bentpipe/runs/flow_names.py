"""How a flow is written: a controller's name and, behind a colon, its tunables."""

from __future__ import annotations

import re

_FLOW = re.compile(r"(?P<name>[^:]*\.py:[A-Za-z_]\w*|[^:]*)(?P<colon>:?)(?P<options>.*)\Z", re.DOTALL)


def split_flow(part: str) -> tuple[str, str | None]:
    """``bbr:min_rtt_win_s=20`` or ``./mine.py:Mine:gain=2``: the controller's name, and what stands behind a colon."""
    match = _FLOW.match(part.strip())
    assert match is not None  # it matches anything
    if not match["colon"]:  # what stands behind a class without a colon is no tunable of it
        return (match["name"] + match["options"]).strip(), None
    return match["name"].strip(), match["options"]
