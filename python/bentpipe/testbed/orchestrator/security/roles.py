"""Roles of users, and what each may do. Every route names its scope; a test tries every route with every role.

A scope says what kind of thing may be done. That an experimenter changes only own experiments and a host only own
nodes is decided by the services, which get the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["viewer", "experimenter", "host", "reviewer", "admin"]
ROLES: tuple[str, ...] = get_args(Role)

SCOPES: dict[str, frozenset[str]] = {
    "read": frozenset(ROLES),
    "own": frozenset(ROLES),
    "experiments": frozenset({"experimenter", "admin"}),
    "nodes": frozenset({"host", "admin"}),
    "join": frozenset({"host", "admin"}),
    "images": frozenset({"reviewer", "admin"}),
    "users": frozenset({"admin"}),
    "audit": frozenset({"admin"}),
}
"""Scope → roles. ``read``: look; ``own``: the caller's own tokens; ``experiments``: submit, cancel, extend own ones and
bring Profiles and images; ``nodes``: settings of own nodes; ``join``: join tokens; ``images``: review; ``users``: users
and their tokens; ``audit``: who did what."""


@dataclass(frozen=True)
class Caller:
    """Who calls.

    Attributes:
        user: Id of the user.
        name: Name.
        role: Role of the token.
        token: Id of the token.
    """

    user: str
    name: str
    role: str
    token: str

    def may(self, scope: str) -> bool:
        """Return whether the role has a scope."""
        return self.role in SCOPES[scope]

    @property
    def is_admin(self) -> bool:
        """Whether the caller may change what belongs to others."""
        return self.role == "admin"
