"""Settings of an agent: what `bentpipe node join` was given, kept in its folder."""

from __future__ import annotations

import os
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Self

from pydantic import model_validator

from bentpipe.errors import UserError, shown
from bentpipe.records import Items, Record
from bentpipe.testbed.agent.identity import write_private
from bentpipe.testbed.schemas.identifiers import ImageReference, Label
from bentpipe.testbed.schemas.node import NodeRole, Place
from bentpipe.testbed.schemas.policy import SCHEMA, HostPolicy

FILE = "agent.json"

UNREAD = {
    "schema": SCHEMA,
    "paused": True,
    "share": {"telemetry": False, "obstruction_maps": False, "place_blur_km": 500},
}
"""Policy of a node whose host's policy could not be read since it started."""


class AgentSettings(Record):
    """``agent.json``."""

    url: str
    """Orchestrator's address for agents."""
    name: Label
    """Name of the node."""
    role: NodeRole = "client"
    """Role."""
    dish: str | None = None
    """Address of the terminal; null: none."""
    elements: str | None = None
    """File of orbital elements, for the serving satellite."""
    policy: str | None = None
    """File of the host's policy; null: the defaults."""
    control: str | None = None
    """HOST:PORT at which clients reach a server node."""
    control_listen: str = "0.0.0.0"
    """Address on which a server node listens."""
    ports: Items[int] = (8800, 8900)
    """First and last port but one of a server node's programs."""
    place: Place | None = None
    """True place; blurred before it is sent. Null: the terminal's, if it tells."""
    nameservers: Items[str] = ("1.1.1.1", "8.8.8.8")
    """Name servers of runs."""
    extra_networks: Items[str] = ()
    """Private networks that runs may reach beside those of the policy."""
    ping: str | None = None
    """Address that the node pings ten times a second for triggers; null: none."""
    ping_every_s: float = 0.1
    """Time between two such pings [s]."""
    router: str | None = None
    """Interface with the counters of the household's router, as INTERFACE or INTERFACE@URL of its node_exporter; null:
    the terminal's rates alone."""
    pause_image: ImageReference | None = None
    """Image of containers that hold a run's network, by digest; null: the node runs no containers."""
    weather: str | None = None
    """File or URL of the weather; null: none."""

    @model_validator(mode="after")
    def _check_addresses(self) -> Self:
        for where, texts, expected in (
            ("listen", (self.control_listen,), "an address of this host"),
            ("reach", self.extra_networks, "a network, as 192.168.7.0/24"),
        ):
            for text in texts:
                try:
                    ip_address(text) if where == "listen" else ip_network(text)
                except ValueError:
                    raise UserError(shown(text), where=where, expected=expected) from None
        if len(self.ports) != 2 or not 0 < self.ports[0] < self.ports[1] <= 65536:
            raise UserError("-".join(map(str, self.ports)), where="ports", expected="FIRST-END, of 1 to 65536")
        return self

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read that of a folder. Raises `UserError`: the node has not joined, or the file is damaged."""
        import json

        path = folder / FILE
        try:
            data = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise UserError(
                "has not joined a testbed", where=str(folder), hint="bentpipe node join URL TOKEN"
            ) from None
        except (OSError, ValueError):
            raise UserError("cannot be read", where=str(path), expected="the agent's settings") from None
        return cls.check(data, str(path))

    def write(self, folder: Path) -> None:
        """Write it."""
        write_private(folder / FILE, self.model_dump_json(indent=1).encode())

    def read_policy(self) -> HostPolicy:
        """Return the host's policy. Raises `UserError`: a policy that cannot be read allows nothing."""
        if self.policy is None:
            return HostPolicy.check({"schema": SCHEMA}, "policy")
        path = Path(self.policy)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise UserError("cannot be read", where=str(path), expected="a host's policy") from None
        return HostPolicy.from_yaml(text, str(path))


def default_folder() -> Path:
    """Return the usual folder of an agent: of the machine for root, else of the user."""
    if os.geteuid() == 0:
        return Path("/var/lib/bentpipe-node")
    base = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(base) / "bentpipe-node"


class PolicyFile:
    """The host's policy, read again when the file changes. One that is damaged pauses the node until it is mended."""

    def __init__(self, settings: AgentSettings) -> None:
        """Read it. While one has never been read, nothing is shared either."""
        self._settings = settings
        self._stamp = self._stat()
        self.trouble: str | None = None
        try:
            self.policy = settings.read_policy()
        except UserError as error:
            self.policy = HostPolicy.check(UNREAD, "policy")
            self.trouble = str(error)

    def _stat(self) -> tuple[int, int] | None:
        if self._settings.policy is None:
            return None
        try:
            status = Path(self._settings.policy).stat()
        except OSError:
            return (0, 0)
        return (status.st_mtime_ns, status.st_size)

    def look(self) -> bool:
        """Read it again if it changed; return whether the policy is another one."""
        stamp = self._stat()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        before = self.policy
        try:
            self.policy = self._settings.read_policy()
            self.trouble = None
        except UserError as error:
            self.policy = before.replace(paused=True)
            self.trouble = str(error)
        return self.policy != before
