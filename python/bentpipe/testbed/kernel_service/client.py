"""The agent's client of the kernel service."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import TYPE_CHECKING, Any, Protocol, Self

from bentpipe.errors import BentpipeError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TIMEOUT_S = 10.0
"""Longest wait for an answer [s]; the first `capabilities` tries every discipline."""


class Setting(Protocol):
    """A setting of a request for a run."""

    verb: Any
    values: dict[str, Any]
    optional: bool


class KernelServiceError(BentpipeError):
    """The service refused a call, or does not answer. `code` is the service's."""

    def __init__(self, message: str, code: str = "failed") -> None:
        """Note the code."""
        super().__init__(message)
        self.code = code


class KernelServiceClient:
    """A connection to the service: runs that it registers are forgotten when it closes.

    Example:
        >>> from pathlib import Path
        >>> from bentpipe.testbed.kernel_service.client import KernelServiceClient
        >>> KernelServiceClient(Path("/run/bentpipe/kernel.sock")).path.name
        'kernel.sock'
    """

    def __init__(self, path: Path) -> None:
        """Note the service's socket; the first call connects."""
        self.path = path
        self._socket: socket.socket | None = None
        self._received = b""
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._received = b""

    async def call(
        self, verb: str, run: str | None = None, values: dict[str, Any] | None = None, *, network: int | None = None
    ) -> Any:  # noqa: ANN401 - what JSON can say
        """Make a call; return its result.

        Args:
            verb: One of `vocabulary.VERBS`, or ``register``, ``forget``.
            run: The run's name.
            values: The verb's values.
            network: Descriptor of the run's network namespace, to register it.

        Raises:
            KernelServiceError: The service refused, or does not answer.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    answer = await self._exchange({"verb": verb, "run": run, "values": values or {}}, network)
            except (OSError, ValueError, TimeoutError) as error:
                self.close()
                raise KernelServiceError(f"kernel service at {self.path}: {error or 'no answer'}") from error
            except BaseException:
                self.close()  # an answer that is still to come would be taken for the next call's
                raise
        if not answer["ok"]:
            raise KernelServiceError(answer["error"], answer["code"])
        return answer["result"]

    async def _exchange(self, message: dict[str, Any], network: int | None) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            await loop.sock_connect(self._socket, str(self.path))
        data = json.dumps(message).encode() + b"\n"
        if network is not None:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", network))]
            data = data[self._socket.sendmsg([data], rights) :]
        await loop.sock_sendall(self._socket, data)
        while b"\n" not in self._received:
            more = await loop.sock_recv(self._socket, 65_536)
            if not more:
                raise ConnectionResetError("it closed the connection")
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        return dict(json.loads(line))

    async def apply(self, run: str, network: int, settings: Sequence[Setting]) -> list[dict[str, object]]:
        """Register a run and apply settings; return verb, values and outcome of each.

        Raises:
            UserError: A setting was refused, or the kernel lacks one that is not optional. The run is then forgotten.
            KernelServiceError: The service does not answer.
        """
        if not settings:
            return []
        await self.call("register", run, network=network)
        outcomes: list[dict[str, object]] = []
        for setting in settings:
            outcome = "applied"
            try:
                await self.call(setting.verb, run, setting.values)
            except KernelServiceError as error:
                if error.code != "unsupported" or not setting.optional:
                    await self.forget(run)
                    raise UserError(str(error), where="kernel") from error
                outcome = str(error)
            outcomes.append({"verb": setting.verb, "values": setting.values, "outcome": outcome})
        return outcomes

    async def forget(self, run: str) -> None:
        """Forget the run, if it is known; without effect if there is no connection."""
        if self._socket is not None:
            await self.call("forget", run)
