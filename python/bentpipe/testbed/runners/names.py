"""Names of everything that a run makes outside its own namespaces, so that `sweep` finds it.

A name has 15 characters, the longest that Linux allows of an interface: ``bp``, five of the agent's label, eight of the
run. Interfaces, nftables tables, cgroups and folders of a run all have the run's name.
"""

from __future__ import annotations

import hashlib


def _digest(text: str, characters: int) -> str:
    return hashlib.blake2s(text.encode()).hexdigest()[:characters]


def agent_tag(label: str) -> str:
    """Return the start of the names of an agent's runs: seven characters."""
    return "bp" + _digest(label, 5)


def run_name(label: str, run_id: str) -> str:
    """Return the name of a run's interface, nftables table, cgroup and folder: 15 characters."""
    return agent_tag(label) + _digest(f"{label}\0{run_id}", 8)
