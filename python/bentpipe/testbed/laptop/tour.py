"""What a newcomer sees: experiments on the calendar, on a trigger, and one that yields to the household."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

EXPERIMENTS = {
    "pings": """
schema: bentpipe.experiment/1
name: {prefix}-pings
description: A ping over each node's path, twice a minute.
nodes: {{names: [attic, barn], max: 2}}
run: {{builtin: ping, args: {{target: 100.64.0.1, seconds: 10, every: 100ms}}}}
class: background
when: {{every: 30s}}
limits: {{runs: 20, until: {until}}}
""",
    "upload-when-slow": """
schema: bentpipe.experiment/1
name: {prefix}-upload-when-slow
description: An upload when a ping takes a fifth longer than the second before it, as after a handover.
nodes: {{names: [barn]}}
server: {{name: server}}
run: {{builtin: iperf3, args: {{seconds: 5, direction: up, bitrate: 5mbit}}}}
when: {{trigger: "ping_ms > 1.2 * mean(ping_ms, '1s')", window: 500ms, cooldown: 40s}}
limits: {{runs: 5, bytes_per_run: 20MB, until: {until}}}
""",
    "download": """
schema: bentpipe.experiment/1
name: {prefix}-download
description: A slow download, during which the household begins to watch a video.
nodes: {{names: [attic]}}
server: {{name: server}}
run: {{builtin: iperf3, args: {{seconds: 15, direction: down, bitrate: 3mbit}}}}
when: now
limits: {{bytes_per_run: 60MB, slip: 10m, until: {until}}}
scavenger: {{mode: reschedule, max_preemptions: 3}}
""",
}
"""Experiments by what they show. ``{prefix}`` makes the names of a tour its own."""


def prefix_beside(names: Collection[str]) -> str:
    """Return the first of ``tour1``, ``tour2``, … that no experiment's name begins with.

    Example:
        >>> prefix_beside(["tour1-pings", "mine"])
        'tour2'
    """
    number = 1
    while any(name.startswith(f"tour{number}-") for name in names):
        number += 1
    return f"tour{number}"


def tour(prefix: str, until: str) -> list[str]:
    """Return the files of a tour.

    Args:
        prefix: Beginning of the names.
        until: End, as ISO-8601.

    Example:
        >>> len(tour("tour", "2030-01-01"))
        3
    """
    return [text.format(prefix=prefix, until=until) for text in EXPERIMENTS.values()]
