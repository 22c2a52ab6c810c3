"""What a built-in experiment is asked to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import Field

from bentpipe.records import Record

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


class Context:
    """A request with its folders.

    Attributes:
        request: The request.
        output: Folder of the result.
        raw: Folder for output of tools.
    """

    def __init__(self, request: BuiltinRequest, output: Path) -> None:
        """Make the folder for raw output."""
        self.request, self.output = request, output
        self.raw = output / "raw"
        self.raw.mkdir(exist_ok=True)

    @classmethod
    def of_environment(cls) -> Context:
        """Return that of this process: ``BENTPIPE_INPUTS`` and ``BENTPIPE_OUTPUT``."""
        inputs, output = Path(os.environ["BENTPIPE_INPUTS"]), Path(os.environ["BENTPIPE_OUTPUT"])
        return cls(BuiltinRequest.model_validate_json((inputs / FILE).read_bytes()), output)
