"""What a built-in experiment is asked to do: its work, and, when it starts, its server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from bentpipe.errors import UserError
from bentpipe.records import Record
from bentpipe.testbed.builtins.gate import GATE

if TYPE_CHECKING:
    from subprocess import Popen

FILE = "request.json"


class BuiltinRequest(Record):
    """``request.json`` among a run's inputs."""

    builtin: str
    """Name."""
    args: dict[str, Any]
    """Arguments."""
    site: str
    """Name of the node."""
    server: str | None = None
    """Name or address of the server; null: there is none."""
    ports: dict[str, int] = Field(default_factory=dict)
    """Ports of the server's programs."""


class BuiltinStart(Record):
    """What is known only when the run starts: it replaces the request's."""

    server: str | None = None
    """Name or address of the server; null: there is none."""
    ports: dict[str, int] = Field(default_factory=dict)
    """Ports of the server's programs."""


class Context:
    """A request with its folders.

    Attributes:
        request: The request.
        output: Folder of the result.
        raw: Folder for output of tools.
        figures: Figures of ``builtin.json``.
        prober: A prober that was started before the gate.
    """

    def __init__(self, request: BuiltinRequest, output: Path) -> None:
        """Make the folder for raw output."""
        self.request, self.output = request, output
        self.raw = output / "raw"
        self.raw.mkdir(exist_ok=True)
        self.figures: dict[str, Any] = {}
        self.prober: Popen[bytes] | None = None

    @classmethod
    def of_environment(cls) -> Context:
        """Return that of this process: ``BENTPIPE_INPUTS`` and ``BENTPIPE_OUTPUT``."""
        inputs, output = Path(os.environ["BENTPIPE_INPUTS"]), Path(os.environ["BENTPIPE_OUTPUT"])
        return cls(BuiltinRequest.model_validate_json((inputs / FILE).read_bytes()), output)

    def wait(self) -> None:
        """Wait at the gate, if there is one, for a `BuiltinStart`.

        Raises:
            UserError: The agent closed it without a start.
        """
        gate = Path(os.environ["BENTPIPE_INPUTS"], GATE)
        if not gate.exists():
            return
        try:
            start = BuiltinStart.model_validate_json(gate.read_bytes())
        except ValidationError:
            raise UserError("closed", where="gate", expected="the agent's start") from None
        self.request = self.request.replace(server=start.server, ports=start.ports)

    def server(self, port: str) -> tuple[str, int]:
        """Return the server's host and a port of it. Raises `UserError`: there is none."""
        request = self.request
        if request.server is None or port not in request.ports:
            raise UserError("no server", where=request.builtin, expected="a server node with its ports")
        return request.server, request.ports[port]
