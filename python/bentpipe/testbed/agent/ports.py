"""The ports of a server node's programs."""

from __future__ import annotations

from bentpipe.testbed.agent.session import RefusedError


class Ports:
    """Ports of a server node's programs, each with one run or standby at a time."""

    def __init__(self, ports: range) -> None:
        """All are free."""
        self._free = list(ports)

    @property
    def free(self) -> int:
        """Number of free ports."""
        return len(self._free)

    def take(self, names: tuple[str, ...]) -> dict[str, int]:
        """Take a port for each name. Raises `RefusedError`: none is left."""
        if len(names) > len(self._free):
            raise RefusedError("all ports of the server node are in use")
        return {name: self._free.pop(0) for name in names}

    def give_back(self, ports: dict[str, int]) -> None:
        """Give ports back; they are used again last."""
        self._free += ports.values()
        ports.clear()
